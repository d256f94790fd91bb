"""Early stopping of rollouts: those for which a critic predicts a low reward when they are half written.

A stopped answer has finish reason `length`, and the text and tokens that were written by then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol, TypeGuard

from attrs import evolve

from gce.domain.answers import Answer
from gce.domain.completions import Completion, SampleRequest
from gce.domain.evaluators.halfway import Halfway, halfway_of
from gce.domain.models import ModelInfo
from gce.domain.problems import Problem
from gce.domain.randomness import key
from gce.errors import ModelError
from gce.ports.model import Continuing, Sampler

__all__ = ["ContinuingSampler", "EarlyStop", "stopping_early"]


def stopping_early(
    model: Sampler, about: Mapping[str, Problem], finished: Sequence[tuple[Answer, float]], threshold: float
) -> Sampler:
    """Return a model that stops answers early, or the model itself where too little is known to predict rewards.

    Args:
        model: that writes answers.
        about: the problem of each request to come, by key.
        finished: answers and their rewards, which the critic is fitted to.
        threshold: the predicted reward below which an answer is stopped; 0 for never.

    Raises:
        ModelError: the model cannot continue an answer.
    """
    if not threshold:
        return model
    if not _continues(model):
        raise ModelError("this model cannot continue an answer", hint="leave out {rollouts.early_stop}")
    known = halfway_of([answer for answer, _ in finished], [reward for _, reward in finished])
    return model if known is None else EarlyStop(model, about, known, threshold=threshold)


def _continues(model: Sampler) -> TypeGuard[ContinuingSampler]:
    return isinstance(model, Continuing)


class ContinuingSampler(Sampler, Continuing, Protocol):
    """What `EarlyStop` needs of the model."""


class EarlyStop:
    """`model`, whose answers end halfway where the predicted reward is below `threshold`."""

    def __init__(
        self, model: ContinuingSampler, about: Mapping[str, Problem], known: Halfway, *, threshold: float
    ) -> None:
        """`about` has the problem of each request, by key."""
        self._model = model
        self._about = about
        self._known = known
        self._threshold = threshold

    def info(self) -> ModelInfo:
        """See `gce.ports.model.Model`. The identity is that of the model: the weights are the same."""
        return evolve(self._model.info(), capabilities=frozenset({"sample"}))

    def sample(self, requests: Sequence[SampleRequest]) -> Iterator[Completion]:
        """See `gce.ports.model.Sampler`."""
        half = {each.key: max(1, self._known.tokens.get(self._about[each.key].tier, 0)) for each in requests}
        short = [evolve(each, max_tokens=min(half[each.key], each.max_tokens)) for each in requests]
        going_on: dict[str, Completion] = {}
        for completion in self._model.sample(short):
            if self._goes_on(completion):
                going_on[completion.key] = completion
            else:
                yield completion
        rest = [
            evolve(each, max_tokens=each.max_tokens - half[each.key], seed=key(each.seed, "second half"))
            for each in requests
            if each.key in going_on and each.max_tokens > half[each.key]
        ]
        begun = {each.key: going_on[each.key].token_ids or () for each in rest}
        for completion in self._model.continued(rest, begun) if rest else ():
            yield self._joined(going_on.pop(completion.key), completion)
        yield from going_on.values()  # The maximum number of tokens was reached.

    def _goes_on(self, completion: Completion) -> bool:
        if completion.finish_reason != "length" or not completion.token_ids:
            return False
        return self._known.predict(self._about[completion.key], completion) >= self._threshold

    def _joined(self, first: Completion, rest: Completion) -> Completion:
        if rest.finish_reason == "error":
            return rest
        ids = (*(first.token_ids or ()), *(rest.token_ids or ()))
        half = self._model.text_of(first.token_ids or ())
        opening = first.text.removesuffix(half) if first.text.endswith(half) else ""  # What the prompt began of it.
        pairs = (
            (first.log_probabilities, rest.log_probabilities),
            (first.sampling_log_probabilities, rest.sampling_log_probabilities),
        )
        known, sampled = (None if one is None or other is None else (*one, *other) for one, other in pairs)
        return evolve(
            first,
            text=opening + self._model.text_of(ids),
            finish_reason="length" if rest.finish_reason == "context" else rest.finish_reason,
            token_ids=ids,
            tokens=len(ids),
            log_probabilities=known,
            sampling_log_probabilities=sampled,
        )
