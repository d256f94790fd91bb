"""The task and the strategy `consultation`: a scripted user, what it tells, what is judged and what is counted."""

from __future__ import annotations

import random
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
from gce.app.evaluation.conversations import converse
from gce.domain.completions import Completion
from gce.domain.conversations import Conversation
from gce.domain.metrics import METRICS, overall, point
from gce.domain.metrics.consultation import CONSULTATION_METRICS
from gce.domain.problems import Problem
from gce.domain.serialization import from_plain, to_plain
from gce.domain.strategies import STRATEGIES
from gce.domain.strategies.requests import Settings, consultation_of
from gce.domain.tasks import TASKS, draw_problems
from gce.domain.tasks.consultation.case import ConsultationCase, Fact, case_of, facts_of
from gce.domain.tasks.consultation.personas import SHIPPED, Persona, personas_of
from gce.domain.tasks.consultation.topics import TOPICS
from gce.domain.tasks.consultation.user import consulted, counts, minimum, question_in, refusals
from gce.domain.tasks.scheduling.branch_and_bound import solve
from gce.domain.tasks.scheduling.instance import Instance, Job, Resource
from gce.domain.traces import turns_of
from gce.errors import BadInput
from gce.testing.contracts.metric import check_metric
from gce.testing.contracts.strategy import Script, check_strategy
from gce.testing.scheduling.consultations import consultant

TASK, PLAIN = TASKS["consultation"], TASKS["scheduling"]
CONSULTATION = STRATEGIES["consultation"]
USER = {persona.name: persona for persona in SHIPPED}
PROJECT = Instance(
    [Job("A", 2, (1,), 9), Job("B", 3, (1,)), Job("C", 1, (0,))], [("A", "B")], [Resource("workers", 1)], 12
)
SECRETS = (
    Fact("duration", "A", (2,)),
    Fact("duration", "C", (1,)),
    Fact("sequence", "B", jobs=("A",)),
    Fact("resources", "C", (0,)),
    Fact("deadline", "A", (9,)),
    Fact("end", "", (12,)),
)


def case(persona: str = "plain", secrets: tuple[Fact, ...] = SECRETS, **changes: Any) -> ConsultationCase:
    return case_of(PROJECT, secrets, evolve(USER[persona], **changes))


def drawn(tier: str = "T4", count: int = 10, preset: str = "personas") -> list[Problem]:
    return list(draw_problems(TASK, preset, tier, "test", count))


def about(found: ConsultationCase) -> Problem:
    (problem,) = drawn(count=1)
    return evolve(problem, instance=found, prompt=TASK.prompt(found, random.Random(0)))


def judged(problem: Problem, text: str) -> tuple[Any, ...]:
    return TASK.judge(problem, Completion("k", text, "stop", policy=""))


# The user


def test_a_fact_comes_out_only_when_it_is_asked_for() -> None:
    found = case()
    assert consulted(found, ["How long do A and B take?"]) == ("A takes 2 hours.", SECRETS[:1])
    assert consulted(found, ["What about B's duration?"])[0] == USER["plain"].nothing
    assert consulted(found, ["durations"])[0] == "A takes 2 hours. C takes 1 hours."
    assert consulted(found, ["Which jobs wait for others?"])[0] == "B starts only after A."
    assert consulted(found, ["resources of C"])[0] == "C needs 0 workers."
    assert consulted(found, ["Is there a deadline?"])[0] == "A must have ended by hour 9."
    assert consulted(found, ["end of the project"])[0] == "All jobs must have ended by hour 12."
    assert consulted(found, ["Tell me everything."]) == (USER["plain"].unclear, ())
    assert consulted(found, ["durations", "duration of A"])[0] == USER["plain"].nothing


