"""Commands that outlive the process that started them: `python -m gce.adapters.system.supervised FOLDER ATTEMPT`.

A folder holds one command. Whoever wants it run starts a supervisor, which leads a session of its own, claims the
attempt, runs the command within its limits and writes down how it ended. Files say all there is to know, so that a
process that was killed finds everything again:

    plan.json             the words of the command, and its limits
    cancel-N              attempt N is to end
    started-N.json        the supervisor of attempt N, by process number and start time; made once, never replaced
    ended-N.json          exit status of attempt N
    log, log.old          the end of standard error
    output                the beginning of standard output
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from gce.adapters.system.durable_files import write_file, write_synced

__all__ = ["birth", "has_ended", "is_alive", "limits", "start_supervisor", "supervise"]

MOST_LOG = 2**19
"""Bytes of each of the two files that hold the log."""
MOST_OUTPUT = 2**23
GRACE = 20.0
"""Seconds between the interruption of a command and its end by force."""
_POLL = 0.2
_PR_SET_PDEATHSIG = 1


def start_supervisor(folder: Path, attempt: int, environment: Mapping[str, str]) -> int:
    """Start a supervisor, which lives on when this process ends, and return its number for `has_ended`."""
    words = [sys.executable, "-P", "-m", "gce.adapters.system.supervised", os.path.abspath(folder), str(attempt)]
    nowhere = [(os.POSIX_SPAWN_OPEN, descriptor, os.devnull, os.O_RDWR, 0) for descriptor in (0, 1, 2)]
    return os.posix_spawn(sys.executable, words, environment, file_actions=nowhere, setsid=True)


def has_ended(pid: int) -> bool:
    """Whether a child of this process has ended; one that has can be asked for once."""
    try:
        return os.waitpid(pid, os.WNOHANG) != (0, 0)
    except ChildProcessError:
        return True


def birth(pid: int) -> str:
    """When a process was started, so that another one that later gets its number is not taken for it; empty for none.

    A process that has ended and was not waited for counts as none.
    """
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return "" if state in "ZX" else f"{boot} {fields[18]}"
    except OSError:
        if Path("/proc/self/stat").exists():
            return ""
    found = subprocess.run(["ps", "-o", "state=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    state, _, started = found.stdout.strip().partition(" ")
    return "" if state.startswith("Z") else started.strip()


def is_alive(pid: int, born: str) -> bool:
    """Whether the process that had this number and start time is still there."""
    return bool(born) and birth(pid) == born


def supervise(folder: Path, attempt: int) -> None:
    """Run the command of this folder, unless another supervisor has claimed the attempt."""
    own = {"pid": os.getpid(), "born": birth(os.getpid()), "at": time.time()}
    if not _claimed(folder / f"started-{attempt}.json", own):
        return
    plan = json.loads((folder / "plan.json").read_bytes())
    status, why = _ended(plan, folder, folder / f"cancel-{attempt}")
    ended = {"status": status, "why": why, "at": time.time()}
    write_file(folder / f"ended-{attempt}.json", json.dumps(ended).encode())


def _claimed(path: Path, content: Mapping[str, Any]) -> bool:
    """Make a whole file that was not there; False where it was."""
    half = path.with_name(f"{path.name}.{os.getpid()}")
    write_synced(half, json.dumps(content).encode())
    try:
        os.link(half, path)
    except FileExistsError:
        return False
    finally:
        half.unlink()
    return True


def _ended(plan: Mapping[str, Any], folder: Path, cancel: Path) -> tuple[int, str]:
    """The exit status of the command, and why it was ended, empty where it ended by itself."""
    if cancel.exists():
        return -signal.SIGINT, "cancelled"
    try:
        process = subprocess.Popen(
            plan["words"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            process_group=0,
            preexec_fn=limits(plan["memory"]),
        )
    except (OSError, subprocess.SubprocessError) as error:
        write_synced(folder / "log", f"cannot start: {error}\n".encode())
        return 127, ""
    deadline = None if plan["seconds"] is None else time.monotonic() + plan["seconds"]
    try:
        with _Log(folder / "log") as log, open(folder / "output", "wb") as output:
            why = _watched(process, log, output, lambda: _why(cancel, deadline))
    finally:
        with contextlib.suppress(OSError):  # All in its process group goes with it.
            os.killpg(process.pid, signal.SIGKILL)
    return process.wait(), why


def _why(cancel: Path, deadline: float | None) -> str:
    """Why a command has to end now; empty where it has not."""
    late = deadline is not None and time.monotonic() > deadline
    return "cancelled" if cancel.exists() else "time" if late else ""


def limits(memory: int | None) -> Callable[[], None]:
    """What limits a process that calls it, as before it becomes a command: it ends with what started it."""
    linux = ctypes.CDLL(None) if sys.platform.startswith("linux") else None

    def limit() -> None:
        if linux is not None:
            linux.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if memory is not None:
            hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
            most = memory if hard == resource.RLIM_INFINITY else min(memory, hard)
            resource.setrlimit(resource.RLIMIT_DATA, (most, most))
        os.nice(5)

    return limit


class _Log:
    """The end of what is written to it: a file that becomes `.old` as soon as it is full."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = open(path, "ab")  # noqa: SIM115 - open as long as the log is

    def write(self, data: bytes) -> None:
        self._file.write(data)
        self._file.flush()
        if self._file.tell() > MOST_LOG:
            self._file.close()
            os.replace(self._path, self._path.with_name(f"{self._path.name}.old"))
            self._file = open(self._path, "ab")  # noqa: SIM115

    def __enter__(self) -> _Log:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def _watched(process: subprocess.Popen[bytes], log: _Log, output: BinaryIO, why: Callable[[], str]) -> str:
    """Keep what the command writes until it ends; interrupt it as soon as there is a reason, which is returned."""
    assert process.stdout is not None and process.stderr is not None
    reason, interrupted, kept = "", 0.0, 0
    with selectors.DefaultSelector() as selector, process.stdout as out, process.stderr as err:
        for pipe in (out, err):
            selector.register(pipe, selectors.EVENT_READ)
        while True:
            ended = process.poll() is not None
            ready = selector.select(0 if ended else _POLL) if selector.get_map() else []
            for each, _ in ready:
                data = os.read(each.fd, 1 << 16)
                if not data:
                    selector.unregister(each.fileobj)
                elif each.fileobj is err:
                    log.write(data)
                else:
                    output.write(data[: MOST_OUTPUT - kept])
                    kept = min(kept + len(data), MOST_OUTPUT)
            if ended and not ready:
                return reason
            if not selector.get_map():
                time.sleep(_POLL)
            if not reason and (reason := why()):
                process.send_signal(signal.SIGINT)
                interrupted = time.monotonic()
            elif reason and time.monotonic() > interrupted + GRACE:
                process.kill()


if __name__ == "__main__":
    supervise(Path(sys.argv[1]), int(sys.argv[2]))
