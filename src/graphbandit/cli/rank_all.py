"""`graphbandit rank-all`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .console import Address, EngineName, Quiet, guarded, progress_bar, service_errors

if TYPE_CHECKING:
    from ..recommending.named_policy import NamedPolicy
    from ..recommending.rank_everybody import Ids


def rank_all(
    k: Annotated[int, typer.Option(min=1, help="Items for each user.")] = 10,
    out: Annotated[Path, typer.Option(help="Parquet file: user, rank, item, mean, bonus.")] = Path("top.parquet"),
    model: Annotated[Path | None, typer.Option(help="A recommender that was saved, or the folder of a model.")] = None,
    store: Annotated[str | None, typer.Option(help="URL or file of the events of a service; it may be running.")] = None,
    where: Annotated[list[str] | None, typer.Option(metavar="COLUMN=VALUE", help="Only items with this value.")] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Threads; by default one for each processor.")] = None,
    engine: EngineName = "local",
    address: Address = None,
    quiet: Quiet = False,
) -> None:
    """Rank the best items of every user, for example for a newsletter.

    The recommender is one that was saved, or the one in the log of a service.
    """
    from ..experiments.parallel import Engine, check_engine
    from ..recommending.rank_everybody import rank_all as write_all
    from ..recommending.recommender_file import file_bytes

    with guarded():
        check_engine(engine, address)
        if (model is None) == (store is None):
            raise ValueError("give either --model or --store.")
        wanted: dict[str, list[str]] = {}
        for word in where or []:
            name, equals, value = word.partition("=")
            if not equals:
                raise ValueError(f"--where must be COLUMN=VALUE, but it is {word!r}.")
            wanted.setdefault(name, []).append(value)
        named, ids = _saved(model) if model is not None else _logged(str(store))
        with progress_bar("ranking", quiet) as show:
            n = len(named.rows)
            rows = write_all(
                named,
                k,
                out,
                ids=ids,
                where=wanted or None,
                workers=workers,
                engine=Engine(engine, address, workers or 1),
                model=file_bytes(model) if engine == "ray" and model is not None else None,
                progress=lambda share: show(round(share * n), n, "users"),
            )
        typer.echo(f"{out}: {rows:,} rows.")


def _saved(path: Path) -> tuple[NamedPolicy, Ids]:
    from ..recommending import Recommender
    from ..recommending.rank_everybody import Ids

    recommender = Recommender.load(path)
    return recommender.named, Ids(recommender.user_names.out, recommender.catalogue.out, recommender.catalogue.filters)


def _logged(url: str) -> tuple[NamedPolicy, Ids]:
    from ..recommending.rank_everybody import Ids

    with service_errors():
        from ..serving.operations.replay import replay_from_zero
        from ..serving.store.event_store import EventStore

        store = EventStore(url)
        try:
            store.attach()
            return replay_from_zero(store), Ids()
        finally:
            store.close()
