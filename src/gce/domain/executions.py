"""A program to be run in a sandbox, and what came of it."""

from __future__ import annotations

from typing import Literal

from attrs import field, frozen, validators

__all__ = ["Evidence", "Execution", "Outcome", "OutcomeStatus"]


OutcomeStatus = Literal[
    "returned",
    "raised",
    "unplain",
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
    """A program that is to be run apart from all else: what to call, or the tests that call it, and its limits."""

    source: str
    """Python, not trusted."""
    entry_point: str
    """The function that it has to define."""
    calls: tuple[str, ...] = ()
    """The arguments of each call as `plain_values.to_text` writes them: a list, or a tuple of it and of a dictionary of
    those that are passed by name."""
    tests: str = ""
    """In place of calls: Python that calls the entry point, also by the name `candidate`, and raises where it is wrong;
    where it defines `check`, that is called with it. Runs apart from the program, and sees plain values of it only."""
    preamble: str = ""
    """Python that is run before the program, and before the tests, in their modules."""
    seconds: int = field(default=2, validator=validators.ge(1))
    """Of processor time of one process. Of wall-clock time it may take ten times as long, on a busy machine."""
    memory: int = field(default=512 * 2**20, validator=validators.ge(2**26))
    """Bytes of address space of one process."""


@frozen
class Outcome:
    """What came of one call, or of the tests."""

    status: OutcomeStatus
    """returned: `text` is its value. raised: it is the exception. unplain: what was returned is no plain data.
    undefined: there is no such function. unloadable: the program is no Python, or raised as it was loaded. cpu, time: a
    limit was reached. ended: the process of the program came to an end. babbled: that process did not speak as it has
    to. passed, failed: so did the tests. broken: the tests themselves are at fault. no-sandbox: nothing was run."""
    text: str = ""


@frozen
class Evidence:
    """What came of an `Execution`."""

    outcomes: tuple[Outcome, ...]
    """One for each call, in order, up to the first that was the program's end; or one of the tests."""
