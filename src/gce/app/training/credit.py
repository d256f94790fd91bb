"""Credit for parts of answers: continuations of the prefixes of an iteration's rollouts, judged as rollouts are.

Only answers to problems with a mixed outcome are continued: where all rewards are equal, there is nothing to credit.
The value of the empty prefix is the mean reward of the problem's rollouts, which costs nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache

from attrs import evolve, frozen

from gce.app.evaluation.scoring import judge_each
from gce.app.training.sampling import Rollout, groups_of
from gce.app.training.state import Run
from gce.app.training.time_limit import stage
from gce.domain.admission import mixed
from gce.domain.completions import Completion, SampleRequest
from gce.domain.prefix_values import ends_of_segments, prefix_values
from gce.domain.problems import Problem
from gce.domain.randomness import key
from gce.errors import ModelError
from gce.ports.model import Continuing

__all__ = ["credited"]


@frozen
class _Cut:
    """A rollout whose prefixes are continued."""

    rollout: Rollout
    ids: tuple[int, ...]
    segments: tuple[tuple[int, str], ...]
    """After how many tokens each ends, and its text."""

    @property
    def key(self) -> str:
        """The rollout's key."""
        return self.rollout.judged.completion.key

    def prefix(self, place: int) -> str:
        """The text up to the end of this segment."""
        return "".join(text for _, text in self.segments[: place + 1])


def credited(run: Run, number: int, rollouts: Sequence[Rollout]) -> list[Rollout]:
    """Return the rollouts, those to problems with a mixed outcome with the values of their prefixes.

    Raises:
        ModelError: the model cannot continue an answer.
    """
    if run.settings.objective.credit == "outcome":
        return list(rollouts)
    model = run.model
    if not isinstance(model, Continuing):
        raise ModelError("this model cannot continue an answer", hint="use {objective.credit} outcome")
    groups = groups_of([each for each in rollouts if not each.judged.failed])
    found = {
        cut.key: cut
        for each in rollouts
        if not each.judged.failed and mixed(groups[each.judged.problem.key]) and (cut := _cut(each, model)) is not None
    }
    rewards, costs = _continued(run, number, model, list(found.values()))
    return [
        evolve(
            each,
            values=prefix_values(
                groups[each.judged.problem.key],
                cut.segments,
                [rewards[cut.key, place] for place in range(len(cut.segments) - 1)],
                each.reward,
                cost=costs[cut.key],
            ),
        )
        if (cut := found.get(each.judged.completion.key)) is not None
        else each
        for each in rollouts
    ]


def _cut(rollout: Rollout, model: Continuing) -> _Cut | None:
    ids = rollout.judged.completion.token_ids
    if not ids:
        return None
    text = cache(lambda token: model.text_of((token,)))
    ends = ends_of_segments([text(token) for token in ids])
    texts = [model.text_of(ids[:end]) for end in ends]
    whole_text = rollout.judged.completion.text
    # What the prompt began of the answer.
    opening = whole_text.removesuffix(texts[-1]) if whole_text.endswith(texts[-1]) else ""
    texts = [opening + each for each in texts]
    parts = [whole[len(before) :] for before, whole in zip(("", *texts), texts, strict=False)]
    return _Cut(rollout, ids, tuple(zip(ends, parts, strict=True)))


def _continued(
    run: Run, number: int, model: Continuing, cuts: Sequence[_Cut]
) -> tuple[defaultdict[tuple[str, int], list[float]], defaultdict[str, int]]:
    """Rewards by rollout and segment, and tokens by rollout, of the continuations of all prefixes."""
    asked: dict[str, tuple[_Cut, int]] = {}
    requests, begun = list[SampleRequest](), dict[str, tuple[int, ...]]()
    settings = run.settings
    for cut in cuts:
        problem = cut.rollout.judged.problem
        budget = run.task.token_budget(problem, settings.rollouts.max_tokens)
        for place, (end, _) in enumerate(cut.segments[:-1]):
            for sample in range(settings.objective.credit_samples if end < budget else 0):
                name = f"{cut.key}/{place}/{sample}"
                seed = key(settings.seed, "credit", number, cut.key, place, sample)
                requests.append(SampleRequest(name, problem.prompt, seed, settings.rollouts.temperature, budget - end))
                asked[name], begun[name] = (cut, place), cut.ids[:end]
    rewards: defaultdict[tuple[str, int], list[float]] = defaultdict(list)
    costs: defaultdict[str, int] = defaultdict(int)
    advance = stage(run, "sample", len(requests))

    def written() -> Iterator[tuple[Problem, Completion]]:
        for each in model.continued(requests, begun) if requests else ():
            cut, place = asked[each.key]
            costs[cut.key] += each.tokens or 0
            advance()
            yield cut.rollout.judged.problem, evolve(each, text=cut.prefix(place) + each.text)

    for answer in judge_each(run.task, run.evaluator, written()):
        if answer.reward is not None:
            cut, place = asked[answer.completion.key]
            rewards[cut.key, place].append(answer.reward)
    return rewards, costs
