"""The program inside a sandbox: a keeper, which holds the channel to the outside, and its child, which runs the code.

This file must stand alone: it is passed to `python -c` after the sources of `gce.domain.plain_values`,
`system_call_filter`, `confinement` and `frames`, with only the standard library. The keeper first reports that it is
ready; the first frame from outside is the job, as JSON. Then outside and child take turns, with the keeper between
them. From outside comes a nonce and a text; the keeper gives the child the text with a fresh token. What the child
sends with that token goes out with the nonce. The child is forked before the first nonce arrives, and can reach
neither the channel nor the keeper's memory. In the role `timed`, each nonce gets a child of its own, which loads the
program, makes one call and is killed; the keeper puts the child's times and memory behind the letter. The text may be
several lines: then all but the last are calls made before, and only what comes after them is timed (on Linux). Such a
child is forked after its nonce and text have arrived, and can find them, but not the channel. In a sandbox it can start
no process and no thread, and leave no file: its time is all that the call took, and the next child learns nothing from
it.
A message is one letter and a text:

    V  returned, this value        L  could not be loaded        C  call the candidate with these arguments
    R  raised this                 U  has no such function       P  the tests passed, after so many calls
    N  returned no plain data      A  changed its arguments      X  a test failed
    E  (keeper) the child ended    W  (keeper) it babbled        B  the tests are broken

An exception of the candidate crosses as its name, its message, the names of its known classes in method resolution
order, and its arguments. The tests receive an exception that the same `except` clauses catch, and they must catch it:
tests that received exceptions pass only if each one reached an `except` clause of their source, or a `with` statement
of it that swallowed it. Otherwise the candidate could steer the tests by other ways that end an exception (an iterator
that stops, `hasattr`, a `return` in `finally`, a thread).
"""

from __future__ import annotations

import builtins
import contextlib
import json
import os
import resource
import signal
import sys
import time
import types

if __name__ != "__main__":
    from collections.abc import Callable, Mapping
    from typing import Any, NoReturn

    from gce.adapters.sandboxes.confinement import confine, drop_streams, end_with_parent
    from gce.adapters.sandboxes.frames import NONCE, read_frame, write_frame
    from gce.adapters.sandboxes.system_call_filter import refuse_scheduling
    from gce.domain.plain_values import MOST_CHARACTERS, NotPlain, from_text, to_text

__all__ = [
    "MOST_BYTES",
    "MOST_EXCEPTION",
    "MOST_SAID",
    "RAISED",
    "READY",
    "TIMES",
    "be_candidate",
    "be_tests",
    "keep",
]

READY = b"ready"
MOST_BYTES = MOST_CHARACTERS + 64
"""Maximum size of a frame from the child, in bytes."""
MOST_SAID = 200
"""Maximum characters of an exception for display."""
MOST_MESSAGE = 300
"""Maximum characters of an exception's message for tests."""
MOST_EXCEPTION = 2**13
"""Maximum characters of an exception as text; its arguments may take a quarter of them."""
RAISED = "!"
"""Prefix of an exception of the candidate in the tests' input; no value begins with it."""
TIMES = 3 * 12
"""Digits behind the letter of a timed call: processor time and wall-clock time in microseconds, peak memory in KiB."""
OPEN_FILES, PROCESSES, FILE_BYTES = 64, 16, 2**20


def keep(uid: int, *, isolated: bool) -> None:
    """Run the keeper: one job, one child."""
    confine(uid, isolated=isolated)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # As process 1 it is safe from all signals that it has no handler for.
    write_frame(1, READY)
    job = json.loads(read_frame(0)) | {"isolated": isolated}
    os.nice(max(0, -os.nice(0)))  # A higher priority of gce itself is not handed on.
    if job.get("processor") is not None:
        _stay_on(job["processor"], isolated=isolated)
    child = None if job["role"] == "timed" else _Child(job)
    while True:
        try:
            message = read_frame(0)
        except EOFError:
            return
        nonce, text = message[:NONCE], message[NONCE:]
        until = time.monotonic() + job["wall"] if job.get("wall") else None
        said = child.answer(text, until) if child else _timed(job, text, until)
        write_frame(1, nonce + said)
        if said.startswith(b"E"):
            return


def _stay_on(processor: int, *, isolated: bool) -> None:
    """Run on one processor at one priority, with all children; a container may have other processors, and uses any."""
    with contextlib.suppress(OSError):
        os.sched_setaffinity(0, {processor})
    if isolated:
        refuse_scheduling()


