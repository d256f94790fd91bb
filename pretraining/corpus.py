"""The text that `gce-tiny` is pretrained on: drills of single steps, and traces of careless schedulers.

Every example is keyed by (seed, stage, index), so that pretraining resumes exactly. No solver is asked: horizons come
from list schedules in random order, and nobody checks whether a trace's answer is right. No problem combines all
three families of constraints. The share of fully correct traces is on the model's card.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

from attrs import evolve, frozen

from gce.domain.problems import Message
from gce.domain.randomness import python_generator
from gce.domain.tasks import TASKS, NoProblem, draw_problems
from gce.domain.tasks.drawing import draw_until_it_fits
from gce.domain.tasks.scheduling.alphabets import CODE_WORDS, LOWER, UPPER
from gce.domain.tasks.scheduling.conversation import ANSWER_CALL, DRAFT_CALL, LIST_CALL, constraint_list, try_again
from gce.domain.tasks.scheduling.dispatch import by_deadline, dispatch, predecessors_first
from gce.domain.tasks.scheduling.generate import draw_instance
from gce.domain.tasks.scheduling.instance import Instance, Job
from gce.domain.tasks.scheduling.presets import GROUNDED, PAPER, Tier
from gce.domain.tasks.scheduling.reasoning import order_text, worked_response
from gce.domain.tasks.scheduling.solution import Solution
from gce.domain.tasks.scheduling.verify import feedback, verify
from gce.domain.tasks.scheduling.wording import TAUGHT, prompt_text
from pretraining.forms import INVENTED, composed_phrases, disturbed, names, renamed, template_words
from pretraining.words import FILLERS, NAMES

__all__ = [
    "FORMATS",
    "STAGES",
    "Conversation",
    "Stage",
    "careless_response",
    "conversation",
    "learned_words",
    "texts_for_tokens",
]

Conversation = tuple[Message, ...]
"""Turns from the user's first to the assistant's last."""


@frozen
class Stage:
    """One stretch of the curriculum: what is drawn, how long problems are, how much care schedulers take."""

    name: str
    tokens: int
    """Trained and read tokens, in all."""
    jobs: tuple[int, int]
    care: tuple[float, float]
    """Share of traces whose scheduler minds a given family of constraints: with up to three jobs, and with ten."""
    drills: float
    """Share of examples that are drills of look-ups and of copying."""
    plans: float = 0.0
    """Share of examples that are drills of planning: the order line alone, or what each job comes after."""
    deadlines: float = 0.0
    """Share of examples that are drills of deadlines: which job it is that must end by an hour."""
    other_formats: float = 0.0
    """Share of examples in other formats: answers at once, examples in context, feedback, simulation."""
    pairs: float = 0.5
    """Share of problems that combine two families."""
    variety: float = 0.6
    """Share of problems in sentences of the corpus's own, and likewise of those with names other than letters."""
    slips: float = 0.0
    """Share of jobs whose duration the scheduler misreads by one."""
    paper: float = 0.15
    """Share of problems drawn as in the preset `paper`, where every job may have a deadline."""
    free: float = 0.9
    """Share of problems in which some jobs lose their deadline."""
    ties: float = 0.0
    """Share of drills of deadlines in which jobs may be due at the same hour."""
    rate: float | None = None
    """Learning rate at its first step, from which it falls to the last of all; None for the whole run's schedule."""
    batch: int = 4096
    """Tokens of one optimizer step."""


