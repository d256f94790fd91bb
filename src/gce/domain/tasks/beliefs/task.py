"""The task `beliefs`, as a record that the loop reads: state the probability of a claim.

Presets: `worlds`, which draws one of three families for each problem, and each family alone. Tiers B1 to B5 are the
levels of a family; B5 is held out.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from attrs import evolve

from gce.domain.problems import Message, Problem
from gce.domain.tasks.beliefs.answer import render, render_percent
from gce.domain.tasks.beliefs.baselines import heuristic_policies, prompt_blind_baselines
from gce.domain.tasks.beliefs.generate import FAMILIES, LEVELS, digest_of_world, draw_question
from gce.domain.tasks.beliefs.metamorphic_relations import RELATIONS
from gce.domain.tasks.beliefs.question import BeliefQuestion
from gce.domain.tasks.beliefs.records import questions_of
from gce.domain.tasks.beliefs.variants import ELICITING
from gce.domain.tasks.beliefs.verify import ADMIT_AT, brier_by_outcome, verify, verify_by_outcome
from gce.domain.tasks.beliefs.weights import written_steps
from gce.domain.tasks.beliefs.wording import belief_prompt, drawn_wording
from gce.domain.tasks.parts import Audit, References, Teaching
from gce.domain.tasks.reward import lowest_score
from gce.domain.tasks.task import Drawn, Task, TaskTier, of_listed

__all__ = ["BELIEFS", "BELIEFS_BY_OUTCOME"]

WORLDS = "worlds"
"""The preset that draws a family for each problem."""
_TIERS = {f"B{level}": level for level in range(1, LEVELS + 1)}


def _draw(preset: str, tier: str, rng: random.Random, _solve: Any) -> BeliefQuestion:
    family = rng.choice(tuple(FAMILIES)) if preset == WORLDS else preset
    return draw_question(family, _TIERS[tier], rng)


def _prompt(question: BeliefQuestion, rng: random.Random) -> tuple[Message, ...]:
    return (Message("user", belief_prompt(question, drawn_wording(question, rng))),)


def _digest(question: BeliefQuestion) -> str:
    """Name the world as far as it is shown; for a question from a file, its words."""
    return question.digest if question.world is None else digest_of_world(question.world, len(question.evidence))


def _demonstration(problem: Problem, _solve: Any) -> str | None:
    """Demonstrate sums of weights of evidence where the posterior is one, and else the probability after each piece.

    All percents are whole, and the exact posterior's. None where that is unknown: an outcome is no belief to learn
    from.
    """
    question: BeliefQuestion = problem.instance
    if question.posterior is None or question.target is None:
        return None
    lines = written_steps(question) or _path(question, question.target)
    percent = problem.prompt[-1].content.endswith("%") if problem.prompt else True
    answer = render_percent(question.target) if percent else render(round(question.target, 2))
    return "\n".join([*lines, answer])


def _path(question: BeliefQuestion, target: float) -> list[str]:
    """The probability before the evidence and after each piece of it."""
    lines = [] if question.prior is None else [f"Before the evidence: {100 * question.prior:.0f} %."]
    lines += [f"After {number}: {100 * belief:.0f} %." for number, belief in enumerate(question.path, 1)]
    if question.opinion is not None and question.opinion.shift:
        lines.append(f"With what the user says: {100 * target:.0f} %.")
    return lines


def _of_records(task: Task, preset: str, records: Sequence[Any]) -> Task:
    """Return the task over questions from a file; a tier without training questions is held out."""
    return of_listed(task, preset, ((found.tier, found.split, found.question) for found in questions_of(records)))


BELIEFS = Task(
    name="beliefs",
    presets={
        preset: tuple(TaskTier(tier, held_out=level == LEVELS) for tier, level in _TIERS.items())
        for preset in (WORLDS, *FAMILIES)
    },
    draw=Drawn(_draw, stream="beliefs", distinct=True, of_records=_of_records),
    prompt=_prompt,
    digest=_digest,
    verify=verify,
    instance_type=BeliefQuestion,
    reward=lowest_score,
    admit_at=ADMIT_AT,
    max_tokens=320,
    teaching=Teaching(
        demonstration=_demonstration,
        calls=(
            "Do not answer yet. List the base rate and what each piece of evidence says.",
            "Now weigh the evidence, one piece after another.",
            "Now give the answer line alone.",
        ),
        beliefs=ELICITING,
    ),
    references=References(
        prompt_blind=prompt_blind_baselines,
        heuristics=heuristic_policies,
        # Solve rates are below 0.1, but the limit also holds for the mean reward 1 - (b - p)^2, which is up to 0.94 for
        # the base rate.
        limits={"*": 0.97},
    ),
    audit=Audit(
        hidden=frozenset(
            {
                *("family", "subtype", "prior", "path", "posterior", "outcome", "withheld", "posterior_with_withheld"),
                *("world", "related", "signals", "digest"),
            }
        ),
        relations=RELATIONS,
        scores={"brier": brier_by_outcome},
        write="Answer: {}".format,
    ),
)

BELIEFS_BY_OUTCOME = evolve(BELIEFS, name="beliefs-by-outcome", verify=verify_by_outcome)
"""The same problems; the reward is 1 minus the Brier score against the drawn outcome."""
