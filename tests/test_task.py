"""Tasks and their problems: splits that never meet, draws that repeat anywhere, and the way in through `import gce`."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections import Counter
from hashlib import blake2b
from typing import Any

import pytest
from attrs import evolve, fields
from hypothesis import given
from hypothesis import strategies as st
from present import present

import gce
from gce.domain.completions import Completion
from gce.domain.problems import Message, ProblemId, Split
from gce.domain.randomness import python_generator
from gce.domain.serialization import from_plain, to_plain
from gce.domain.tasks import (
    TASKS,
    Listed,
    NoProblem,
    ProblemSource,
    Task,
    TaskTier,
    draw_problem,
    draw_problems,
    judge,
)
from gce.domain.tasks.scheduling.answer import render
from gce.domain.tasks.scheduling.branch_and_bound import solve
from gce.domain.tasks.scheduling.canonical import canonical_digest
from gce.domain.tasks.scheduling.dispatch import predecessors_first
from gce.domain.tasks.scheduling.instance import Instance
from gce.domain.tasks.scheduling.reasoning import worked_response
from gce.domain.tasks.scheduling.wording import UNSEEN, prompt_text
from gce.domain.tasks.source import SPLITS, quarter
from gce.domain.tasks.task import without_thinking
from gce.domain.verdicts import Verdict, Violation

SCHEDULING = TASKS["scheduling"]

COIN = Task(
    name="coin",
    presets={"fair": (TaskTier("one"), TaskTier("hard", held_out=True)), "loaded": (TaskTier("one"),)},
    draw=lambda preset, tier, rng, solve: rng.randrange(4),
    prompt=lambda instance, rng: (Message("user", f"Is {instance} a {rng.choice(('head', 'tail'))}?"),),
    digest=lambda instance: f"{instance:08x}" + "0" * 24,
    verify=lambda problem, completion, evidence: (Verdict("right", 1.0, "coin", "1"),),
    instance_type=int,
)
"""Four problems: 0 and 1 may be trained on, 2 is for dev, 3 for test."""


def answer(problem: gce.Problem) -> str:
    return render(present(solve(problem.instance).starts))


# What a task has


def test_only_what_is_required_has_to_be_given() -> None:
    """The rest has defaults that do nothing: no steps, no groups, no policies; all right is worth 1."""
    problem = draw_problem(COIN, "fair", "one", "train", 0)
    right, wrong = (
        Verdict("right", 1.0, "a", "1"),
        Verdict("wrong", 0.0, "b", "1", {}, (Violation("odd", "It is odd."),)),
    )
    assert COIN.request(problem, Completion("key", "head", "stop", "policy")) is None
    assert COIN.teaching.check_steps(problem, "anything") == ()
    assert COIN.teaching.feedback(wrong) == "It is odd.\nTry again."
    assert [COIN.reward(verdicts) for verdicts in ((right,), (right, right), (right, wrong), ())] == [1, 1, 0, 0]
    assert COIN.reward((right, Verdict("failed", None, "c", "1"))) is None
    assert (COIN.audit.group(3), COIN.references.prompt_blind(()), COIN.references.heuristics(())) == ("", {}, {})


def test_a_task_is_small() -> None:
    assert len(fields(Task)) <= 14


def test_training_leaves_out_what_is_held_out() -> None:
    assert [tier.name for tier in COIN.tiers("fair")] == ["one", "hard"]
    assert COIN.training_tiers("fair") == ("one",)
    assert SCHEDULING.training_tiers("psplib-like") == ("J30", "J60", "J90")
    for preset in {*SCHEDULING.presets} - {"psplib-like"}:
        assert SCHEDULING.training_tiers(preset) == ("T0", "T1", "T2", "T3", "T4")
    with pytest.raises(KeyError):
        COIN.tiers("unfair")


# Drawing problems


def test_a_problem_says_where_it_came_from() -> None:
    problem = draw_problem(SCHEDULING, "grounded", "T1", "dev", 7, seed=3)
    assert problem.key == "scheduling/grounded/dev/T1/3/7"
    assert (problem.task, problem.tier, problem.split) == ("scheduling", "T1", "dev")
    assert problem.digest == canonical_digest(problem.instance)
    assert problem.id == ProblemId("scheduling", "grounded", "dev", "T1", 3, 7) == ProblemId.parse(problem.key)
    assert [message.role for message in problem.prompt] == ["user"]


def test_many_are_drawn_one_by_one() -> None:
    """The first ten hold the first five, however many are asked for."""
    ten = draw_problems(SCHEDULING, "grounded", "T0", "train", 10)
    assert draw_problems(SCHEDULING, "grounded", "T0", "train", 5) == ten[:5]
    assert draw_problem(SCHEDULING, "grounded", "T0", "train", 7) == ten[7]
    assert draw_problems(SCHEDULING, "grounded", "T0", "train", 0) == ()


def test_seed_split_tier_and_number_give_other_problems() -> None:
    problem = draw_problem(SCHEDULING, "grounded", "T2", "train", 0)
    others = [
        draw_problem(SCHEDULING, "grounded", "T2", "train", 1),
        draw_problem(SCHEDULING, "grounded", "T2", "train", 0, seed=1),
        draw_problem(SCHEDULING, "grounded", "T2", "test", 0),
        draw_problem(SCHEDULING, "paper", "T2", "train", 0),
    ]
    assert len({one.digest for one in [problem, *others]}) == 5


@pytest.mark.slow
@pytest.mark.parametrize(("preset", "tier"), [("grounded", "T0"), ("grounded", "T1"), ("paper", "T0"), ("paper", "T1")])
def test_no_problem_is_in_two_splits(preset: str, tier: str) -> None:
    """The smallest spaces, where chance would not keep them apart: within one split problems do come again."""
    found = {
        split: {problem.digest for problem in draw_problems(SCHEDULING, preset, tier, split, 150)}
        for split in ("train", "dev", "test")
    }
    assert not found["train"] & found["dev"]
    assert not found["train"] & found["test"]
    assert not found["dev"] & found["test"]
    if tier == "T0":
        assert len(found["train"]) < 150


@pytest.mark.slow
def test_splits_own_quarters_of_the_digests() -> None:
    """Train two, dev one, test one."""
    found = {
        split: Counter(int(draw_problem(COIN, "fair", "one", split, index).instance) for index in range(40))
        for split in ("train", "dev", "test")
    }
    assert {split: set(counts) for split, counts in found.items()} == {"train": {0, 1}, "dev": {2}, "test": {3}}
    assert min(found["train"].values()) > 5


def test_a_task_whose_digests_never_reach_a_split_is_told_so() -> None:
    """All digests alike: train problems come, test problems never do."""
    stuck = evolve(COIN, digest=lambda instance: "0" * 32)
    assert draw_problem(stuck, "fair", "one", "train", 0).digest == "0" * 32
    with pytest.raises(ValueError, match="task coin, tier one: 2,000 draws gave no problem for the test split"):
        draw_problem(stuck, "fair", "one", "test", 0)


def test_the_wording_is_drawn_after_the_problem() -> None:
    """Problems are the same whatever a prompt draws."""
    plain = evolve(SCHEDULING, prompt=lambda instance, rng: (Message("user", "Plan."),))
    for index in range(5):
        one, two = (draw_problem(task, "grounded", "T3", "train", index) for task in (SCHEDULING, plain))
        assert (one.instance, one.digest) == (two.instance, two.digest)


def test_an_exact_solver_may_be_given() -> None:
    """It is asked for each draw; here a wrapper around the one used otherwise."""
    asked: list[Instance] = []

    def counting(instance: Instance) -> object:
        asked.append(instance)
        return solve(instance)

    given = draw_problem(SCHEDULING, "grounded", "T4", "dev", 0, solve=counting)
    assert given == draw_problem(SCHEDULING, "grounded", "T4", "dev", 0)
    assert asked


DRAWS = """
import json, sys
from gce.domain.serialization import to_plain
from gce.domain.tasks import TASKS, draw_problem
task = TASKS["scheduling"]
print(json.dumps([
    to_plain(draw_problem(task, preset, tier.name, "test", 3, seed=5))
    for preset in task.presets for tier in task.tiers(preset)
]))
"""


@pytest.mark.parametrize("hash_seed", ["1", pytest.param("4242", marks=pytest.mark.slow)])
def test_problems_are_the_same_in_every_process(hash_seed: str) -> None:
    """Under another setting of PYTHONHASHSEED, and here."""
    here = [
        to_plain(draw_problem(SCHEDULING, preset, tier.name, "test", 3, seed=5))
        for preset in SCHEDULING.presets
        for tier in SCHEDULING.tiers(preset)
    ]
    environment = os.environ | {"PYTHONHASHSEED": hash_seed}
    said = subprocess.run([sys.executable, "-c", DRAWS], env=environment, capture_output=True, text=True, check=True)
    assert json.loads(said.stdout) == json.loads(json.dumps(here))


# Scheduling as a task


def test_scheduling_puts_its_pieces_together() -> None:
    problem = draw_problem(SCHEDULING, "grounded", "T5", "dev", 0)
    completion = Completion("key", answer(problem), "stop", "policy")
    (verdict,) = SCHEDULING.verify(problem, completion, None)
    assert verdict.right and SCHEDULING.reward((verdict,)) == 1.0
    assert SCHEDULING.request(problem, completion) is None
    assert SCHEDULING.teaching.feedback(verdict) == "The answer is right: it keeps every constraint.\nTry again."
    order = predecessors_first(problem.instance, problem.instance.labels)
    text = worked_response(problem.instance, order)
    steps = SCHEDULING.teaching.check_steps(problem, text)
    assert {step.status for step in steps} == {"true"} and len(steps) == 12
    assert SCHEDULING.instance_type is Instance
    assert from_plain(SCHEDULING.instance_type, json.loads(json.dumps(to_plain(problem.instance)))) == problem.instance


def test_groups_are_named_by_their_families() -> None:
    """T4 has three; the others are named for what they hold."""
    groups = {
        SCHEDULING.audit.group(problem.instance) for problem in draw_problems(SCHEDULING, "grounded", "T4", "train", 20)
    }
    assert groups == {"sequencing+resources", "resources+deadlines", "sequencing+deadlines"}
    named = {
        tier: SCHEDULING.audit.group(draw_problem(SCHEDULING, "grounded", tier, "train", 0).instance)
        for tier in ("T0", "T1", "T2", "T3", "T5")
    }
    assert named == {
        "T0": "sequencing",
        "T1": "sequencing",
        "T2": "resources",
        "T3": "deadlines",
        "T5": "sequencing+resources+deadlines",
    }


def test_every_tier_has_a_limit_for_blind_answers() -> None:
    assert SCHEDULING.references.limits == {"T0": 0.25, "*": 0.10}


# The way in


def test_judging_takes_a_problem_and_a_text() -> None:
    problem = draw_problem(SCHEDULING, "grounded", "T2", "train", 0)
    assert judge(problem, answer(problem)).right
    wrong = judge(problem, render(dict.fromkeys(problem.instance.labels, 0)))
    assert (wrong.status, {violation.kind for violation in wrong.violations}) == ("wrong", {"capacity"})
    assert judge(problem, "I do not know.").violations[0].kind == "missing-answer"


def test_judging_knows_the_shipped_tasks_only() -> None:
    problem = draw_problem(COIN, "fair", "one", "train", 0)
    with pytest.raises(ValueError, match="'coin' is no shipped task: give the problem's task"):
        judge(problem, "head")


def test_the_package_offers_all_of_it() -> None:
    """Every name of `gce.__all__` is there, and nothing else."""
    assert gce.judge is judge
    assert gce.draw_problem is draw_problem
    assert gce.TASKS is TASKS
    for name in gce.__all__:
        assert getattr(gce, name) is not None
        assert name in dir(gce)
    with pytest.raises(AttributeError, match="module 'gce' has no attribute 'solve_everything'"):
        _ = gce.solve_everything


def test_the_lines_in_the_package_docstring_run() -> None:
    """Draw, judge, admit."""
    problem = gce.draw_problem(gce.TASKS["scheduling"], "grounded", "T2", "train", 0)
    assert gce.judge(problem, "Answer: A 0").status == "wrong"
    assert sum(gce.composition(gce.admit(gce.empty(), [])).values()) == 0


def test_the_reworded_task_is_the_same_but_for_its_words() -> None:
    one, other = TASKS["scheduling"], TASKS["scheduling-reworded"]
    assert other.presets == one.presets and other.verify is one.verify
    said, reworded = (draw_problem(task, "grounded", "T5", "test", 0) for task in (one, other))
    assert reworded.task == other.name and reworded.key != said.key
    assert (reworded.instance, reworded.digest) == (said.instance, said.digest)
    expected = prompt_text(said.instance, python_generator("any"), phrases=UNSEEN)
    assert sorted(reworded.prompt[0].content) == sorted(expected), "but for the order of what is drawn"
    assert judge(reworded, "Answer: A 0").status == "wrong"


def test_the_relabelled_task_is_the_same_but_for_its_labels() -> None:
    """Small letters in the same words; what is right for one is right for the other once relabelled."""
    other = TASKS["scheduling-relabelled"]
    for tier in ("T1", "T5"):
        said, relabelled = (draw_problem(task, "grounded", tier, "test", 0) for task in (SCHEDULING, other))
        assert relabelled.digest == said.digest
        assert list(relabelled.instance.labels) == [label.lower() for label in said.instance.labels]
        assert relabelled.prompt[0].content.lower() == said.prompt[0].content.lower()
        text = present(SCHEDULING.teaching.demonstration(said, solve))
        assert judge(said, text).right
        assert judge(relabelled, present(other.teaching.demonstration(relabelled, solve))).right


def test_the_answer_only_task_asks_for_one_line() -> None:
    problem = draw_problem(TASKS["scheduling-answer-only"], "grounded", "T2", "test", 0)
    assert problem.instance == draw_problem(SCHEDULING, "grounded", "T2", "test", 0).instance
    assert problem.prompt[0].content.split("\n")[-1].startswith("Write one line only")
    text = present(TASKS["scheduling-answer-only"].teaching.demonstration(problem, solve))
    assert "\n" not in text and judge(problem, text).right


def test_shifts_are_tasks_and_presets_that_exist() -> None:
    shifts = SCHEDULING.audit.shifts
    assert list(shifts) == [
        *("eleven jobs", "sixteen jobs", "other sentences", "small letters", "code words", "the tiers of paper")
    ]
    assert len(set(shifts.values())) == len(shifts)
    for name, preset in shifts.values():
        assert TASKS[name].tiers(preset or "paper")
    assert [name for name, task in TASKS.items() if task.audit.shifts] == ["scheduling"]


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_a_problem_is_found_again_by_its_key(task: Task) -> None:
    preset = next(iter(task.presets))
    problem = draw_problem(task, preset, task.tiers(preset)[-1].name, "dev", 3, seed=5)
    assert ProblemSource(task).redraw(problem.key) == problem


@pytest.mark.parametrize(
    "key",
    [
        "",
        "a/b",
        "coin/one/train/T0/0",
        "other/one/train/T0/0/0",
        "scheduling/grounded/exam/T0/0/0",
        "scheduling/grounded/dev/T9/0/0",
    ],
)
def test_a_key_of_no_problem_is_refused(key: str) -> None:
    with pytest.raises(ValueError, match="expected a key of task scheduling"):
        ProblemSource(SCHEDULING).redraw(key)


def test_a_rung_has_less_room_and_nobody_more_than_was_asked_for() -> None:
    large, rung = (draw_problem(SCHEDULING, "paper", tier, "train", 0) for tier in ("T0", "L2"))
    assert SCHEDULING.token_budget(large) == 640
    assert SCHEDULING.token_budget(large, 900) == 900
    sixteen = draw_problem(SCHEDULING, "sixteen", "T0", "train", 0)
    assert SCHEDULING.token_budget(sixteen) == SCHEDULING.token_budget(sixteen, 2000) == 16 * 80, "above the task's"
    assert SCHEDULING.token_budget(sixteen, 640) == 640
    assert SCHEDULING.token_budget(rung) == SCHEDULING.token_budget(rung, 900) == 160
    assert SCHEDULING.token_budget(rung, 50) == 50
    assert SCHEDULING.token_budget(evolve(rung, id=evolve(rung.id, preset="by hand"))) == 640, (
        "of no preset that is known"
    )


def test_rungs_are_for_training_where_a_ladder_is_asked_for_and_never_tested() -> None:
    assert SCHEDULING.training_tiers("grounded", ladder=True) == ("L2", "L3", "T0", "T1", "T2", "T3", "T4")
    assert SCHEDULING.training_tiers("larger", ladder=True) == SCHEDULING.training_tiers("larger")
    assert not any(tier.name.startswith("L") for preset in SCHEDULING.presets for tier in SCHEDULING.tiers(preset))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Answer: A 0", "Answer: A 0"),
        ("<think>\nAnswer: A 9\n</think>\n\nAnswer: A 0", "\n\nAnswer: A 0"),
        ("Answer: A 9</think>Answer: A 0", "Answer: A 0"),
        ("<think>one</think><think>two</think>x", "x"),
        (" <think>\nAnswer: A 0", ""),
        ("<think>Answer: A 0</think>", ""),
        ("I <think> so. Answer: A 0", "I <think> so. Answer: A 0"),
        ("", ""),
    ],
)
def test_what_a_model_thinks_is_not_its_answer(text: str, said: str) -> None:
    assert without_thinking(text) == said


def test_thinking_is_not_judged_and_cannot_answer() -> None:
    """The worked answer alone is right; thought it is nothing, and beside a thought answer it is the only one."""
    problem = draw_problem(SCHEDULING, "grounded", "T0", "train", 0)
    right = present(SCHEDULING.teaching.demonstration(problem, None))
    answered = {
        right: "right",
        f"<think>{right}</think>": "wrong",
        f"<think>{right}": "unreadable",
        f"<think>Answer: Z 3</think>{right}": "right",
        f"{right}\n{right}": "wrong",
    }
    assert {text: judge(problem, text).status for text in answered} == answered


# Distinct problems


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["grounded", "paper"])
@pytest.mark.parametrize("split", ["dev", "test"])
def test_evaluation_problems_of_a_tier_are_distinct(preset: str, split: Split) -> None:
    for tier in SCHEDULING.tiers(preset):
        digests = [problem.digest for problem in draw_problems(SCHEDULING, preset, tier.name, split, 40)]
        assert len(set(digests)) == len(digests)
        assert len(digests) == 40 or (preset, tier.name) == ("paper", "T0")


@pytest.mark.slow
def test_where_there_are_fewer_problems_all_of_them_are_drawn() -> None:
    """T0 of the reference's preset has twelve test problems, whatever their labels and words; then they repeat."""
    drawn = draw_problems(SCHEDULING, "paper", "T0", "test", 200)
    assert len(drawn) == len({problem.digest for problem in drawn}) == 12
    assert draw_problem(SCHEDULING, "paper", "T0", "test", 25) == drawn[1]
    other = {problem.digest for problem in draw_problems(SCHEDULING, "paper", "T0", "test", 200, seed=1)}
    assert other == {problem.digest for problem in drawn}, "another seed draws the same twelve"


