"""The many forms in which the corpus tells a problem: wordings made of parts, names of jobs, order, and noise.

Sentences are composed of interchangeable parts, so that reading has to rest on what they share. None of them, and no
name of a job, is one of the tasks that measure a shift (`scheduling-reworded`, `scheduling-relabelled`,
`scheduling-code-words`).
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from gce.domain.tasks.scheduling.alphabets import UPPER, relabelled
from gce.domain.tasks.scheduling.instance import Instance
from gce.domain.tasks.scheduling.wording import Phrases, job_pairs
from pretraining.words import FILLERS, NAMES

__all__ = ["INVENTED", "composed_phrases", "disturbed", "names", "renamed", "template_words"]

REPLACED = (0.2, 1.0)
"""Least and greatest share of the words of a noisy prompt that others replace: with all of them replaced, sections are
told apart by their place and by what is listed alone."""
INVENTED = 0.35
"""Share of the parts of sentences that are any words: a section must be told by what it lists, too."""
PLAIN = tuple(word for word in FILLERS if word not in NAMES)
KEPT = frozenset(("JOB", "HOUR", "Answer"))

INTRO = (
    ("We have some work to do.", "You lead a project.", "A list of tasks follows.", "There is work for the team.", ""),
    (
        "When does each piece of it start?",
        "Give each task an hour to begin at, from hour 0 on.",
        "Please draw up a timetable.",
        "Put the work in order; the clock shows 0 now.",
        "Set a start for everything. The count of hours begins with 0.",
        "Which hour does every task start in? The clock starts at 0.",
    ),
)
DURATIONS = (
    ("Each task lasts so many hours", "Work and its length", "In hours", "Tasks", "Length of the work", "Hours of work",
     "Duration of each task", "The jobs and their hours", "Running times", "How long it all takes", "Work"),
    (" ", " ", " ", " ", " takes ", " lasts ", " = "),
)  # fmt: skip
SEQUENCE_LEADS = (
    "",
    "",
    "",
    "",
    "First things first: ",
    "Dependencies: ",
    "Order of work: ",
    "Note: ",
    "What comes when: ",
)
SEQUENCE_LINKS = (
    "follows {}", "after {}", "waits for {}", "needs the results of {}", "comes after {}", "depends on {}",
    "builds on {}", "is blocked by {}", "requires {}", "starts after {}", "has to wait for {}",
    "may start once {} are over", ": {}", "<- {}", "goes on when {} are through", "is held up by {}",
    "can start after {} at the earliest", "cannot start before {}", "runs after {}", "stands behind {}",
)  # fmt: skip
SEQUENCE_TAILS = ("", "", " A task starts only when all that it waits for is done.", " No exceptions.")
RESOURCES = (
    ("We own", "Limits:", "Only", "There are", "You have", "On hand:", "The team shares", "In stock:", "At most",
     "No more than", "Capacity:", "We can count on"),
    ("", "", " at any time", " at once", " every hour", " can be had", " to share", " and that is it"),
    ("Each task occupies", "Taken by a task from start to end", "Shares", "Wanted", "Use by task", "A task binds",
     "Demand", "What a task holds while it runs", "Every task uses", "Needs"),
)  # fmt: skip
DEADLINES = (
    ("Due", "Customers wait, so close by these hours", "Deadlines", "Last hours", "To be ready by", "Promised",
     "No task may end past its hour", "Ends at the latest", "Out of the house by", "Final hours", "Over by"),
    (" ", " ", " ", " ", " by ", " due ", " = "),
)  # fmt: skip
HORIZON = (
    ("We close at hour {}.", "Be ready with the lot at {}.", "Hour {} is the end of it all."),
    ("All", "Everything", "All work", "The project", "The last task", "The whole list"),
    ("must be over by hour {}.", "has to end by hour {}.", "should be through at hour {}.", "is due at hour {}."),
)
ANSWER = (
    ("Work it out, then give a line of starts:", "Steps are welcome. Close with:", "What are the starts?",
     "Write your way to it, and at the end the starts:", "Take your time; the last line says all starts:"),
)  # fmt: skip
ASIDES = (
    "The weather is fine today.",
    "Thank you for your help.",
    "This is the plan of a small team.",
    "Names of tasks are short on purpose.",
    "Nobody works on more than what is listed.",
    "All numbers are whole.",
)


def names(rng: random.Random, count: int, *, variety: float = 1.0) -> list[str]:
    """Names for `count` jobs: capital letters, or with a share of `variety` words, or both; each is one token."""
    pool = rng.choice((NAMES, (*UPPER, *NAMES))) if rng.random() < variety else UPPER
    return rng.sample(pool, count)


def renamed(instance: Instance, rng: random.Random) -> Instance:
    """The same instance with other names of jobs."""
    return relabelled(instance, dict(zip(instance.labels, names(rng, len(instance.labels)), strict=True)))


def template_words() -> set[str]:
    """All words of the corpus's own sentences."""
    parts = repr(
        (INTRO, DURATIONS, SEQUENCE_LEADS, SEQUENCE_LINKS, SEQUENCE_TAILS, RESOURCES, DEADLINES, HORIZON, ANSWER)
    )
    return set(re.findall("[A-Za-z]+", parts + repr(ASIDES)))


