"""What runs inside a sandbox: a keeper that holds the channel out, and its child that holds the code.

Stands alone: handed to `python -c` behind the sources of `gce.domain.plain_values` and `sandbox_filter`, with nothing
but the standard library. Frames are a length in four bytes and a body. The keeper says that it is ready; the first
frame from outside is the job, as JSON. Then outside and the child speak in turns, and the keeper stands between: from
outside comes a nonce and a text, which the child gets with a token made for it; what the child says with that token
goes out with the nonce. The child is forked before the first nonce comes, and holds neither the channel nor a way to
look into the keeper. It says one letter and a text:

    V  returned, this value        L  could not be loaded        C  call the candidate with these arguments
    R  raised this                 U  has no such function       P  the tests passed
    N  returned no plain data                                    X  a test failed
    E  (keeper) the child ended    W  (keeper) it babbled        B  the tests are broken
"""

from __future__ import annotations

import builtins
import ctypes
import json
import os
import resource
import signal
import sys
import time
import types

if __name__ != "__main__":
    from collections.abc import Callable
    from typing import Any, NoReturn

    from gce.adapters.sandbox_filter import install
    from gce.domain.plain_values import MOST_CHARACTERS, NotPlain, from_text, to_text

__all__ = ["MOST_BYTES", "NONCE", "RAISED", "READY", "keep", "read_frame", "write_frame"]

READY = b"ready"
NONCE = 16
"""Bytes of a nonce or token."""
MOST_BYTES = MOST_CHARACTERS + 64
"""Of a frame that the child may send."""
MOST_SAID = 200
"""Characters of an exception."""
RAISED = "!"
"""Before the name of an exception, where the tests hear that the candidate raised; no value begins so."""
OPEN_FILES, PROCESSES, FILE_BYTES = 64, 16, 2**20
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE = 1, 4


def read_frame(fd: int, limit: int = 2**30) -> bytes:
    """The next frame's body; EOFError where there is none, ValueError where it is too long."""
    size = int.from_bytes(_read(fd, 4), "big")
    if size > limit:
        raise ValueError(f"a frame of {size} bytes, expected at most {limit}")
    return _read(fd, size)


def write_frame(fd: int, body: bytes) -> None:
    """Write a frame."""
    left = memoryview(len(body).to_bytes(4, "big") + body)
    while left:
        left = left[os.write(fd, left) :]


def _read(fd: int, size: int) -> bytes:
    found = bytearray()
    while len(found) < size:
        more = os.read(fd, min(size - len(found), 2**16))
        if not more:
            raise EOFError
        found += more
    return bytes(found)


def keep(uid: int, *, isolated: bool) -> None:
    """The keeper's life: one job, one child."""
    if uid:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    # Its memory is closed to others of its user, the child among them.
    _prctl(_PR_SET_DUMPABLE, 0)
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # A change of user takes it back.
    if isolated:
        install()
    write_frame(1, READY)
    job = json.loads(read_frame(0)) | {"isolated": isolated}
    to_child, from_keeper = os.pipe()[::-1]
    from_child, to_keeper = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(to_child)
        os.close(from_child)
        _be_child(job, from_keeper, to_keeper)
    os.close(from_keeper)
    os.close(to_keeper)
    while True:
        try:
            message = read_frame(0)
        except EOFError:
            return
        nonce, text = message[:NONCE], message[NONCE:]
        token = os.urandom(NONCE)
        try:
            write_frame(to_child, token + text)
            reply = read_frame(from_child, MOST_BYTES)
        except (EOFError, OSError):
            write_frame(1, nonce + b"E" + _how_it_ended(pid, job["seconds"]).encode())
            return
        except ValueError:
            reply = b""
        write_frame(1, nonce + (reply[NONCE:] if reply.startswith(token) and len(reply) > NONCE else b"W"))


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None)
    if hasattr(libc, "prctl"):  # Linux.
        libc.prctl(option, value, 0, 0, 0)


def _how_it_ended(pid: int, seconds: int) -> str:
    """In words, or just "cpu"; a child that only closed its pipes is ended."""
    for _ in range(20):
        found, status, used = os.wait4(pid, os.WNOHANG)
        if found:
            break
        time.sleep(0.005)
    else:
        os.kill(pid, signal.SIGKILL)
        return "it closed its channel"
    if not os.WIFSIGNALED(status):
        return f"exit status {os.waitstatus_to_exitcode(status)}"
    number = os.WTERMSIG(status)
    if number == signal.SIGXCPU or (number == signal.SIGKILL and used.ru_utime + used.ru_stime > seconds):
        return "cpu"
    return f"signal {number}"