@pytest.mark.slow
@given(st.integers(2, 30), st.integers(1, 40), st.sampled_from(["dev", "test"]))
def test_as_many_problems_are_drawn_as_differ(kinds: int, count: int, split: Split) -> None:
    """Of a space of `kinds` problems, all that fall into the split, and never one twice."""
    few = evolve(
        SCHEDULING,
        name=f"few-{kinds}",
        draw=lambda _preset, _tier, rng, _solve: rng.randrange(kinds),
        digest=lambda instance: blake2b(str(instance).encode(), digest_size=16).hexdigest(),
        prompt=lambda instance, _rng: (Message("user", str(instance)),),
    )
    owned = {kind for kind in range(kinds) if quarter(few.digest(kind)) in SPLITS[split]}
    if not owned:
        with pytest.raises(NoProblem):
            draw_problems(few, "grounded", "T0", split, count)
        return
    drawn = [problem.instance for problem in draw_problems(few, "grounded", "T0", split, count)]
    assert len(drawn) == len(set(drawn)) == min(count, len(owned))
    assert set(drawn) <= owned


def test_a_problem_that_a_file_has_twice_is_evaluated_once() -> None:
    twice = evolve(COIN, draw=Listed(lambda _preset, _tier, _split: (1, 2, 1, 3)))
    drawn = draw_problems(twice, "fair", "one", "test", 9)
    assert [(problem.instance, problem.key[-1]) for problem in drawn] == [(1, "0"), (2, "1"), (3, "3")]
    assert len(draw_problems(twice, "fair", "one", "train", 9)) == 4


