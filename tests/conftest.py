from __future__ import annotations

from hypothesis import settings

# Compilation makes the first example slow; the examples are fixed, so that a run can be repeated.
settings.register_profile("default", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("default")
