"""What the loop makes of a model that misbehaves, and how little a run that was cut off draws again."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from attrs import evolve
from setting_fields import with_fields
from stores import reopened
from test_loop import SMALL, Interrupted, Listening, a_run, assert_same_end, dies_in, finish, timeless
from toy_task import ADDITION, careless, on, verify

from gce.adapters.evaluators.verifier import TaskVerifier
from gce.adapters.models.scripted import ScriptedModel
from gce.adapters.runs.memory_store import MemoryRun
from gce.app.evaluation.scoring import ask
from gce.domain.completions import Completion, SampleRequest
from gce.domain.learning import TrainingBatch, UpdateReport
from gce.domain.tasks import draw_problems
from gce.domain.verdicts import Verdict
from gce.errors import BadInput, ModelError

WAVES = with_fields(SMALL, iterations=3, second_wave=5)
FIRST, SECOND = WAVES.rollouts.problems * WAVES.rollouts.samples, WAVES.rollouts.second_wave

Change = Callable[[Iterator[Completion]], Iterator[Completion]]


class Changed(ScriptedModel):
    """The careless model, what it samples changed by a function from its `after`-th call on."""

    def __init__(self, change: Change, *, after: int = 1) -> None:
        super().__init__(careless(None, None)._answer)
        self._change, self._left = change, after

    def sample(self, requests: Sequence[SampleRequest]) -> Iterator[Completion]:
        self._left -= 1
        completions = super().sample(requests)
        return self._change(completions) if self._left < 0 else completions


def early(completions: Iterator[Completion]) -> Iterator[Completion]:
    return (each for number, each in enumerate(completions) if number < 2)


def nothing(_completions: Iterator[Completion]) -> Iterator[Completion]:
    return iter(())


def renamed(completions: Iterator[Completion]) -> Iterator[Completion]:
    return (evolve(each, key="garbage") for each in completions)


def twice(completions: Iterator[Completion]) -> Iterator[Completion]:
    return (each for each in completions for _ in range(2))


def not_numbers(completions: Iterator[Completion]) -> Iterator[Completion]:
    for each in completions:
        yield evolve(each, log_probabilities=(math.nan,) * len(each.token_ids or ()))


def endless_odds(completions: Iterator[Completion]) -> Iterator[Completion]:
    for each in completions:
        yield evolve(each, sampling_log_probabilities=(-math.inf,) * len(each.token_ids or ()))


BROKEN = [
    (early, r"got none to \d+ of \d+, such as .*: the model's `sample` ended early"),
    (nothing, r"expected one answer to each request, got none to \d+ of \d+"),
    (renamed, r"expected one answer to each request, got one to 'garbage', which is not open"),
    (twice, r"expected one answer to each request, got one to '.*', which is not open"),
    (
        not_numbers,
        r"expected log-probabilities that are numbers, got NaN or infinity: .* learning rate was too large",
    ),
    (endless_odds, r"expected log-probabilities that are numbers, got NaN or infinity"),
]


@pytest.mark.parametrize(("change", "said"), BROKEN)
@pytest.mark.parametrize("after", [0, 1, 2, 3])
def test_a_model_that_breaks_its_word_is_one_line_and_the_run_goes_on_without_it(
    change: Change, said: str, after: int
) -> None:
    """Broken in the first or second wave of the first or second iteration."""
    store = MemoryRun()
    with pytest.raises(ModelError, match=said):
        finish(a_run(WAVES, Changed(change, after=after), store))
    assert len(list(store.read("iterations"))) == after // 2
    assert len(list(store.held())) == after % 2, "a whole wave is held, a broken one is not"
    whole = finish(a_run(WAVES, careless(None, None)))
    assert_same_end(whole, finish(a_run(WAVES, careless(None, None), reopened(store))))


@pytest.mark.parametrize(("change", "said"), BROKEN)
def test_so_it_is_in_an_evaluation(change: Change, said: str) -> None:
    problems = draw_problems(ADDITION, "small", "T0", "test", 3)
    with pytest.raises(ModelError, match=said):
        ask(Changed(change, after=0), ADDITION, TaskVerifier(ADDITION), problems, seed=0)


@pytest.mark.parametrize("field", ["loss", "gradient_norm"])
def test_learning_that_overflows_commits_nothing(field: str) -> None:
    class Overflowing(Listening):
        def update(self, batch: TrainingBatch) -> UpdateReport:
            report = super().update(batch)
            broken: dict[str, Any] = {field: math.nan}
            return evolve(report, **broken) if len(self.batches) == 4 else report

    store = MemoryRun()
    with pytest.raises(
        ModelError, match=r"iteration 2: expected a loss .* number, .* nan.*smaller optimizer\.learning_rate"
    ):
        finish(a_run(WAVES, Overflowing(careless(None, None)._answer), store))
    last = store.last()
    assert last is not None and last[0] == 1
    assert_same_end(
        finish(a_run(WAVES, careless(None, None))), finish(a_run(WAVES, careless(None, None), reopened(store)))
    )


@pytest.mark.slow
def test_silence_garbage_and_long_texts_are_wrong_answers() -> None:
    """In bounded time, and the run learns nothing from them."""
    texts = ["", "\ud800\x00", "w1 " * 70_000, "9" * 200_000, "w" + "1" * 100_000]
    model = ScriptedModel(lambda request: texts[request.seed % len(texts)], context=1 << 30)
    began = time.monotonic()
    ended = finish(a_run(with_fields(SMALL, iterations=1, problems=2, samples=3, max_tokens=300_000), model))
    assert time.monotonic() - began < 60
    (record,) = ended.records
    assert sum(count.rollouts for count in record.tiers.values()) == 6
    assert record.updates == 0 and ended.state.correct == 0


@pytest.mark.parametrize(("killed_after", "drawn_again"), [(3, FIRST + SECOND), (FIRST + 2, SECOND)])
def test_at_most_one_wave_is_drawn_again(killed_after: int, drawn_again: int) -> None:
    whole = finish(a_run(WAVES, careless(None, None)))
    store = MemoryRun()
    with pytest.raises(Interrupted):
        finish(a_run(WAVES, dies_in(2, careless(None, None), after=killed_after), store))
    again = Listening(careless(None, None)._answer)
    rest = finish(a_run(with_fields(WAVES, iterations=2), again, reopened(store)))
    assert len(again.asked) == drawn_again
    assert timeless(rest.records) == timeless(whole.records)[1:2]


def test_a_wave_of_other_requests_is_drawn_again() -> None:
    """As after an update of this package that asks otherwise."""
    store = MemoryRun()
    store.hold({"iteration": 1, "first_sample": 0, "rollouts": []})
    store.hold({"of": "something else"})
    assert_same_end(finish(a_run(WAVES, careless(None, None), store)), finish(a_run(WAVES, careless(None, None))))


def test_after_a_commit_nothing_is_held() -> None:
    ended: Any = finish(a_run(WAVES, careless(None, None)))
    assert list(ended.store.held()) == []


def counting(problem: Any, completion: Completion, evidence: Any = None) -> tuple[Verdict, ...]:
    """The toy's verdict with a measure that is a whole number."""
    return tuple(evolve(each, measures={"words": len(completion.text.split())}) for each in verify(problem, completion))