# Identities and digests


@given(
    st.builds(
        ProblemId,
        st.from_regex(r"[a-z@./:-]{1,20}", fullmatch=True),
        st.from_regex(r"[^/]{0,9}", fullmatch=True),
        st.sampled_from(["train", "dev", "test"]),
        st.from_regex(r"[^/]{0,9}", fullmatch=True),
        st.integers(),
        st.integers(0),
    )
)
def test_an_identity_is_read_as_it_is_printed(name: ProblemId) -> None:
    assert ProblemId.parse(str(name)) == name


def test_a_tasks_name_may_hold_slashes_and_a_file() -> None:
    name = ProblemId.parse("programs@data/mine.jsonl/mine/test/all/0/12")
    assert (name.task, name.preset, name.within_task) == ("programs@data/mine.jsonl", "mine", "mine/test/all/0/12")


@pytest.mark.parametrize("text", ["", "a", "a/b/train/T0/0", "a/b/exam/T0/0/0", "a/b/dev/T0/0/x", "a/b/dev/T0/00/1"])
def test_what_is_printed_otherwise_is_no_identity(text: str) -> None:
    with pytest.raises(ValueError, match="expected a problem as task/preset/split/tier/seed/index, got"):
        ProblemId.parse(text)


def test_a_tiers_name_holds_no_slash() -> None:
    with pytest.raises(ValueError):
        ProblemId("coin", "fair", "dev", "a/b", 0, 0)


