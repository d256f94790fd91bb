"""Worker processes that draw problems and judge answers while a client waits, each ask within a time."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from gce.app.web.jobs import without_token

__all__ = ["Busy", "Desk"]

MOST_OF_A_REPLY = 2**24


class Busy(Exception):
    """Too many clients wait, or a reply took too long."""


class Desk:
    """So many workers, which are started when they are first needed and end with this process."""

    def __init__(self, *, workers: int = 2, seconds: float = 20.0, most_waiting: int = 16) -> None:
        self._seconds, self._most = seconds, workers + most_waiting
        self._free: list[asyncio.subprocess.Process | None] = [None] * workers
        self._turn = asyncio.Semaphore(workers)
        self._asked = 0

    async def ask(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """What `gce.app.web.worker.reply` returns.

        Raises:
            Busy: nothing came in time; whoever worked on it was ended.
        """
        if self._asked >= self._most:
            raise Busy
        self._asked += 1
        try:
            async with self._turn:
                return await self._served(asked)
        finally:
            self._asked -= 1

    async def _served(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        worker, kept = self._free.pop(), None
        try:
            if worker is None or worker.returncode is not None:
                worker = await _started()
            assert worker.stdin is not None and worker.stdout is not None
            worker.stdin.write(json.dumps(asked).encode() + b"\n")
            line = await asyncio.wait_for(worker.stdout.readline(), self._seconds)
            found: dict[str, Any] = json.loads(line)
            kept = worker
            return found
        except (TimeoutError, ValueError, OSError) as error:
            raise Busy from error
        finally:
            self._free.append(kept)
            if kept is None:  # What it says now would be taken for the next reply.
                await _end(worker)

    async def close(self) -> None:
        """End the workers."""
        for worker in self._free:
            await _end(worker)


async def _started() -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "gce.app.web.worker"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=MOST_OF_A_REPLY,
        env=without_token(os.environ),
        start_new_session=True,
    )


async def _end(worker: asyncio.subprocess.Process | None) -> None:
    if worker is not None:
        if worker.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(worker.pid, signal.SIGKILL)
        with suppress(ConnectionError):
            await worker.communicate()