def composed_phrases(rng: random.Random, *, invented: float = INVENTED) -> Phrases:
    """One wording of each section, put together from parts, of which a share of `invented` is any words."""
    pick = rng.choice

    def any_words(least: int, most: int) -> str:
        return " ".join(rng.choices(PLAIN, k=rng.randint(least, most)))

    def part(known: Sequence[str], least: int = 1, most: int = 5) -> str:
        if rng.random() >= invented:
            return pick(known)
        words = any_words(least, most)
        return words[:1].upper() + words[1:] if rng.random() < 0.5 else words

    lead, link = part(DURATIONS[0]), pick(DURATIONS[1])
    relation = pick(SEQUENCE_LINKS)
    if rng.random() < invented:
        relation = f"{any_words(1, 4)} {{}}"
        if rng.random() < 0.5:
            relation += f" {any_words(1, 3)}"
    first, separator, tail = pick(SEQUENCE_LEADS), pick(("; ", "; ", ". ")), pick(SEQUENCE_TAILS)
    if first:
        first = f"{part((first.strip(),)).removesuffix(':')}: "
    own, limit, use = part(RESOURCES[0]), pick(RESOURCES[1]), part(RESOURCES[2], most=7)
    if limit:
        limit = f" {part((limit.strip(),))}"
    due, by = part(DEADLINES[0], most=8), pick(DEADLINES[1])
    over = pick(HORIZON[0]) if rng.random() < 0.3 else f"{part(HORIZON[1])} {pick(HORIZON[2])}"
    if rng.random() < invented:
        over = f"{any_words(2, 7)} {{}}."

    def sequence(items: Sequence[tuple[str, str]]) -> str:
        return f"{first}{separator.join(f'{job} {relation.format(before)}' for job, before in items)}.{tail}"

    def deadlines(items: Sequence[tuple[str, int]]) -> str:
        return f"{due}: {', '.join(f'{job}{by}{hour}' for job, hour in items)}."

    return Phrases(
        intro=(" ".join(filter(None, (part(INTRO[0]), part(INTRO[1], most=12)))),),
        durations=(lambda jobs: f"{lead}: {job_pairs(jobs, link)}.",),
        sequence=(sequence,),
        resources=(lambda capacities, kinds, uses: f"{own} {capacities}{limit}. {use} ( {kinds} ): {uses}.",),
        deadlines=(deadlines,),
        horizon=(lambda hour: over.format(hour),),
        answer=(f"{part(ANSWER[0], most=15)} Answer: JOB HOUR, JOB HOUR",),
    )


def disturbed(prompt: str, instance: Instance, kind: str, rng: random.Random) -> str:
    """The prompt with its sections in another "order", with an "aside", or with some "words" replaced by any others."""
    first, *sections, last = prompt.split("\n")
    if kind == "order":
        rng.shuffle(sections)
    elif kind == "aside":
        sections.insert(rng.randint(0, len(sections)), rng.choice(ASIDES))
    else:
        kept = KEPT.union(instance.labels, (resource.name for resource in instance.resources))
        share = rng.uniform(*REPLACED)

        def replaced(match: re.Match[str]) -> str:
            return match[0] if match[0] in kept or rng.random() >= share else _filler(rng, instance)

        return re.sub(r"[A-Za-z]+", replaced, prompt)
    return "\n".join((first, *sections, last))


def _filler(rng: random.Random, instance: Instance) -> str:
    word = rng.choice(FILLERS)
    return "the" if word in instance.labels else word
