"""What learners get: token sequences, and which of their tokens are trained. Knows neither traces nor models."""

from __future__ import annotations

from attrs import frozen

__all__ = ["Example"]


@frozen
class Example:
    """One sequence to learn from."""

    tokens: tuple[int, ...]
    start: int
    """Place of the first trained token, at least 1; all from there on are trained."""
    weight: float
