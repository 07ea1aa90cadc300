"""Tables of databases, by an address as SQLAlchemy has it: SQLite, PostgreSQL."""

from pathlib import Path
from typing import Any

import pandas as pd

from torchsparcs.files.reading import check_memory, memory, reading
from torchsparcs.tables.parquet import AT_ONCE, COPIES
from torchsparcs.tables.whole_files import chosen_name


def is_database(source: str | Path) -> bool:
    """Whether ``source`` is the address of a database: ``sqlite:///shop.db``."""
    return isinstance(source, str) and "://" in source


def database_name(address: str) -> str:
    """The name of the database, without host or user: "shop"."""
    return Path(str(_address(address).database or "database")).stem


def read_database(address: str, table: str | None = None) -> pd.DataFrame:
    """All rows of a table, or of a view, of the database at ``address``.

    A password in the address is refused, as it would be written down with the search; PostgreSQL
    takes it from ``PGPASSWORD`` or its password file.
    """
    url = _address(address)
    if url.password is not None or any("password" in name.lower() for name in url.query):
        raise ValueError(
            "Expected an address without a password, which would be written down. "
            "Set PGPASSWORD, or use a password file."
        )
    if url.get_backend_name() == "sqlite" and not Path(url.database or "").is_file():
        raise FileNotFoundError(f"Expected a database. There is none at {url.database}.")
    import sqlalchemy

    frames, taken, room = [], 0, memory()  # which falls with every frame
    with reading("a database to read", address):
        engine = sqlalchemy.create_engine(url)
        try:
            with engine.connect() as connection:
                known = sqlalchemy.inspect(connection)
                names = [*known.get_table_names(), *known.get_view_names()]
                name = chosen_name(address, "table", names, table)
                for frame in pd.read_sql_table(name, connection, chunksize=AT_ONCE // 16):
                    taken += int(frame.memory_usage(deep=True).sum())
                    check_memory(address, taken, copies=COPIES, room=room)
                    frames.append(frame)
        finally:
            engine.dispose()
    return pd.concat(frames, ignore_index=True)


def _address(text: str) -> Any:
    """The parts of an address."""
    try:
        import sqlalchemy
    except ImportError as error:
        raise ImportError(
            "Reading databases needs SQLAlchemy: pip install 'torchsparcs[sql]'."
        ) from error
    try:
        return sqlalchemy.engine.make_url(text)
    except sqlalchemy.exc.ArgumentError as error:
        raise ValueError(
            "Expected the address of a database, like sqlite:///shop.db. Got another."
        ) from error
