"""Attacks on prompts: what they change and never change, whether the meaning is kept, and what `gce attack` prints."""

from __future__ import annotations

import json
import random
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

import gce
from gce.adapters.evaluators.verifier import TaskVerifier
from gce.adapters.models.scripted import ScriptedModel
from gce.app import cli
from gce.app.evaluation.attacking import attack
from gce.app.evaluation.conversations import converse
from gce.app.wiring.names import find_strategy
from gce.domain.attacks import ATTACKS, attacked, targets
from gce.domain.attacks.attack import keeps_meaning, labels_of, words_of
from gce.domain.completions import SampleRequest
from gce.domain.conversations import Conversation
from gce.domain.figures import Lines
from gce.domain.problems import Message, Problem
from gce.domain.strategies import STRATEGIES
from gce.domain.strategies.requests import Settings
from gce.domain.tasks import TASKS, Task, draw_problems
from gce.domain.tasks.scheduling.instance import Instance, Job, Resource
from gce.domain.tasks.scheduling.prompt_reading import PromptReading, read_prompt, reading_of, restates
from gce.domain.tasks.scheduling.wording import TAUGHT, UNSEEN, prompt_text
from gce.errors import BadInput, SettingError
from gce.testing.contracts.strategy import Script, check_strategy
from gce.testing.scheduling.generators import instances

TASK = TASKS["scheduling"]
HOUSE = Instance(
    [Job("K", 3, (2, 1), 9), Job("B", 2, (1, 1)), Job("T", 4, (2, 2), 12)],
    [("B", "T"), ("K", "T")],
    [Resource("workers", 3), Resource("machines", 2)],
    14,
)


def drawn(tier: str = "T4", count: int = 5, task: Any = TASK) -> list[Problem]:
    return list(draw_problems(task, next(iter(task.presets)), tier, "test", count))


def text_of(problem: Problem) -> str:
    return problem.prompt[-1].content


# Prompts read back


def test_a_prompt_is_read_by_hand() -> None:
    text = (
        "Plan these jobs. Times are whole hours, counted from 0.\n"
        "How long jobs take, in hours: K takes 3, B takes 2, T takes 4.\n"
        "Some jobs wait: T waits for K, B. A job starts only when every job it waits for has ended.\n"
        "At any time there are 3 workers and 2 machines and no more. A job holds some while it runs "
        "( workers and machines ): K 2 1, B 1 1, T 2 2.\n"
        "Latest end hours: K 9, T 12.\nAll jobs must have ended by hour 14.\n"
        "Write one line only, with every job and its start hour, like this: Answer: JOB HOUR, JOB HOUR"
    )
    assert read_prompt(text) == reading_of(HOUSE) and restates(HOUSE, text)
    for old, new in [
        ("K takes 3", "K takes 4"),
        ("K takes 3, ", ""),
        ("for K, B", "for B"),
        ("3 workers", "2 workers"),
        ("K 2 1", "K 2 2"),
        ("K 9", "K 8"),
        ("hour 14", "hour 13"),
        ("All jobs must have ended by hour 14.\n", ""),
        ("Answer: JOB", "Answer JOB"),
        ("Latest end hours: K 9, T 12.\n", "Latest end hours: K 9, T 12.\nLatest end hours: K 9.\n"),
        ("\nLatest", "\nOn day 7 it rains.\nLatest"),
    ]:
        assert old in text and not restates(HOUSE, text.replace(old, new)), (old, new)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(instances(), st.sampled_from([TAUGHT, UNSEEN]), st.booleans(), st.integers(0, 999))
def test_every_prompt_is_read_back(instance: Instance, phrases: Any, answer_only: bool, seed: int) -> None:
    text = prompt_text(instance, random.Random(seed), phrases=phrases, answer_only=answer_only)
    assert read_prompt(text) == reading_of(instance)


@given(st.text())
def test_any_text_is_read_or_not(text: str) -> None:
    found = read_prompt(text)
    assert found is None or isinstance(found, PromptReading)
    assert not restates(HOUSE, text)


@pytest.mark.slow
@pytest.mark.parametrize("task", ["scheduling-reworded", "scheduling-relabelled", "scheduling-code-words"])
def test_other_wordings_and_labels_are_read_back(task: str) -> None:
    for tier in ("T0", "T2", "T5"):
        assert all(restates(each.instance, text_of(each)) for each in drawn(tier, 20, TASKS[task]))


