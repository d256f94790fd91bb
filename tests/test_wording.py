"""Prompts read back: every constraint of an instance is stated, and nothing else; and what is said in later turns."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

import pytest
from attrs import asdict, evolve, field, frozen
from hypothesis import given
from hypothesis import strategies as st
from present import present

from gce.domain.randomness import python_generator
from gce.domain.tasks.scheduling.answer import parse
from gce.domain.tasks.scheduling.branch_and_bound import solve
from gce.domain.tasks.scheduling.conversation import ANSWER_CALL, DRAFT_CALL, LIST_CALL, constraint_list, try_again
from gce.domain.tasks.scheduling.generate import draw_instance
from gce.domain.tasks.scheduling.instance import Instance, Job, Resource
from gce.domain.tasks.scheduling.presets import PRESETS
from gce.domain.tasks.scheduling.verify import feedback, verify
from gce.domain.tasks.scheduling.wording import ANSWER_ONLY, TAUGHT, UNSEEN, prompt_text
from gce.domain.verdicts import Violation
from gce.testing.scheduling.generators import instances

HOUSE = Instance(
    jobs=(Job("K", 3, (2, 1), 9), Job("B", 2, (1, 1)), Job("T", 4, (2, 2), 12), Job("M", 1, (1, 1), 5)),
    precedence=(("B", "T"), ("K", "T"), ("M", "B")),
    resources=(Resource("workers", 3), Resource("machines", 2)),
    horizon=14,
)


class First(random.Random):
    """Draws the first of everything and shuffles nothing."""

    def choice(self, seq: Any) -> Any:
        return seq[0]

    def shuffle(self, x: Any) -> None:
        pass


class Last(First):
    def choice(self, seq: Any) -> Any:
        return seq[-1]


# Reading a prompt back, with no help from the module that wrote it


@frozen
class Told:
    """What a prompt says."""

    durations: list[tuple[str, int]] = field(factory=list)
    precedence: set[tuple[str, str]] = field(factory=set)
    resources: list[tuple[str, int]] = field(factory=list)
    demands: dict[str, tuple[int, ...]] = field(factory=dict)
    deadlines: dict[str, int] = field(factory=dict)
    horizon: list[int] = field(factory=list)
    wordings: list[tuple[str, int]] = field(factory=list)
    """Section and number of the pattern that each line follows."""


PATTERNS: dict[str, tuple[str, ...]] = {
    "intro": tuple(map(re.escape, TAUGHT.intro)),
    "durations": (
        r"Hours each job takes: (?P<items>.+)\.",
        r"Durations in hours: (?P<items>.+)\.",
        r"How long jobs take, in hours: (?P<items>.+)\.",
    ),
    "sequence": (
        r"Sequence: (?P<items>.+)\. A job starts only when all jobs that it comes after have ended\.",
        r"Some jobs wait: (?P<items>.+)\. A job starts only when every job it waits for has ended\.",
        r"What must have ended before a job starts: (?P<items>.+)\.",
    ),
    "resources": (
        r"At any time there are (?P<there>.+) and no more\. A job holds some while it runs \( (?P<names>.+) \): "
        r"(?P<items>.+)\.",
        r"Never use more than (?P<there>.+) at once\. Use of each running job \( (?P<names>.+) \): (?P<items>.+)\.",
        r"Available at every hour: (?P<there>.+)\. Held by a job while it runs \( (?P<names>.+) \): (?P<items>.+)\.",
    ),
    "deadlines": (
        r"Latest end hours: (?P<items>.+)\.",
        r"Deadlines, the hour by which a job has ended: (?P<items>.+)\.",
        r"Jobs must have ended in time: (?P<items>.+)\.",
    ),
    "horizon": (
        r"All jobs must have ended by hour (?P<hour>\d+)\.",
        r"The whole project must end by hour (?P<hour>\d+)\.",
        r"Nothing may end after hour (?P<hour>\d+)\.",
    ),
    "answer": tuple(map(re.escape, TAUGHT.answer)),
}
Patterns = dict[str, tuple[str, ...]]


ITEM: Patterns = {
    "durations": (r"(\w+) (\d+)", r"(\w+) (\d+)", r"(\w+) takes (\d+)"),
    "sequence": (r"(\w+) after ([\w, ]+)", r"(\w+) waits for ([\w, ]+)", r"(\w+) : ([\w, ]+)"),
    "resources": (r"(\w+)((?: \d+)+)",) * 3,
    "deadlines": (r"(\w+) (\d+)", r"(\w+) (\d+)", r"(\w+) by (\d+)"),
}


UNSEEN_PATTERNS: dict[str, tuple[str, ...]] = {
    "intro": tuple(map(re.escape, UNSEEN.intro)),
    "durations": (r"Time needed, in hours: (?P<items>.+)\.",),
    "sequence": (r"(?P<items>\w+ cannot begin until .+)\.",),
    "resources": (
        r"The site has (?P<there>.+) in all\. This is what each job keeps busy \( (?P<names>.+) \): (?P<items>.+)\.",
    ),
    "deadlines": (r"Must be finished no later than: (?P<items>.+)\.",),
    "horizon": (r"Finish everything no later than hour (?P<hour>\d+)\.",),
    "answer": tuple(map(re.escape, UNSEEN.answer)),
}
UNSEEN_ITEM: Patterns = {
    "durations": (r"(\w+) (\d+)",),
    "sequence": (r"(\w+) cannot begin until ([\w, ]+) have finished",),
    "resources": (r"(\w+)((?: \d+)+)",),
    "deadlines": (r"(\w+) (\d+)",),
}


def read(prompt: str, wordings: Patterns = PATTERNS, items: Patterns = ITEM) -> Told:
    """Every line in full; a line that follows no pattern, or two, is an error."""
    told = Told()
    for line in prompt.split("\n"):
        matches = [
            (section, number, match)
            for section, patterns in wordings.items()
            for number, pattern in enumerate(patterns)
            if (match := re.fullmatch(pattern, line))
        ]
        assert len(matches) == 1, line
        section, number, match = matches[0]
        told.wordings.append((section, number))
        if section == "horizon":
            told.horizon.append(int(match["hour"]))
        if section == "resources":
            there = [piece.split(" ", 1) for piece in match["there"].split(" and ")]
            told.resources.extend((name, int(units)) for units, name in there)
            assert match["names"].split(" and ") == [name for _, name in there]
        if section in items:
            for item in re.split("[;.] " if section == "sequence" else ", ", match["items"]):
                found = re.fullmatch(items[section][number], item)
                assert found, line
                keep(told, section, found[1], found[2])
    return told


def keep(told: Told, section: str, label: str, said: str) -> None:
    if section == "durations":
        told.durations.append((label, int(said)))
    elif section == "sequence":
        told.precedence.update((before, label) for before in said.split(", "))
    elif section == "resources":
        told.demands[label] = tuple(map(int, said.split()))
    else:
        told.deadlines[label] = int(said)


def check_told(instance: Instance, prompt: str, wordings: Patterns = PATTERNS, items: Patterns = ITEM) -> Told:
    """All that the instance demands is told, once, and nothing that it does not."""
    told = read(prompt, wordings, items)
    assert told.durations == [(job.label, job.duration) for job in instance.jobs]
    assert told.precedence == set(instance.precedence)
    assert told.resources == [(resource.name, resource.capacity) for resource in instance.resources]
    assert told.demands == ({job.label: job.demands for job in instance.jobs} if instance.resources else {})
    assert told.deadlines == {job.label: job.deadline for job in instance.jobs if job.deadline is not None}
    assert told.horizon == ([] if instance.horizon is None else [instance.horizon])
    sections = [section for section, _ in told.wordings]
    assert sections == [section for section in wordings if section in sections], "each section once, in this order"
    return told


@pytest.mark.slow
@given(instance=instances(max_jobs=8), rng=st.randoms(use_true_random=False))
def test_unseen_words_say_the_same(instance: Instance, rng: random.Random) -> None:
    check_told(instance, prompt_text(instance, rng, phrases=UNSEEN), UNSEEN_PATTERNS, UNSEEN_ITEM)


def test_no_sentence_of_the_unseen_words_is_taught() -> None:
    """Labels and numbers aside, no clause of four words or more is in both."""

    def clauses(prompts: list[str]) -> set[str]:
        plain = re.sub(r"\b[A-Z]\b|\d+", "#", "\n".join(prompts))
        pieces = (piece.strip(" #,;") for piece in re.split(r"[.:;\n#]", plain))
        return {piece for piece in pieces if len(piece.split()) >= 4}

    taught = [prompt_text(HOUSE, python_generator("taught", index)) for index in range(100)]
    taught.append(prompt_text(HOUSE, First(), answer_only=True))
    unseen = clauses([prompt_text(HOUSE, First(), phrases=UNSEEN)]) - {"JOB HOUR, JOB HOUR"}
    assert len(unseen) >= 6 and not unseen & clauses(taught)


@pytest.mark.slow
@given(instance=instances(max_jobs=8), rng=st.randoms(use_true_random=False))
def test_a_prompt_states_every_constraint_and_no_other(instance: Instance, rng: random.Random) -> None:
    """Read back line by line: the numbers and labels of the instance, of any mixture of families."""
    check_told(instance, prompt_text(instance, rng))


@pytest.mark.slow
@pytest.mark.parametrize("preset", PRESETS)
def test_prompts_of_drawn_problems_say_it_all(preset: str) -> None:
    for tier in PRESETS[preset]:
        for index in range(10):
            rng = python_generator("prompts", preset, tier.name, index)
            instance = draw_instance(tier, preset, rng, solve)
            check_told(instance, prompt_text(instance, rng))


def test_each_wording_says_the_same_and_all_are_drawn() -> None:
    """Three hundred prompts of one instance: every wording of every section turns up, and each is read back right."""
    seen = set()
    for index in range(300):
        seen.update(check_told(HOUSE, prompt_text(HOUSE, python_generator("wordings", index))).wordings)
    counts = {section: len(wordings) for section, wordings in asdict(TAUGHT).items()}
    assert seen == {(section, number) for section, count in counts.items() for number in range(count)}
    assert asdict(TAUGHT).keys() == PATTERNS.keys()


# Spelled out


def test_a_prompt_in_its_first_wording() -> None:
    assert prompt_text(HOUSE, First()) == "\n".join(
        [
            "Plan these jobs. Times are whole hours, counted from 0.",
            "Hours each job takes: K 3, B 2, T 4, M 1.",
            "Sequence: B after M; T after B, K. A job starts only when all jobs that it comes after have ended.",
            "At any time there are 3 workers and 2 machines and no more. A job holds some while it runs "
            "( workers and machines ): K 2 1, B 1 1, T 2 2, M 1 1.",
            "Latest end hours: K 9, T 12, M 5.",
            "All jobs must have ended by hour 14.",
            TAUGHT.answer[0],
        ]
    )


def test_a_prompt_in_its_last_wording() -> None:
    assert prompt_text(HOUSE, Last()) == "\n".join(
        [
            "Make a schedule for the jobs below, in whole hours from hour 0 on.",
            "How long jobs take, in hours: K takes 3, B takes 2, T takes 4, M takes 1.",
            "What must have ended before a job starts: B : M; T : B, K.",
            "Available at every hour: 3 workers and 2 machines. Held by a job while it runs "
            "( workers and machines ): K 2 1, B 1 1, T 2 2, M 1 1.",
            "Jobs must have ended in time: K by 9, T by 12, M by 5.",
            "Nothing may end after hour 14.",
            TAUGHT.answer[-1],
        ]
    )


def test_what_an_instance_lacks_is_not_mentioned() -> None:
    """Durations alone: an introduction, the durations, how to answer."""
    bare = evolve(HOUSE.without("sequencing").without("resources").without("deadlines"), horizon=None)
    assert [section for section, _ in read(prompt_text(bare, First())).wordings] == ["intro", "durations", "answer"]


@pytest.mark.parametrize(
    ("drop", "section"),
    [
        (lambda instance: instance.without("sequencing"), "sequence"),
        (lambda instance: instance.without("resources"), "resources"),
        (lambda instance: instance.without("deadlines"), "deadlines"),
        (lambda instance: evolve(instance, horizon=None), "horizon"),
    ],
)
def test_a_family_that_is_dropped_takes_its_line_along(drop: Callable[[Instance], Instance], section: str) -> None:
    whole = prompt_text(HOUSE, First()).split("\n")
    place = list(PATTERNS).index(section)
    assert prompt_text(drop(HOUSE), First()).split("\n") == whole[:place] + whole[place + 1 :]


def test_a_deadline_or_horizon_of_0_is_stated() -> None:
    prompt = prompt_text(Instance([Job("A", 0, (), 0)], horizon=0), First())
    assert read(prompt).deadlines == {"A": 0}
    assert read(prompt).horizon == [0]


# How it is drawn


def test_the_same_generator_gives_the_same_prompt() -> None:
    """And different ones do not all."""
    prompts = [prompt_text(HOUSE, python_generator("same", index)) for index in range(20)]
    assert prompts == [prompt_text(HOUSE, python_generator("same", index)) for index in range(20)]
    assert len(set(prompts)) > 15


def test_the_order_of_the_sequence_is_drawn() -> None:
    """Both orders of its two entries turn up, so the order of entries says nothing."""
    prompts = [prompt_text(HOUSE, python_generator("sequence", index)) for index in range(40)]
    starts = {present(re.search(r": (\w+) (?:after|waits for|:) ", prompt))[1] for prompt in prompts}
    assert starts == {"B", "T"}


def test_only_numbers_and_labels_move_with_the_instance() -> None:
    """Two instances of one shape and one generator: the same wordings, whatever the numbers."""
    other = evolve(HOUSE, jobs=[evolve(job, duration=job.duration + 7) for job in HOUSE.jobs], horizon=40)
    for index in range(20):
        one, two = (prompt_text(instance, python_generator("shape", index)) for instance in (HOUSE, other))
        assert read(one).wordings == read(two).wordings


# How to answer


def test_the_form_shown_is_no_answer() -> None:
    """Whoever copies the last line of the prompt gets the grammar's refusal, in every wording."""
    for line in (*TAUGHT.answer, *UNSEEN.answer, ANSWER_ONLY):
        assert line.count("Answer:") == 1
        shown = line[line.index("Answer:") :]
        assert isinstance(parse(shown), Violation)
        assert not verify(HOUSE, shown).right


