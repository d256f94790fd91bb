"""A sandboxed process and the protocol to talk to it. Independent of how the sandbox is made."""

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
from typing import Any, Literal, Protocol, get_args

from gce.adapters.sandboxes.frames import NONCE
from gce.adapters.sandboxes.inside import MOST_BYTES, READY
from gce.domain.executions import Execution, OutcomeStatus

__all__ = [
    "Lost",
    "Program",
    "Role",
    "SandboxProcess",
    "Shown",
    "Silent",
    "Start",
    "environment_of",
    "python_command",
    "source_of",
]

ENVIRONMENT = {"PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1", "LANG": "C.UTF-8"}
"""The whole environment inside. The fixed hash seed makes the order of sets reproducible."""
HASH_SEED = "PYTHONHASHSEED"


_LIMITS: Mapping[str, OutcomeStatus] = {"cpu": "cpu", "time": "time"}
"""What the keeper says of a child that it had to end."""
Role = Literal["candidate", "tests", "timed"]
Program = Literal["inside", "scorers_inside", "shell_inside"]
"""The module that runs inside: it calls programs that a model wrote, or scorers of other frameworks, or runs a shell
command."""
Shown = tuple[tuple[str, str], ...]
"""Files and directories that a sandbox shows, read-only: (path outside, path inside). Where the path outside is empty,
the path inside leads to the same path under `/tmp`, where the program may write."""


class Start(Protocol):
    """Starts a sandbox."""

    def __call__(self, shown: Shown = (), program: Program = "inside") -> SandboxProcess:
        """Return a process that runs the program, waits for its job, and sees what is `shown`; OSError if it cannot."""
        ...


class Silent(Exception):
    """Raised if no valid message arrives; carries an outcome's status and a text."""

    def __init__(self, status: OutcomeStatus, text: str = "") -> None:
        super().__init__(status)
        self.status: OutcomeStatus = status
        self.text = text


class Lost(Silent):
    """Raised if the sandbox itself has ended, or does not answer by the deadline."""


def environment_of(program: Program) -> Mapping[str, str]:
    """The environment inside: scorers of other frameworks get this process's hash seed where it is set to a number.

    So another process with another hash seed shows whether a verdict or a problem depends on it.
    """
    seed = os.environ.get(HASH_SEED, "")
    return ENVIRONMENT | ({HASH_SEED: seed} if program == "scorers_inside" and seed.isdecimal() else {})


@cache
def source_of(module: str) -> str:
    """Return the source of a module that runs inside the sandbox, with the sources that it depends on."""
    files = importlib.resources.files("gce")
    sandboxes = files / "adapters" / "sandboxes"
    parts = [sandboxes / f"{module}.py"]
    if module in get_args(Program):
        parts[:0] = [sandboxes / f"{name}.py" for name in ("system_call_filter", "confinement", "frames")]
    if module == "inside":
        parts[:0] = [files / "domain" / "plain_values.py"]
    first = "from __future__ import annotations\n"  # Must be the first line, once.
    return first + "\n".join(part.read_text(encoding="utf-8").replace(first, "", 1) for part in parts)


def python_command(uid: int = 0, *, isolated: bool = True, program: Program = "inside") -> list[str]:
    """Return the command that runs this interpreter with the program inside.

    If the process starts as root, it switches to the user `uid`. `isolated` installs the system call filter.
    """
    # Without `site`, which would reveal installed packages, and without the current directory on the path.
    return [
        os.path.realpath(sys.executable),
        "-s",
        "-S",
        "-P",
        "-c",
        source_of(program),
        str(uid),
        "isolated" if isolated else "open",
    ]