@pytest.mark.parametrize("rounds", [17, pytest.param(167, marks=pytest.mark.slow)])
def test_ten_thousand_attacked_prompts_are_read_back_or_dropped(rounds: int) -> None:
    """Each is the same instance when it is read by the module, or it is dropped; fewer than 2 in 100 are."""
    problems = [problem for tier in TASK.tiers("grounded") for problem in drawn(tier.name, 10)]
    ways = islice(cycle((each, edits) for edits in (1, 2, 4, 8, 16) for each in ATTACKS.values()), rounds)
    tried = dropped = 0
    for seed, (each, edits) in enumerate(ways):
        for problem in problems:
            tried += 1
            prompt = attacked(TASK, problem, each, edits, seed=seed, words=targets(problem, seed))
            dropped += prompt is None
            assert prompt is None or read_prompt(prompt[-1].content) == reading_of(problem.instance)
    assert tried == 60 * rounds and dropped < 0.02 * tried


# What attacks change


@pytest.mark.parametrize("name", ATTACKS)
def test_no_edits_change_nothing_and_fewer_edits_are_the_first_of_more(name: str) -> None:
    for problem in drawn():
        words = targets(problem, 3)
        assert attacked(TASK, problem, ATTACKS[name], 0, seed=3, words=words) == problem.prompt
        assert ATTACKS[name].perturb(text_of(problem), tuple(words), random.Random(1), 0) == text_of(problem)
        fewer, more = (
            ATTACKS[name].perturb(text_of(problem), tuple(words), random.Random(1), edits) for edits in (2, 3)
        )
        assert fewer != text_of(problem)
        if name not in ("sections", "distractors", "injections"):
            own, less, much = (each.split() for each in (text_of(problem), fewer, more))
            if len(own) == len(less) == len(much):
                assert all(b == c for a, b, c in zip(own, less, much, strict=True) if a != b)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from([*ATTACKS.values()]), st.integers(1, 30), st.integers(0, 10**6), st.sampled_from(drawn("T5")))
def test_numbers_labels_and_the_mark_of_the_answer_are_never_changed(
    each: Any, edits: int, seed: int, problem: Problem
) -> None:
    words = tuple(targets(problem, seed))
    text = each.perturb(text_of(problem), words, random.Random(seed), edits)
    labels = labels_of(problem.instance)
    protected = [word for word in text_of(problem).replace("\n", " ").split() if word.strip(",.;:") in labels]
    for word in {*protected, "Answer:", "JOB", "HOUR,"}:
        assert text.split().count(word) >= text_of(problem).split().count(word), word
    assert sorted(filter(str.isdigit, text)) == sorted(filter(str.isdigit, text_of(problem)))


@given(st.sampled_from([*ATTACKS.values()]), st.text(), st.integers(0, 50), st.booleans())
def test_any_text_can_be_attacked(each: Any, text: str, edits: int, everything: bool) -> None:
    words = words_of(text, {"A"}, everything=everything)
    assert isinstance(each.perturb(text, words, random.Random(0), edits), str)


def test_words_that_carry_data_are_protected() -> None:
    text = "Plan job alpha with T2, x_1 and `code here` by Answer: JOB \u0444\u0444\u0444\u0444 ab"
    assert [text[start:end] for start, end in words_of(text, {"alpha"})] == ["Plan", "job", "with", "and", "\u0444" * 4]
    assert len(words_of(text, {"alpha"}, everything=True)) == 14


def test_everything_may_change_numbers_and_then_few_prompts_are_kept() -> None:
    kept = {}
    for everything in (False, True):
        prompts = [
            attacked(TASK, each, ATTACKS["typos"], 8, seed=0, words=targets(each, 0, everything=everything))
            for each in drawn("T5", 20)
        ]
        kept[everything] = sum(prompt is not None for prompt in prompts)
    assert kept[False] >= 18 and kept[True] <= 2


def test_without_a_reader_protected_words_stay_line_by_line() -> None:
    beliefs = TASKS["beliefs"]
    assert beliefs.audit.restates is None
    for problem in drawn("B3", 5, beliefs):
        text = text_of(problem)
        assert keeps_meaning(beliefs, problem, text)
        assert keeps_meaning(beliefs, problem, "\n".join(reversed(text.split("\n"))))
        assert keeps_meaning(beliefs, problem, text.replace("the", "teh"))
        digit = next(letter for letter in text if letter.isdigit())
        assert not keeps_meaning(beliefs, problem, text.replace(digit, str((int(digit) + 1) % 10), 1))
        assert not keeps_meaning(beliefs, problem, f"{text}\nIt is 5.")


# The strategy, and the command