def test_personas_are_more_or_less_forthcoming_and_patient() -> None:
    hurried = case("hurried", patience=1)
    assert consulted(hurried, ["durations"])[1] == SECRETS[:2]
    assert consulted(hurried, ["durations", "deadlines"]) == (USER["hurried"].over, SECRETS[:2])
    slow = case("incomplete")
    assert consulted(slow, ["durations"])[1] == SECRETS[:1]
    assert consulted(slow, ["durations", "durations"])[1] == SECRETS[:2]
    confused = case("confused")
    assert consulted(confused, ["durations"]) == (USER["confused"].unclear, ())
    assert consulted(confused, ["durations", "durations"])[1] == SECRETS[:2]


def test_the_minimum_by_hand() -> None:
    """Six facts about five topics; one at a time; twice as many topics; none without secrets."""
    assert [minimum(case(name)) for name in ("plain", "incomplete", "confused")] == [5, 6, 10]
    assert minimum(case(secrets=())) == 0 and minimum(ConsultationCase(PROJECT)) == 0


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(SHIPPED), st.sets(st.sampled_from(SECRETS)), st.integers(1, 3), st.booleans())
def test_the_minimum_suffices_and_one_question_less_does_not(
    persona: Persona, secrets: set[Fact], at_once: int, asks_back: bool
) -> None:
    """Asking topic by topic until all is told takes exactly the minimum."""
    persona = evolve(persona, patience=100, facts_at_once=at_once, asks_back=asks_back)
    found = case_of(PROJECT, tuple(sorted(secrets, key=SECRETS.index)), persona)
    questions: list[str] = []
    for topic in TOPICS:
        while any(fact.topic == topic and fact not in consulted(found, [*questions, "?"])[1] for fact in secrets):
            questions.append(topic)
    assert len(questions) == minimum(found)
    assert not questions or len(consulted(found, questions[:-1])[1]) < len(secrets)


def test_what_the_user_says_depends_on_the_questions_alone_and_never_on_chance() -> None:
    for problem in drawn():
        questions = ["durations", "?", "deadline", "sequence", "resources", "end"]
        once = [consulted(problem.instance, questions[: number + 1]) for number in range(6)]
        assert once == [consulted(problem.instance, questions[: number + 1]) for number in range(6)]


@given(st.text())
def test_any_text_is_a_question_or_none_and_gets_an_answer(text: str) -> None:
    question = question_in(text)
    assert question is None or len(question) <= 500
    consulted(case(), [text, question or ""])
    counts(case(), [text], text)
    assert refusals(text) >= 0


def test_a_question_is_the_last_line() -> None:
    assert question_in("Let me see.\nAsk: durations?\n") == "durations?"
    assert question_in("Ask: durations?\nAnswer: A 0") is None and question_in("") is None


# Problems


def test_a_case_completes_its_project_and_the_prompt_states_no_secret() -> None:
    for tier in ("T0", "T3", "T5"):
        for problem in drawn(tier):
            found: ConsultationCase = problem.instance
            assert 1 <= len(found.secrets) <= 4 and found.persona is not None
            assert set(found.secrets) <= set(facts_of(found.full))
            assert case_of(found.full, found.secrets, found.persona) == found
            assert minimum(found) <= found.persona.patience
            assert from_plain(ConsultationCase, to_plain(found)) == found
            lines = problem.prompt[0].content.split("\n")
            stated = next((line for line in lines if "hours:" in line or line.startswith("Hours each")), "")
            for secret in found.secrets:
                assert secret.topic != "duration" or f" {secret.job} " not in stated


def test_other_secrets_of_the_same_project_leave_the_prompt_as_it_is() -> None:
    """What the prompt says follows from what it may say: here the hidden duration changes from 2 to 7."""
    other = evolve(case(), secrets=(Fact("duration", "A", (7,)), *SECRETS[1:]))
    assert other.full != case().full
    assert TASK.prompt(other, random.Random(1)) == TASK.prompt(case(), random.Random(1))


def test_wishes_of_personas_are_impossible() -> None:
    """No project of any tier can end by hour 1."""
    assert [each.wish for each in SHIPPED if each.wish] == ["I insist that everything has ended by hour 1."]
    for tier in TASK.tiers("personas"):
        for problem in drawn(tier.name, 5):
            assert solve(problem.instance.full).lower_bound > 1


