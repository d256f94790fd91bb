"""One process in a sandbox, and how to talk to it. Knows nothing of how the sandbox is made."""

from __future__ import annotations

import contextlib
import importlib.resources
import json
import os
import secrets
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Literal

from gce.adapters.sandboxes.inside import MOST_BYTES, NONCE, READY
from gce.domain.executions import Execution, OutcomeStatus

__all__ = ["Role", "SandboxProcess", "Silent", "python_command", "source_of"]

ENVIRONMENT = {"PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1", "LANG": "C.UTF-8"}
"""All that is set inside. Sets have the same order each time."""


Role = Literal["candidate", "tests"]


class Silent(Exception):
    """What was said cannot be read: the reason is an outcome's status, and a text."""

    def __init__(self, status: OutcomeStatus, text: str = "") -> None:
        super().__init__(status)
        self.status: OutcomeStatus = status
        self.text = text


@cache
def source_of(module: str) -> str:
    """The source of an adapter that runs inside, with what it stands on."""
    files = importlib.resources.files("gce")
    parts = [files / "adapters" / "sandboxes" / f"{module}.py"]
    if module == "inside":
        parts[:0] = [files / "domain" / "plain_values.py", files / "adapters" / "sandboxes" / "system_call_filter.py"]
    first = "from __future__ import annotations\n"  # It has to be the first line of all, and stand there once.
    return first + "\n".join(part.read_text(encoding="utf-8").replace(first, "", 1) for part in parts)


def python_command(uid: int = 0, *, isolated: bool = True) -> list[str]:
    """This interpreter with the program that runs inside; `uid` is whom it becomes, where it starts as root.

    `isolated` has its system calls filtered too.
    """
    # Without `site`, which would show what else is installed, and without the directory it starts in on the path.
    return [
        os.path.realpath(sys.executable),
        "-s",
        "-S",
        "-P",
        "-c",
        source_of("inside"),
        str(uid),
        "isolated" if isolated else "open",
    ]


class SandboxProcess:
    """A process that was started, and waits for its one job.

    It does not outlive the thread that made it: the system ends it with that.
    """

    def __init__(self, command: Sequence[str], *, environment: Mapping[str, str] = ENVIRONMENT) -> None:
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd="/",
            env=dict(environment),
            start_new_session=True,
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._in, self._out = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self._in, False)
        os.set_blocking(self._out, False)
        self._deadline = 0.0

    def begin(self, execution: Execution, role: Role, deadline: float) -> None:
        """Give it its job, done by `deadline`, in seconds of `time.monotonic`; OSError where no sandbox is there."""
        job: dict[str, Any] = {
            "role": role,
            "preamble": execution.preamble,
            "source": execution.source if role == "candidate" else execution.tests,
            "entry_point": execution.entry_point,
            "seconds": execution.seconds,
            "memory": execution.memory,
        }
        self._deadline = deadline
        try:
            if self._read(4 + len(READY))[4:] != READY:
                raise Silent("babbled")
            self._write(json.dumps(job).encode())
        except Silent as silent:
            raise OSError(f"the sandbox did not start ({silent.status}): {self._complaint()}") from None

    def say(self, text: str = "") -> tuple[str, str]:
        """Say something, and hear a letter and a text; `Silent` where there is no answer."""
        nonce = secrets.token_bytes(NONCE)
        self._write(nonce + text.encode("ascii"))
        size = int.from_bytes(self._read(4), "big")
        if not NONCE < size <= MOST_BYTES + NONCE:
            raise Silent("babbled")
        reply = self._read(size)
        if not reply.startswith(nonce) or not reply[NONCE:].isascii():
            raise Silent("babbled")
        said = reply[NONCE:].decode("ascii")
        if said[0] == "E":
            raise Silent("cpu") if said[1:] == "cpu" else Silent("ended", said[1:])
        return said[0], said[1:]

    def kill(self) -> None:
        """End it, and all that it started; whoever waits for its answer is told so."""
        with contextlib.suppress(OSError):
            if self._process.poll() is None:
                os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """End it, and let go of it."""
        self.kill()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            with contextlib.suppress(OSError):
                assert pipe is not None
                pipe.close()
        self._process.wait()

    def _complaint(self) -> str:
        """The last line that it wrote elsewhere; the child inside cannot write there."""
        assert self._process.stderr is not None
        os.set_blocking(self._process.stderr.fileno(), False)
        with contextlib.suppress(OSError):
            said = os.read(self._process.stderr.fileno(), 2**16).decode("utf-8", "replace").split("\n")
            return next((line.strip()[:300] for line in reversed(said) if line.strip()), "it said nothing")
        return "it said nothing"

    def _read(self, size: int) -> bytes:
        found = bytearray()
        while len(found) < size:
            self._wait(self._out, select.POLLIN)
            more = os.read(self._out, size - len(found))
            if not more:
                raise Silent("ended", "the sandbox ended")
            found += more
        return bytes(found)

    def _write(self, body: bytes) -> None:
        left = memoryview(len(body).to_bytes(4, "big") + body)
        while left:
            self._wait(self._in, select.POLLOUT)
            try:
                left = left[os.write(self._in, left) :]
            except BrokenPipeError:
                raise Silent("ended", "the sandbox ended") from None

    def _wait(self, fd: int, event: int) -> None:
        poll = select.poll()
        poll.register(fd, event)
        left = self._deadline - time.monotonic()
        if left <= 0 or not poll.poll(1000 * left):
            raise Silent("time")
