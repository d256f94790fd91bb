"""What a program raises is a failure of that call: tests go on only behind exceptions that they themselves catch."""

from __future__ import annotations

import builtins
import queue
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gce.adapters.sandboxes.inside import be_candidate, be_tests
from gce.adapters.sandboxes.pool import RunnerPool
from gce.adapters.sandboxes.process import Role, Silent
from gce.domain.executions import Execution, Outcome


class InThread:
    """A `SandboxProcess` without the process: the same code inside, and the same runner outside."""

    def begin(self, execution: Execution, role: Role, _deadline: float, **_options: object) -> None:
        job: dict[str, Any] = {"preamble": execution.preamble, "entry_point": execution.entry_point, "unchanged": False}
        job["source"] = execution.source if role == "candidate" else execution.tests
        self._heard, self._said = queue.SimpleQueue[Any](), queue.SimpleQueue[Any]()
        be = be_tests if role == "tests" else be_candidate

        def live() -> None:
            with suppress(EOFError):
                be(job, self._hear, lambda letter, text="": self._said.put((letter, text)))
            self._said.put(None)

        threading.Thread(target=live, daemon=True).start()

    def _hear(self) -> str:
        text: str | None = self._heard.get()
        if text is None:
            raise EOFError
        return text

    def say(self, text: str = "") -> tuple[str, str]:
        self._heard.put(text)
        said: tuple[str, str] | None = self._said.get(timeout=20)
        if said is None:
            raise Silent("ended")
        return said

    def kill(self) -> None:
        if hasattr(self, "_heard"):
            self._heard.put(None)

    close = kill


@pytest.fixture(scope="module")
def runner() -> Iterator[RunnerPool]:
    kept = {name: sys.modules.get(name) for name in ("candidate", "tests")}
    with RunnerPool(InThread, workers=1) as pool:  # type: ignore[arg-type]
        yield pool
    for name, module in kept.items():
        sys.modules.pop(name, None)
        if module is not None:
            sys.modules[name] = module


def outcome(runner: RunnerPool, source: str, tests: str, preamble: str = "") -> Outcome:
    (evidence,) = runner.run([Execution(source, "f", tests=tests, preamble=preamble)])
    (found,) = evidence.outcomes
    return found