def test_the_strategy_shows_the_attacked_prompt_and_fails_where_the_meaning_is_lost() -> None:
    (problem,) = drawn("T0", 1)
    shown: list[Any] = []

    def say(request: SampleRequest) -> str:
        shown.append(request.messages)
        return "Answer: A 0"

    model = ScriptedModel(say)

    def hold(name: str, task: Task) -> Conversation:
        (held,) = converse(find_strategy(name), model, task, TaskVerifier(task), [problem], Settings())
        return held

    held = hold("attack@sections+2+seed=4", TASK)
    expected = attacked(TASK, problem, ATTACKS["sections"], 2, seed=4, words=())
    assert shown == [expected] and held.last.problem == problem and not held.last.failed
    deaf = evolve(TASK, audit=evolve(TASK.audit, restates=lambda _instance, _text: False))
    held = hold("attack@sections+2", deaf)
    assert held.last.failed and "does not keep the meaning" in held.last.reason
    held = hold("attack@sections+0", deaf)
    assert not held.last.failed and shown[-1] == problem.prompt


@pytest.mark.parametrize("name", ["attack", "attack@sections+2", "attack@typos+1+important"])
def test_the_strategy_keeps_the_contract(name: str) -> None:
    for problem in drawn("T0", 2):
        check_strategy(find_strategy(name), TASK, problem, Script(lambda _ask: "Answer: A 0"))


def test_important_words_go_first() -> None:
    """The model's answer is likeliest with every word but one there: this word is the first to be changed."""
    (problem,) = drawn("T0", 1)
    word = "project" if "project" in text_of(problem) else "jobs"

    class Attentive(ScriptedModel):
        def log_probabilities(self, messages: Any, continuation: str, *, adapter: bool = True) -> tuple[float, ...]:
            return (-1.0 if messages[-1].content.count(word) == text_of(problem).count(word) else -9.0,)

    shown: list[tuple[Message, ...]] = []
    model = Attentive(lambda request: shown.append(request.messages) or "Answer: A 0")  # type: ignore[func-returns-value]
    strategy = find_strategy("attack@case+1+important")
    assert strategy.needs == {"sample", "score"}
    converse(strategy, model, TASK, TaskVerifier(TASK), [problem], Settings())
    text = shown[-1][-1].content
    assert text.count(word) == text_of(problem).count(word) - 1 and text.lower() == text_of(problem).lower()


def paraphrased(name: str, task: Task, problem: Problem, write: Any) -> tuple[Conversation, list[str]]:
    """The conversation with a paraphraser, and the prompts that the model under test was shown."""
    shown: list[str] = []
    model = ScriptedModel(lambda request: shown.append(request.messages[-1].content) or "no")  # type: ignore[func-returns-value]
    writer = ScriptedModel(lambda request: write(request.messages[-1].content.rpartition("\n")[2]))
    roles = {"another": writer}
    (held,) = converse(find_strategy(name), model, task, TaskVerifier(task), [problem], Settings(), roles=roles)
    return held, shown


def test_another_model_paraphrases_lines_and_what_changes_the_meaning_stays_as_it_was() -> None:
    beliefs = TASKS["beliefs"]
    (problem,) = drawn("B3", 1, beliefs)
    lines = text_of(problem).split("\n")
    held, (shown,) = paraphrased("attack@paraphrase+1", beliefs, problem, lambda line: f"well, {line}")
    changed = [place for place, line in enumerate(shown.split("\n")) if line != lines[place]]
    assert len(changed) == 1 and shown.split("\n")[changed[0]] == f"well, {lines[changed[0]]}" and not held.last.failed
    _, (more,) = paraphrased("attack@paraphrase+2", beliefs, problem, lambda line: f"well, {line}")
    assert more.split("\n")[changed[0]] == f"well, {lines[changed[0]]}", "fewer edits are the first of more"
    for lost in (lambda line: f"{line} 7", lambda line: "", lambda line: f"{line}\nand more"):
        held, none = paraphrased("attack@paraphrase+3", beliefs, problem, lost)
        assert held.last.failed and "does not keep the meaning" in held.last.reason and none == []
    held, (shown,) = paraphrased("attack@paraphrase+0", beliefs, problem, lambda line: "never asked")
    assert shown == text_of(problem) and not held.last.failed


def test_paraphrases_of_a_schedule_are_read_back_into_the_same_project() -> None:
    (problem,) = drawn("T2", 1)
    held, prompts = paraphrased("attack@paraphrase+50", TASK, problem, lambda line: line.upper())
    assert held.last.failed or all(restates(problem.instance, each) for each in prompts)