def test_a_resumed_wave_leaves_the_same_records_whatever_numbers_a_verdict_has() -> None:
    """A whole number where a float is due, as users write it."""
    task = evolve(ADDITION, verify=counting)
    whole = finish(on(a_run(WAVES, careless(None, None)), task))
    store = MemoryRun()
    with pytest.raises(Interrupted):
        finish(on(a_run(WAVES, dies_in(1, careless(None, None), after=FIRST + 2), store), task))
    rest = finish(on(a_run(WAVES, careless(None, None), reopened(store)), task))
    assert [repr(record) for record in whole.store.read("rollouts")] == [
        repr(record) for record in rest.store.read("rollouts")
    ]


def test_a_verdict_that_cannot_be_kept_is_one_line() -> None:
    def odd(problem: Any, completion: Completion, evidence: Any = None) -> tuple[Verdict, ...]:
        return tuple(evolve(each, measures={"short": True}) for each in verify(problem, completion))

    with pytest.raises(
        BadInput, match=r"task addition: its verdict on .* cannot be kept: .*measures.*expected a number"
    ):
        finish(on(a_run(WAVES, careless(None, None)), evolve(ADDITION, verify=odd)))


class Measuring(TaskVerifier):
    """An evaluator that never says the same twice, as a clock; it counts how often it is asked about a rollout."""

    deterministic, tolerance = False, 1.0

    def __init__(self, asked: Counter[str]) -> None:
        super().__init__(ADDITION)
        self.asked = asked

    def judge(self, answers: Any) -> Iterator[Any]:
        for problem, completion, verdicts in super().judge(answers):
            self.asked[completion.key] += 1
            seconds = sum(self.asked.values())
            yield problem, completion, tuple(evolve(each, measures={"seconds": float(seconds)}) for each in verdicts)


def test_what_an_evaluator_measured_is_recorded_and_never_measured_again() -> None:
    """The run is cut off in its second wave: the verdicts of the first are read back as they were measured."""
    asked: Counter[str] = Counter()
    store = MemoryRun()
    run = a_run(WAVES, dies_in(1, careless(None, None), after=FIRST + 2), store)
    with pytest.raises(Interrupted):
        finish(evolve(run, evaluator=Measuring(asked)))
    (held,) = store.held()
    before = {each["completion"]["key"]: each["verdicts"] for each in held["rollouts"]}
    rest = finish(evolve(a_run(WAVES, careless(None, None), reopened(store)), evaluator=Measuring(asked)))
    stored = {rollout["key"]: rollout["verdicts"] for rollout in rest.store.read("rollouts")}
    assert len(before) == FIRST and {key: stored[key] for key in before} == before
    assert all(asked[key] == 1 for key in before)


def test_a_resumed_wave_took_the_time_it_took() -> None:
    whole = finish(a_run(WAVES, Listening(careless(None, None)._answer)))
    store = MemoryRun()
    with pytest.raises(Interrupted):
        finish(a_run(WAVES, dies_in(1, Listening(careless(None, None)._answer), after=FIRST + 2), store))
    rest = finish(a_run(WAVES, Listening(careless(None, None)._answer), reopened(store)))
    assert rest.records[0].seconds["sample"] == whole.records[0].seconds["sample"] == FIRST + SECOND


def test_answers_that_never_came_are_asked_for_again() -> None:
    def down(completions: Iterator[Completion]) -> Iterator[Completion]:
        for each in completions:
            yield Completion(each.key, "", "error", policy="", error="no server")

    store = MemoryRun()
    with pytest.raises(Interrupted):
        model = Changed(down, after=0)
        model.sample = cut_after_first(model.sample)  # type: ignore[method-assign]
        finish(a_run(WAVES, model, store))
    assert list(store.held()) == []


def cut_after_first(sample: Any) -> Any:
    calls = [0]

    def call(requests: Any) -> Any:
        calls[0] += 1
        if calls[0] > 1:
            raise Interrupted
        return sample(requests)

    return call