ARGUMENTS = {
    "UnicodeDecodeError": "('utf-8', b'x', 0, 1, 'no')",
    "UnicodeEncodeError": "('utf-8', 'x', 0, 1, 'no')",
    "UnicodeTranslateError": "('x', 0, 1, 'no')",
    "ExceptionGroup": "('no', [ValueError()])",
    "BaseExceptionGroup": "('no', [KeyboardInterrupt()])",
}
BUILT_IN = {
    name: f"{name}{ARGUMENTS.get(name, '')}"
    for name, kind in vars(builtins).items()
    if isinstance(kind, type) and issubclass(kind, BaseException)
}
"""Every exception that Python has, and how to make one."""
CASES = "cases = [(0, 1), (1, 2), (2, 5), (3, 10)]\n"
RIGHT = "def f(x): return x * x + 1"
CONSUMING = {
    "all of a map": "assert all(map(lambda c: f(c[0]) == c[1], cases))",
    "all of a generator": "assert all(f(a) == b for a, b in cases)",
    "any of a map": "assert not any(map(lambda c: f(c[0]) != c[1], cases))",
    "a filter": "assert not list(filter(lambda c: f(c[0]) != c[1], cases))",
    "a zip of maps": "for (a, b), got in zip(cases, map(lambda c: f(c[0]), cases)):\n    assert got == b",
    "starmap": "import itertools\nfor good in itertools.starmap(lambda a, b: f(a) == b, cases):\n    assert good",
    "takewhile": "import itertools\nassert len([*itertools.takewhile(lambda c: f(c[0]) == c[1], cases)]) == 4",
    "accumulate": "import itertools\nfor _ in itertools.accumulate(cases, lambda _, c: f(c[0]) == c[1] or 1 / 0): pass",
    "a comprehension": "assert all([f(a) == b for a, b in cases])",
    "a for with else": """
for good in map(lambda c: f(c[0]) == c[1], cases):
    if not good:
        break
else:
    cases = []
assert not cases or good
""",
    "yield from": """
def inner(): yield from map(lambda c: f(c[0]) == c[1], cases)
def outer(): yield from inner()
for good in outer():
    assert good
""",
    "a generator that returns": """
def told():
    for a, b in cases:
        yield f(a) == b
assert False not in told()
""",
    "iter with a sentinel": """
todo = iter(cases)
def step():
    a, b = next(todo, (0, 0))
    return None if b == 0 else f(a) == b
for good in iter(step, None):
    assert good
""",
    "next with a default": "assert next((c for c in cases if f(c[0]) != c[1]), None) is None\n"
    "assert next(map(lambda c: f(c[0]) == c[1], cases), True)",
    "a loop that catches the end of an iterator": """
checks = map(lambda c: f(c[0]) == c[1], cases)
while True:
    try:
        good = next(checks)
    except StopIteration:
        break
    assert good
""",
    "an iterator of its own": """
class Checks:
    def __init__(self): self.left = list(cases)
    def __iter__(self): return self
    def __next__(self):
        if not self.left: raise StopIteration
        a, b = self.left.pop()
        return f(a) == b
for good in Checks():
    assert good
""",
    "indices in turn": """
class Checks:
    def __getitem__(self, i):
        if i == 4: raise IndexError
        return f(cases[i][0]) == cases[i][1]
for good in Checks():
    assert good
assert False not in Checks()
assert all(list(Checks()))
""",
    "hasattr": """
class Check:
    @property
    def wrong(self):
        if all(f(a) == b for a, b in cases): raise AttributeError
assert not hasattr(Check(), 'wrong')
""",
    "getattr with a default": """
class Check:
    @property
    def good(self): return all(f(a) == b for a, b in cases)
    def __getattr__(self, name): return True
assert getattr(Check(), 'good', True)
""",
    "a mapping's get": """
import collections.abc
class Checks(collections.abc.Mapping):
    def __getitem__(self, a): return f(a) == dict(cases)[a]
    def __iter__(self): return iter(dict(cases))
    def __len__(self): return 4
assert all(Checks().get(a, True) for a, _ in cases)
assert all(a in Checks() or True for a, _ in cases)
""",
    "a missing key": """
class Checks(dict):
    def __missing__(self, a): return f(a) == dict(cases)[a]
import collections
chain = collections.ChainMap(Checks())
assert all(chain.get(a, True) and Checks()[a] for a, _ in cases)
""",
    "a length hint": """
class Checks:
    def __init__(self): self.left = list(cases)
    def __iter__(self): return iter([True])
    def __length_hint__(self): return f(cases[3][0]) - 10
assert list(Checks())
f(0)
""",
    "a match of classes": """
class Check:
    @property
    def good(self): return all(f(a) == b for a, b in cases)
match Check():
    case Check(good=False): assert False
    case _: pass
""",
    "a destructor": """
class Check:
    def __del__(self): assert all(f(a) == b for a, b in cases)
check = Check()
del check
""",
    "return in finally": """
def good():
    try:
        assert all([f(a) == b for a, b in cases])
    finally:
        return True
assert good()
""",
    "break in finally": """
for a, b in cases:
    while True:
        try:
            assert f(a) == b
        finally:
            break
""",
    "a thread": """
import threading
def go():
    for a, _ in cases: f(a)
thread = threading.Thread(target=go)
thread.start()
thread.join()
""",
    "a future that nobody asks": """
import concurrent.futures
with concurrent.futures.ThreadPoolExecutor(1) as pool:
    pool.submit(lambda: [f(a) for a, _ in cases])
""",
    "gathered as values": """
import asyncio
async def check(a): return f(a)
async def main(): return await asyncio.gather(*(check(a) for a, _ in cases), return_exceptions=True)
asyncio.run(main())
""",
    "an asynchronous iterator": """
class Checks:
    def __init__(self): self.left = list(cases)
    def __aiter__(self): return self
    async def __anext__(self):
        if not self.left: raise StopAsyncIteration
        a, b = self.left.pop()
        return f(a) == b
async def main():
    async for good in Checks():
        assert good
import asyncio
asyncio.run(main())
""",
    "a coroutine that is sent": """
async def main(): return all([f(a) == b for a, b in cases])
try:
    main().send(None)
except StopIteration as end:
    assert end.value
""",
    "a generator that is closed": """
def steps():
    try: yield
    finally: assert all([f(a) == b for a, b in cases])
step = steps()
next(step)
step.close()
""",
    "a context manager's beginning": """
import contextlib
@contextlib.contextmanager
def good():
    yield all(map(lambda c: f(c[0]) == c[1], cases))
with good() as found:
    assert found
""",
    "another exception suppressed": """
import contextlib
class Other(Exception): pass
with contextlib.suppress(Other):
    assert all(f(a) == b for a, b in cases)
""",
    "another exception expected": """
class Other(Exception): pass
try:
    for a, b in cases: assert f(a) == b
except Other:
    pass
""",
    "a runner of tests that nobody asks": """
import io, unittest
class Test(unittest.TestCase):
    def test(self): self.assertTrue(all([f(a) == b for a, b in cases]))
unittest.TextTestRunner(io.StringIO()).run(unittest.defaultTestLoader.loadTestsFromTestCase(Test))
""",
    "a helper of the preamble": "assert quietly(lambda: all([f(a) == b for a, b in cases]))",
}
"""Tests that go through the cases in every way that might end early, or swallow an exception, unnoticed."""
PREAMBLE = "def quietly(check):\n    try: return check()\n    finally: return True\n"


