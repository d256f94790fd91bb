"""Run a command with bounds on time, output and memory; all in its process group ends with it. Not a sandbox."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from threading import Event
from typing import Literal

from attrs import frozen

__all__ = ["Ended", "run_bounded"]

_POLL = 0.05
_START = (
    "import os, resource, sys\n"
    "most = int(sys.argv[1])\n"
    "hard = resource.getrlimit(resource.RLIMIT_DATA)[1]\n"
    "most = most if hard == resource.RLIM_INFINITY else min(most, hard)\n"
    "resource.setrlimit(resource.RLIMIT_DATA, (most, most))\n"
    "resource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n"
    "try:\n"
    "    os.execvp(sys.argv[2], sys.argv[2:])\n"
    "except OSError as error:\n"
    "    sys.exit(f'cannot run {sys.argv[2]}: {error.strerror}')\n"
)
"""Sets the limits and becomes the command: what may run between fork and exec in a process with threads is little."""


@frozen
class Ended:
    """How a command ended."""

    status: int
    """Exit status; negative for a signal, as of one that was ended at a bound."""
    output: bytes
    """Standard output, cut at its bound."""
    complaint: bytes
    """The end of standard error."""
    exceeded: Literal["", "output", "time"] = ""
    """The bound at which it was ended; `time` also where it was stopped."""
    seconds: float = 0.0
    """Wall-clock time."""


def run_bounded(
    words: Sequence[str],
    *,
    seconds: float,
    memory: int,
    most_output: int,
    most_complaint: int = 4096,
    given: bytes = b"",
    directory: Path | None = None,
    environment: Mapping[str, str] | None = None,
    stop: Event | None = None,
) -> Ended:
    """Run a command until it ends or exceeds a bound.

    Args:
        words: the program and its arguments; no shell runs.
        seconds: wall-clock time that it may take.
        memory: bytes of data of each of its processes, where the system can hold it to that.
        most_output: bytes of standard output that it may print.
        most_complaint: bytes of standard error that are kept, the last ones.
        given: standard input.
        directory: where it starts; None for that of this process.
        environment: None for that of this process.
        stop: ends it when set.
    """
    begun = time.monotonic()
    with TemporaryFile() as source:
        source.write(given)
        source.seek(0)
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _START, str(memory), *words],
            stdin=source,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=directory,
            env=None if environment is None else dict(environment),
            start_new_session=True,
        )
        try:
            output, complaint, exceeded = _read(process, begun + seconds, most_output, most_complaint, stop)
        finally:
            with suppress(OSError):  # All in its process group goes with it.
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            for pipe in (process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()
    return Ended(process.returncode, output, complaint, exceeded, time.monotonic() - begun)


def _read(
    process: subprocess.Popen[bytes], deadline: float, most_output: int, most_complaint: int, stop: Event | None
) -> tuple[bytes, bytes, Literal["", "output", "time"]]:
    """Return standard output, the end of standard error, and the bound that was exceeded, until it has ended."""
    assert process.stdout is not None and process.stderr is not None
    output, complaint = bytearray(), bytearray()
    with selectors.DefaultSelector() as selector:
        for pipe, found in ((process.stdout, output), (process.stderr, complaint)):
            selector.register(pipe, selectors.EVENT_READ, found)
        while True:
            ended = process.poll() is not None
            ready = selector.select(0 if ended else _POLL)
            for each, _ in ready:
                more = os.read(each.fd, 1 << 16)
                each.data.extend(more)
                if not more:
                    selector.unregister(each.fileobj)
            del complaint[: -max(most_complaint, 1)]
            if len(output) > most_output:
                return bytes(output[:most_output]), bytes(complaint), "output"
            if ended and not ready:  # Children of it may hold the pipes open.
                return bytes(output), bytes(complaint), ""
            if (stop is not None and stop.is_set()) or time.monotonic() > deadline:
                return bytes(output), bytes(complaint), "time"
