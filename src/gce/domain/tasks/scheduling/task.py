"""The project scheduling tasks, as records that the loop reads."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial
from typing import Any

from attrs import evolve

from gce.domain.completions import Completion
from gce.domain.executions import Evidence
from gce.domain.problems import Message, Problem
from gce.domain.tasks.parts import Audit, References, Teaching
from gce.domain.tasks.scheduling.alphabets import CODE_WORDS, LOWER, UPPER, relabelled
from gce.domain.tasks.scheduling.answer import render
from gce.domain.tasks.scheduling.baselines import families, heuristic_policies, prompt_blind_baselines
from gce.domain.tasks.scheduling.branch_and_bound import MAX_JOBS
from gce.domain.tasks.scheduling.branch_and_bound import solve as exact_solve
from gce.domain.tasks.scheduling.brief_reasoning import brief_response, check_brief_steps
from gce.domain.tasks.scheduling.canonical import canonical_digest
from gce.domain.tasks.scheduling.conversation import ANSWER_CALL, DRAFT_CALL, LIST_CALL, try_again
from gce.domain.tasks.scheduling.dispatch import by_deadline, one_at_a_time, predecessors_first
from gce.domain.tasks.scheduling.gantt import schedule_chart
from gce.domain.tasks.scheduling.generate import draw_instance
from gce.domain.tasks.scheduling.heuristics import critical_path_length
from gce.domain.tasks.scheduling.instance import Instance
from gce.domain.tasks.scheduling.metamorphic_relations import RELATIONS
from gce.domain.tasks.scheduling.presets import PRESETS
from gce.domain.tasks.scheduling.project_files import project_of
from gce.domain.tasks.scheduling.prompt_reading import restates
from gce.domain.tasks.scheduling.psplib_like import PSPLIB_LIKE, draw_project, with_project_deadline
from gce.domain.tasks.scheduling.reasoning import check_steps, worked_response
from gce.domain.tasks.scheduling.scores import SCORES
from gce.domain.tasks.scheduling.short_schedules import short_schedule
from gce.domain.tasks.scheduling.solution import Solution
from gce.domain.tasks.scheduling.verify import feedback, verify
from gce.domain.tasks.scheduling.wording import TAUGHT, UNSEEN, Phrases, prompt_text
from gce.domain.tasks.task import Drawn, Task, TaskTier, of_listed
from gce.domain.verdicts import Step, Verdict

__all__ = ["ANSWER_ONLY", "BRIEF", "CODE_WORDED", "RELABELLED", "REWORDED", "SCHEDULING"]

LIKE_PSPLIB = "psplib-like"
"""The preset of larger projects."""
TOKENS_A_JOB = 80
"""Maximum tokens per job on a level below the six tiers, where a confused weak model would otherwise not stop, and with
more jobs than 640 tokens have room for."""
MOST_IN_640 = 11
"""Jobs whose written steps fit into the maximum tokens of the task."""


def _draw(preset: str, tier: str, rng: random.Random, solve: Any) -> Instance:
    if preset == LIKE_PSPLIB:
        return draw_project(next(spec for spec in PSPLIB_LIKE if spec.name == tier), rng)
    (spec,) = [spec for spec in PRESETS[preset] if spec.name == tier]
    return draw_instance(spec, preset, rng, solve or exact_solve)


def _prompt(instance: Instance, rng: random.Random, phrases: Phrases = TAUGHT) -> tuple[Message, ...]:
    return (Message("user", prompt_text(instance, rng, phrases=phrases)),)


def _labelled(alphabet: Sequence[str]) -> Drawn:
    """Return how the same problems are drawn with jobs named by the labels of another alphabet."""
    letters = dict(zip(UPPER, alphabet, strict=True))

    def draw(preset: str, tier: str, rng: random.Random, solve: Any) -> Instance:
        instance = _draw(preset, tier, rng, solve)
        return relabelled(instance, {label: letters[label[0]] + label[1:] for label in instance.labels})

    return Drawn(draw, stream="scheduling", of_records=_of_files, takes_folders=True)


def _of_files(task: Task, preset: str, records: Sequence[Any]) -> Task:
    """Return the task over projects from files, with a tier for each number of jobs; all are test problems.

    A project without a deadline is given that of the preset `psplib-like`.
    """
    projects = sorted(map(project_of, records), key=lambda each: len(each.jobs))
    projects = [with_project_deadline(each) if each.horizon is None else each for each in projects]
    sizes = {f"J{len(each.jobs)}": len(each.jobs) for each in projects}
    found = of_listed(task, preset, ((f"J{len(each.jobs)}", "test", each) for each in projects))
    tiers = (evolve(tier, max_tokens=_max_tokens(sizes[tier.name])) for tier in found.presets[preset])
    return evolve(found, presets={preset: tuple(tiers)})


def _max_tokens(jobs: int) -> int | None:
    """Maximum tokens of a response to a problem of so many jobs; None for the task's."""
    return TOKENS_A_JOB * jobs if jobs > MOST_IN_640 else None


def _verify(problem: Problem, completion: Completion, _evidence: Evidence | None = None) -> tuple[Verdict, ...]:
    return (verify(problem.instance, completion.text),)


def _check_steps(problem: Problem, text: str) -> tuple[Step, ...]:
    return check_steps(problem.instance, text)