EVERY = [5, pytest.param(1, marks=pytest.mark.slow, id="all")]
"""Of the built-in exceptions, every so many are tried."""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("every", EVERY)
@pytest.mark.parametrize("way", CONSUMING)
def test_whatever_is_raised_it_does_not_steer_the_tests(runner: RunnerPool, way: str, every: int) -> None:
    """A program that raises never passes, at whichever case it does so; a right one always does."""
    tests = CASES + CONSUMING[way]
    assert outcome(runner, RIGHT, tests, PREAMBLE).status == "passed"
    for number, (name, made) in list(enumerate(BUILT_IN.items()))[len(way) % every :: every]:
        for kind in (made, f"type('Mine', ({name},), {{}}){ARGUMENTS.get(name, '')}"):
            condition = ("True", "x == 3", "x in (0, 3)")[number % 3]
            source = f"def f(x):\n    if {condition}: raise {kind}\n    return x * x + 1"
            found = outcome(runner, source, tests, PREAMBLE)
            assert found.status in ("raised", "failed"), (name, kind, found)


ORDINARY = [name for name in BUILT_IN if issubclass(getattr(builtins, name), Exception) and "Stop" not in name]
EXPECTING = {
    "try": "try: f(-1)\nexcept {name}: pass\nelse: assert False",
    "try, one of some": "try: f(-1)\nexcept (ZeroDivisionError, {name}): pass\nelse: assert False",
    "a flag": "found = False\ntry: f(-1)\nexcept {name} as e: found = isinstance(e, {name})\nassert found",
    "in a map": "def of(x):\n    try: return f(x)\n    except {name}: pass\nassert list(map(of, [-1, 2])) == [None, 5]",
    "suppress": "import contextlib\nwith contextlib.suppress({name}): f(-1); assert False",
    "a stack": "from contextlib import *\nwith ExitStack() as s:\n    s.enter_context(suppress({name}))\n    f(-1)",
    "a manager": "from contextlib import *\n@contextmanager\ndef e(kind):\n    try: yield\n    except kind: return\n"
    "    assert False\nwith e({name}): f(-1)",
    "assertRaises": "import unittest\nwith unittest.TestCase().assertRaises({name}) as found: f(-1)\n"
    "assert isinstance(found.exception, {name})",
    "assertRaises of a function": "import unittest\nunittest.TestCase().assertRaises({name}, f, -1)",
    "assertRaisesRegex": "import unittest\nunittest.TestCase().assertRaisesRegex({name}, '', lambda: f(x=-1))",
    "an asynchronous one": "import asyncio\nasync def main():\n    try: f(-1)\n    except {name}: return 1\n"
    "assert asyncio.run(main()) == 1",
    "chained": "try:\n    try: f(-1)\n    except {name} as e: raise EOFError from e\nexcept EOFError: pass",
    "any": "try: f(-1)\nexcept: pass\nelse: assert False",
    "Exception": "try: f(-1)\nexcept Exception: pass\nelse: assert False",
    "nested": "try:\n    try: f(-1)\n    finally: assert f(2) == 5\nexcept {name}: pass",
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("every", EVERY)
@pytest.mark.parametrize("way", EXPECTING)
def test_tests_may_expect_exceptions_and_those_that_are_such(runner: RunnerPool, way: str, every: int) -> None:
    """By the class, by one of its bases, and by a base of the program's own class: as `except` compares."""
    for name in ORDINARY[len(way) % every :: every]:
        bases = [kind.__name__ for kind in getattr(builtins, name).__mro__[:-2]]
        for kind in (BUILT_IN[name], f"type('Mine', ({name},), {{}}){ARGUMENTS.get(name, '')}"):
            source = f"def f(x):\n    if x < 0: raise {kind}\n    return x * x + 1"
            for base in bases:
                tests = EXPECTING[way].format(name=base) + "\nassert f(1) == 2"
                assert outcome(runner, source, tests).status == "passed", (kind, base)
        if way not in ("any", "Exception") and name != "Exception":
            other = "KeyError" if name not in ("KeyError", "LookupError") else "BufferError"
            source = f"def f(x):\n    if x < 0: raise {other}\n    return x * x + 1"
            assert outcome(runner, source, EXPECTING[way].format(name=name)).status != "passed", name


@pytest.mark.parametrize("name", [name for name in BUILT_IN if name not in ORDINARY])
@pytest.mark.parametrize("clause", ["except:", "except BaseException:", "except {name}:", "except Exception:"])
def test_what_ends_loops_and_programs_is_expected_by_no_tests(runner: RunnerPool, name: str, clause: str) -> None:
    tests = f"try: f(-1)\n{clause.format(name=name)} pass\nelse: assert False"
    found = outcome(runner, f"def f(x): raise {BUILT_IN[name]}", tests)
    assert (found.status, found.text.partition(":")[0]) == ("raised", name)


@pytest.mark.parametrize(
    ("raised", "caught"),
    [
        ("json.loads('{')", "ValueError"),
        ("json.loads('{')", "json.JSONDecodeError"),
        ("b'\\xff'.decode()", "ValueError"),
        ("b'\\xff'.decode()", "UnicodeDecodeError"),
        ("zipfile.ZipFile(io.BytesIO())", "zipfile.BadZipFile"),
        ("decimal.Decimal('x')", "decimal.InvalidOperation"),
        ("decimal.Decimal('x')", "ArithmeticError"),
        ("decimal.Decimal(1) / 0", "ZeroDivisionError"),
        ("open('/no/such')", "FileNotFoundError"),
        ("open('/no/such')", "OSError"),
        ("raise_(OSError(13, 'no'))", "PermissionError"),
        ("raise_(OSError(None))", "OSError"),
        ("raise_(type('Mine', (OSError,), {})(13, 'no'))", "OSError"),
        ("raise_(type('Mine', (KeyError, AttributeError), {})('x'))", "KeyError"),
        ("raise_(type('Mine', (KeyError, AttributeError), {})('x'))", "AttributeError"),
        ("raise_(type('Mine', (queue.Empty, ValueError), {})('x'))", "queue.Empty"),
        ("raise_(type('Mine', (queue.Empty, ValueError), {})('x'))", "ValueError"),
        ("raise_(ExceptionGroup('x', [ValueError(1)]))", "ExceptionGroup"),
        ("raise_(type('Mine', (ExceptionGroup,), {})('x', [ValueError(1)]))", "Exception"),
        ("raise_(type('Mine', (UnicodeDecodeError,), {'__init__': lambda s: None})())", "ValueError"),
        ("raise_(type('Mine', (ValueError,), {'__init__': lambda s, a, b: None})(1, b=2))", "ValueError"),
        ("raise_(Helped('x'))", "Helped"),
        ("raise_(Helped('x'))", "ValueError"),
        ("raise_(type('Mine', (Helped,), {})('x'))", "Helped"),
        ("subprocess.run(['/no/such'])", "FileNotFoundError"),
        ("raise_(type('Ошибка', (ValueError,), {})('нет'))", "ValueError"),
        ("raise_(Meta('Mine', (ValueError,), {})('x'))", "ValueError"),
        ("raise_(type('Mine', (ValueError,), {'__str__': lambda s: 1 / 0, '__module__': 3})('x'))", "ValueError"),
        ("raise_(type('Mine', (ValueError,), {'args': property(lambda s: 1 / 0)})('x'))", "Exception"),
        ("int('x' * 10**5)", "ValueError"),
        ("raise_(ValueError(object()))", "ValueError"),
        ("raise_(ValueError([9] * 10**5))", "ValueError"),
    ],
)
def test_an_exception_is_caught_as_except_catches_it(runner: RunnerPool, raised: str, caught: str) -> None:
    imports = "import decimal, io, json, queue, subprocess, zipfile\n"
    preamble = f"{imports}class Helped(ValueError): pass\n"
    source = f"""
class Meta(type):
    def __getattribute__(self, name):
        if name == '__mro__': return (self, KeyError, Exception)
        return type.__getattribute__(self, name)
def raise_(error): raise error
def f(x): {raised}
"""
    assert outcome(runner, source, f"try: f(1)\nexcept {caught}: pass\nelse: assert False", preamble).status == "passed"
    other = "try: f(1)\nexcept (MemoryError, Other): pass"
    own = "class Other(ValueError, OSError): pass\n"
    assert outcome(runner, source, own + other, preamble).status == "raised"


@pytest.mark.parametrize(
    ("raised", "check"),
    [
        ("ValueError('too small')", "str(e) == 'too small' and e.args == ('too small',)"),
        ("ValueError()", "str(e) == '' and e.args == ()"),
        ("ValueError('a', 2)", "e.args == ('a', 2)"),
        ("KeyError('a')", "str(e) == repr('a') and e.args == ('a',)"),
        ("type('Mine', (ValueError,), {'__str__': lambda s: 'mine'})(3)", "str(e) == 'mine' and e.args == (3,)"),
        ("UnicodeDecodeError('utf-8', b'x', 0, 1, 'no')", "e.reason == 'no' and 'byte 0x78' in str(e)"),
        ("OSError(2, 'no')", "type(e) is FileNotFoundError and e.errno == 2"),
        ("ValueError(object)", "str(e) == repr(object)"),
        ("ValueError('\\ud800é\\n')", "str(e) == '\\ud800é\\n'"),
        ("ValueError('x' * 3000)", "str(e) == 'x' * 300"),
        ("ValueError('x')", "type(e) is ValueError"),
        ("type('Mine', (ValueError,), {})('x')", "type(e) is not ValueError"),
    ],
)
def test_message_and_arguments_cross_as_plain_data(runner: RunnerPool, raised: str, check: str) -> None:
    tests = f"try: f(1)\nexcept Exception as error: e = error\nassert {check}, (type(e), str(e), e.args)"
    found = outcome(runner, f"def f(x): raise {raised}", tests)
    assert found.status == "passed", found


@given(st.lists(st.sampled_from(sorted(BUILT_IN)), min_size=1, max_size=4), st.sampled_from(sorted(BUILT_IN)))
def test_any_class_over_built_in_ones_is_caught_by_these_alone(names: list[str], other: str) -> None:
    """Where Python can make the class at all."""
    kinds = [getattr(builtins, name) for name in names]
    try:
        mine = type("Mine", tuple(kinds), {})
    except TypeError:
        return
    source = f"kind = type('Mine', ({', '.join(names)},), {{}})\ndef f(x): raise kind{ARGUMENTS.get(names[0], '')}"
    kept = {name: sys.modules.get(name) for name in ("candidate", "tests")}
    with RunnerPool(InThread, workers=1) as runner:  # type: ignore[arg-type]
        found = outcome(runner, source, f"try: f(1)\nexcept {other}: pass")
    for name, module in kept.items():
        sys.modules.pop(name, None) if module is None else sys.modules.__setitem__(name, module)
    ends = not issubclass(mine, Exception) or issubclass(mine, StopIteration | StopAsyncIteration | GeneratorExit)
    assert (found.status == "passed") == (issubclass(mine, getattr(builtins, other)) and not ends)
