"""Whether a performance task can tell an agent that did nothing from one that did the human's work."""

from __future__ import annotations

from attrs import frozen

from gce.domain.performance.decision import CLOSE, FAILED, GAIN, LEAST_HUMAN, Comparison, ratio_words

__all__ = ["Admission", "admission"]


@frozen
class Admission:
    """What was measured of a task, and why it is refused, if it is."""

    human: Comparison
    """The human's form compared with the base; a gain of at least `LEAST_HUMAN` was asked for."""
    same: Comparison
    """The base compared with a copy of itself: the empty patch."""
    reasons: tuple[str, ...]
    """One sentence each; empty if the task is admitted."""


def admission(human: Comparison, same: Comparison) -> Admission:
    """Apply the rule of admission.

    The human's form must be equal on inputs not seen before and pass the tests, the lower limit of its gain must be at
    least `LEAST_HUMAN`, the interval of the base over itself must lie within [`CLOSE`, `GAIN`], and the empty patch
    must get the verdict "no gain".
    """
    reasons = []
    if human.failed:
        reasons.append(f"the human's form was not measured: {human.fault}")
    elif human.verdict == "incorrect":
        reasons.append(f"the human's form is not equal to the base: {human.fault}")
    elif human.gain is None or human.gain.low < LEAST_HUMAN:
        reasons.append(f"the human's gain is {ratio_words(human)}: its lower limit must be at least {LEAST_HUMAN}")
    if same.failed:
        reasons.append(f"the base was not measured: {same.fault}")
    elif same.verdict == "incorrect":
        reasons.append(f"the base is not equal to itself: {same.fault}")
    elif same.gain is None or not (same.gain.low >= CLOSE and same.gain.high <= GAIN):
        reasons.append(
            f"identical code has the ratio {ratio_words(same)}: the interval must lie within [{CLOSE}, {GAIN}]"
        )
    if same.verdict not in ("incorrect", "no gain", FAILED):
        reasons.append(f"an empty patch gets the verdict {same.verdict!r}: it must be 'no gain'")
    return Admission(human, same, tuple(reasons))
