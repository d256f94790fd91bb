"""A PostgreSQL server for tests, in a temporary directory of an unprivileged user."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

PASSWORD = "canary-5e1f"
"""Asked for by TCP connections alone."""


def programs() -> Path | None:
    """The directory of the newest server that is installed."""
    places = [*Path("/usr/lib/postgresql").glob("*/bin"), *Path("/opt/homebrew/opt").glob("postgresql*/bin")]
    if found := shutil.which("initdb"):
        places.append(Path(found).resolve().parent)
    having = [place for place in places if (place / "initdb").exists() and (place / "pg_ctl").exists()]
    return max(having, key=lambda place: [int(part) for part in place.parts if part.isdigit()], default=None)


def why_none() -> str:
    """Why no server can be started here; empty where one can."""
    if programs() is None:
        return "PostgreSQL is not installed: apt-get install postgresql"
    if os.geteuid() == 0 and "postgres" not in {each.pw_name for each in pwd.getpwall()}:
        return "root cannot run PostgreSQL, and there is no user postgres"
    return ""


class Server:
    """A server that listens on a socket in its directory, and on a free port of the loopback."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.data = home / "data"
        self.port = free_port()

    @property
    def database(self) -> str:
        """What stands before the `#` in the names of runs."""
        return f"postgresql://gce@/postgres?host={self.home}&port={self.port}"

    def by_tcp(self, port: int | None = None) -> str:
        """The same over TCP, where the server asks for a password."""
        return f"postgresql://gce@127.0.0.1:{port or self.port}/postgres"

    def make(self) -> None:
        """Make the cluster. Its own default loses commits in a crash; files are not synced, as none will lose power."""
        password = self.home / "password"
        password.write_text(PASSWORD)
        if os.geteuid() == 0:
            shutil.chown(password, "postgres")
        how = ("--auth-local=trust", "--auth-host=scram-sha-256", f"--pwfile={password}", "--encoding=UTF8")
        self._run("initdb", "-D", str(self.data), "-U", "gce", "--locale=C", "--no-sync", *how)
        with (self.data / "postgresql.conf").open("a") as config:
            config.write(
                f"listen_addresses = '127.0.0.1'\nport = {self.port}\nunix_socket_directories = '{self.home}'\n"
                "fsync = off\nsynchronous_commit = off\nwal_writer_delay = 10s\nshared_buffers = 16MB\n"
                "max_connections = 40\nautovacuum = off\n"
            )

    def start(self) -> None:
        """Start it, and wait until it can be asked."""
        self._run("pg_ctl", "-D", str(self.data), "-l", str(self.home / "log"), "-w", "-t", "60", "start")

    def stop(self, how: str = "immediate") -> None:
        """Stop it; `immediate` is a crash: every session is cut off where it is."""
        self._run("pg_ctl", "-D", str(self.data), "-m", how, "-w", "-t", "60", "stop")

    def _run(self, program: str, *arguments: str) -> None:
        found = programs()
        assert found is not None
        user: dict[str, Any] = {}
        if os.geteuid() == 0:
            user = {"user": "postgres", "group": "postgres", "extra_groups": []}
        with (self.home / "said").open("w+") as said:  # no pipe, which the server would hold open
            done = subprocess.run(
                [found / program, *arguments], stdin=subprocess.DEVNULL, stdout=said, stderr=said, cwd=self.home, **user
            )
            said.seek(0)
            assert done.returncode == 0, f"{program}: {said.read()}"


@contextmanager
def running() -> Iterator[Server]:
    """A server of its own, which is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="gce-pg-") as folder:
        if os.geteuid() == 0:
            shutil.chown(folder, "postgres", "postgres")
        server = Server(Path(folder))
        server.make()
        server.start()
        try:
            yield server
        finally:
            with suppress(AssertionError):
                server.stop()


def free_port() -> int:
    """A port of the loopback that nothing listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port