def _be_child(job: dict[str, Any], hear_fd: int, say_fd: int) -> NoReturn:
    """In the child: limits, then the code; never returns."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.close(null)
    for limit, value in (
        (resource.RLIMIT_AS, job["memory"]),
        # Outside a sandbox it would count all that this user runs.
        *([(resource.RLIMIT_NPROC, PROCESSES)] if job["isolated"] else []),
        (resource.RLIMIT_NOFILE, OPEN_FILES),
        (resource.RLIMIT_FSIZE, FILE_BYTES),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(limit, (value, value))
    resource.setrlimit(resource.RLIMIT_CPU, (job["seconds"], job["seconds"] + 1))
    token = b""

    def hear() -> str:
        nonlocal token
        message = read_frame(hear_fd)
        token = message[:NONCE]
        return message[NONCE:].decode("ascii")

    def say(letter: str, text: str = "") -> None:
        write_frame(say_fd, token + (letter + text).encode("ascii"))

    try:
        (_be_tests if job["role"] == "tests" else _be_candidate)(job, hear, say)
    finally:
        os._exit(0)


def _loaded(name: str, *sources: str, **names: Any) -> dict[str, Any]:
    """What a module of this name holds after these sources, and what is given it before the last of them."""
    module = types.ModuleType(name)
    sys.modules[name] = module
    namespace = module.__dict__
    namespace["__builtins__"] = builtins
    for number, source in enumerate(sources, 1):
        if number == len(sources):
            namespace.update(names)
        exec(compile(source, f"{name}.py", "exec"), namespace)
    return namespace


def _be_candidate(job: dict[str, Any], hear: Callable[[], str], say: Callable[..., None]) -> None:
    """Load the candidate, then call it with what is heard."""
    hear()
    try:
        function = _loaded("candidate", job["preamble"], job["source"]).get(job["entry_point"])
    except BaseException as error:
        say("L", _said(error))
        return
    if not callable(function):
        say("U")
        return
    say("V")
    while True:
        arguments = from_text(hear())
        positional, named = arguments if type(arguments) is tuple else (arguments, {})
        try:
            value = function(*positional, **named)
        except BaseException as error:
            say("R", _said(error))
            continue
        try:
            text = to_text(value)
        except BaseException as error:
            say("N", _said(error))
            continue
        say("V", text)


class _Broken(BaseException):
    """The tests cannot be run here; tests that catch exceptions do not catch it."""


class _Spoiled(BaseException):
    """What came is no value; nor is this caught."""


def _be_tests(job: dict[str, Any], hear: Callable[[], str], say: Callable[..., None]) -> None:
    """Run tests on a candidate that lives elsewhere."""
    hear()
    calls = 0

    def candidate(*positional: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        try:
            text = to_text((list(positional), named) if named else list(positional))
        except NotPlain as error:
            # What is made of the candidate's own values may be too deep to be sent.
            raise (_Broken if calls == 1 else _Spoiled)(f"a call with what cannot be sent: {error}") from None
        say("C", text)
        said = hear()
        if said.startswith(RAISED):
            raise _exception(said.removeprefix(RAISED))
        try:
            return from_text(said)
        except NotPlain:
            raise _Spoiled("the function returned no plain data") from None

    try:
        names = {"candidate": candidate, job["entry_point"]: candidate}
        check = _loaded("tests", job["preamble"], job["source"], **names).get("check")
        if check is not candidate and callable(check):
            check(candidate)
    except _Broken as error:
        say("B", _said(error))
    except BaseException as error:
        # Before any call it cannot be the candidate's fault.
        say("X" if calls or isinstance(error, AssertionError) else "B", _said(error))
    else:
        say("P" if calls else "B", f"{calls}" if calls else "the tests never call it")


def _exception(name: str) -> Exception:
    """The built-in exception of this name, for tests that expect it; any other is just an Exception."""
    found = getattr(builtins, name, None)
    return found() if isinstance(found, type) and issubclass(found, Exception) else Exception(name)


def _said(error: BaseException) -> str:
    """An exception in ASCII and in short; its own methods may be hostile."""
    name = type(error).__name__
    try:
        message = str(error)
    except BaseException:
        message = ""
    return ascii(f"{name}: {message}" if message else name)[1:-1][:MOST_SAID]


if __name__ == "__main__":
    keep(int(sys.argv[1]), isolated=sys.argv[2] == "isolated")
