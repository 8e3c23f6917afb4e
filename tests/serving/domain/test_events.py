"""Events: bodies are read back as they were written."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from graphbandit.serving.domain.events import DecisionRecord, encode, parse_decisions


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=5), st.text(max_size=20))
def test_bodies_come_back_bit_for_bit(values: list[float], name: str) -> None:
    decision = DecisionRecord(3, None, [1], values, values, 0.5, 0.25)
    assert parse_decisions(encode([decision])) == [decision]
    assert np.array(parse_decisions(encode([decision]))[0].mean).tobytes() == np.array(values, dtype=float).tobytes()
