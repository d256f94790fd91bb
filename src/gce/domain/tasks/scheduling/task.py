"""Project scheduling as a task: how its pieces fit the record that the loop reads."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

from attrs import evolve

from gce.domain.tasks.scheduling.blind import blind_policies, families, heuristic_policies
from gce.domain.tasks.scheduling.canonical import canonical_digest
from gce.domain.tasks.scheduling.exact import solve as exact_solve
from gce.domain.tasks.scheduling.instance import Instance
from gce.domain.tasks.scheduling.presets import PRESETS, draw_instance
from gce.domain.tasks.scheduling.reasoning import check_steps
from gce.domain.tasks.scheduling.verify import feedback, verify
from gce.domain.tasks.scheduling.wording import TAUGHT, UNSEEN, Phrases, prompt_text
from gce.domain.tasks.task import Task, TaskTier
from gce.domain.types import Completion, Evidence, Message, Problem, Step, Verdict

__all__ = ["REWORDED", "SCHEDULING"]


def _draw(preset: str, tier: str, rng: random.Random, solve: Any) -> Instance:
    (spec,) = [spec for spec in PRESETS[preset] if spec.name == tier]
    return draw_instance(spec, preset, rng, solve or exact_solve)


def _prompt(instance: Instance, rng: random.Random, phrases: Phrases = TAUGHT) -> tuple[Message, ...]:
    return (Message("user", prompt_text(instance, rng, phrases=phrases)),)


def _verify(problem: Problem, completion: Completion, _evidence: Evidence | None = None) -> tuple[Verdict, ...]:
    return (verify(problem.instance, completion.text),)


def _check_steps(problem: Problem, text: str) -> tuple[Step, ...]:
    return check_steps(problem.instance, text)


def _facts(instance: Instance) -> dict[str, float]:
    return {"jobs": len(instance.jobs), "horizon": -1.0 if instance.horizon is None else instance.horizon}


def _group(instance: Instance) -> str:
    names = ("sequencing", "resources", "deadlines")
    return "+".join(name for name in names if name in families(instance))


SCHEDULING = Task(
    name="scheduling",
    presets={
        name: tuple(TaskTier(tier.name, held_out=tier.held_out) for tier in tiers) for name, tiers in PRESETS.items()
    },
    draw=_draw,
    prompt=_prompt,
    digest=canonical_digest,
    verify=_verify,
    instance_type=Instance,
    check_steps=_check_steps,
    feedback=feedback,
    facts=_facts,
    group=_group,
    blind=blind_policies,
    heuristics=heuristic_policies,
    max_tokens=640,
    blind_limits={"T0": 0.25, "*": 0.10},
)

REWORDED = evolve(
    SCHEDULING, name="scheduling-reworded", draws_as="scheduling", prompt=partial(_prompt, phrases=UNSEEN)
)
"""The same problems in sentences that the shipped model was never taught."""
