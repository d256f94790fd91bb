"""Mutual predictability and peer prediction: does knowing some answers help to predict others? Needs no truth.

Both work on log-probabilities, in nats and summed over an answer's tokens, that a strategy has asked a model for.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np
import numpy.typing as npt

from gce.domain.metrics.beliefs.clustering import Clustered, Floats, Numbers, aligned, mean

__all__ = ["CONTEXT", "Variant", "Who", "context_questions", "mutual_predictability", "peer_prediction", "policy_pairs"]

CONTEXT = 3
"""Other questions whose answers the predictor is shown."""

Variant = Literal["uplift", "conditional"]
Who = Literal["evaluated", "another", "any"]


def mutual_predictability(
    conditional: Numbers,
    unconditional: Numbers,
    *,
    problem: Numbers,
    repeats: Numbers | None = None,
    variant: Variant = "uplift",
) -> Clustered | None:
    """Return the mean of log p(a | q, C) - log p(a | q) in nats; above 0, other answers help to predict this one.

    a is the predicted policy's answer to the target question q, C are k = 3 other questions with its answers, and p is
    the predictor's. The variant "conditional" takes log p(a | q, C) alone. Rows in which `repeats` is true are left
    out: predictor and predicted are the same policy and gave the same answer. A judge's grade of consistency in
    [0, 1] needs no function of its own: its mean is `gce.domain.metrics.beliefs.clustering.mean`.

    Traps: it rewards consistency, not truth: an agent with one systematic error is as predictable as a Bayesian, and
    one that always gives the same answer has uplift 0 because it is predictable without context; "conditional" rewards
    just such an answer; answers of different length are on different scales.

    Source: Wen et al. (2025), Unsupervised Elicitation (ICM), arXiv 2506.10139, for the quantity.

    Raises:
        ValueError: a log-probability above 0, or an unknown variant.
    """
    known, blind = _log_probabilities(conditional), _log_probabilities(unconditional)
    if variant not in ("uplift", "conditional"):
        raise ValueError(f"expected the variant uplift or conditional, got {variant!r}")
    values = known - blind if variant == "uplift" else known
    if repeats is not None:
        values = np.where(np.asarray(repeats, bool), np.nan, values)
    return mean(values, problem=problem)


def policy_pairs(
    evaluated: str, others: Iterable[str], *, predictor: Who = "evaluated", predicted: Who = "evaluated"
) -> tuple[tuple[str, str], ...]:
    """Return the pairs (predictor, predicted) of policies; each axis is the evaluated policy, another one, or any."""
    more = tuple(each for each in dict.fromkeys(others) if each != evaluated)
    who = {"evaluated": (evaluated,), "another": more, "any": (evaluated, *more)}
    return tuple((one, other) for one in who[predictor] for other in who[predicted])


def context_questions(
    count: int, generator: np.random.Generator, *, k: int = CONTEXT, trials: int = 1
) -> npt.NDArray[np.intp]:
    """Return k other questions for each of `count` target questions and each trial, (count, trials, k), distinct.

    Raises:
        ValueError: fewer than k other questions.
    """
    if not 1 <= k <= count - 1:
        raise ValueError(f"expected k from 1 to the {count - 1} other questions, got {k!r}")
    # Ranks of random keys: a draw without replacement from the other questions, then past the target itself.
    drawn = generator.random((count, trials, count - 1)).argpartition(k - 1, axis=-1)[..., :k]
    return np.asarray(drawn + (drawn >= np.arange(count)[:, None, None]))


def peer_prediction(conditional: Numbers, unconditional: Numbers) -> tuple[Clustered, ...]:
    """Return each policy's peer prediction score in nats; higher is more informative about the others' answers.

    `conditional` is (questions, judges, sources, targets): log p_j(A_t | A_s), judge j's log-probability of the
    target's answer given the source's. `unconditional` is (questions, judges, targets): log p_j(A_t). A source's score
    is the mean over questions of the sum over judges and targets t != s of their difference. Several samples of an
    answer should differ: the first is the source's text, the second the target.

    Traps: truth-telling is an equilibrium only among peers who mostly tell the truth: a majority that shares an error,
    or colludes, is rewarded; a judge who is too weak to use the source's text gives 0 to all; scores grow with the
    number of peers and judges.

    Source: Qiu et al. (2026), arXiv 2601.20299; Miller, Resnick and Zeckhauser (2005), Management Science 51.

    Raises:
        ValueError: shapes that do not match, no question, or a log-probability above 0.
    """
    given, blind = _log_probabilities(conditional), _log_probabilities(unconditional)
    if given.ndim != 4 or given.shape[2] != given.shape[3] or blind.shape != (*given.shape[:2], given.shape[3]):
        raise ValueError(
            "expected shapes (questions, judges, policies, policies) and (questions, judges, policies), "
            f"got {given.shape} and {blind.shape}"
        )
    lifted = given - blind[:, :, None, :]
    others = 1.0 - np.eye(given.shape[2])
    found = np.where(others > 0, lifted, 0.0).sum(axis=(1, 3))
    scores = [mean(column, problem=np.arange(len(column))) for column in found.T]
    if not all(scores):
        raise ValueError("expected at least one question with all its log-probabilities, got none")
    return tuple(each for each in scores if each is not None)


def _log_probabilities(values: Numbers) -> Floats:
    array = np.asarray(values, float)
    aligned(array.ravel(), problem=np.zeros(array.size, int))
    above = array[array > 1e-9]
    if above.size:
        raise ValueError(f"expected log-probabilities of at most 0, got {float(above[0])!r}")
    return array
