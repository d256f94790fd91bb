"""Connections to a PostgreSQL server, and the names of runs there: postgresql://[USER@]HOST[:PORT]/DATABASE#RUN.

Before the `#` stands what libpq reads; what it leaves out comes from libpq's environment variables. A password is taken
from PGPASSWORD, a password file or a service file alone, never from the name, which is printed and kept: so no record
and no message can have it.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from gce.errors import BadInput, DamagedStore, GceError, MissingExtra, one_line

if TYPE_CHECKING:
    import psycopg

__all__ = ["EXPECTED", "Place", "connect", "place_in", "translated"]

EXPECTED = "expected a run postgresql://[USER@]HOST[:PORT]/DATABASE#RUN, where RUN is NAME or NAME/NAME"
_RUN = re.compile(r"(?=.{1,200}\Z)[\w.+=-]+(/[\w.+=-]+)*")
_KEPT_ALIVE = {"connect_timeout": "10", "keepalives_idle": "30", "keepalives_interval": "10", "keepalives_count": "3"}
"""So that a server that is gone is noticed within a minute."""
_SESSION = """
SET synchronous_commit = on;
SET search_path = pg_catalog;
SET idle_in_transaction_session_timeout = 0;
SET tcp_keepalives_idle = 30;
SET tcp_keepalives_interval = 10;
SET tcp_keepalives_count = 3;
"""
"""What is committed is on the disk, only functions of the server are called, a client that is gone loses its lock."""
_SINCE_14 = "SET idle_session_timeout = 0"


@frozen
class Place:
    """Where a run is kept."""

    server: str
    """The part of the name before the `#`."""
    run: str
    parameters: dict[str, Any] = field(repr=False)

    def called(self, run: str) -> str:
        """The name of another run in the same database."""
        return f"{self.server}#{run}"


def place_in(name: str) -> Place:
    """Read the name of a run. Nothing that is refused is quoted: it may hold a password.

    Raises:
        BadInput: it is no such name, or it has a password.
        MissingExtra: psycopg is not installed.
    """
    try:
        from psycopg import ProgrammingError
        from psycopg.conninfo import conninfo_to_dict
    except ImportError as exc:
        raise MissingExtra("psycopg", "postgres") from exc
    server, _, run = name.partition("#")
    try:
        parameters = conninfo_to_dict(server)
    except (ProgrammingError, UnicodeDecodeError):  # the latter for %FF and its like
        raise BadInput(f"{EXPECTED}; got one that libpq cannot read") from None
    if parameters.keys() & {"password", "sslpassword"}:
        raise BadInput(
            "expected the name of a run without a password: give it in the environment variable PGPASSWORD, or in "
            "~/.pgpass"
        )
    if not _RUN.fullmatch(run):
        raise BadInput(f"{EXPECTED}; got one without #RUN, or with other characters than letters, digits and _.+=-/")
    return Place(server, run, parameters)


def connect(place: Place) -> psycopg.Connection[Any]:
    """Connect; each statement is a transaction of its own. GceError where the server cannot be reached."""
    import psycopg

    # Seen by whoever asks who holds a run.
    own = {"application_name": f"gce {os.getpid()} on {socket.gethostname()}"[:63], "client_encoding": "utf8"}
    try:
        db: psycopg.Connection[Any] = psycopg.connect("", **{**_KEPT_ALIVE, **own, **place.parameters}, autocommit=True)
    except psycopg.Error as exc:
        raise GceError(f"cannot connect to {place.server}: {one_line(exc)}") from exc
    with translated(place.server):
        db.execute(_SESSION)
        if db.info.server_version >= 140000:
            db.execute(_SINCE_14)
    return db


@contextmanager
def translated(name: str) -> Iterator[None]:
    """Errors of psycopg in the block become ours; values of records are not in them."""
    import psycopg

    try:
        yield
    except psycopg.Error as exc:
        raise _failure(name, exc) from exc


def _failure(name: str, exc: psycopg.Error) -> GceError:
    from psycopg import errors

    reason = one_line(exc.diag.message_primary or exc)
    if isinstance(exc, errors.InsufficientPrivilege):
        return BadInput(f"{name}: {reason}: ask the owner of the schema gce, or of the database, for that right")
    if isinstance(exc, (errors.UndefinedTable, errors.UndefinedColumn, errors.InvalidSchemaName)):
        return DamagedStore(f"{name}: {reason}: the schema gce is not as gce made it: put back a copy of it")
    if isinstance(exc, (errors.OperationalError, errors.InterfaceError)):
        return GceError(f"{name}: {reason}: what was committed is intact: see to the server, then try again or resume")
    return GceError(f"{name}: {reason}")
