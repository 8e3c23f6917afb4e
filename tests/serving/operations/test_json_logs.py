"""Logs are JSON lines without secrets."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from graphbandit.serving.operations.json_logs import JsonLines, set_up_logging
from serving_zoo import recommend, reward, running, small_initial_state


def test_logs_are_json_lines_without_tokens_or_rewards(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "tokens").write_text("a-very-secret-token\n")
    loggers = [logging.getLogger(name) for name in ("graphbandit", "uvicorn", "uvicorn.access")]
    before = [(logger.handlers, logger.propagate, logger.level) for logger in loggers]
    try:
        set_up_logging("info")
        with running(tmp_path, small_initial_state(), token_file=tmp_path / "tokens") as server:
            reward(server, decision=recommend(server)["decision"], value=0.123456)
            server.http.get("/v1/stats", headers={"authorization": "Bearer wrong-secret"})
    finally:
        for logger, (handlers, propagate, level) in zip(loggers, before, strict=True):
            logger.handlers, logger.propagate = handlers, propagate
            logger.setLevel(level)
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert "state restored" in [line["message"] for line in lines]
    assert not any(secret in json.dumps(lines) for secret in ("secret", "0.123456"))


def test_requests_in_the_log_of_a_debugger_have_neither_ids_nor_bodies(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", logger="graphbandit.serving")
    with running(tmp_path, small_initial_state()) as server:
        found = recommend(server, user="a-secret-user")
        reward(server, decision=found["decision"], value=0.123456)
        server.http.get("/v1/users/a-secret-user/history?limit=5")
        server.http.get("/v1/nowhere/a-secret-user")
    lines = [line for line in map(JsonLines().format, caplog.records) if '"request"' in line]
    assert {json.loads(line)["route"] for line in lines} >= {"/v1/recommendations", "/v1/rewards", "/v1/users", "other"}
    assert not any("secret" in line or "0.123456" in line for line in lines)
