"""The client retries, and retries are safe."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from graphbandit.serving import Client, ServiceError
from serving_zoo import running, small_initial_state


def test_the_client_retries_and_repeats_safely(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running(tmp_path, small_initial_state()) as server:
        with Client(server.url) as client:
            client.wait()
            decision = client.recommend("ann", ["tea", "50%"], where={"topic": ["hot"]}, k=2)
            assert [arm["arm"] for arm in decision["arms"]] == ["tea"]
            attempt, lost = client.attempt, list[str]()

            def unlucky(method: str, path: str, body: str | None) -> tuple[int, Any]:
                answer = attempt(method, path, body)
                if len(lost) % 2 == 0:  # the answer to every first attempt gets lost
                    lost.append(path)
                    return 0, "lost"
                lost.append(path)
                return answer

            monkeypatch.setattr(client, "attempt", unlucky)
            decision = client.recommend("ann")
            assert client.reward(decision["decision"], 1.0, decision["arms"][0]["arm"]) == {"accepted": 0, "duplicates": 1}
            many = client.recommend_many([{"user": "ann"}, {"user": "bob", "k": 2}])
            client.reward_many([{"decision": entry["decision"], "value": 1.0} for entry in many])
            client.put_user("new/one", {"ann": 1.0})
            client.put_edge("new/one", "bob", 2.0)
            client.put_arm("new%arm", [1.0, 0.0], {"topic": "new"})
            client.delete("edges", "new/one", "bob")
            client.delete("users", "new/one")
            client.delete("arms", "new%arm")
            stats = client.stats()
            assert stats["rewards"] == 3 and stats["users"] == 5
            assert client.explanation("ann")["own"]["rewards"] == 2
            monkeypatch.undo()
            with pytest.raises(ServiceError, match="nobody") as caught:
                client.explanation("nobody")
            assert caught.value.status == 404
        with pytest.raises(ServiceError, match="no answer"):
            Client("http://127.0.0.1:9", patience=0.2).wait()
        with pytest.raises(ValueError, match="url must be"):
            Client("ftp://x")
