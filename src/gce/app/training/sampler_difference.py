"""How far a sampler is from the learner: the log-probabilities of the same answers in both, before the first step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gce.app.training.sampling import Rollout
from gce.app.training.state import Run
from gce.app.training.updates import trace_of_rollout
from gce.errors import ModelError
from gce.ports.model import Scorer

__all__ = ["sampler_difference"]

MOST_ANSWERS = 8
"""Compared in an iteration."""


def sampler_difference(run: Run, number: int, rollouts: Sequence[Rollout]) -> float | None:
    """Return the mean absolute difference, in nats per token, and say it; None without a sampler, or if unknown.

    Answers that were cut off, or whose text has other tokens in the learner, are not compared.

    Raises:
        ModelError: it is above the limit, or there is a limit and the sampler tells no log-probabilities.
    """
    limit = run.settings.model.sampler_difference_limit
    if not run.settings.model.sampler or not isinstance(run.model, Scorer):
        return None
    traces = [trace_of_rollout(each, number) for each in rollouts if each.learnable]
    told = [trace for trace in traces if trace.completion.log_probabilities]
    found: list[float] = []
    compared = 0
    for trace in told or traces:
        scores = run.model.log_probabilities(trace.messages, trace.completion.text)
        sampled = trace.completion.log_probabilities or (0.0,) * len(scores)
        if len(scores) == len(sampled) and trace.completion.finish_reason == "stop":
            found += np.abs(np.subtract(scores, sampled)).tolist()
            compared += 1
        if compared == MOST_ANSWERS:
            break
    mean = float(np.mean(found)) if found else None
    if not told and traces:
        if limit is not None:
            raise ModelError(
                "the sampler tells no log-probabilities, so its difference from the learner is not known",
                hint="leave out {model.sampler_difference_limit}, or give another {model.sampler}",
            )
        learner = "" if mean is None else f"; the learner's for its answers are {-mean:.4f} per token on average"
        run.watcher.say(f"the sampler tells no log-probabilities{learner}")
        return None
    if mean is None:
        return None
    if limit is not None and mean > limit:
        raise ModelError(
            f"iteration {number}: log-probabilities in the learner and in the sampler differ by {mean:.4f} nats per "
            f"token on average, at most {limit:g} are allowed: nothing of it is kept",
            hint="check that both have the same base, or raise {model.sampler_difference_limit}",
        )
    run.watcher.say(f"learner and sampler differ by {mean:.4f} nats per token ({compared} answers)")
    return mean
