"""A critic: predicts an evaluator's score of an answer from how the model wrote it, before the evaluator is asked.

Predictions are out of fold: problems are dealt to folds, and no answer is predicted from answers to its own problem.
Beside a critic always stand two that know less: the length alone, and the problem's tier alone.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from gce.domain.answers import Answer
from gce.domain.completions import Completion
from gce.domain.problems import Problem
from gce.domain.randomness import generator

__all__ = [
    "FEATURES",
    "LEAST",
    "LENGTH",
    "TIER",
    "Quality",
    "auroc",
    "beginning",
    "calibration_error",
    "features_of",
    "first_half",
    "fit_critic",
    "folds_of",
    "length_of",
    "likelihood",
    "out_of_fold",
    "predicted_rewards",
    "quality",
]

Floats = NDArray[np.float64]

FOLDS = 5
PENALTY = 1.0
"""Of the regressions, for features of unit variance, in answers."""
STEPS = 30
"""Newton steps of a logistic regression, at most."""
BINS = 10
LAST = 5
"""Tokens that the end of an answer is judged by."""
LEAST = 10
"""Answers above the mean score, and answers not above it, that a critic needs at least."""


def _log_probabilities(completion: Completion) -> Floats:
    return np.asarray(_given(completion) or (0.0,), float)


def _given(completion: Completion) -> tuple[float, ...] | None:
    return completion.log_probabilities or completion.sampling_log_probabilities


def _repeated_pairs(completion: Completion) -> float:
    """The share of neighbouring pairs of tokens that occurred before."""
    tokens: Sequence[Hashable] = completion.token_ids or completion.text.split()
    pairs = Counter(itertools.pairwise(tokens))
    return 1.0 - len(pairs) / pairs.total() if pairs else 0.0


def _distinct(completion: Completion) -> float:
    tokens: Sequence[Hashable] = completion.token_ids or completion.text.split()
    return len({*tokens}) / len(tokens) if tokens else 1.0


LENGTH = "tokens, log2"
TIER = "tier"
FEATURES: Mapping[str, Callable[[Completion], float]] = {
    LENGTH: lambda completion: math.log2(1 + length_of(completion)),
    "log-probability, mean": lambda completion: float(_log_probabilities(completion).mean()),
    "log-probability, deviation": lambda completion: float(_log_probabilities(completion).std()),
    "log-probability, least": lambda completion: float(_log_probabilities(completion).min()),
    "log-probability, last five": lambda completion: float(_log_probabilities(completion)[-LAST:].mean()),
    "tokens below one half": lambda completion: float((_log_probabilities(completion) < math.log(0.5)).mean()),
    "repeated pairs": _repeated_pairs,
    "distinct tokens": _distinct,
    "truncated": lambda completion: float(completion.finish_reason == "length"),
}
"""By name. Log-probabilities are those of the tokens that were written, in nats; an entry is one line."""


def likelihood(completion: Completion) -> float | None:
    """Return the geometric mean of the probabilities of its tokens: a critic that needs no fit; None without them."""
    found = _given(completion)
    mean = float(np.mean(found)) if found else math.nan
    return None if math.isnan(mean) else math.exp(min(mean, 0.0))


def length_of(completion: Completion) -> int:
    """Return its tokens, or its words where the backend does not count tokens."""
    return completion.tokens or len(completion.text.split())


def beginning(completion: Completion, tokens: int) -> Completion:
    """Return its first tokens, as if the rest were not yet written."""
    words, share = completion.text.split(), tokens / max(length_of(completion), 1)
    return Completion(
        completion.key,
        " ".join(words[: int(len(words) * share)]),
        "stop",
        completion.policy,
        token_ids=(completion.token_ids or ())[:tokens] or None,
        log_probabilities=(_given(completion) or ())[:tokens] or None,
        tokens=tokens or None,
    )


def first_half(completion: Completion) -> Completion:
    """Return the first half of its tokens, whose number tells the length of the whole."""
    return beginning(completion, length_of(completion) // 2)


def features_of(completions: Sequence[Completion]) -> Floats:
    """Return (answers, features), in the order of `FEATURES`."""
    return np.array([[feature(each) for feature in FEATURES.values()] for each in completions], float)


def out_of_fold(
    x: Floats, scores: Floats, tiers: Sequence[str], problems: Sequence[Hashable], *, seed: int = 0
) -> Floats:
    """Predict each answer's score from answers to other problems, in [0, 1].

    The tier's mean, and the features within tiers: a logistic regression where scores are 0 and 1, a ridge regression
    otherwise. Without features (no columns) that is the tier's mean alone.

    Args:
        x: (answers, features).
        scores: in [0, 1].
        tiers: the tier of each answer.
        problems: the problem of each answer.
        seed: deals problems to folds.

    Raises:
        ValueError: fewer problems than folds, or columns of different lengths.
    """
    if not len(x) == len(scores) == len(tiers) == len(problems):
        raise ValueError("expected features, a score, a tier and a problem for each answer")
    folds = folds_of(problems, seed)
    columns = np.hstack([x, _one_hot(tiers, list(dict.fromkeys(tiers)))])
    binary = _is_binary(scores)
    found = np.empty(len(scores))
    for fold in range(FOLDS):
        out = folds == fold
        found[out] = _fitted(columns[~out], scores[~out], binary=binary)(columns[out])
    return found


def predicted_rewards(answers: Sequence[Answer], rewards: Sequence[float], *, seed: int) -> list[float]:
    """Return each answer's reward as predicted out of fold; their mean where there are too few problems for folds."""
    problems = [answer.problem.key for answer in answers]
    if len({*problems}) < FOLDS:
        return [sum(rewards) / len(rewards)] * len(rewards)
    x, tiers = features_of([answer.completion for answer in answers]), [answer.problem.tier for answer in answers]
    found: list[float] = out_of_fold(x, np.asarray(rewards, float), tiers, problems, seed=seed).tolist()
    return found


