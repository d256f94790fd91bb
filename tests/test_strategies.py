"""Strategies and the conversations that they hold: what is shown, what counts, what it costs and gains, by hand."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from attrs import evolve
from own_strategies import BRIEF, DEBATE, LIKELIEST, OWN, VOTE, WITH_TOOL, calculator
from toy_task import ADDITION

import gce
from gce.adapters.environments.scripted import ScriptedEnvironment
from gce.adapters.evaluators.verifier import TaskVerifier
from gce.adapters.models.scripted import ScriptedModel
from gce.adapters.solvers.pure_python import ExactSolver
from gce.adapters.system.clocks import FakeClock
from gce.app.evaluation.comparison import Measured, against, attempts
from gce.app.evaluation.conversations import converse
from gce.app.evaluation.demonstrations import few_shot_turns
from gce.app.evaluation.environments import TimedEnvironment
from gce.app.evaluation.results import costs_table
from gce.domain.completions import Completion, SampleRequest
from gce.domain.conversations import Conversation
from gce.domain.measurements import Interval
from gce.domain.models import ModelInfo
from gce.domain.problems import Message, Problem
from gce.domain.statistics import Estimate
from gce.domain.strategies import STRATEGIES
from gce.domain.strategies.multi_turn import ATTEMPTS
from gce.domain.strategies.requests import Act, Ask, Exchange, Failed, Observation, Score, Settings, Strategy, draft_of
from gce.domain.tasks import TASKS, TaskTier, Teaching, draw_problems
from gce.errors import BadInput
from gce.testing.contracts.environment import check_environment
from gce.testing.contracts.strategy import Script, check_strategy

SCHEDULING = TASKS["scheduling"]


class Remembering(ScriptedModel):
    """Keeps what it was asked."""

    def __init__(self, answer: Any, **options: Any) -> None:
        super().__init__(answer, **options)
        self.asked: list[list[SampleRequest]] = []

    def sample(self, requests: Any) -> Any:
        self.asked.append(list(requests))
        return super().sample(requests)


def problems(count: int = 2) -> list[Problem]:
    return [p for tier in ("T0", "T1") for p in draw_problems(ADDITION, "small", tier, "test", count)]


def total(request: SampleRequest) -> int:
    a, b, _ = (int(word[1:]) for word in request.messages[0].content.split("\n")[0].split())
    return a + b


def talk(mode: str, model: ScriptedModel, settings: Settings | None = None, task: Any = ADDITION) -> Measured:
    answers = converse(STRATEGIES[mode], model, task, TaskVerifier(task), problems(), settings or Settings())
    return Measured(tuple(answers), 1.0)


def test_zero_shot_shows_the_prompt_alone_in_one_call() -> None:
    model = Remembering(lambda request: f"w{total(request)}")
    found = talk("zero-shot", model)
    assert [request.messages for request in model.asked[0]] == [problem.prompt for problem in problems()]
    assert len(model.asked) == 1
    assert all(answer.last.right and answer.replies == 1 for answer in found.conversations)
    assert [answer.last.problem.key for answer in found.conversations] == [problem.key for problem in problems()]


def test_after_a_wrong_answer_the_model_hears_what_is_wrong_and_tries_again() -> None:
    """T0 problems are right at once, T1 problems at the third attempt."""

    def answer(request: SampleRequest) -> str:
        tried = sum(message.role == "assistant" for message in request.messages)
        return f"w{total(request)}" if "/T0/" in request.key or tried == 2 else f"w{total(request) + 1}"

    model = Remembering(answer)
    found = talk("multi-turn", model)
    assert [len(asked) for asked in model.asked] == [4, 2, 2]
    last = model.asked[2][0].messages
    assert [message.role for message in last] == ["user", "assistant", "user", "assistant", "user"]
    wrong = f"w{total(model.asked[2][0]) + 1}"
    assert last[1:3] == (Message("assistant", wrong), Message("user", f"{wrong[1:]} is off by 1.\nTry again."))
    assert [len(each.attempts) for each in found.conversations] == [1, 1, 3, 3]
    tally = attempts(found)
    assert (tally.first.correct, tally.trajectory.correct, tally.first.n) == (2, 4, 4)
    assert (tally.recovered.correct, tally.recovered.n, tally.used) == (2, 2, 2.0)


def test_attempts_end_after_the_last() -> None:
    found = talk("multi-turn", ScriptedModel(lambda request: "no idea"))
    assert all(len(each.attempts) == ATTEMPTS == each.replies and not each.last.right for each in found.conversations)


def test_feedback_never_shows_what_would_be_right() -> None:
    """Whatever the model wrote, the optimal starts are in no feedback."""
    solve = ExactSolver(FakeClock()).solve
    for tier in ("T2", "T4"):
        for problem in draw_problems(SCHEDULING, "grounded", tier, "test", 5):
            starts = solve(problem.instance).starts
            assert starts is not None
            right = ", ".join(f"{label} {starts[label]}" for label in problem.instance.labels)
            for text in ("no idea", "Answer: A 0", f"Answer: {right}, {right}"):
                model = Remembering(lambda _, text=text: text)
                converse(STRATEGIES["multi-turn"], model, SCHEDULING, TaskVerifier(SCHEDULING), [problem], Settings())
                told = [m.content for asked in model.asked for r in asked for m in r.messages[2::2]]
                assert told and all(right not in words and words.endswith("Try again.") for words in told)


def test_only_the_last_of_three_calls_is_judged() -> None:
    def answer(request: SampleRequest) -> str:
        said = sum(message.role == "assistant" for message in request.messages)
        return ["a list", f"w{total(request)} is a draft", f"w{total(request)}"][said]

    model = Remembering(answer)
    found = talk("simulate", model)
    assert [len(asked) for asked in model.asked] == [4, 4, 4]
    first, second, third = ADDITION.teaching.calls
    messages = model.asked[2][0].messages
    assert messages[0].content == f"{problems()[0].prompt[0].content}\n{first}"
    assert [message.content for message in messages[2::2]] == [second, third]
    assert all(each.last.right and each.replies == 3 and len(each.attempts) == 1 for each in found.conversations)


def test_examples_are_right_and_from_the_training_key_space() -> None:
    tiers = [tier.name for tier in SCHEDULING.tiers("grounded")]
    shown = few_shot_turns(SCHEDULING, TaskVerifier(SCHEDULING), "grounded", tiers, 2)
    assert set(shown) == {"T0", "T1", "T2", "T3", "T4", "T5"}
    assert shown["T5"] == shown["T4"], "a held-out tier is never shown"
    for turns in shown.values():
        assert [turn.role for turn in turns] == ["user", "assistant"] * 2
    test = {p.prompt[0].content for p in draw_problems(SCHEDULING, "grounded", "T2", "test", 50)}
    assert not test & {turn.content for turn in shown["T2"]}
    solved = few_shot_turns(
        SCHEDULING, TaskVerifier(SCHEDULING), "grounded", tiers, 2, solve=ExactSolver(FakeClock()).solve
    )
    assert solved.keys() == shown.keys() and solved != shown
    answer_only = TASKS["scheduling-answer-only"]
    alone = few_shot_turns(answer_only, TaskVerifier(answer_only), "grounded", ["T2"], 1)
    assert set(alone) == {"T2"}
    assert alone["T2"][1].content.startswith("Answer: ")


def test_examples_come_before_the_prompt() -> None:
    shown = (Message("user", "w1 w1 w2"), Message("assistant", "w2"))
    model = Remembering(lambda request: "w0")
    talk("few-shot", model, Settings(examples={"T0": shown, "T1": shown}))
    assert [request.messages for request in model.asked[0]] == [shown + problem.prompt for problem in problems()]


def test_a_task_without_worked_answers_has_no_examples() -> None:
    with pytest.raises(BadInput, match="task addition has 0 demonstrations of T0, expected 1"):
        few_shot_turns(ADDITION, TaskVerifier(ADDITION), "small", ["T0"], 1)
    held = evolve(ADDITION, presets={"small": (TaskTier("T2", held_out=True),)})
    with pytest.raises(BadInput, match="has no tier to take demonstrations from"):
        few_shot_turns(held, TaskVerifier(held), "small", ["T2"], 1)
    with pytest.raises(BadInput, match="leave out the strategy simulate"):
        talk("simulate", ScriptedModel(lambda request: "no"), task=evolve(ADDITION, teaching=Teaching(calls=())))


def test_tokens_are_counted_over_all_replies() -> None:
    """Characters of every message and of the role before it, and an end token after each."""
    model = Remembering(lambda request: "no idea")
    found = talk("multi-turn", model)
    read = sum(len(model.prompt_tokens(request.messages)) for asked in model.asked for request in asked)
    assert sum(answer.prompt_tokens or 0 for answer in found.conversations) == read
    assert found.costs["tokens"] == 3 * 8
    assert found.costs["replies"] == 3
    assert "3.00" in costs_table({"multi-turn": found}).rows[0]


def test_a_prompt_that_leaves_no_room_ends_the_conversation() -> None:
    model = ScriptedModel(lambda request: "no idea", context=60)
    found = talk("multi-turn", model)
    assert all(answer.attempts[-1].completion.finish_reason == "context" for answer in found.conversations)
    assert found.costs["no_room"] == 1.0


def test_modes_are_compared_problem_by_problem() -> None:
    """Of four problems zero-shot solves the T0 ones, simulate the T1 ones: two gained, two lost."""
    zero = talk("zero-shot", ScriptedModel(lambda r: f"w{total(r)}" if "/T0/" in r.key else "no"))
    other = talk("simulate", ScriptedModel(lambda r: f"w{total(r)}" if "/T1/" in r.key else "no"))
    (gain,) = against({"zero-shot": zero, "simulate": other}).values()
    assert (gain.gained, gain.lost, gain.p, gain.mean.value) == (2, 2, 1.0, 0.0)
    assert against({"simulate": other}) == {}


def test_the_first_reply_of_each_mode_has_the_seed_of_a_plain_answer() -> None:
    """So that a mode of one call is the same as asking without modes."""
    model = Remembering(lambda request: "no idea")
    for mode in ("zero-shot", "multi-turn"):
        talk(mode, model)
    assert [r.seed for r in model.asked[0]] == [r.seed for r in model.asked[1]]
    assert len({r.seed for asked in model.asked[1:] for r in asked}) == 12


def test_several_verdicts_are_all_told() -> None:
    twice = evolve(ADDITION, verify=lambda *arguments: ADDITION.verify(*arguments) * 2)
    model = Remembering(lambda request: "w1000")
    talk("multi-turn", model, task=twice)
    assert model.asked[1][0].messages[2].content.count("Try again.") == 2


# What every strategy must do, and what is served


def with_examples() -> Settings:
    shown = (Message("user", "w1 w1 w2"), Message("assistant", "w2"))
    return Settings(examples={tier.name: shown for tier in ADDITION.tiers("small")})


@pytest.mark.parametrize("strategy", [*STRATEGIES.values(), *OWN], ids=lambda strategy: strategy.name)
@pytest.mark.parametrize("text", ["w1", "no idea", "", "w1 w2 w3"])
def test_every_strategy_keeps_the_contract(strategy: Strategy, text: str) -> None:
    def act(act: Act) -> Observation:
        return Observation("w1")

    elsewhere = strategy.needs & {"beliefs", "consultation", "episodes"} or strategy.name == "attack"
    for problem in problems() if not elsewhere else ():
        check_strategy(strategy, ADDITION, problem, Script(lambda _ask: text, act=act), settings=with_examples())
    assert all(name == each.name for name, each in STRATEGIES.items())


def test_a_strategy_that_breaks_the_contract_is_caught() -> None:
    def greedy(_task: Any, problem: Problem, _settings: Settings) -> Exchange:
        return ((yield Ask(problem.prompt, to="judge")),)

    def endless(_task: Any, problem: Problem, _settings: Settings) -> Exchange:
        while True:
            yield Ask(problem.prompt)

    def mute(_task: Any, problem: Problem, _settings: Settings) -> Exchange:
        yield Ask(problem.prompt)
        return ()

    def careless(_task: Any, problem: Problem, _settings: Settings) -> Exchange:
        scores = yield Score(problem.prompt, ("w1",))
        return (draft_of(problem, f"{scores[0][0]}"),)

    calls = iter(range(100))

    def fickle(_task: Any, problem: Problem, _settings: Settings) -> Exchange:
        return ((yield Ask((*problem.prompt, Message("user", f"{next(calls)}")))),)

    for converse_, said in ((greedy, "needs judge.sample"), (endless, "goes on"), (mute, "expected attempts")):
        with pytest.raises(AssertionError, match=said):
            check_strategy(Strategy("x", converse_, "x"), ADDITION, problems()[0], Script(lambda _ask: "w1"))
    with pytest.raises(TypeError):
        needs = frozenset({"score"})
        check_strategy(Strategy("x", careless, "x", needs), ADDITION, problems()[0], Script(lambda _ask: "w1"))
    with pytest.raises(AssertionError, match="the same requests"):
        check_strategy(Strategy("x", fickle, "x"), ADDITION, problems()[0], Script(lambda _ask: "w1"))


def held(strategy: Strategy, model: Any, **options: Any) -> list[Conversation]:
    return converse(strategy, model, ADDITION, TaskVerifier(ADDITION), problems(), Settings(), **options)


def test_an_ask_says_how_it_is_sampled_and_a_draft_that_is_returned_is_judged() -> None:
    model = Remembering(lambda request: f"w{total(request)}. And more")
    found = held(BRIEF, model)
    assert {(r.max_tokens, r.temperature, r.stop) for r in model.asked[0]} == {(12, 0.5, (".",))}
    assert all(each.last.right and each.last.verdicts and each.replies == 1 for each in found)


def test_scores_are_served_without_a_completion() -> None:
    """The scripted model finds all tokens as likely, so the first answer wins."""
    model = Remembering(lambda request: "never asked")
    found = held(LIKELIEST, model)
    assert not model.asked
    assert [each.last.completion.text for each in found] == ["w0"] * 4
    assert [each.last.right for each in found] == [
        (problem.instance.a + problem.instance.b) % problem.instance.modulus == 0 for problem in problems()
    ]
    assert {(each.replies, each.tokens) for each in found} == {(0, 0)}


def test_acts_are_served_each_conversation_in_an_environment_of_its_own() -> None:
    made: list[ScriptedEnvironment] = []

    def make(problem: Problem) -> ScriptedEnvironment:
        made.append(calculator(problem))
        return made[-1]

    model = Remembering(lambda request: request.messages[-1].content)
    found = held(WITH_TOOL, model, environments=make)
    assert len(model.asked) == 1, "acts are served first, and all are asked together"
    assert [request.messages[1].content for request in model.asked[0]] == [problem.key for problem in problems()]
    assert all(each.last.right for each in found) and len(made) == 4 and all(each.closed for each in made)
    broken = held(WITH_TOOL, model, environments=lambda _problem: ScriptedEnvironment({}))
    assert all("The tool failed: no tool 'add'" in each.last.completion.text for each in broken)


class Stuck(ScriptedEnvironment):
    """Never returns from an act."""

    def step(self, act: Act) -> Any:
        threading.Event().wait()


def test_an_environment_that_does_not_return_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gce.app.evaluation.environments.GRACE", 0.0)
    stuck = TimedEnvironment(lambda: Stuck({}))
    assert stuck.reset(seconds=5.0) == Observation("")
    given_up = Failed("the environment did not return within 0.05 s and was given up")
    assert stuck.step(Act("add", seconds=0.05)) == given_up
    began = time.monotonic()
    assert stuck.step(Act("add", seconds=60.0)) == stuck.reset(seconds=60.0) == given_up, "and is not waited for again"
    stuck.close()
    stuck.close()
    assert time.monotonic() - began < 30


def test_a_conversation_goes_on_without_an_environment_that_is_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gce.app.evaluation.environments.GRACE", 0.0)

    def acting(_task: Any, problem: Problem, _settings: Settings) -> Exchange:
        found = yield Act("add", seconds=0.05)
        return (draft_of(problem, f"{type(found).__name__}: {found.reason}"),)

    strategy = Strategy("acting", acting, "acts once", frozenset({"environment"}))
    found = held(strategy, Remembering(lambda _: ""), environments=lambda _problem: Stuck({}))
    assert {each.last.completion.text[:39] for each in found} == {"Failed: the environment did not return "}


def test_a_timed_environment_keeps_the_ports_word_in_one_thread() -> None:
    threads: set[int] = set()

    def make() -> ScriptedEnvironment:
        threads.add(threading.get_ident())
        return ScriptedEnvironment({"look": look})

    def look(_arguments: Any) -> Observation:
        threads.add(threading.get_ident())
        return Observation("nothing")

    check_environment(lambda: TimedEnvironment(make), [Act("look")])
    threads.clear()
    TimedEnvironment(make).reset(seconds=5.0)
    assert len(threads) == 1 and threads != {threading.get_ident()}


def test_what_an_environment_raises_is_raised() -> None:
    def broken() -> ScriptedEnvironment:
        raise OSError("no room for it")

    with pytest.raises(OSError, match="no room for it"):
        TimedEnvironment(broken)


def test_environments_are_closed_where_the_model_breaks() -> None:
    made: list[ScriptedEnvironment] = []

    def make(problem: Problem) -> ScriptedEnvironment:
        made.append(calculator(problem))
        return made[-1]

    def broken(_request: SampleRequest) -> str:
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        held(WITH_TOOL, ScriptedModel(broken), environments=make)
    assert len(made) == 4 and all(each.closed for each in made)


def test_a_tuple_is_asked_in_one_call_with_seeds_of_its_own() -> None:
    model = Remembering(lambda request: f"w{total(request)}" if "#1" not in request.key else "w7 w8")
    found = held(VOTE, model)
    assert [len(asked) for asked in model.asked] == [12]
    assert len({request.seed for request in model.asked[0]}) == len({request.key for request in model.asked[0]}) == 12
    assert all(each.last.right and each.replies == 3 for each in found)


def test_one_of_a_tuple_that_fails_ends_the_conversation() -> None:
    class Flaky(Remembering):
        def sample(self, requests: Any) -> Any:
            for each in super().sample(requests):
                away = each.key.endswith("#2") and "/T0/" in each.key
                yield evolve(each, finish_reason="error", error="away") if away else each

    found = held(VOTE, Flaky(lambda request: f"w{total(request)}"))
    assert [each.last.failed for each in found] == [True, True, False, False]
    assert [each.replies for each in found] == [3] * 4


def test_an_opponent_is_another_model_whose_tokens_are_not_counted() -> None:
    model = Remembering(lambda request: f"w{total(request) + (len(request.messages) == 1)}")
    opponent = Remembering(lambda request: "It is off by one.")
    found = held(DEBATE, model, roles={"opponent": opponent, "judge": ScriptedModel(lambda _: "never asked")})
    assert [len(asked) for asked in model.asked] == [4, 4] and [len(asked) for asked in opponent.asked] == [4]
    assert model.asked[1][0].messages[-1].content == "It is off by one."
    assert [[each.right for each in conversation.attempts] for conversation in found] == [[False, True]] * 4
    assert {each.replies for each in found} == {2}
    away = ScriptedModel(lambda _request: "")
    away.sample = lambda requests: (  # type: ignore[method-assign]
        Completion(each.key, "", "error", policy="", error="away") for each in requests
    )
    assert {len(each.attempts) for each in held(DEBATE, model, roles={"opponent": away})} == {1}


def test_what_another_role_says_is_not_judged() -> None:
    said: list[Any] = []

    def asks(_task: Any, problem: Problem, _settings: Settings) -> Exchange:
        said.append((yield Ask(problem.prompt, to="judge")))
        return ((yield Ask(problem.prompt)),)

    needs = frozenset({"sample", "judge.sample"})
    held(Strategy("x", asks, "x", needs), ScriptedModel(lambda _: "w1"), roles={"judge": ScriptedModel(lambda _: "w2")})
    assert [(each.completion.text, each.verdicts) for each in said] == [("w2", ())] * 4


def test_a_conversation_that_gives_up_has_failed() -> None:
    def gives_up(_task: Any, problem: Problem, _settings: Settings) -> Exchange:
        yield Ask(problem.prompt)
        return Failed("the judge said nothing")

    (first, *_) = held(Strategy("x", gives_up, "x"), ScriptedModel(lambda _request: "w1"))
    assert first.last.failed and first.last.reason == "the judge said nothing" and len(first.attempts) == 2


@pytest.mark.parametrize(
    ("strategy", "options", "said"),
    [
        (DEBATE, {}, "strategy debate needs a model for the role 'opponent', got none"),
        (
            DEBATE,
            {"roles": {"opponent": object()}},
            "needs the model for the role 'opponent' to sample, which",
        ),
        (WITH_TOOL, {}, "strategy with-tool needs an environment, got none"),
        (STRATEGIES["few-shot"], {}, "strategy few-shot needs few-shot examples, got none"),
    ],
)
def test_what_is_missing_is_said_before_anything_is_asked(
    strategy: Strategy, options: dict[str, Any], said: str
) -> None:
    model = Remembering(lambda _request: "w1")
    with pytest.raises(BadInput, match=said):
        held(strategy, model, **options)
    assert not model.asked


def test_a_model_that_cannot_score_is_refused() -> None:
    class Bare:
        def info(self) -> ModelInfo:
            return ModelInfo("bare", frozenset({"sample"}))

        def sample(self, requests: Any) -> Any:
            raise AssertionError("asked")

    with pytest.raises(BadInput, match="strategy vote needs the model to score, which it does not support"):
        held(VOTE, Bare())


def test_a_strategy_needs_what_there_is() -> None:
    with pytest.raises(ValueError, match=r"expected needs of learn, .*, got \['judge.read'\]"):
        Strategy("x", BRIEF.converse, "x", frozenset({"sample", "judge.read"}))


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (Ask((Message("user", "x"),), to="judge"), "asks the role 'judge', which its needs do not name"),
        (Score((Message("user", "x"),), ("y",)), "its needs name no score"),
        (Act("add"), "its needs name no environment"),
    ],
)
def test_a_strategy_that_asks_for_what_it_does_not_need_is_a_defect(request_: Any, said: str) -> None:
    class Bare:
        def info(self) -> ModelInfo:
            return ModelInfo("bare", frozenset({"sample"}))

        def sample(self, requests: Any) -> Any:
            raise AssertionError("asked")

    def asks(_task: Any, _problem: Problem, _settings: Settings) -> Exchange:
        return ((yield request_),)

    with pytest.raises(ValueError, match=said):
        held(Strategy("x", asks, "x"), Bare())


def test_the_scripted_environment_keeps_the_contract() -> None:
    add = Act("add", {"a": 1, "b": 2})
    check_environment(lambda: calculator(problems()[0]), [add, add])
    check_environment(lambda: ScriptedEnvironment({"add": lambda _: Observation("w1", done=True)}), [add])
    ending = ScriptedEnvironment({"add": lambda _: Observation("w1", reward=0.5, done=True)})
    ending.reset(seconds=1.0)
    assert ending.step(add) == Observation("w1", reward=0.5, done=True)
    assert isinstance(ending.step(add), Failed)
    broken = ScriptedEnvironment({"add": lambda given: Observation(given["c"])})
    broken.reset(seconds=1.0)
    assert broken.step(add) == Failed("add raised KeyError: 'c'")


# gce.evaluate


def test_evaluate_takes_objects_and_gives_estimates_and_answers() -> None:
    model = ScriptedModel(lambda request: f"w{total(request)}" if "/T0/" in request.key else "w")
    result = gce.evaluate(
        task=ADDITION, model=model, strategies=["zero-shot", DEBATE], n=3, roles={"opponent": model}, tiers=["T0", "T1"]
    )
    assert list(result.conversations) == ["zero-shot", "debate"]
    shares = result.estimates()["zero-shot"]
    of_t0, of_t1 = shares["T0"], shares["T1"]
    assert isinstance(of_t0, Interval) and isinstance(of_t1, Interval)
    assert (of_t0.share, of_t1.share) == (1.0, 0.0)
    tokens = result.estimates("tokens")["debate"]["T1"]
    assert isinstance(tokens, Estimate) and tokens.value == 4.0
    exact = gce.evaluate(task=ADDITION, model=model, n=3, interval="clopper-pearson").estimates()["zero-shot"]["T0"]
    assert exact.low == pytest.approx(0.025 ** (1 / 3))
    assert result.gains()["debate"].gained == 0
    assert {each.last.problem.tier for each in result.conversations["debate"]} == {"T0", "T1"}


def test_evaluate_takes_names() -> None:
    result = gce.evaluate(task="toy_task:ADDITION", model="toy_task:careless", strategies=["own_strategies:BRIEF"], n=2)
    assert [len(each) for each in result.conversations.values()] == [6]
    assert result.settings.split == "test"


@pytest.mark.parametrize(
    ("strategies", "said"),
    [
        (["twice"], "no strategy 'twice': choose one of 26 names, such as"),
        (["own_strategies:OWN"], "own_strategies:OWN is tuple, expected a gce.Strategy"),
        (["own_strategies:NOTHING"], "has no 'NOTHING'"),
        (["zero-shot", STRATEGIES["zero-shot"]], "expected strategies with different names, got zero-shot"),
        (["zero-shot", "own_strategies:DEBATE"], "needs a model for the role 'opponent', got none"),
    ],
)
def test_evaluate_refuses_strategies_before_it_asks(strategies: list[Any], said: str) -> None:
    model = Remembering(lambda _request: "w1")
    with pytest.raises(BadInput, match=said):
        gce.evaluate(task=ADDITION, model=model, strategies=strategies, n=1)
    assert not model.asked
