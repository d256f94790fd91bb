"""An exercise: a function to write, stated in words, and the calls or tests that judge it."""

from __future__ import annotations

from typing import Literal

from attrs import field, frozen, validators

__all__ = ["Exercise", "Kind"]

Kind = Literal["list", "int", "str"]
"""Type of the values of generated functions: a list of integers, an integer, or text."""


@frozen
class Exercise:
    """A function to write. Hidden calls or hidden tests judge it; the model sees neither."""

    statement: str
    """What the function must do; for a function from a file, its prompt."""
    entry_point: str = field(validator=validators.matches_re(r"[A-Za-z_][A-Za-z_0-9]{0,99}"))
    """The function's name."""
    solution: str = ""
    """A right program, shown only in few-shot examples before another problem. Empty if none is known."""
    parameter: str = "x"
    """The name of a generated function's argument in the statement."""
    steps: tuple[str, ...] = ()
    """The generated function's code, one entry per step; each step computes a new `v` from the last."""
    kinds: tuple[Kind, ...] = ()
    """Type of the value before the first step, and after each step."""
    behaviour: str = ""
    """Behaviour of a generated function: equal for two functions that agree on all probes."""
    examples: tuple[tuple[str, str], ...] = ()
    """Shown to the model: arguments with the values for them, as Python source."""
    calls: tuple[str, ...] = ()
    """Hidden from the model: the arguments of each call, a list, as text written by `plain_values.to_text`."""
    expected: tuple[str, ...] = field(default=())
    """The return value of each call, as text of the same kind."""
    tests: str = ""
    """Hidden from the model, instead of calls: Python source that raises if the function is wrong."""
    preamble: str = ""
    """Code before the function, such as the imports and helpers that the prompt shows: part of every answer."""
    seconds: int = field(default=2, validator=validators.and_(validators.ge(1), validators.le(60)))
    """Processor time for all calls together in one process, in seconds."""

    @expected.validator
    def _one_for_each(self, _attribute: object, value: tuple[str, ...]) -> None:
        if len(value) != len(self.calls):
            raise ValueError(f"expected a value for each of {len(self.calls)} calls, got {len(value)}")
        if bool(self.calls) == bool(self.tests):
            raise ValueError("expected hidden calls or hidden tests, and not both")