def test_answering_at_once_can_be_asked_for() -> None:
    *before, last = prompt_text(HOUSE, First(), answer_only=True).split("\n")
    assert last == ANSWER_ONLY
    assert before == prompt_text(HOUSE, First()).split("\n")[:-1]


# Later turns


def test_the_constraints_restated() -> None:
    assert constraint_list(HOUSE) == (
        "Job K takes 3 needs 2 1 by 9\n"
        "Job B takes 2 needs 1 1 after M\n"
        "Job T takes 4 needs 2 2 after B K by 12\n"
        "Job M takes 1 needs 1 1 by 5\n"
        "Free 3 2\n"
        "All by 14"
    )
    assert constraint_list(Instance([Job("A", 0, (), 0)], horizon=0)) == "Job A takes 0 by 0\nAll by 0"


@given(instance=instances())
def test_the_list_of_constraints_leaves_nothing_out(instance: Instance) -> None:
    """One line a job, then the capacities and the horizon where there are some."""
    lines = constraint_list(instance).split("\n")
    for job, line in zip(instance.jobs, lines, strict=False):
        parts = [f"Job {job.label} takes {job.duration}"]
        parts += ["needs " + " ".join(map(str, job.demands))] * bool(instance.resources)
        parts += ["after " + " ".join(instance.predecessors(job.label))] * bool(instance.predecessors(job.label))
        parts += [f"by {job.deadline}"] * (job.deadline is not None)
        assert line == " ".join(parts)
    assert len(lines) == len(instance.jobs) + bool(instance.resources) + (instance.horizon is not None)


def test_a_second_try_repeats_what_was_wrong() -> None:
    said = feedback(verify(HOUSE, "Answer: K 0, B 1, T 3, M 1"))
    assert try_again(said) == said + "\nTry again."
    assert "Job B starts at 1, but job M, which it must follow, ends at 2." in try_again(said)


def test_no_turn_but_the_prompt_has_the_word_that_marks_an_answer() -> None:
    """A call that showed the form could be echoed as an answer."""
    for call in (LIST_CALL, DRAFT_CALL, ANSWER_CALL, try_again("Wrong.")):
        assert "answer:" not in call.lower()