def _reasoned(problem: Problem, solve: Any = None) -> str | None:
    """Demonstrate list scheduling: by deadline, or in the order of an optimal schedule if `solve` is given.

    A large instance is scheduled in the order of a short schedule.
    """
    instance = problem.instance
    if solve is None and len(instance.jobs) > MAX_JOBS:
        solve = _short
    if solve is None:
        return worked_response(instance, by_deadline(instance, instance.labels), deadlines=True)
    starts = solve(instance).starts
    return None if starts is None else worked_response(instance, sorted(instance.labels, key=starts.__getitem__))


def _short(instance: Instance) -> Solution:
    starts = short_schedule(instance)
    return Solution("feasible", starts, instance.makespan(starts), critical_path_length(instance))


def _answer_alone(problem: Problem, solve: Any = None) -> str | None:
    """Demonstrate an answer line without reasoning.

    It runs one job after another, by deadline, if that is right, because such starts are simple sums; otherwise it is
    the list schedule.
    """
    instance = problem.instance
    if solve is None:
        order = predecessors_first(instance, by_deadline(instance, instance.labels))
        text = render(one_at_a_time(instance, order))
        if verify(instance, text).right:
            return text
    reasoned = _reasoned(problem, solve)
    return reasoned and reasoned.rpartition("\n")[2]


def _brief(problem: Problem, solve: Any = None) -> str | None:
    """Demonstrate brief reasoning: one line per job."""
    if solve is None:
        return brief_response(problem.instance)
    starts = solve(problem.instance).starts
    return None if starts is None else brief_response(problem.instance, starts)


def _group(instance: Instance) -> str:
    names = ("sequencing", "resources", "deadlines")
    return "+".join(name for name in names if name in families(instance))


SCHEDULING = Task(
    name="scheduling",
    presets={
        name: tuple(
            TaskTier(
                tier.name,
                tier.held_out,
                tier.curriculum_level,
                TOKENS_A_JOB * tier.jobs if tier.curriculum_level else _max_tokens(tier.jobs),
            )
            for tier in tiers
        )
        for name, tiers in PRESETS.items()
    }
    | {
        LIKE_PSPLIB: tuple(
            TaskTier(tier.name, tier.held_out, max_tokens=_max_tokens(tier.jobs)) for tier in PSPLIB_LIKE
        )
    },
    draw=Drawn(_draw, stream="scheduling", of_records=_of_files, takes_folders=True),
    prompt=_prompt,
    digest=canonical_digest,
    verify=_verify,
    instance_type=Instance,
    max_tokens=640,
    teaching=Teaching(
        demonstration=_reasoned,
        check_steps=_check_steps,
        feedback=lambda verdict: try_again(feedback(verdict)),
        calls=(LIST_CALL, DRAFT_CALL, ANSWER_CALL),
        chart=lambda problem, text: schedule_chart(problem.instance, text),
    ),
    references=References(
        prompt_blind=prompt_blind_baselines, heuristics=heuristic_policies, limits={"T0": 0.25, "*": 0.10}
    ),
    audit=Audit(
        shifts={
            "eleven jobs": ("scheduling", "larger"),
            "sixteen jobs": ("scheduling", "sixteen"),
            "other sentences": ("scheduling-reworded", ""),
            "small letters": ("scheduling-relabelled", ""),
            "code words": ("scheduling-code-words", ""),
            "the tiers of paper": ("scheduling", "paper"),
        },
        relations=RELATIONS,
        scores=SCORES,
        restates=restates,
        group=_group,
    ),
)
_WITHOUT_SHIFTS = evolve(SCHEDULING.audit, shifts={})

ANSWER_ONLY = evolve(
    SCHEDULING,
    name="scheduling-answer-only",
    prompt=lambda instance, rng: (Message("user", prompt_text(instance, rng, answer_only=True)),),
    teaching=Teaching(
        demonstration=_answer_alone,
        feedback=SCHEDULING.teaching.feedback,
        calls=SCHEDULING.teaching.calls,
        chart=SCHEDULING.teaching.chart,
    ),
    audit=_WITHOUT_SHIFTS,
)
"""The same problems with prompts that ask for the answer line alone."""

BRIEF = evolve(
    SCHEDULING,
    name="scheduling-brief",
    teaching=evolve(
        SCHEDULING.teaching,
        demonstration=_brief,
        check_steps=lambda problem, text: check_brief_steps(problem.instance, text),
    ),
    audit=_WITHOUT_SHIFTS,
)
"""The same problems and prompts; demonstrations and checked steps use one line per job."""

REWORDED = evolve(
    SCHEDULING, name="scheduling-reworded", prompt=partial(_prompt, phrases=UNSEEN), audit=_WITHOUT_SHIFTS
)
"""The same problems in paraphrased prompts that the shipped model was never trained on."""

RELABELLED = evolve(SCHEDULING, name="scheduling-relabelled", draw=_labelled(LOWER), audit=_WITHOUT_SHIFTS)
"""The same problems with lower-case job labels, which the shipped model was never trained on."""

CODE_WORDED = evolve(SCHEDULING, name="scheduling-code-words", draw=_labelled(CODE_WORDS), audit=_WITHOUT_SHIFTS)
"""The same problems with words as job labels (alpha, bravo ...), which the shipped model was never trained on."""