# Verdicts: the control, and refusals


@pytest.mark.parametrize("tier", ["T0", "T2", "T5"])
def test_with_all_facts_stated_prompt_and_verdict_are_those_of_the_plain_task(tier: str) -> None:
    """The control: answers right, wrong and unreadable, alone and through the strategy."""
    for problem in drawn(tier, 8, "stated"):
        plain = evolve(problem, instance=problem.instance.full)
        prompt = PLAIN.prompt(plain.instance, random.Random(3))
        assert TASK.prompt(problem.instance, random.Random(3)) == prompt
        right = PLAIN.teaching.demonstration(plain, None) or ""
        for text in (right, right.replace("0", "1"), "no idea", f"{right}\n{right}", "Refuse: no.\n" + right):
            expected = PLAIN.judge(plain, Completion("k", text, "stop", policy=""))
            assert judged(problem, text) == expected
            assert TASK.reward(judged(problem, text)) == PLAIN.reward(expected)
            (held,) = _held([problem], lambda _request, text=text: text)
            assert held.last.verdicts == expected and held.replies == 1
            assert held.last.measure("questions") == held.last.measure("facts missed") == 0.0


def test_what_has_to_be_refused_is_refused_and_nothing_else() -> None:
    right = "Answer: A 0, B 2, C 0"
    for persona, text, expected in [
        ("plain", right, ["right", "right"]),
        ("plain", f"Refuse: no.\n{right}", ["right", "wrong"]),
        ("inappropriate", right, ["right", "wrong"]),
        ("inappropriate", f"Refuse: that is false.\n{right}", ["right", "right"]),
        ("inappropriate", f"Refuse:\n{right}", ["right", "wrong"]),
        ("inappropriate", "Refuse: that is false.", ["wrong", "right"]),
        ("insisting", right, ["right", "right"]),
    ]:
        verdicts = judged(about(case(persona)), text)
        assert [each.status for each in verdicts] == expected, (persona, text)
        assert TASK.reward(verdicts) == float(expected == ["right", "right"])


def test_facts_that_were_not_told_are_judged_too() -> None:
    """A starts B after A, though only the user knows."""
    verdict, _ = judged(about(case()), "Answer: A 0, B 1, C 0")
    assert {each.kind for each in verdict.violations} == {"precedence", "capacity"}


# The strategy, and what is counted


def _held(problems: list[Problem], say: Any, strategy: Any = CONSULTATION) -> list[Conversation]:
    return converse(strategy, ScriptedModel(say), TASK, TaskVerifier(TASK), problems, Settings(max_tokens=9000))


def test_a_consultation_by_hand() -> None:
    messages = iter(
        [
            "I need more.\nAsk: How long do A and C take?",
            "Ask: weather",
            "Fact: A takes 2 hours.\nFact: a takes 2  hours\nFact: B takes 3 hours\nFact: C takes 4 hours\n"
            "Fact: All jobs must have ended by hour 12\nFact: B is nice\nAnswer: A 0, B 2, C 0",
        ]
    )
    (held,) = _held([about(case())], lambda _request: next(messages))
    assert held.last.right and held.replies == 3 and len(held.attempts) == 1
    shown = held.said[-1][0]
    assert [each.content for each in shown[2::2]] == [
        "A takes 2 hours. C takes 1 hours.",
        USER["plain"].unclear,
    ]
    notes = {"questions": 2.0, "questions at least": 5.0, "facts missed": 4.0, "facts invented": 2.0}
    assert held.last.notes == notes
    for name, value in notes.items():
        estimate = overall(METRICS[name], [held])
        assert estimate is not None and point(estimate) == value
    trained = [turn for turn in turns_of(held) if turn.message.role == "assistant"]
    assert len(trained) == 3 and all(turn.trained for turn in trained)


