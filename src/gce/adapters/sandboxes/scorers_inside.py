"""The program inside a sandbox that calls scorers of other frameworks: a keeper, a loader, and one scorer at a time.

This file must stand alone: it is passed to `python -c` after the sources of `system_call_filter`, `confinement` and
`frames`, with only the standard library. The keeper holds the channel to the outside and runs none of the scorers'
code. It forks the loader, which imports them once. For each share of the calls the loader forks a scorer, which
inherits what was loaded and shares one socket with the keeper; the next one is forked while that one works.

The keeper hands a scorer one call at a time, with a fresh token, and takes what comes back with that token. A scorer
that writes on the socket before it was asked, or after it has answered, does not know the next token: the keeper ends
it, and that call has failed. A scorer can start no process and no thread, so that nothing of it outlives the answer
that it is asked about, except what it changes in its own memory; a new one is forked after `renew` calls, and after
each that failed. Standard streams go nowhere.

Messages: the job, as JSON; then a list of calls, each a frame of JSON text [function, argument ...], answered by as
many frames: V and the value as JSON, or F, a word and a text. The words: raised (by the call), time (a call did not
end), ended (the process did), protocol (it broke the protocol), skipped (too many calls before it did not end).
"""

from __future__ import annotations

import array
import contextlib
import gc
import importlib
import json
import os
import resource
import signal
import socket
import sys
import time

if __name__ != "__main__":
    from collections.abc import Callable, Mapping
    from typing import Any, NoReturn

    from gce.adapters.sandboxes.confinement import confine, drop_streams, end_with_parent
    from gce.adapters.sandboxes.frames import NONCE, read_frame, write_frame

__all__ = ["HANGS", "MOST_VALUE", "keep", "put_together", "taken_apart"]

HANGS = 3
"""Calls in a row that may fail to end, after which the rest of a list is skipped."""
MOST_VALUE = 2**20
"""Maximum size of a value, in bytes of JSON."""
MOST_SAID = 300
"""Maximum characters of an exception."""
OPEN_FILES, FILE_BYTES = 256, 2**24


def put_together(frames: list[bytes]) -> bytes:
    """Frames as one text."""
    return b"".join(len(each).to_bytes(4, "big") + each for each in frames)


def taken_apart(text: bytes) -> list[bytes]:
    """The frames of such a text; ValueError if it is none."""
    found, start = [], 0
    while start < len(text):
        end = start + 4 + int.from_bytes(text[start : start + 4], "big")
        if end > len(text):
            raise ValueError("a frame that does not end")
        found.append(text[start + 4 : end])
        start = end
    return found


def keep(uid: int, *, isolated: bool) -> None:
    """Run the keeper: one job, and any number of lists of calls."""
    confine(uid, isolated=isolated)
    write_frame(1, b"ready")
    keeper = _Keeper(json.loads(read_frame(0)))
    while True:
        try:
            message = read_frame(0)
        except EOFError:
            return
        calls = taken_apart(message[NONCE:])
        write_frame(1, message[:NONCE] + put_together(keeper.answers(calls)))


class _Keeper:
    """Hands calls to scorers, and says what came of each."""

    def __init__(self, job: Mapping[str, Any]) -> None:
        self._job = job
        self._loader: socket.socket | None = None
        self._scorer: socket.socket | None = None
        self._coming: socket.socket | None = None
        self._pid = self._left = 0

    def answers(self, calls: list[bytes]) -> list[bytes]:
        """What came of each call, in order."""
        found: list[bytes] = []
        hangs = 0
        for call in calls:
            answer = b"Fskipped too many calls before it did not end" if hangs >= HANGS else self._answer(call)
            hangs = hangs + 1 if answer.startswith((b"Ftime ", b"Fended ", b"Fskipped ")) else 0
            found.append(answer)
        return found

    def _answer(self, call: bytes) -> bytes:
        if self._scorer is None or self._left <= 0:
            self._drop()
            problem = self._fork()
            if problem:
                return problem
        assert self._scorer is not None
        self._left -= 1
        token = os.urandom(NONCE)
        deadline = time.monotonic() + self._job["wait"]
        try:
            self._scorer.settimeout(self._job["wait"])
            self._scorer.sendall((NONCE + len(call)).to_bytes(4, "big") + token + call)
            said = _received(self._scorer, deadline, MOST_VALUE + NONCE)
        except TimeoutError:
            self._drop()
            return b"Ftime it did not end within %d s" % self._job["wait"]
        except (EOFError, OSError):
            self._drop()
            return b"Fended its process ended, as it does after %d s of processor time" % self._job["seconds"]
        if said[:NONCE] != token or said[NONCE : NONCE + 1] not in (b"V", b"F"):
            self._drop()
            return b"Fprotocol it wrote on the channel of the verdicts"
        if said[NONCE : NONCE + 1] == b"F":
            self._drop()
            return b"Fraised " + said[NONCE + 1 :]
        return said[NONCE:]

    def _drop(self) -> None:
        """End the scorer, if there is one."""
        if self._scorer is not None:
            self._scorer.close()
            self._scorer = None
            if self._pid > 1:
                with contextlib.suppress(OSError):
                    os.kill(self._pid, signal.SIGKILL)

    def _fork(self) -> bytes:
        """Take the scorer that was asked for in advance, and ask for the next, which is forked while this one works.

        Returns:
            Why there is none, as the answer to a call; empty if there is one.
        """
        for _ in range(2):  # A loader that a scorer ended is made again, once.
            if self._loader is None:
                self._loader, said = _loader(self._job)
                if said[:1] == b"F":
                    self._loader = None
                    return said
            try:
                mine = self._coming or self._asked(self._loader)
                pid = int(_received(self._loader, time.monotonic() + self._job["wait"], 16))
                with contextlib.suppress(BlockingIOError):  # Another scorer may have ended it while it waited.
                    mine.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
                    raise EOFError
                self._coming = self._asked(self._loader)
            except (OSError, EOFError, ValueError):
                self._loader.close()
                self._loader = self._coming = None
            else:
                self._pid, self._scorer, self._left = pid, mine, self._job["renew"]
                return b""
        return b"Fended the process that had loaded the scorers ended"

    def _asked(self, loader: socket.socket) -> socket.socket:
        """Ask the loader for a scorer, whose process it then names; the keeper's end of the scorer's channel."""
        mine, other = socket.socketpair()
        with other:
            loader.sendmsg([b"f"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [other.fileno()]))])
        return mine