def test_a_digest_may_be_any_text() -> None:
    """Of sums by name: what is not hexadecimal is hashed; a hexadecimal one is read by its first eight digits."""
    sums = evolve(
        COIN,
        draw=lambda _preset, _tier, rng, _solve: (rng.randrange(9), rng.randrange(9)),
        digest=lambda instance: f"{min(instance)}+{max(instance)}",
        instance_type=tuple,
    )
    found = {
        split: {problem.digest for problem in draw_problems(sums, "fair", "one", split, 100)}
        for split in ("train", "dev", "test")
    }
    assert len(found["train"] | found["dev"] | found["test"]) == sum(map(len, found.values())) > 40
    assert all(quarter(digest) in SPLITS[split] for split in found for digest in found[split])
    assert [quarter(f"{number:08x}ffff") for number in range(5)] == [0, 1, 2, 3, 0]
    assert {quarter(text) for text in ("", "5+4", "abc", "\ud800", "Zürich")} <= {0, 1, 2, 3}


# A source of problems


@pytest.mark.slow
def test_a_source_draws_what_is_drawn_without_one() -> None:
    """In any order: what it has drawn says how soon it is done, never what comes."""
    source = ProblemSource(SCHEDULING)
    for index in (7, 2, 25, 0):
        assert source.draw("paper", "T0", "test", index) == draw_problem(SCHEDULING, "paper", "T0", "test", index)


def test_problems_are_drawn_in_linear_time() -> None:
    """Of a space far larger than what is drawn, each costs the draws that fall into its split, about four."""
    draws = []

    def draw(_preset: str, _tier: str, rng: random.Random, _solve: Any) -> int:
        draws.append(0)
        return rng.randrange(2**32)

    wide = evolve(COIN, draw=draw)
    assert len(draw_problems(wide, "fair", "one", "test", 200)) == 200
    assert len(draws) < 2_000


def test_two_sources_share_nothing() -> None:
    one, other = ProblemSource(COIN), ProblemSource(COIN)
    one.first("fair", "one", "dev", 9)
    assert other.draw("fair", "one", "dev", 0) == one.draw("fair", "one", "dev", 0)