class SandboxProcess:
    """A started process that waits for its single job.

    The system ends it together with the thread that made it.
    """

    def __init__(
        self, command: Sequence[str], *, environment: Mapping[str, str] = ENVIRONMENT, unmoved: Shown = ()
    ) -> None:
        """Start `command`; what is `unmoved` is seen at its path outside."""
        self._unmoved = {inside: outside for outside, inside in unmoved}
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

    def path_of(self, inside: str) -> str:
        """Return where the process sees what was to be shown at the path `inside`."""
        return self._unmoved.get(inside, inside)

    def begin(
        self,
        execution: Execution,
        role: Role,
        deadline: float,
        *,
        wall: float | None = None,
        processor: int | None = None,
    ) -> None:
        """Send the job, due by `deadline`, in seconds of `time.monotonic`; OSError if the sandbox did not start.

        The sandbox ends a program that takes more than `wall` seconds for one answer, and says so. It runs on one
        `processor` alone, by its number, and cannot choose another; None for any.
        """
        job: dict[str, Any] = {
            "role": role,
            "preamble": execution.preamble,
            "source": execution.tests if role == "tests" else execution.source,
            "entry_point": execution.entry_point,
            # A check would take time of a timed call.
            "unchanged": execution.unchanged and role == "candidate",
            "seconds": execution.seconds,
            "memory": execution.memory,
            "wall": wall,
            "processor": processor,
        }
        self.give(job, deadline)

    def give(self, job: Mapping[str, Any], deadline: float) -> None:
        """Send a job, plain data for the program inside; as `begin`."""
        self._deadline = deadline
        try:
            if self._read(4 + len(READY))[4:] != READY:
                raise Silent("babbled")
            self._write(json.dumps(job).encode())
        except Silent as silent:
            raise OSError(f"the sandbox did not start ({silent.status}): {self._complaint()}") from None

    def exchange(self, body: bytes, most: int) -> bytes:
        """Send a body and receive one of 1 to `most` bytes; `Silent` if no answer arrives."""
        nonce = secrets.token_bytes(NONCE)
        self._write(nonce + body)
        size = int.from_bytes(self._read(4), "big")
        if not NONCE < size <= most + NONCE:
            raise Silent("babbled")
        reply = self._read(size)
        if not reply.startswith(nonce):
            raise Silent("babbled")
        return reply[NONCE:]

    def say(self, text: str = "") -> tuple[str, str]:
        """Send a text and receive a letter and a text; `Silent` if no answer arrives."""
        reply = self.exchange(text.encode("ascii"), MOST_BYTES)
        if not reply.isascii():
            raise Silent("babbled")
        said = reply.decode("ascii")
        if said[0] == "E":
            raise Silent(_LIMITS[said[1:]]) if said[1:] in _LIMITS else Silent("ended", said[1:])
        return said[0], said[1:]

    def allow(self, deadline: float) -> None:
        """Set another deadline for what is due, in seconds of `time.monotonic`."""
        self._deadline = deadline

    def kill(self) -> None:
        """End the process and its children; a pending `say` is told so."""
        with contextlib.suppress(OSError):
            if self._process.poll() is None:
                os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """End the process and release its resources."""
        self.kill()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            with contextlib.suppress(OSError):
                assert pipe is not None
                pipe.close()
        self._process.wait()

    def _complaint(self) -> str:
        """Return the last line on standard error, to which the child inside cannot write."""
        assert self._process.stderr is not None
        os.set_blocking(self._process.stderr.fileno(), False)
        with contextlib.suppress(OSError):
            said = os.read(self._process.stderr.fileno(), 2**16).decode("utf-8", "replace").split("\n")
            # Container engines end with a reference to their option --help.
            lines = [line.strip()[:300] for line in said if line.strip() and "--help" not in line]
            return (lines or ["it said nothing"])[-1]
        return "it said nothing"

    def _read(self, size: int) -> bytes:
        found = bytearray()
        while len(found) < size:
            self._wait(self._out, select.POLLIN)
            more = os.read(self._out, size - len(found))
            if not more:
                raise Lost("ended", "the sandbox ended")
            found += more
        return bytes(found)

    def _write(self, body: bytes) -> None:
        left = memoryview(len(body).to_bytes(4, "big") + body)
        while left:
            self._wait(self._in, select.POLLOUT)
            try:
                left = left[os.write(self._in, left) :]
            except BrokenPipeError:
                raise Lost("ended", "the sandbox ended") from None

    def _wait(self, fd: int, event: int) -> None:
        poll = select.poll()
        poll.register(fd, event)
        left = self._deadline - time.monotonic()
        if left <= 0 or not poll.poll(1000 * left):
            raise Lost("time")
