"""A hostile program, and the three kinds that there are."""

from __future__ import annotations

from attrs import frozen

__all__ = ["Attack", "claim", "reach", "take"]


@frozen
class Attack:
    """One program."""

    name: str
    source: str
    """`{scratch}`, `{port}` and `{pid}` stand for a directory of this machine with a secret, a port on which it
    listens, and a process of it."""
    only_isolated: bool = False
    """Whether it takes a sandbox to withstand it: limits, and judging outside, do not."""


def claim(name: str, source: str, *, only_isolated: bool = False) -> Attack:
    """A program that claims to be right."""
    return Attack(f"claim: {name}", source, only_isolated)


def take(name: str, source: str, *, only_isolated: bool = False) -> Attack:
    """A program that takes more than it may."""
    return Attack(f"take: {name}", source, only_isolated)


def reach(name: str, body: str) -> Attack:
    """A program that reaches for what is not its own: `body` is what `f` does.

    What it raises is no escape, and what it gets through to is.
    """
    lines = "\n".join(f"    {line}" for line in body.strip().splitlines())
    return Attack(f"reach: {name}", f'def f(x):\n{lines}\n    return "ESCAPED"\n', only_isolated=True)