class _Child:
    """A child that runs the job's code, and the keeper's two pipes to it."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.seconds = job["seconds"]
        from_keeper, self.hear = os.pipe()
        self.say, to_keeper = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.hear)
            os.close(self.say)
            _be_child(job, from_keeper, to_keeper)
        os.close(from_keeper)
        os.close(to_keeper)

    def answer(self, text: bytes, until: float | None) -> bytes:
        """Return what the child answers, or the keeper's own letter with a text."""
        token = os.urandom(NONCE)
        try:
            write_frame(self.hear, token + text)
            reply = read_frame(self.say, MOST_BYTES, until)
        except TimeoutError:
            return b"Etime"
        except (EOFError, OSError):
            return b"E" + _how_it_ended(self.pid, self.seconds).encode()
        except ValueError:
            return b"W"
        said = reply[NONCE:] if reply.startswith(token) else b""
        # The child may not send the keeper's own letters.
        return said if said and said[:1] not in b"EW" else b"W"


def _timed(job: dict[str, Any], text: bytes, until: float | None) -> bytes:
    """Return the answer of a new child to the last of the calls, with `TIMES` behind the letter."""
    *before, last = text.split(b"\n")
    child = _Child(job)
    began, earlier = time.monotonic(), 0.0
    said = child.answer(b"", until)
    if said != b"V" and said[:1] not in b"LUEW":
        said = b"W"  # What loads carries no value.
    for call in before:
        said = child.answer(call, until) if said[:1] == b"V" else said
    if said[:1] == b"V":
        if before:
            began, earlier = time.monotonic(), _processor_time(child.pid)
        said = child.answer(last, until)
    wall = time.monotonic() - began
    if said.startswith(b"E"):
        return said
    os.kill(child.pid, signal.SIGKILL)
    _, _, used = os.wait4(child.pid, 0)
    os.close(child.hear)
    os.close(child.say)
    if job["isolated"] and os.listdir("/tmp"):
        return b"W"
    seconds = max(0.0, used.ru_utime + used.ru_stime - earlier)
    return said[:1] + b"%012d%012d%012d" % (round(1e6 * seconds), round(1e6 * wall), used.ru_maxrss) + said[1:]


def _processor_time(pid: int) -> float:
    """Return the processor time that a process has used, in seconds (Linux)."""
    return time.clock_gettime((~pid << 3) | 2)  # CPUCLOCK_SCHED of include/linux/posix-timers_types.h.