STAGES = (
    Stage("look-ups", 300_000, (2, 4), (0.9, 0.9), drills=0.7, plans=0.2, pairs=0.0, batch=1024),
    Stage("steps", 3_000_000, (2, 5), (0.9, 0.9), drills=0.06, plans=0.4, deadlines=0.15, pairs=0.3, batch=3072),
    Stage("traces", 10_000_000, (3, 10), (0.9, 0.9), drills=0.06, plans=0.2, deadlines=0.12, other_formats=0.04),
    Stage("deadlines", 1_000_000, (3, 12), (0.9, 0.9), drills=0.06, plans=0.1, deadlines=0.6),
    Stage(
        "long traces", 25_000_000, (4, 14), (0.95, 0.95), drills=0.04, plans=0.2, deadlines=0.15, other_formats=0.03,
        pairs=0.75,
    ),
    Stage(
        "ties", 5_000_000, (4, 12), (0.95, 0.95), drills=0.02, plans=0.1, deadlines=0.7, other_formats=0.02, pairs=0.75,
        paper=0.5, free=0.3, ties=0.8, rate=8e-4,
    ),
    Stage(
        "careless", 1_200_000, (3, 12), (0.57, 0.35), drills=0.04, plans=0.1, other_formats=0.1, slips=0.01, batch=6144
    ),
)  # fmt: skip

TRIES_PER_TIER = 20
"""Draws of a tier before another is taken; a horizon fits after two or so where one can."""
QUESTIONS = 16
"""Look-ups asked in one drill."""
PUTTING_OFF = 0.8
"""Of the schedulers who mind resources and have no deadlines to go by, the share that puts jobs off."""
LONG = 3
"""Hours of the jobs that are not put off where no job waits for another."""
DISTURBED = 0.4
"""Share of problems in the corpus's own sentences whose sections are in another order or whose words are replaced."""
CARE_IN_TOKENS = (0.58, 0.2)
"""Care of the last stage in the texts that the tokenizer is trained on: that of the stage was set later."""
WORD_REPEATED = 300
"""Times that the tokenizer sees each word, beside those in the texts."""
TIES = 0.2
"""Share of drills of order lines in which jobs may be due at the same hour."""