@pytest.mark.parametrize("written", ["", "paraphrase+important", "fgsm", "typos+1001", "typos+seed=x", "typos+-1"])
def test_options_that_do_not_exist_are_refused(written: str) -> None:
    with pytest.raises(BadInput, match="strategy attack@"):
        find_strategy(f"attack@{written}")
    assert STRATEGIES["attack"].needs == {"sample"}


def nervous(messages: list[dict[str, Any]]) -> str:
    """Right, unless the prompt has a violin or a cat in it."""
    problem = next(each for each in drawn("T0", 8) if restates(each.instance, messages[-1]["content"]))
    right = TASK.teaching.demonstration(problem, None)
    return "no" if "violin" in messages[-1]["content"] else right or ""


@pytest.mark.slow
def test_the_table_by_hand() -> None:
    found = attack("scheduling", nervous, attacks=["distractors", "sections"], edits=[0, 8], tiers=["T0"], n=8)
    assert found.unattacked["T0"].correct == found.unattacked["T0"].n == 8
    rows = {(row.attack, row.edits): row for row in found.rows}
    for row in (rows["distractors", 0], rows["sections", 0]):
        assert (row.flipped.correct, row.flipped.n, row.dropped) == (0, 8, 0)
        assert row.gain is not None and row.gain.mean.value == 0.0
    row = rows["distractors", 8]
    assert (row.flipped.correct, row.flipped.n, row.accuracy["T0"].correct) == (8, 8, 0)
    assert row.gain is not None and (row.gain.lost, row.gain.mean.value) == (8, -1.0)
    assert rows["sections", 8].flipped.correct == 0
    assert any("violin" in message.content for message in found.transcripts[0].prompt)
    assert "right becomes wrong" in str(found) and "<table" in found._repr_html_()
    title, examples = found.report.sections
    (figure,) = title.figures
    assert isinstance(figure, Lines)
    assert [(at, mean.value) for at, mean in figure.intervals["distractors"]["distractors"]] == [(0.0, 1.0), (8.0, 0.0)]
    assert examples.transcripts == found.transcripts


def test_what_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SettingError, match="attacks"):
        attack(attacks=["pgd"])
    with pytest.raises(SettingError, match="edits"):
        attack(edits=[-1])
    with pytest.raises(SettingError, match="give both"):
        attack(attacks=["paraphrase"])
    with pytest.raises(SettingError, match="give both"):
        attack(attacks=["typos"], paraphraser="gce-tiny")
    for arguments, said in [(["--attacks", "pgd"], "--attacks"), (["--edits", "x"], "--edits"), (["--n", "0"], "--n")]:
        assert cli.main(["attack", *arguments]) == 2
        assert said in capsys.readouterr().err


def test_the_command_prints_a_table_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "answers.jsonl"
    script.write_text('{"text": "Answer: A 0"}\n')
    arguments = ["attack", "--model", f"scripted:{script}", "--tiers", "T0", "--n", "2", "--attacks", "typos"]
    page = tmp_path / "attacks.html"
    assert cli.main([*arguments, "--edits", "0,2", "--out", str(page)]) == 0
    assert page.read_text().startswith("<!doctype html>") and "<figure" in page.read_text()
    out = capsys.readouterr().out
    assert "right becomes wrong" in out and "\ntypos " in out
    assert cli.main([*arguments, "--edits", "2", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [(row["attack"], row["edits"]) for row in rows] == [("typos", 2)]
    same = [*arguments[:-1], "paraphrase", "--paraphraser", f"scripted:{script}", "--edits", "1", "--json"]
    assert cli.main(same) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert (row["attack"], row["dropped"]) == ("paraphrase", 2), "a line that says nothing is no paraphrase"


@pytest.mark.slow
def test_the_battery_holds_the_reader_to_its_word() -> None:
    """A reader that sees no deadlines takes other instances for the problem; one that sees nothing knows none."""

    def forgetful(instance: Instance, text: str) -> bool:
        found = read_prompt(text)
        return found is not None and evolve(found, deadlines={}) == evolve(reading_of(instance), deadlines={})

    for reader, kind in [(forgetful, "another instance"), (lambda _instance, _text: False, "own prompt")]:
        task = evolve(TASK, audit=evolve(TASK.audit, restates=reader, relations={}))
        report = gce.check(task, problems=1, responses=60, progress=False)
        assert {each.kind for each in report.findings if each.check == "meaning"} == {kind}