def _how_it_ended(pid: int, seconds: int) -> str:
    """Describe how the child ended, or return "cpu"; a child that only closed its pipes is killed."""
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
    """Set limits and run the code, in the child; never returns."""
    end_with_parent()
    drop_streams()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for limit, value in (
        (resource.RLIMIT_AS, job["memory"]),
        # Outside a sandbox, the limit would count all processes of this user.
        *([(resource.RLIMIT_NPROC, 1 if job["role"] == "timed" else PROCESSES)] if job["isolated"] else []),
        (resource.RLIMIT_NOFILE, OPEN_FILES),
        (resource.RLIMIT_FSIZE, FILE_BYTES),
        (resource.RLIMIT_CORE, 0),
        # Linux alone has limits on priority; some machines allow their users to raise it.
        *((getattr(resource, name), 0) for name in ("RLIMIT_NICE", "RLIMIT_RTPRIO") if hasattr(resource, name)),
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
        (be_tests if job["role"] == "tests" else be_candidate)(job, hear, say)
    finally:
        os._exit(0)


def _module(name: str) -> dict[str, Any]:
    """Return the namespace of a new module with this name."""
    module = types.ModuleType(name)
    sys.modules[name] = module
    module.__dict__["__builtins__"] = builtins
    return module.__dict__


def _execute(source: Any, namespace: dict[str, Any]) -> None:
    """Run Python, as text or as a syntax tree, in a module."""
    exec(compile(source, f"{namespace['__name__']}.py", "exec"), namespace)


def be_candidate(job: dict[str, Any], hear: Callable[[], str], say: Callable[..., None]) -> None:
    """Load the candidate, then call it with the received arguments."""
    hear()
    namespace = _module("candidate")
    try:
        _execute(job["preamble"], namespace)
        helpers = dict(namespace)
        _execute(job["source"], namespace)
        function = namespace.get(job["entry_point"])
    except BaseException as error:
        say("L", _said(error))
        return
    if not callable(function):
        say("U")
        return
    say("V")
    while True:
        heard = hear()
        arguments = from_text(heard)
        positional, named = arguments if type(arguments) is tuple else (arguments, {})
        try:
            value = function(*positional, **named)
        except BaseException as error:
            say("R", _taken_apart(error, helpers))
            continue
        try:
            text = to_text(value)
        except BaseException as error:
            say("N", _said(error))
            continue
        try:
            changed = job["unchanged"] and to_text(arguments) != heard
        except BaseException:
            changed = True
        if changed:
            say("A")
        else:
            say("V", text)


class _Broken(BaseException):
    """The tests cannot run here; not an Exception, so tests do not catch it."""


class _Spoiled(BaseException):
    """The received value is invalid; tests do not catch this either."""


def be_tests(job: dict[str, Any], hear: Callable[[], str], say: Callable[..., None]) -> None:
    """Run tests on a candidate that lives in another sandbox."""
    import ast  # Imported here because only one of the two processes needs it.

    hear()
    namespace = _module("tests")
    helpers: dict[str, Any] = {}
    raised = _Raised()

    def candidate(*positional: Any, **named: Any) -> Any:
        raised.calls += 1
        try:
            text = to_text((list(positional), named) if named else list(positional))
        except NotPlain as error:
            # Values derived from the candidate's own may be too deep to be sent.
            kind = _Broken if raised.calls == 1 else _Spoiled
            raise raised.into_tests(kind(f"a call with what cannot be sent: {error}")) from None
        say("C", text)
        said = hear()
        try:
            if not said.startswith(RAISED):
                return from_text(said)
            found = _put_together(said.removeprefix(RAISED), helpers)
        except Exception:
            found = _Spoiled("what came is no value")
        raise raised.into_tests(found)

    try:
        namespace |= {"__caught__": raised.caught, "__watched__": raised.watched, "__expects__": raised.expects}
        _execute(_marked(ast.parse(job["preamble"])), namespace)
        helpers = dict(namespace)
        namespace |= {"candidate": candidate, job["entry_point"]: candidate}
        _execute(_marked(ast.parse(job["source"])), namespace)
        check = namespace.get("check")
        if check is not candidate and callable(check):
            check(candidate)
    except BaseException as error:
        ended: BaseException | None = error
    else:
        ended = None
    broken = next((each for each in (ended, *raised.open) if isinstance(each, _Broken)), None)
    if broken:
        say("B", _said(broken))
    elif ended is not None:
        # Before any call, the candidate cannot be at fault.
        say("X" if raised.calls or isinstance(ended, AssertionError) else "B", _said(ended))
    elif raised.open:
        say("X", f"the tests did not expect {_said(raised.open[0])}")
    else:
        say("P" if raised.calls else "B", f"{raised.calls}" if raised.calls else "the tests never call it")


class _Raised:
    """Exceptions raised into the tests, and which of them the tests have caught."""

    def __init__(self) -> None:
        self.calls = 0
        self.open: list[BaseException] = []
        """Exceptions not caught yet."""

    def into_tests(self, error: BaseException) -> BaseException:
        self.open.append(error)
        return error

    def caught(self, error: BaseException | None = None) -> None:
        """Record that an `except` clause of the tests caught this exception, or the one being handled."""
        error = sys.exc_info()[1] if error is None else error
        # `except*` wraps what it catches.
        for inner in error.exceptions if isinstance(error, BaseExceptionGroup) else ():
            self.caught(inner)
        self.open = [each for each in self.open if each is not error or isinstance(each, (_Broken, _Spoiled))]

    def watched(self, manager: Any) -> _Watched:
        """Wrap the context manager of a `with` statement in the tests."""
        return _Watched(manager, self.caught)

    def expects(self, method: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Do what unittest's `assertRaises(error, function, ...)` does, as the equivalent `with` statement."""
        count = 2 if method.__name__.endswith("Regex") else 1
        if len(arguments) <= count or method.__module__ != "unittest.case":
            return method(*arguments, **named)
        with self.watched(method(*arguments[:count])):
            arguments[count](*arguments[count + 1 :], **named)


class _Watched:
    """Wraps a context manager of the tests: an exception that it swallows counts as caught."""

    def __init__(self, manager: Any, caught: Callable[[BaseException | None], None]) -> None:
        self._manager = manager
        self._caught = caught

    def _swallowed(self, swallowed: Any, error: BaseException | None) -> bool:
        if swallowed and error is not None:
            self._caught(error)
        return bool(swallowed)

    def __enter__(self) -> Any:
        return type(self._manager).__enter__(self._manager)

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> bool:
        return self._swallowed(type(self._manager).__exit__(self._manager, kind, error, trace), error)

    async def __aenter__(self) -> Any:
        return await type(self._manager).__aenter__(self._manager)

    async def __aexit__(self, kind: Any, error: BaseException | None, trace: Any) -> bool:
        return self._swallowed(await type(self._manager).__aexit__(self._manager, kind, error, trace), error)


def _marked(tree: Any) -> Any:
    """Instrument tests so that each `except` clause and each `with` statement reports what it catches."""
    import ast

    def named(name: str, like: ast.expr | ast.stmt, *arguments: ast.expr) -> ast.Call:
        return ast.copy_location(ast.Call(ast.Name(name, ast.Load()), list(arguments), []), like)

    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler):
            first = node.body[0]
            node.body.insert(0, ast.copy_location(ast.Expr(named("__caught__", first)), first))
        elif isinstance(node, ast.With | ast.AsyncWith):
            for item in node.items:
                item.context_expr = named("__watched__", item.context_expr, item.context_expr)
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in ("assertRaises", "assertRaisesRegex")
        ):
            node.args.insert(0, node.func)
            node.func = ast.copy_location(ast.Name("__expects__", ast.Load()), node.func)
    return ast.fix_missing_locations(tree)


