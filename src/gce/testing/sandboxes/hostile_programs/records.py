"""Records for hostile programs, of which there are three kinds: claim, take and reach."""

from __future__ import annotations

from attrs import frozen

__all__ = ["Attack", "claim", "reach", "take"]


@frozen
class Attack:
    """One hostile program."""

    name: str
    source: str
    """Source code. `{scratch}`, `{port}` and `{pid}` stand for a directory of the machine that holds a secret, a port
    on which the machine listens, and one of its processes."""
    only_isolated: bool = False
    """True if only a sandbox withstands the program; limits and outside judging alone do not."""


def claim(name: str, source: str, *, only_isolated: bool = False) -> Attack:
    """Return a program that claims to be right."""
    return Attack(f"claim: {name}", source, only_isolated)


def take(name: str, source: str, *, only_isolated: bool = False) -> Attack:
    """Return a program that takes more resources than it may."""
    return Attack(f"take: {name}", source, only_isolated)


def reach(name: str, body: str) -> Attack:
    """Return a program that reaches beyond its sandbox: `body` is the body of `f`.

    If the body raises, the program did not escape; if it completes, it did.
    """
    lines = "\n".join(f"    {line}" for line in body.strip().splitlines())
    return Attack(f"reach: {name}", f'def f(x):\n{lines}\n    return "ESCAPED"\n', only_isolated=True)
