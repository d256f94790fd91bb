"""What is said after the first rollouts of a run where they teach nothing: what was seen, samples, what to try."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gce.app.settings.command_line import flag_of
from gce.app.training.records import count_tiers
from gce.app.training.sampling import Rollout
from gce.app.training.state import Run
from gce.app.wiring.names import is_given
from gce.domain.answers import Answer
from gce.domain.diagnosis import diagnose_first_wave
from gce.domain.tasks.task import without_thinking
from gce.domain.text import printable

__all__ = ["first_wave_lines"]

SHOWN = 3
"""Answers."""
MOST_OF_AN_ANSWER = 160
"""Characters of it; of what is wrong with it, half as many."""


def first_wave_lines(run: Run, rollouts: Sequence[Rollout]) -> list[str]:
    """The lines; none where some rollouts are right and some are wrong. `rollouts` are those that did not fail."""
    answers = [rollout.judged for rollout in rollouts]
    counts = count_tiers(run, rollouts)
    found = diagnose_first_wave(
        list(counts.values()),
        empty=sum(not without_thinking(answer.completion.text).strip() for answer in answers),
        credited=sum(rollout.positive for rollout in rollouts),
        best=max((answer.reward or 0.0 for answer in answers), default=0.0),
        needed=run.task.admit_at,
    )
    if found is None:
        return []
    proposals = {"all right": _harder, "none right": _easier, "cut off": _longer}.get(found.kind, _look)
    places = sorted({0, len(answers) // 2, len(answers) - 1})[:SHOWN]
    samples = [_sample(answers[place]) for place in places]
    return [f"warning: first wave: {found.words}", *samples, *(f"  try: {each}" for each in proposals(run, answers))]


def _sample(answer: Answer) -> str:
    said = next((violation.message for verdict in answer.verdicts for violation in verdict.violations), "")
    text = _clipped(answer.completion.text, MOST_OF_AN_ANSWER)
    wrong = f"  <- {_clipped(said, MOST_OF_AN_ANSWER // 2)}" if said else ""
    return f'  {answer.problem.tier}: "{text}"{wrong}'


def _clipped(text: str, length: int) -> str:
    """The beginning of a text, on one line."""
    return printable(text[:length]) + (f" ... and {len(text) - length:,} more characters" if len(text) > length else "")


def _harder(run: Run, _answers: Sequence[Answer]) -> Iterator[str]:
    others = [name for name in run.task.presets if name != run.settings.preset]
    if others:
        yield f"a harder preset ({flag_of('preset')}: {', '.join(others)})"
    yield f"another task ({flag_of('task')}), or tiers of your own that are harder"


def _easier(run: Run, answers: Sequence[Answer]) -> Iterator[str]:
    demonstrated = _has_demonstrations(run, answers[0])
    if not demonstrated:
        yield "give the task demonstrations (gce.Teaching), for an SFT warm-up or few-shot examples"
    elif not run.settings.demonstrations.warm_up:
        yield f"SFT warm-up on the task's demonstrations ({flag_of('demonstrations.warm_up')} 100)"
    if demonstrated and run.settings.demonstrations.bootstrap == "none":
        yield f"few-shot examples until the model does without them ({flag_of('demonstrations.bootstrap')} few-shot)"
    ladder = any(tier.curriculum_level for tier in run.task.presets[run.settings.preset])
    if ladder and not run.settings.curriculum.ladder:
        yield f"easier tiers first ({flag_of('curriculum.ladder')})"
    elif not ladder:
        yield "an easier tier"
    yield f"a stronger model ({flag_of('model.name')})"


def _longer(run: Run, answers: Sequence[Answer]) -> Iterator[str]:
    problem = answers[0].problem
    budget = run.task.token_budget(problem, run.settings.rollouts.max_tokens)
    yield f"a larger token budget than {budget:,} for {problem.tier} ({flag_of('rollouts.max_tokens')})"


def _look(run: Run, answers: Sequence[Answer]) -> Iterator[str]:
    how = "" if is_given(run.settings.task) else f" (gce show {run.settings.task})"
    yield f"compare with the answer format that the verifier expects{how}"
    if run.task.teaching.demonstration(answers[0].problem, None) is not None:
        yield f"few-shot examples, which show the format ({flag_of('demonstrations.bootstrap')} few-shot)"
    yield f"a model that follows the format ({flag_of('model.name')})"


def _has_demonstrations(run: Run, answer: Answer) -> bool:
    try:
        return run.task.teaching.demonstration(answer.problem, None) is not None
    except Exception:  # It is the task's, and a run does not end for a proposal.
        return False
