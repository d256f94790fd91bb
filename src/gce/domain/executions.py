"""A program to run in a sandbox, and its results."""

from __future__ import annotations

from typing import Literal

from attrs import field, frozen, validators

__all__ = ["Evidence", "Execution", "Outcome", "OutcomeStatus"]


OutcomeStatus = Literal[
    "returned",
    "raised",
    "unplain",
    "changed",
    "undefined",
    "unloadable",
    "cpu",
    "time",
    "ended",
    "babbled",
    "passed",
    "failed",
    "broken",
    "no-sandbox",
]


@frozen
class Execution:
    """An untrusted program to run in isolation: its source, the calls or tests to run, and the limits."""

    source: str
    """Untrusted Python source."""
    entry_point: str
    """Name of the function that the source must define."""
    calls: tuple[str, ...] = ()
    """Arguments of each call as text written by `plain_values.to_text`: a list of positional arguments, or a tuple of
    that list and a dictionary of keyword arguments."""
    tests: str = ""
    """Python source to run instead of calls. It calls the entry point, also under the name `candidate`, and raises if a
    result is wrong. If it defines `check`, that function is called with the entry point. The tests run apart from the
    program and see only plain values from it."""
    unchanged: bool = False
    """Whether a call may not change its arguments."""
    rivals: tuple[str, ...] = ()
    """Trusted programs that define the entry point, too. Each runs apart from the others, on the same calls."""
    timed: tuple[str, ...] = ()
    """Arguments of further calls, whose processor time is measured. Source and rivals each make the call in a new
    process, which loads the program first; the order of the programs is random. These calls are made only if every call
    of `calls` returned, for the source and for all rivals, and returned the same."""
    preamble: str = ""
    """Python source that runs before the program and before the tests, in the module of each."""
    seconds: int = field(default=2, validator=validators.ge(1))
    """Limit on the processor time of one process, in seconds. On a busy machine it may take ten times as long in
    wall-clock time."""
    memory: int = field(default=512 * 2**20, validator=validators.ge(2**26))
    """Limit on the address space of one process, in bytes."""


@frozen
class Outcome:
    """The result of one call, or of the tests."""

    status: OutcomeStatus
    """returned: `text` is the returned value. raised: `text` is the exception. unplain: the returned value is not plain
    data. changed: the function changed its arguments. undefined: the entry point does not exist. unloadable: the source
    is not valid Python, or raised while loading. cpu, time: a time limit was reached. ended: the program's process
    exited. babbled: that process broke the protocol. passed, failed: result of the tests. broken: the tests themselves
    are faulty. no-sandbox: nothing was run.
    """
    text: str = ""
    seconds: float | None = None
    """For a timed call: user and system time of its process and all that the process waited for, from the fork until
    the result was sent, so that loading counts; seen from outside the process. The program's own calls also count what
    they waited longer than any call of its rivals. None for any other call."""


@frozen
class Evidence:
    """The results of an `Execution`."""

    outcomes: tuple[Outcome, ...]
    """One result for each call, in order, up to the first call that ended the program; or one result for the tests.
    Results of timed calls follow those of all other calls."""
    rivals: tuple[tuple[Outcome, ...], ...] = ()
    """The same for each rival; empty if a call ended the program before they ran."""
