"""Our fast path on uvicorn against Granian: the same two endpoints, guard, policy and store, in one
session and in turns.

    python benchmarks/http_servers.py                # needs granian: pip install granian
    python benchmarks/http_servers.py --users 20000 --seconds 4

Granian (https://github.com/emmett-framework/granian) is a web server in Rust. Its interface RSGI hands
over requests that are read already, so that it could replace our own reading of heads. docs/reference/http.md says
what was found.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import uvloop

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.load import Crowd, Round, flat_out, free_port, paced, processor_seconds, train, visits, wait_for


class RsgiApp:
    """The service behind RSGI: recommendations, rewards, batches and readiness."""

    def __rsgi_init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start the service in Granian's event loop, from GRAPHBANDIT_* in the environment."""
        from graphbandit.serving import start
        from graphbandit.serving.operations import settings

        found = settings.load({})
        sys.setswitchinterval(0.0005)  # as the service does
        self.app, self.guard = start.build_app(found, start.read_initial_state(found), lambda: None)
        self.loop, self.lifespan = loop, self.app.router.lifespan_context(self.app)
        loop.run_until_complete(self.lifespan.__aenter__())

    def __rsgi_del__(self, loop: asyncio.AbstractEventLoop) -> None:
        loop.run_until_complete(self.lifespan.__aexit__(None, None, None))

    async def __rsgi__(self, scope: Any, proto: Any) -> None:
        if scope.method != "POST":
            is_ready = self.app.state.runtime.trouble is None
            proto.response_str(200 if is_ready else 503, [("content-type", "application/json")], "{}")
            return
        get = scope.headers.get
        names = ("host", "authorization", "content-length", "content-type")
        headers = {name.encode(): value.encode() for name in names if (value := get(name)) is not None}
        response = self.guard.refusal("POST", scope.path, headers)
        if response is None:
            body = await proto()
            answered: asyncio.Future[Any] = self.loop.create_future()
            self.app.state.handlers[scope.path](headers.get(b"content-type", b""), body, answered.set_result)
            response = await answered
        fields = [("content-type", "application/json"), ("content-length", str(len(response.body)))]
        proto.response_bytes(response.status, fields + list(response.headers.items()), response.body)


rsgi_app = RsgiApp()


def serve_granian(port: int) -> None:
    """Run Granian with one worker until a signal ends it."""
    from granian import Granian
    from granian.constants import HTTPModes, Interfaces
    from granian.http import HTTP1Settings

    limits = HTTP1Settings(header_read_timeout=10_000, max_buffer_size=16_384)
    server = Granian(
        "http_servers:rsgi_app",
        port=port,
        interface=Interfaces.RSGI,
        http=HTTPModes.http1,
        http1_settings=limits,
        websockets=False,
        backpressure=2000,
        log_enabled=False,
        working_dir=Path(__file__).parent,
    )
    server.serve()


def commands(folder: Path, ports: dict[str, int], policy: str) -> dict[str, tuple[list[str], dict[str, str]]]:
    """How each server is started: a command and its environment."""
    files = {"GRAPHBANDIT_GRAPH": str(folder / "edges.parquet"), "GRAPHBANDIT_ARMS": str(folder / "arms.parquet")}
    shared = files | {
        "GRAPHBANDIT_CREATE": "true",
        "GRAPHBANDIT_POLICY": policy,
        "GRAPHBANDIT_RATE": "0",
        "GRAPHBANDIT_LOG_LEVEL": "warning",
    }
    starts = {
        "fast path": [sys.executable, "-m", "graphbandit.cli", "serve"],
        "granian": [sys.executable, __file__, "--granian"],
    }
    found = {}
    for name, command in starts.items():
        own = {"GRAPHBANDIT_PORT": str(ports[name]), "GRAPHBANDIT_STORE": f"sqlite:///{folder}/{name.replace(' ', '-')}.db"}
        found[name] = command, os.environ | shared | own
    return found


async def measure(options: argparse.Namespace, crowd: Crowd, ports: dict[str, int], servers: dict[str, psutil.Process]) -> None:
    visit: Round = visits(crowd)
    rates: dict[str, list[float]] = {name: [] for name in ports}
    costs: dict[str, list[float]] = {name: [] for name in ports}
    for port in ports.values():
        await train(port, crowd, options.trained)
        await flat_out(port, visit, 2.0, options.users_at_once)
    for _ in range(options.repeats):
        for name, port in ports.items():
            before = all_seconds(servers[name])
            rates[name].append(await flat_out(port, visit, options.seconds, options.users_at_once))
            costs[name].append((all_seconds(servers[name]) - before) / (rates[name][-1] * options.seconds) * 1e6)
    print("| server | requests a second | µs of processor time each | in turns |\n|---|---:|---:|---|")
    for name in ports:
        each, turns = np.median(costs[name]), ", ".join(f"{rate:,.0f}" for rate in rates[name])
        print(f"| {name} | {np.median(rates[name]):,.0f} | {each:.0f} | {turns} |", flush=True)
    print()
    first, *others = ports
    for other in others:
        ratios = np.array(rates[other]) / np.array(rates[first])
        print(f"{other} to {first}: {np.median(ratios):.2f} of the throughput   {ratios.round(2).tolist()}\n", flush=True)
    load = min(float(np.median(found)) for found in rates.values()) / 2
    print(f"| server, at {load:,.0f} requests a second | p50, ms | p99, ms |\n|---|---:|---:|")
    for name, port in ports.items():
        spent = await paced(port, visit, load, 2 * options.seconds, options.users_at_once)
        p50, p99 = np.percentile(spent, [50, 99]) * 1e3
        print(f"| {name} | {p50:.1f} | {p99:.1f} |", flush=True)


def all_seconds(process: psutil.Process) -> float:
    """Processor time of a server and of its workers."""
    return sum((processor_seconds(found) for found in [process, *process.children(recursive=True)]), 0.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=100_000)
    parser.add_argument("--arms", type=int, default=1000)
    parser.add_argument("--policy", default="adaptive")
    parser.add_argument("--trained", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--users-at-once", type=int, default=128)
    parser.add_argument("--granian", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if find_spec("granian") is None:
        raise SystemExit("granian is not installed: pip install granian.")
    if options.granian:
        serve_granian(int(os.environ["GRAPHBANDIT_PORT"]))
        return
    crowd = Crowd(options.users, options.arms)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        crowd.write(folder)
        ports = {"fast path": free_port(), "granian": free_port()}
        processes = {}
        try:
            for server, (command, environment) in commands(folder, ports, options.policy).items():
                processes[server] = subprocess.Popen(command, env=environment)
                wait_for(ports[server], "/ready", processes[server])
            uvloop.run(measure(options, crowd, ports, {key: psutil.Process(found.pid) for key, found in processes.items()}))
        finally:
            for process in processes.values():
                process.send_signal(signal.SIGTERM)
            for process in processes.values():
                process.wait()


if __name__ == "__main__":
    from measurements import recorded  # type: ignore[import-not-found]

    recorded(main)
