"""What is asked for in this task: a function, in words, and what judges it."""

from __future__ import annotations

from typing import Literal

from attrs import field, frozen, validators

__all__ = ["Exercise", "Kind"]

Kind = Literal["list", "int", "str"]
"""What the values of generated functions are: a list of whole numbers, a whole number, or text."""


@frozen
class Exercise:
    """A function to be written. The hidden calls, or the hidden tests, judge it; the model sees neither."""

    statement: str
    """What the function has to do; for functions from a file, their prompt."""
    entry_point: str = field(validator=validators.matches_re(r"[A-Za-z_][A-Za-z_0-9]{0,99}"))
    """The function's name."""
    solution: str = ""
    """A program that is right; never shown, except in examples before another problem. Empty where none is known."""
    parameter: str = "x"
    """What the statement calls the argument of a generated function."""
    steps: tuple[str, ...] = ()
    """The generated function in code, a step an entry: each makes a new `v` of the last."""
    kinds: tuple[Kind, ...] = ()
    """Of the value before the first step, and after each."""
    behaviour: str = ""
    """Names what a generated function does: equal for two that give the same on all probes."""
    examples: tuple[tuple[str, str], ...] = ()
    """Shown: an argument and the value for it, as Python writes them."""
    calls: tuple[str, ...] = ()
    """Hidden: the arguments of each call, a list, as `plain_values.to_text` writes it."""
    expected: tuple[str, ...] = field(default=())
    """What each call returns, as text of the same kind."""
    tests: str = ""
    """Hidden, in place of calls: Python that raises where the function is wrong."""
    preamble: str = ""
    """What stands before the function, as imports and helpers that the prompt shows: part of every answer."""
    seconds: int = field(default=2, validator=validators.and_(validators.ge(1), validators.le(60)))
    """Of processor time that all calls may take together, in one process."""

    @expected.validator
    def _one_for_each(self, _attribute: object, value: tuple[str, ...]) -> None:
        if len(value) != len(self.calls):
            raise ValueError(f"expected a value for each of {len(self.calls)} calls, got {len(value)}")
        if bool(self.calls) == bool(self.tests):
            raise ValueError("expected hidden calls or hidden tests, and not both")