def folds_of(problems: Sequence[Hashable], seed: int) -> NDArray[np.intp]:
    """Return the fold of each answer, of `FOLDS`; answers to one problem are in one fold.

    Raises:
        ValueError: fewer problems than folds.
    """
    names = list(dict.fromkeys(problems))
    if len(names) < FOLDS:
        raise ValueError(f"expected answers to at least {FOLDS} problems, got {len(names)}")
    dealt = dict(zip(names, generator(seed, "critic").permutation(len(names)) % FOLDS, strict=True))
    return np.array([dealt[problem] for problem in problems])


def fit_critic(
    completions: Sequence[Completion], scores: Sequence[float], tiers: Sequence[str]
) -> Callable[[Problem, Completion], float]:
    """Return a critic that is fitted to all these answers, to predict answers to other problems, as `out_of_fold`.

    Raises:
        ValueError: no answers, or columns of different lengths.
    """
    if not completions or not len(completions) == len(scores) == len(tiers):
        raise ValueError("expected answers, and a score and a tier for each")
    names, y = list(dict.fromkeys(tiers)), np.asarray(scores, float)
    columns = np.hstack([features_of(completions), _one_hot(tiers, names)])
    fit = _fitted(columns, y, binary=_is_binary(y))

    def predict(problem: Problem, completion: Completion) -> float:
        return float(fit(np.hstack([features_of([completion]), _one_hot([problem.tier], names)]))[0])

    return predict


def _is_binary(scores: Floats) -> bool:
    return bool(np.isin(scores, (0.0, 1.0)).all())


def _fitted(columns: Floats, scores: Floats, *, binary: bool) -> Callable[[Floats], Floats]:
    """A regression on columns of unit variance; its predictions are in [0, 1]."""
    mean, deviation = columns.mean(axis=0), columns.std(axis=0)
    deviation = np.where(deviation > 1e-9, deviation, 1.0)
    predict = (_logistic if binary else _ridge)((columns - mean) / deviation, scores)
    return lambda asked: np.clip(predict((asked - mean) / deviation), 0.0, 1.0)


def _one_hot(tiers: Sequence[str], names: Sequence[str]) -> Floats:
    return np.array([[float(tier == name) for name in names] for tier in tiers], float)


def _ridge(x: Floats, y: Floats) -> Callable[[Floats], Floats]:
    weights = np.linalg.solve(x.T @ x + PENALTY * np.eye(x.shape[1]), x.T @ (y - y.mean()))
    return lambda asked: np.asarray(y.mean() + asked @ weights)


def _logistic(x: Floats, y: Floats) -> Callable[[Floats], Floats]:
    """Newton's method with a quadratic penalty on all weights but the intercept, which has next to none."""
    x = np.hstack([np.ones((len(x), 1)), x])
    penalty = np.full(x.shape[1], PENALTY)
    penalty[0] = 1e-3
    weights = np.zeros(x.shape[1])
    for _ in range(STEPS):
        p = _sigmoid(x @ weights)
        gradient = x.T @ (y - p) - penalty * weights
        step = np.linalg.solve((x * (p * (1.0 - p))[:, None]).T @ x + np.diag(penalty), gradient)
        weights += np.clip(step, -4.0, 4.0)
        if np.abs(step).max() < 1e-8:
            break
    return lambda asked: _sigmoid(weights[0] + asked @ weights[1:])


def _sigmoid(values: Floats) -> Floats:
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(values, -30.0, 30.0))))


@frozen
class Quality:
    """How well scores were predicted."""

    explained: float
    """R^2 = 1 - squared error / variance; below 0 where the mean would have been better, nan without variance."""
    auroc: float
    """The probability that an answer of the better half, those above the mean score, has the higher prediction; ties
    count one half. nan where all scores are equal."""
    calibration: float
    """Expected calibration error: see `calibration_error`."""


def quality(predicted: Floats, scores: Floats) -> Quality:
    """Measure predictions against scores, both in [0, 1]."""
    variance = float(((scores - scores.mean()) ** 2).mean())
    explained = 1.0 - float(((scores - predicted) ** 2).mean()) / variance if variance > 0.0 else math.nan
    return Quality(explained, auroc(predicted, scores > scores.mean()), calibration_error(predicted, scores))


def auroc(predicted: Floats, positive: NDArray[np.bool_]) -> float:
    """Return the area under the ROC curve by ranks (Mann and Whitney, 1947); nan without both kinds."""
    count = int(positive.sum())
    others = len(positive) - count
    if not count or not others:
        return math.nan
    _, place, sizes = np.unique(predicted, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(sizes) - (sizes - 1) / 2.0)[place]
    return float((ranks[positive].sum() - count * (count + 1) / 2.0) / (count * others))


def calibration_error(predicted: Floats, scores: Floats) -> float:
    """Return the mean over `BINS` bins of equal size of |mean prediction - mean score|, by size."""
    order = np.argsort(predicted, kind="stable")
    parts = np.array_split(order, min(BINS, len(order)))
    apart = [abs(float(predicted[part].mean() - scores[part].mean())) * len(part) for part in parts if len(part)]
    return sum(apart) / len(order)
