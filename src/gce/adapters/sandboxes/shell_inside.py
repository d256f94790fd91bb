"""The program inside a sandbox that runs one shell command, and says what files it left: a keeper and its child.

This file must stand alone: it is passed to `python -c` after the sources of `system_call_filter`, `confinement` and
`frames`, with only the standard library. The keeper holds the channel to the outside. Its child runs the command in a
session of its own, without the channel. When the command has ended, or its time is up, the keeper kills all that is
left of it before it reads any file, so that nothing changes what it reads. Of files it takes regular ones alone, and
follows no link.

The job, as JSON: `files`, [path, mode, text in base64] to be written before; `places`, directories to be made;
`command`; `directory`; `environment`; `seconds` of waiting; `memory` in bytes; `collect`, files and directories to be
sent back; `most`, bytes of them. One message starts it; the answer is JSON: `problem` (why the command was not started,
else empty), `ended` (exit status, or null where time was up), `said` (the end of what it wrote), `files` as above, and
`whole`, false where files were left out.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import resource
import signal
import stat
import sys
import time

if __name__ != "__main__":
    from collections.abc import Iterator, Mapping
    from typing import Any, NoReturn

    from gce.adapters.sandboxes.confinement import confine, drop_streams, end_with_parent
    from gce.adapters.sandboxes.frames import NONCE, read_frame, write_frame

__all__ = ["keep"]

PROCESSES, OPEN_FILES, FILE_BYTES = 128, 256, 2**24
MOST_FILES, MOST_DEPTH = 1024, 32
MOST_SAID = 2000
"""Maximum bytes of what the command wrote that are sent back."""


def keep(uid: int, *, isolated: bool) -> None:
    """Run the keeper: one job, one command."""
    confine(uid, isolated=isolated)
    write_frame(1, b"ready")
    job = json.loads(read_frame(0))
    nonce = read_frame(0)[:NONCE]
    write_frame(1, nonce + json.dumps(_result(job, isolated=isolated)).encode("ascii"))


def _result(job: Mapping[str, Any], *, isolated: bool) -> dict[str, Any]:
    for place in job["places"]:
        os.makedirs(place, exist_ok=True)
    for path, mode, text in job["files"]:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(base64.b64decode(text))
        os.chmod(path, mode)
    said = os.open("/tmp", os.O_TMPFILE | os.O_RDWR, 0o600)
    problems, problem = os.pipe()
    pid = os.fork()
    if pid == 0:
        _run(job, said, problem)
    os.close(problem)
    why = os.read(problems, MOST_SAID).decode("utf-8", "replace")  # Ends where the command begins.
    ended = _waited(pid, job["seconds"])
    # Of a throw-away user, or as the first process of its namespace: all other processes of the sandbox.
    if isolated:
        with contextlib.suppress(OSError):
            os.kill(-1, signal.SIGKILL)
    else:
        with contextlib.suppress(OSError):
            os.killpg(pid, signal.SIGKILL)
    files, whole = _collected(job["collect"], job["most"])
    end = os.fstat(said).st_size
    text = os.pread(said, MOST_SAID, max(0, end - MOST_SAID)).decode("utf-8", "replace")
    return {"problem": why, "ended": ended, "said": text, "files": files, "whole": whole}


def _run(job: Mapping[str, Any], said: int, problem: int) -> NoReturn:
    """Become the command, in the child; where that fails, `problem` says why."""
    try:
        os.setsid()
        end_with_parent()
        drop_streams()
        os.dup2(said, 1)
        os.dup2(said, 2)
        os.nice(max(0, -os.nice(0)))
        for limit, value in (
            (resource.RLIMIT_AS, job["memory"]),
            (resource.RLIMIT_NPROC, PROCESSES),
            (resource.RLIMIT_NOFILE, OPEN_FILES),
            (resource.RLIMIT_FSIZE, FILE_BYTES),
            (resource.RLIMIT_CPU, job["seconds"] + 1),
            (resource.RLIMIT_CORE, 0),
        ):
            resource.setrlimit(limit, (value, value))
        os.umask(0o022)
        os.chdir(job["directory"])
        # All others close when the command begins.
        os.closerange(3, problem)
        os.closerange(problem + 1, OPEN_FILES)
        os.execvpe(job["command"][0], job["command"], job["environment"])
    except BaseException as error:
        os.write(problem, f"{type(error).__name__}: {error}".encode("utf-8", "replace")[:MOST_SAID])
    finally:
        os._exit(127)


def _waited(pid: int, seconds: float) -> int | None:
    """The exit status of a child, as a shell states it; None where it has not ended in time."""
    deadline = time.monotonic() + seconds
    pause = 0.001
    while True:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code
        left = deadline - time.monotonic()
        if left <= 0:
            return None
        time.sleep(min(pause, left))
        pause = min(2 * pause, 0.05)


def _collected(places: list[str], most: int) -> tuple[list[list[Any]], bool]:
    """Regular files at these places, at most so many bytes, and whether these are all."""
    found: list[list[Any]] = []
    for path, mode in _regular(places):
        with contextlib.suppress(OSError):
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                # Sparse files can be larger than the sandbox.
                size = os.fstat(fd).st_size
                if len(found) >= MOST_FILES or size > most:
                    return found, False
                text = os.read(fd, size)
                most -= len(text)
                found.append([path, mode, base64.b64encode(text).decode("ascii")])
            finally:
                os.close(fd)
    return found, True


def _regular(places: list[str]) -> Iterator[tuple[str, int]]:
    """Paths and modes of regular files, in order."""
    waiting = [(place, 0) for place in reversed(places)]
    while waiting:
        path, depth = waiting.pop()
        with contextlib.suppress(OSError, ValueError):
            kind = os.lstat(path).st_mode
            path.encode("utf-8")  # Other names would not cross.
            if stat.S_ISREG(kind):
                yield path, stat.S_IMODE(kind) & 0o777
            elif stat.S_ISDIR(kind) and depth < MOST_DEPTH:
                waiting += [(os.path.join(path, name), depth + 1) for name in sorted(os.listdir(path), reverse=True)]


if __name__ == "__main__":
    keep(int(sys.argv[1]), isolated=sys.argv[2] == "isolated")
