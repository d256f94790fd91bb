"""Other alphabets of job labels: only labels differ, and everything that reads labels takes them."""

from __future__ import annotations

import random
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st
from present import present

from gce.domain.tasks import TASKS, draw_problem
from gce.domain.tasks.scheduling.alphabets import CODE_WORDS, LOWER, UPPER, relabelled
from gce.domain.tasks.scheduling.answer import Answer, parse, render
from gce.domain.tasks.scheduling.canonical import canonical_digest
from gce.domain.tasks.scheduling.instance import Instance, Job, Resource
from gce.domain.tasks.scheduling.metamorphic_relations import RELATIONS
from gce.domain.tasks.scheduling.verify import verify
from gce.domain.tasks.task import Task
from gce.testing.scheduling.generators import instances

OTHERS = {"scheduling-relabelled": LOWER, "scheduling-code-words": CODE_WORDS}


def test_alphabets_have_26_labels_each_and_share_none() -> None:
    """Words go along with letters in alphabetical order, so that sorting by label sorts the same jobs."""
    assert (len(UPPER), len(LOWER), len(CODE_WORDS)) == (26, 26, 26)
    assert len({*UPPER, *LOWER, *CODE_WORDS}) == 78
    assert [word[0] for word in CODE_WORDS] == list(LOWER) == [letter.lower() for letter in UPPER]
    assert all(word.isascii() and word.isalpha() and word.islower() and len(word) > 1 for word in CODE_WORDS)


def test_a_renamed_instance_by_hand() -> None:
    found = relabelled(
        Instance([Job("B", 2, (1,), 9), Job("A", 3, (0,))], [("A", "B")], [Resource("workers", 1)], 7),
        dict(zip(UPPER, CODE_WORDS, strict=True)),
    )
    assert found == Instance(
        [Job("bravo", 2, (1,), 9), Job("alpha", 3, (0,))], [("alpha", "bravo")], [Resource("workers", 1)], 7
    )


def test_a_job_without_a_new_label_and_two_with_the_same_are_refused() -> None:
    instance = Instance([Job("A", 1), Job("B", 1), Job("C", 1)])
    with pytest.raises(ValueError, match="expected a new label for every job, got none for B, C"):
        relabelled(instance, {"A": "alpha"})
    with pytest.raises(ValueError, match="duplicate job 'x'"):
        relabelled(instance, {"A": "x", "B": "x", "C": "z"})


@pytest.mark.slow
@given(instance=instances(), alphabet=st.sampled_from([LOWER, CODE_WORDS]), seed=st.integers(0, 2**32))
def test_digest_and_verdicts_stay_and_the_names_come_back(
    instance: Instance, alphabet: tuple[str, ...], seed: int
) -> None:
    """Any starts, right or wrong, get the same verdict on the jobs renamed; the inverse mapping gives the instance."""
    rng = random.Random(seed)
    names = dict(zip(instance.labels, rng.sample(alphabet, len(instance.jobs)), strict=True))
    renamed = relabelled(instance, names)
    assert canonical_digest(renamed) == canonical_digest(instance)
    assert relabelled(renamed, {new: old for old, new in names.items()}) == instance
    starts = {label: rng.randint(0, 20) for label in instance.labels}
    answer = render({names[label]: start for label, start in starts.items()})
    assert parse(answer) == Answer(tuple((names[label], start) for label, start in starts.items()))
    one, other = verify(instance, render(starts)), verify(renamed, answer)
    assert (one.status, one.measures) == (other.status, other.measures)
    assert [each.kind for each in one.violations] == [each.kind for each in other.violations]


@pytest.mark.parametrize(("name", "alphabet"), OTHERS.items())
@pytest.mark.parametrize("tier", ["T1", "T3", "T4", "T5"])
def test_a_task_of_another_alphabet_has_the_same_problems(name: str, alphabet: tuple[str, ...], tier: str) -> None:
    task, names = TASKS[name], dict(zip(UPPER, alphabet, strict=True))
    one, other = (draw_problem(each, "grounded", tier, "test", 0) for each in (TASKS["scheduling"], task))
    assert other.digest == one.digest
    assert other.instance == relabelled(one.instance, names)
    assert not set(other.prompt[0].content.replace(",", " ").split()) & set(one.instance.labels) - {"A"}
    demonstration = present(task.teaching.demonstration(other, None))
    if verify(one.instance, present(TASKS["scheduling"].teaching.demonstration(one, None))).right:
        assert verify(other.instance, demonstration).right
    steps = task.judge_steps(other, demonstration)
    assert steps and {step.status for step in steps} == {"true"}


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("relation", RELATIONS)
def test_metamorphic_relations_hold_with_these_labels(name: str, relation: str) -> None:
    """On right and on wrong answers; each relation applies to at least one of them."""
    changed = 0
    for index in range(4):
        task: Task = TASKS[name]
        problem = draw_problem(task, "grounded", "T5", "test", index)
        text = present(task.teaching.demonstration(problem, None))
        all_at_zero = render(dict.fromkeys(problem.instance.labels, 0))
        for response in (text, all_at_zero):
            before = verify(problem.instance, response).right
            found = RELATIONS[relation].change(problem, response, random.Random(index))
            if found is None:
                continue
            changed += 1
            after = verify(found[0].instance, found[1]).right
            if RELATIONS[relation].holds == "the verdict stays":
                assert after == before
            elif RELATIONS[relation].holds == "wrong stays wrong":
                assert before or not after
            else:
                assert not (before and after)
    assert changed


def test_labels_of_problems_as_drawn_are_upper_case() -> None:
    """What the two other alphabets rename: none of their labels is ever drawn."""
    assert "".join(UPPER) == string.ascii_uppercase
    problem = draw_problem(TASKS["scheduling"], "sixteen", "T0", "test", 0)
    assert set(problem.instance.labels) <= set(UPPER)