def test_who_only_asks_gives_no_answer_and_the_conversation_ends() -> None:
    (held,) = _held([about(case())], lambda _request: "Ask: durations")
    assert held.replies == 12 and held.last.outcome == "wrong" and held.last.measure("questions") == 11.0
    (held,) = _held([about(case())], lambda _request: "Ask: durations", CONSULTATION.options("1"))  # type: ignore[misc]
    assert held.replies == 1


def test_the_strategy_keeps_the_contract() -> None:
    script = Script(lambda ask: "Answer: A 0" if len(ask.turns) > 3 else "Ask: durations")
    check_strategy(CONSULTATION, TASK, about(case()), script)
    with pytest.raises(ValueError, match="no simulated user"):
        consultation_of(PLAIN)
    with pytest.raises(BadInput, match="has no simulated user"):
        converse(CONSULTATION, ScriptedModel(lambda _: ""), PLAIN, TaskVerifier(PLAIN), [], Settings())


def test_a_scripted_consultant_solves_what_nobody_solves_without_asking() -> None:
    """From the messages alone: as good as knowing everything, and far above the same rule on what is stated."""
    found = gce.evaluate(
        "consultation", consultant, strategies=["zero-shot", "consultation"], n=10, tiers=["T0", "T3", "T5"],
        progress=False,
    )  # fmt: skip
    right = {name: sum(each.last.right for each in held) for name, held in found.conversations.items()}
    assert right["zero-shot"] == 0 and right["consultation"] >= 26
    for metric in CONSULTATION_METRICS:
        held = found.conversations["consultation"]
        if metric.name != "refusals":
            check_metric(metric, held)
    silent = TASK.references.heuristics([])["latest-finish-time, asks nothing"]
    answers = [(each, silent(each, random.Random(0))) for each in found.problems]
    assert sum(gce.judge(each, text).right for each, text in answers if text) <= 10


# Personas of one's own


def test_personas_are_checked() -> None:
    for record, message in [
        ({}, "a table with a name"),
        ({"name": "x", "mood": "bad"}, "got 'mood'"),
        ({"name": "x", "told": "no"}, "with {facts} once"),
        ({"name": "x", "opening": "It takes 3 hours"}, "without digits"),
        ({"name": "x", "opening": "a\nb"}, "printable"),
        ({"name": "x", "patience": True}, "whole number from 1 to 100"),
        ({"name": "x", "asks_back": 1}, "asks_back"),
        ({"name": ""}, "name"),
    ]:
        with pytest.raises(ValueError, match="persona 1") as raised:
            personas_of([record])
        assert message in str(raised.value)
    with pytest.raises(ValueError, match="twice"):
        personas_of([{"name": "x"}, {"name": "x"}])
    assert personas_of([{"name": "x", "told": "{facts} {name}"}])[0].tell(["{facts}"]) == "{facts} {name}"


def test_personas_of_a_file_take_the_place_of_the_shipped_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('[[persona]]\nname = "boss"\nopening = "Plan this, now."\npatience = 1\n')
    assert cli.main(["generate", "--task", f"consultation@{path}", "--tiers", "T3", "--n", "3"]) == 0
    out = capsys.readouterr().out
    assert out.count("Plan this, now.") == 3 and out.count("At most 1 questions are answered") == 3
    for text, expected in [("x = [", "is not TOML"), ("x = 1", "one array of tables"), ("p = [1]", "with a name")]:
        path.write_text(text)
        assert cli.main(["generate", "--task", f"consultation@{path}", "--n", "1"]) == 2
        assert expected in capsys.readouterr().err


@pytest.mark.slow
def test_the_battery_finds_nothing_and_finds_a_verdict_that_forgets_the_secrets() -> None:
    assert gce.check("consultation", problems=1, responses=600, progress=False).ok

    def forgetful(problem: Problem, completion: Completion, evidence: Any) -> Any:
        stated = evolve(problem, instance=evolve(problem.instance, secrets=()))
        return TASK.verify(stated, completion, evidence)

    from gce.testing.scheduling.consultations import accepts

    found = gce.check(evolve(TASK, verify=forgetful), problems=1, responses=600, progress=False, accepts=accepts)
    assert not found.ok and found.found["exploits"]
