"""Where a shard keeps its log: a file of its own, or a schema of its own in a PostgreSQL that all shards share."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import create_engine, text

from .database import CONNECT_TIMEOUT, parse_url, translated_errors


def shard_folder(number: int) -> str:
    """The folder of a shard.

    >>> shard_folder(3)
    'shard-0003'
    """
    return f"shard-{number:04d}"


def shard_store(url: str, number: int) -> str:
    """The address of a shard's store, from that of the service.

    >>> shard_store("sqlite:///service", 3), shard_store("postgresql://me@db/name", 3)
    ('sqlite:///service/shard-0003/state.db', 'postgresql://me@db/name?options=-c+search_path%3Dshard_0003')
    """
    parsed = parse_url(url)
    if parsed.get_backend_name() == "sqlite":
        return f"sqlite:///{Path(str(parsed.database)) / shard_folder(number) / 'state.db'}"
    said = f"{parsed.query.get('options', '')} -c search_path=shard_{number:04d}".strip()
    there = parsed.set(drivername="postgresql").update_query_dict({"options": said})
    return there.render_as_string(hide_password=False)


def make_room(url: str, number: int) -> None:
    """Make the folder, or the schema, of a shard, unless it is there."""
    parsed = parse_url(url)
    if parsed.get_backend_name() == "sqlite":
        (Path(str(parsed.database)) / shard_folder(number)).mkdir(parents=True, exist_ok=True)
        return
    engine = create_engine(parsed, isolation_level="AUTOCOMMIT", connect_args={"connect_timeout": CONNECT_TIMEOUT})
    try:
        with translated_errors(), engine.connect() as connection:
            connection.execute(text("SELECT pg_advisory_lock(hashtext('graphbandit schemas'))"))  # two at once would collide
            connection.execute(text(f"CREATE SCHEMA IF NOT EXISTS shard_{number:04d}"))
    finally:
        engine.dispose()
