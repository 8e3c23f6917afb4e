"""`graphbandit compile`."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from .console import guarded


def compile_policies(
    policies: Annotated[list[str] | None, typer.Argument(help="Names of policies. Default: adaptive.")] = None,
    epsilon: Annotated[float, typer.Option(min=0.0, max=1.0, help="The epsilon of the service.")] = 0.0,
) -> None:
    """Compile what the service needs ahead of its first start, into NUMBA_CACHE_DIR or beside the sources."""
    with guarded():
        from ..serving.operations.warmup import compile_policy

        for name in policies or ["adaptive"]:
            start = time.perf_counter()
            compile_policy(name, epsilon)
            typer.echo(f"{name}: {time.perf_counter() - start:.1f} s")