def _known(name: str, helpers: Mapping[str, Any]) -> Any:
    """Return the loaded object of this full name in the standard library, or in the preamble (`candidate`)."""
    module, _, last = name.rpartition(".")
    if module == "candidate":
        return helpers.get(last)
    if module.partition(".")[0] in sys.stdlib_module_names and module in sys.modules:
        return getattr(sys.modules[module], "__dict__", {}).get(last)
    return None


def _taken_apart(error: BaseException, helpers: Mapping[str, Any]) -> str:
    """Serialise an exception of the candidate; a hostile one becomes a plain exception.

    The first name is empty if the exception's class is the candidate's own.
    """
    try:
        kinds = type.__dict__["__mro__"].__get__(type(error))
        names = [f"{kind.__module__}.{kind.__name__}" for kind in kinds]
        known = [name if _known(name, helpers) is kind else "" for name, kind in zip(names, kinds, strict=True)]
        message = _message(error)[:MOST_MESSAGE]
        try:
            plain = len(to_text(error.args)) <= MOST_EXCEPTION // 4
        except NotPlain:
            plain = False
        arguments = error.args if plain else (message,)
        text = to_text([kinds[0].__name__[:100], message, [known[0], *filter(None, known[1:])], arguments])
        if len(text) <= MOST_EXCEPTION:
            return text
    except BaseException:
        pass
    return to_text(["Exception", "", ["", "builtins.Exception"], ()])


def _put_together(text: str, helpers: Mapping[str, Any]) -> BaseException:
    """Rebuild an exception for the tests from the classes known here, and no others."""
    message, names, arguments = from_text(text)
    found = [(name, _known(name, helpers)) for name in names]
    kinds = [kind for _, kind in found if isinstance(kind, type) and issubclass(kind, Exception)]
    if not kinds or any(issubclass(kind, (StopIteration, StopAsyncIteration)) for kind in kinds):
        return _Spoiled("the function raised what is no exception for tests")
    bases = [kind for place, kind in enumerate(kinds) if not any(issubclass(each, kind) for each in kinds[:place])]
    made = bases[0] if found[0][1] is bases[0] else _own_class(bases, message)
    makes: tuple[Callable[[], Any], ...] = (
        lambda: made(*arguments),
        lambda: made.__new__(made, *arguments),  # Its `__init__` takes other arguments than it keeps.
        lambda: made.__new__(made, message, [Exception(message)]),  # A group, without its members.
    )
    for make in makes:
        try:
            error = make()
        except Exception:
            continue
        return error if isinstance(error, Exception) else Exception(message)
    return Exception(message)


def _said(error: BaseException) -> str:
    """Describe an exception in short ASCII text; its own methods may be hostile."""
    name, message = type(error).__name__, _message(error)
    return ascii(f"{name}: {message}" if message else name)[1:-1][:MOST_SAID]


def _own_class(bases: list[Any], message: str) -> Any:
    """Return a class for the candidate's own exceptions, which `except` clauses for any of these bases catch."""
    for some in (bases, bases[:1]):
        try:
            return type("Raised", tuple(some), {"__str__": lambda _self: message})
        except TypeError:  # No class can inherit from all of these.
            continue
    return bases[0]


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException:
        return ""


if __name__ == "__main__":
    keep(int(sys.argv[1]), isolated=sys.argv[2] == "isolated")