def _first_plan(instance: Instance) -> Solution:
    """A horizon without a solver: the shortest of three list schedules in fixed rotations of the prompt order."""
    labels = list(instance.labels)
    orders = (labels, labels[::-1], labels[len(labels) // 2 :] + labels[: len(labels) // 2])
    makespan = min(instance.makespan(dispatch(instance, predecessors_first(instance, order))) for order in orders)
    return Solution("feasible", None, makespan, 0)


def _tier(stage: Stage, rng: random.Random) -> tuple[Tier, str]:
    """A tier with one family, or two, at a number of jobs drawn from the stage; never all three."""
    preset, tiers = ("paper", PAPER) if rng.random() < stage.paper else ("grounded", GROUNDED)
    tiers = tuple(tier for tier in tiers if not tier.curriculum_level)
    single = [tier for tier in tiers if not tier.subtypes and len(tier.families) < 3]
    pairs = [subtype for tier in tiers for subtype in tier.subtypes]
    tier = rng.choice(pairs if rng.random() < stage.pairs else single)
    jobs = rng.randint(*stage.jobs)
    if tier.edges:
        edges = rng.randint(max(1, jobs // 4), min(jobs * (jobs - 1) // 2, jobs))
        tier = evolve(tier, jobs=jobs, edges=edges)
    return evolve(
        tier, jobs=jobs, durations=(1, rng.randint(3, 6)), slack=max(tier.slack, rng.choice((0.2, 0.4)))
    ), preset


def _instance(stage: Stage, rng: random.Random) -> Instance:
    return draw_until_it_fits(lambda: _instance_of_a_tier(stage, rng), f"instance for the stage {stage.name}")


def _instance_of_a_tier(stage: Stage, rng: random.Random) -> Instance | None:
    """None where the tier that was drawn gives none: a few say the order of all jobs, so that no horizon is tight."""
    tier, preset = _tier(stage, rng)
    try:
        instance = draw_instance(tier, preset, rng, _first_plan, tries=TRIES_PER_TIER)
    except NoProblem:
        return None
    if rng.random() < stage.free:
        instance = _without_some_deadlines(instance, rng)
    return renamed(instance, rng) if rng.random() < stage.variety else instance


def _without_some_deadlines(instance: Instance, rng: random.Random) -> Instance:
    """Any jobs may be without a deadline: an order by deadline ends where no deadline is left, not where no job is."""
    due = [job.label for job in instance.jobs if job.deadline is not None]
    free = rng.sample(due, rng.randint(0, max(0, len(due) - 1)))
    return evolve(
        instance, jobs=tuple(evolve(job, deadline=None) if job.label in free else job for job in instance.jobs)
    )


def _base_order(instance: Instance, rng: random.Random) -> list[str]:
    """The prompt order, from its start or from somewhere in it and round."""
    labels = list(instance.labels)
    first = 0 if rng.random() < 0.8 else rng.randrange(len(labels))
    return labels[first:] + labels[:first]


FORMATS = {
    "few-shot": "2 to 4 examples of at most 5 jobs, in few of its texts",
    "multi-turn": "one wrong attempt at no more than 5 jobs, in few of its texts",
    "simulate": "at most 5 jobs in this form, in few of its texts",
}
"""What `other_formats` are like, by the mode of evaluation that uses them; for the model card."""


FEW, MANY = 3, 10
"""Numbers of jobs between which care goes from the first share to the second."""


def careless_response(instance: Instance, rng: random.Random, stage: Stage, *, answer_only: bool = False) -> str:
    """A scheduler's reasoning and answer; each family of constraints is minded with the stage's care.

    Who does not mind the sequence or the resources overlooks them at every job. Without deadlines to go by, jobs are
    taken in prompt order; who minds resources often puts off those that nobody waits for, or, where nobody waits,
    the short ones.
    """
    instance = _misread(instance, rng, stage.slips)
    few, many = stage.care
    care = few + (many - few) * min(1.0, max(0.0, (len(instance.jobs) - FEW) / (MANY - FEW)))
    minds = {family: rng.random() < care for family in ("sequencing", "resources", "deadlines")}
    order = _base_order(instance, rng)
    deadlines = minds["deadlines"] and any(job.deadline is not None for job in instance.jobs)
    seen = instance if minds["sequencing"] else instance.without("sequencing")
    puts_off = bool(instance.resources) and minds["resources"] and not deadlines and rng.random() < PUTTING_OFF

    def later(label: str) -> bool:
        if not puts_off:
            return False
        return not seen.successors(label) if seen.precedence else instance.job(label).duration < LONG

    response = worked_response(
        instance,
        by_deadline(instance, order) if deadlines else order,
        deadlines=deadlines,
        later=later,
        minds_sequence=lambda _: minds["sequencing"],
        minds_resources=lambda _: minds["resources"],
        free_line=minds["resources"],
    )
    return response.rpartition("\n")[2] if answer_only else response


def _misread(instance: Instance, rng: random.Random, share: float) -> Instance:
    """The instance as someone sees it who misreads some durations."""
    seen = [
        evolve(job, duration=max(1, job.duration + rng.choice((-1, 1)))) if rng.random() < share else job
        for job in instance.jobs
    ]
    return evolve(instance, jobs=tuple(seen))


COPY = "Repeat"


def _copy_drill(rng: random.Random) -> Conversation:
    """Any words, to be written again."""
    text = " ".join(rng.choices((*FILLERS, *UPPER, *NAMES), k=rng.randint(4, 16)))
    return Message("user", f"{COPY}: {text}"), Message("assistant", f" {text}")


def _drill(stage: Stage, rng: random.Random) -> Conversation:
    """Pairs to look up: "K 3, B 5. B 5, K 3", values right after their labels, or with a word between."""
    if rng.random() < 0.4:
        return _copy_drill(rng)
    labels = names(rng, rng.randint(2, 8), variety=stage.variety)
    pairs = [(label, str(rng.randint(0, 30))) for label in labels]
    link, back = rng.choice(((" ", " "), (" ", " "), (" takes ", " "), (" by ", " "), (" ", " takes ")))
    asked = [rng.choice(pairs) for _ in range(QUESTIONS)]
    shown = ", ".join(f"{label}{link}{value}" for label, value in pairs)
    return (
        Message("user", f"{shown}."),
        Message("assistant", ", ".join(f"{label}{back}{value}" for label, value in asked)),
    )


ORDER_ONLY = "Write the order line only."
PREDECESSORS_ONLY = "Write what some jobs come after."
TIMES_ONLY = "Write when jobs start."
DEADLINES_ONLY = "Write some deadlines, each before its job."


def _plan_drill(stage: Stage, rng: random.Random) -> Conversation:
    """One part of planning without the rest of the problem: the order line, predecessors, or the way through them."""
    labels = names(rng, rng.randint(3, 14), variety=stage.variety)
    kind = rng.choice(("order", "predecessors", "predecessors", "way"))
    edges: list[tuple[str, str]] = []
    if kind != "order" or rng.random() < 0.5:
        plan = rng.sample(labels, len(labels))
        pairs = [(plan[i], plan[j]) for i in range(len(plan)) for j in range(i + 1, len(plan))]
        edges = rng.sample(pairs, rng.randint(1, max(1, min(len(pairs), round(1.2 * len(plan))))))
    first = {before for before, _ in edges}
    due = rng.choice((1.0, 0.8, 0.5))
    draw = rng.choices if rng.random() < max(TIES, stage.ties) else rng.sample
    hours = {
        label: hour
        for label, hour in zip(labels, draw(range(1, 51), k=len(labels)), strict=True)
        if label not in first and kind != "predecessors" and rng.random() < due
    }
    jobs = [Job(label, rng.randint(1, 6), deadline=hours.get(label)) for label in labels]
    instance = Instance(jobs, edges)
    phrases = composed_phrases(rng) if rng.random() < stage.variety else TAUGHT
    prompt = prompt_text(instance, rng, phrases=phrases).split("\n")[1:-1]
    if kind == "order":
        text = order_text(instance, by_deadline(instance, labels), deadlines=True)
        return Message("user", "\n".join([*prompt, ORDER_ONLY])), Message("assistant", text)
    if kind == "predecessors":
        lines = []
        for label in rng.choices(labels, k=QUESTIONS):
            before = ", ".join(instance.predecessors(label))
            lines.append(f"Job {label} after {before or '-'};")
        return Message("user", "\n".join([*prompt[1:], PREDECESSORS_ONLY])), Message("assistant", "\n".join(lines))
    order = by_deadline(instance, labels)
    text = worked_response(instance, order, deadlines=True).rpartition("\n")[0]
    return Message("user", "\n".join([*prompt, TIMES_ONLY])), Message("assistant", text)


def _deadline_drill(stage: Stage, rng: random.Random) -> Conversation:
    """Which jobs are due by an hour, among durations that may be the same numbers; or the order line, for comparison."""
    labels = names(rng, rng.randint(3, 14), variety=stage.variety)
    if stage.ties and rng.random() < stage.ties:
        hours = sorted(rng.choices(rng.sample(range(1, 41), max(1, len(labels) // 2)), k=rng.randint(2, len(labels))))
    else:
        hours = sorted(rng.sample(range(1, 41), rng.randint(2, len(labels))))
    due = dict(zip(rng.sample(labels, len(hours)), hours, strict=True))
    instance = Instance([Job(label, rng.randint(1, 6), deadline=due.get(label)) for label in labels])
    phrases = composed_phrases(rng) if rng.random() < stage.variety else TAUGHT
    prompt = prompt_text(instance, rng, phrases=phrases).split("\n")[1:-1]
    if rng.random() < 0.5:
        text = order_text(instance, by_deadline(instance, labels), deadlines=True)
        return Message("user", "\n".join([*prompt, ORDER_ONLY])), Message("assistant", text)
    asked = [due[label] for label in rng.choices(sorted(due), k=QUESTIONS)]
    by_hour = {hour: " ".join(label for label in labels if due.get(label) == hour) for hour in asked}
    text = f"Due: {', '.join(f'{hour} {by_hour[hour]}' for hour in asked)}"
    return Message("user", "\n".join([*prompt, DEADLINES_ONLY])), Message("assistant", text)


def _solved(stage: Stage, rng: random.Random, instance: Instance) -> Conversation:
    if rng.random() < stage.variety:
        kind = rng.choice(("order", "aside", "words")) if rng.random() < DISTURBED else ""
        # Sections in another order are told apart by their words alone.
        phrases = composed_phrases(rng, invented=0.0 if kind == "order" else INVENTED)
        prompt = prompt_text(instance, rng, phrases=phrases)
        if kind:
            prompt = disturbed(prompt, instance, kind, rng)
    else:
        prompt = prompt_text(instance, rng)
    return Message("user", prompt), Message("assistant", careless_response(instance, rng, stage))


def _other_format(stage: Stage, rng: random.Random) -> Conversation:
    kind = rng.choice(("answer only", "examples", "feedback", "simulation"))
    short = evolve(stage, jobs=(2, 5), pairs=0.2)
    if kind == "answer only":
        instance = _instance(stage, rng)
        answer = careless_response(instance, rng, stage, answer_only=True)
        return Message("user", prompt_text(instance, rng, answer_only=True)), Message("assistant", answer)
    if kind == "examples":
        turns: Conversation = ()
        for _ in range(rng.randint(2, 4)):
            turns += _solved(short, rng, _instance(short, rng))
        return turns
    if kind == "feedback":
        instance = _instance(short, rng)
        turns = _solved(short, rng, instance)
        said = feedback(verify(instance, turns[-1].content))
        few, many = stage.care
        again = careless_response(instance, rng, evolve(stage, care=((1 + few) / 2, (1 + many) / 2)))
        return *turns, Message("user", try_again(said)), Message("assistant", again)
    instance = _instance(short, rng)
    draft = careless_response(instance, rng, stage)
    return (
        Message("user", f"{prompt_text(instance, rng)}\n{LIST_CALL}"),
        Message("assistant", constraint_list(instance)),
        Message("user", DRAFT_CALL),
        Message("assistant", draft),
        Message("user", ANSWER_CALL),
        Message("assistant", draft.rpartition("\n")[2]),
    )


def conversation(stage: Stage, seed: int, index: int) -> Conversation:
    """Example number `index` of a stage."""
    rng = python_generator(seed, "pretrain", stage.name, index)
    draw = rng.random()
    if draw < stage.drills:
        return _drill(stage, rng)
    draw -= stage.drills
    if draw < stage.plans:
        return _plan_drill(stage, rng)
    draw -= stage.plans
    if draw < stage.other_formats:
        return _other_format(stage, rng)
    draw -= stage.other_formats
    if draw < stage.deadlines:
        return _deadline_drill(stage, rng)
    return _solved(stage, rng, _instance(stage, rng))


def learned_words() -> set[str]:
    """All words that mean something in the corpus: those of prompts, written steps and formats, but no names.

    They are collected from texts in which all jobs have capital letters as names, and from the corpus's own sentences.
    """
    words = template_words()
    for stage in (STAGES[2], *STAGES[4:]):
        plain = evolve(stage, variety=0.0, drills=0.0, plans=0.2, deadlines=0.1, other_formats=0.3)
        for index in range(400):
            for turn in conversation(plain, 0, index):
                words.update(re.findall("[A-Za-z]+", turn.content))
    return (words | {COPY}) - {*UPPER, *LOWER}


def texts_for_tokens(seed: int) -> Iterator[str]:
    """What the tokenizer is trained on: conversations of each stage, prompts of other tasks, and all words, often."""
    told = [stage for stage in STAGES[1:] if not stage.deadlines]  # Those drills have no words of their own.
    told = [evolve(stage, care=CARE_IN_TOKENS) if stage.name == "careless" else stage for stage in told]
    for stage in told:
        for index in range(3000):
            yield "\n".join(turn.content for turn in conversation(stage, seed, index))
    for tier in TASKS["programs"].training_tiers("pipelines"):
        for problem in draw_problems(TASKS["programs"], "pipelines", tier, "train", 20, seed=seed):
            yield from (turn.content for turn in problem.prompt)
    learned = sorted(learned_words())
    for word in (*FILLERS, *NAMES, *CODE_WORDS, *NAMES, *CODE_WORDS, *learned):
        yield f" {word}" * WORD_REPEATED
    for word in (*NAMES, *CODE_WORDS, *learned):
        yield f"\n{word}" * WORD_REPEATED