def _received(channel: socket.socket, deadline: float, limit: int) -> bytes:
    """The next frame's body; TimeoutError, EOFError, or ValueError where it is too long, which breaks the protocol."""
    found, size = bytearray(), 4
    while len(found) < size:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        channel.settimeout(left)
        more = channel.recv(min(size - len(found), 2**16) if len(found) >= 4 else 2**16)
        if not more:
            raise EOFError
        found += more
        if size == 4 and len(found) >= 4:
            size += int.from_bytes(found[:4], "big")
            if size > limit + 4:
                return b""
    # More than one frame was sent where one was asked for.
    return bytes(found[4:]) if len(found) == size else b""


def _loader(job: Mapping[str, Any]) -> tuple[socket.socket, bytes]:
    """Start a loader: its channel, and `V`, or what made it fail."""
    mine, other = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        mine.close()
        try:
            _load(job, other)
        finally:
            os._exit(0)
    other.close()
    try:
        return mine, _received(mine, time.monotonic() + job["loading"], MOST_VALUE) or b"Fprotocol it babbled"
    except TimeoutError:
        os.kill(pid, signal.SIGKILL)
        return mine, b"Ftime loading did not end within %d s" % job["loading"]
    except (EOFError, OSError):
        return mine, b"Fended its process ended while it was loaded"


def _load(job: Mapping[str, Any], channel: socket.socket) -> None:
    """Set limits, load the scorers and fork one whenever the keeper asks for it, in the loader."""
    end_with_parent()
    drop_streams()
    os.nice(max(0, -os.nice(0)))
    for limit, value in (
        (resource.RLIMIT_AS, job["memory"]),
        (resource.RLIMIT_NOFILE, OPEN_FILES),
        (resource.RLIMIT_FSIZE, FILE_BYTES),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(limit, (value, value))
    os.environ.update(HOME="/tmp", OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")
    sys.path[:] = job["path"]
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # Scorers are not waited for.
    try:
        functions = importlib.import_module(job["module"]).load(job["arguments"])
    except BaseException as error:
        _say(channel, b"Fraised " + _said(error))
        return
    _say(channel, b"V")
    gc.collect()
    gc.freeze()  # Collecting would copy into each scorer the pages that it shares with this process.
    while True:
        asked, ancillary, _, _ = channel.recvmsg(1, socket.CMSG_SPACE(4))
        if not asked:
            return
        fd = array.array("i", ancillary[0][2][:4])[0]
        pid = os.fork()
        if pid == 0:
            channel.close()
            _score(fd, functions, job["seconds"])
        os.close(fd)
        _say(channel, str(pid).encode())


def _say(channel: socket.socket, body: bytes) -> None:
    channel.sendall(len(body).to_bytes(4, "big") + body)


def _score(fd: int, functions: Mapping[str, Callable[..., Any]], seconds: int) -> NoReturn:
    """Answer calls, in a scorer; never returns."""
    try:
        end_with_parent()
        resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))  # No process and no thread.
        while True:
            message = read_frame(fd)
            token = message[:NONCE]
            signal.setitimer(signal.ITIMER_PROF, seconds)  # Unless it is disarmed, it ends the process.
            try:
                name, *arguments = json.loads(message[NONCE:])
                said = b"V" + json.dumps(functions[name](*arguments)).encode("ascii")
            except BaseException as error:
                said = b"F" + _said(error)
            write_frame(fd, token + said)
    finally:
        os._exit(0)


def _said(error: BaseException) -> bytes:
    """Describe an exception in short ASCII text; its own methods may be hostile."""
    try:
        message = str(error)
    except BaseException:
        message = ""
    name = type(error).__name__
    return ascii(f"{name}: {message}" if message else name)[1:-1][:MOST_SAID].encode("ascii")


if __name__ == "__main__":
    keep(int(sys.argv[1]), isolated=sys.argv[2] == "isolated")
