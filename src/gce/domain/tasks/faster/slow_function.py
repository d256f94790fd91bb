"""A slow function to make faster, with what judges the answer."""

from __future__ import annotations

from attrs import field, frozen, validators

__all__ = ["SlowFunction"]

_is_name = validators.matches_re(r"[A-Za-z_][A-Za-z_0-9]{0,99}")


@frozen
class SlowFunction:
    """A function of one list of whole numbers, in a slow and in a fast form that return the same."""

    slow: str
    """Source of the slow form, which the model is shown."""
    fast: str
    """Source of the known fast form; a reward of 1 is for programs as fast as this one."""
    entry_point: str = field(validator=_is_name)
    size: int = field(validator=validators.in_(range(1, 40_001)))
    """Length of the lists that time is measured on."""
    seed: int
    """Hidden from the model: names the hidden inputs."""
    behaviour: str
    """Equal for two functions that differ in names only: 32 hexadecimal digits."""
    flaws: tuple[str, ...] = ()
    """Kind of each inefficiency, in the order of the code."""
    partly: tuple[str, ...] = ()
    """For a function with several inefficiencies: the function with one of them mended, for each."""
