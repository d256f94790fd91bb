"""The loop with a scripted model: counts worked by hand, and runs that end the same whatever interrupts them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import evolve, frozen
from present import present
from setting_fields import with_fields
from stores import reopened
from toy_task import ADDITION, WORKED, careless, on

from gce.adapters.evaluators.verifier import TaskVerifier
from gce.adapters.models.scripted import ScriptedModel
from gce.adapters.runs.memory_store import MemoryRun
from gce.adapters.runs.run_directory import RunDirectory
from gce.adapters.system.clocks import FakeClock
from gce.app.evaluation.demonstrations import Demonstration, demonstrations
from gce.app.settings.records import ADMISSION, TrainSettings
from gce.app.terminal import Silent
from gce.app.training.changed_rewards import CHANGED_REWARDS
from gce.app.training.loop import iterate, why_stop
from gce.app.training.state import Run, RunState, begin, resume
from gce.app.training.time_limit import TimeIsUp
from gce.domain.algorithms import ALGORITHMS, Algorithm
from gce.domain.completions import Completion, SampleRequest
from gce.domain.curriculum import TierHistory
from gce.domain.learning import ModelState, Trace, TrainingBatch, UpdateReport
from gce.domain.measurements import IterationRecord, TierCount
from gce.domain.problems import Problem, Split
from gce.domain.serialization import from_plain, to_plain
from gce.domain.tasks import ProblemSource, TaskTier, draw_problems
from gce.domain.traces import trace_of_record, trace_record
from gce.domain.verdicts import Step, Verdict
from gce.errors import BadInput, ModelError
from gce.ports.runs import RunWriter

SMALL = with_fields(
    TrainSettings(),
    task="toy_task:ADDITION",
    preset="small",
    iterations=2,
    problems=4,
    samples=6,
    sampling="uniform",
    per_problem=2,
    updates=3,
    batch=4,
    reuse=4.0,
)
Answer = Callable[[SampleRequest], str]


class Interrupted(Exception):
    """What stands for a kill."""


class Listening(ScriptedModel):
    """A scripted model that remembers what it was asked and taught, and takes a second for each sample."""

    def __init__(self, answer: Answer, clock: FakeClock | None = None, **options: Any) -> None:
        super().__init__(answer, **options)
        self.asked: list[SampleRequest] = []
        self.batches: list[TrainingBatch] = []
        self.clock = clock or FakeClock()

    def sample(self, requests: Sequence[SampleRequest]) -> Iterator[Completion]:
        self.asked += requests
        for completion in super().sample(requests):
            self.clock.advance(1.0)
            yield completion

    def update(self, batch: TrainingBatch) -> UpdateReport:
        self.batches.append(batch)
        self.clock.advance(10.0)
        return super().update(batch)

    @property
    def taught(self) -> list[tuple[Trace, ...]]:
        return [batch.traces for batch in self.batches]

    @property
    def weights(self) -> list[tuple[float, ...]]:
        return [batch.weights for batch in self.batches]


def add(request: SampleRequest) -> int:
    """What the prompt asks for."""
    a, b, modulus = (int(word[1:]) for word in request.messages[0].content.split())
    return (a + b) % modulus


def number_of(request: SampleRequest) -> int:
    return int(request.key.rpartition("/")[2])


def six_kinds(request: SampleRequest) -> str:
    """Right; the same with other whitespace; right; right in other words; wrong; no number."""
    right = add(request)
    texts = [f"a w{right}", f"a \n w{right}", f"b w{right}", f"c w{right}", f"w{right + 1}", "no idea"]
    return texts[number_of(request) % 6]


def problems(split: Split, count: int) -> tuple[Problem, ...]:
    tiers = [tier.name for tier in ADDITION.tiers("small")]
    return tuple(found for tier in tiers for found in draw_problems(ADDITION, "small", tier, split, count))


def a_run(config: TrainSettings, model: Any, store: RunWriter | None = None, dev: tuple[Problem, ...] = ()) -> Run:
    clock = model.clock if isinstance(model, Listening) else FakeClock()
    algorithm = ALGORITHMS[config.objective.algorithm]
    return Run(config, ADDITION, TaskVerifier(ADDITION), algorithm, model, store or MemoryRun(), clock, Silent(), dev)


@frozen
class Finished:
    """All that a run leaves."""

    state: RunState
    records: list[IterationRecord]
    store: RunWriter
    learned: ModelState


def finish(run: Run) -> Finished:
    state, records = resume(run), []
    for latest, record in iterate(run, state):
        state = latest
        records.append(record)
    return Finished(state, records, run.store, run.model.state())


def timeless(records: Sequence[IterationRecord]) -> list[IterationRecord]:
    return [evolve(record, seconds={}) for record in records]


def stored(store: RunWriter) -> dict[str, list[dict[str, Any]]]:
    streams = {name: list(store.read(name)) for name in ("iterations", "rollouts", "traces")}
    for record in streams["iterations"]:
        record["seconds"] = {}
    return streams


def same_state(one: ModelState, other: ModelState) -> bool:
    return one.settings == other.settings and {n: a.tobytes() for n, a in one.arrays.items()} == {
        n: a.tobytes() for n, a in other.arrays.items()
    }


def assert_same_end(one: Finished, other: Finished) -> None:
    assert stored(one.store) == stored(other.store)
    assert one.state == other.state
    assert same_state(one.learned, other.learned)


def test_counts_of_an_iteration_worked_by_hand() -> None:
    """Two problems in each of two tiers, six answers each: four right in three wordings, and room for two traces."""
    found = finish(a_run(SMALL, Listening(six_kinds)))
    first, second = found.records
    assert list(first.tiers) == ["T0", "T1"]
    for count in first.tiers.values():
        assert (count.rollouts, count.correct, count.problems) == (12, 8, 2)
        assert (count.all_right, count.all_wrong) == (0, 0)
        assert (count.unparsed, count.truncated, count.distinct) == (2, 0, 6)
    # Bytes and the end: 5, 7, 5, 5, 3 and 8 where every sum is one digit, as remainders of 2 and 3 are.
    assert first.tiers["T0"].mean_tokens == first.tiers["T1"].mean_tokens == 33 / 6
    assert (first.admitted, first.buffer) == (8, {"T0": 4, "T1": 4})
    assert (second.admitted, second.buffer) == (8, {"T0": 8, "T1": 8})
    assert (first.updates, first.dropped, first.dev) == (3, 0, {})
    assert first.loss is not None and first.gradient_norm is not None and first.entropy is not None

    state = found.state
    assert (state.iteration, state.rollouts, state.correct, state.updates) == (2, 48, 32, 6)
    assert state.drawn == {"T0": 4, "T1": 4}
    assert state.first_correct == {"T0": 1, "T1": 1}


def test_the_buffer_takes_the_first_of_equal_traces_and_stops_at_the_cap() -> None:
    found = finish(a_run(with_fields(SMALL, iterations=1), Listening(six_kinds)))
    texts = Counter(trace.completion.text.split()[0] for trace in found.state.buffer)
    assert texts == {"a": 4, "b": 4}
    assert all(number == 2 for number in Counter(trace.problem for trace in found.state.buffer).values())
    admitted = [record["key"] for record in found.store.read("rollouts") if record["admitted"]]
    assert admitted == [trace.key for trace in found.state.buffer]
    assert admitted == [record["key"] for record in found.store.read("traces")]


def test_without_cap_and_deduplication_every_right_answer_is_kept() -> None:
    kept = with_fields(SMALL, per_problem=None, deduplicate=False)
    assert finish(a_run(kept, Listening(six_kinds))).records[0].buffer == {"T0": 8, "T1": 8}
    unique = with_fields(SMALL, per_problem=None)
    assert finish(a_run(unique, Listening(six_kinds))).records[0].buffer == {"T0": 6, "T1": 6}


def test_the_record_that_is_stored_is_the_one_that_is_handed_out() -> None:
    found = finish(a_run(SMALL, Listening(six_kinds)))
    assert [from_plain(IterationRecord, record) for record in found.store.read("iterations")] == found.records


def test_seconds_are_those_of_the_clock_by_stage() -> None:
    """24 samples of a second, 3 updates of ten, 3 dev problems of a second."""
    run = a_run(with_fields(SMALL, dev_every=2), Listening(six_kinds), dev=problems("dev", 1))
    first, second = finish(run).records
    assert first.seconds == {"sample": 24.0, "train": 30.0, "evaluate": 0.0}
    assert second.seconds == {"sample": 24.0, "train": 30.0, "evaluate": 3.0}


def test_what_is_asked_follows_from_the_settings() -> None:
    model = Listening(six_kinds)
    finish(a_run(with_fields(SMALL, temperature=0.5, max_tokens=9, iterations=1), model))
    assert {(request.temperature, request.max_tokens) for request in model.asked} == {(0.5, 9)}
    assert len({request.seed for request in model.asked}) == len(model.asked) == 24


def test_an_answer_cut_at_the_limit_is_counted_as_truncated() -> None:
    """Five bytes of "no idea" are not all of it, and "a \\n w1" loses its number."""
    found = finish(a_run(with_fields(SMALL, max_tokens=5, iterations=1), Listening(six_kinds)))
    assert [count.truncated for count in found.records[0].tiers.values()] == [4, 4]
    assert [count.correct for count in found.records[0].tiers.values()] == [6, 6]


def test_training_draws_fresh_problems_and_never_a_held_out_tier() -> None:
    model = Listening(six_kinds)
    found = finish(a_run(with_fields(SMALL, iterations=5), model, dev=problems("dev", 2)))
    drawn = Counter((record["problem"], record["iteration"]) for record in found.store.read("rollouts"))
    assert len({problem for problem, _ in drawn}) == len(drawn) == 20
    assert {record["tier"] for record in found.store.read("rollouts")} == {"T0", "T1"}
    assert {"/train/" in record["problem"] for record in found.store.read("rollouts")} == {True}
    assert {trace.tier for traces in model.taught for trace in traces} == {"T0", "T1"}
    assert set(found.records[1].dev) == {"T0", "T1", "T2"}, "the held-out tier is looked at"


def test_dev_problems_are_answered_greedily_every_few_iterations_and_at_the_end() -> None:
    model = Listening(lambda request: f"w{add(request)}" if "/T2/" in request.key else "w1")
    run = a_run(with_fields(SMALL, iterations=5, dev_every=2), model, dev=problems("dev", 3))
    records = finish(run).records
    assert [bool(record.dev) for record in records] == [False, True, False, True, True]
    assert (records[1].dev["T2"].n, records[1].dev["T2"].correct) == (3, 3)
    looked = [request for request in model.asked if "/dev/" in request.key]
    assert len(looked) == 27 and {request.temperature for request in looked} == {0.0}


def test_a_pool_revisits_its_problems_and_the_cap_holds_over_iterations() -> None:
    """Iterations 1 and 2 see the same two problems a tier, whose places in the buffer are then taken."""
    model = Listening(six_kinds)
    found = finish(a_run(with_fields(SMALL, pool=2), model))
    by_iteration = [
        {record["problem"] for record in found.store.read("rollouts") if record["iteration"] == number}
        for number in (1, 2)
    ]
    assert by_iteration[0] == by_iteration[1] and len(by_iteration[0]) == 4
    assert [record.admitted for record in found.records] == [8, 0]
    assert found.state.drawn == {"T0": 4, "T1": 4}
    assert len({request.seed for request in model.asked}) == 48, "asked again, not answered again the same way"


def test_a_pool_smaller_than_a_tier_s_share_asks_each_problem_once_an_iteration() -> None:
    found = finish(a_run(with_fields(SMALL, pool=1, iterations=1), Listening(six_kinds)))
    assert [count.problems for count in found.records[0].tiers.values()] == [1, 1]
    assert found.state.rollouts == 12


def test_the_adaptive_plan_goes_where_answers_are_undecided() -> None:
    """Ten problems, T0 always right and T1 always undecided: 5 and 5; then 2 each as a floor and 6 by 1/7 to 6/7."""
    config = with_fields(SMALL, sampling="adaptive", problems=10, samples=2, iterations=2)
    model = Listening(lambda request: f"w{add(request)}" if "/T0/" in request.key or number_of(request) else "no idea")
    found = finish(a_run(config, model))
    assert [{tier: count.problems for tier, count in record.tiers.items()} for record in found.records] == [
        {"T0": 5, "T1": 5},
        {"T0": 3, "T1": 7},
    ]
    assert found.records[0].tiers["T0"].all_right == 5
    assert found.state.history.undecided["T0"] == 0.0
    assert finish(a_run(with_fields(config, sampling="uniform"), model)).records[1].tiers["T0"].problems == 5


def test_a_second_wave_goes_to_the_undecided_problem_with_seeds_of_its_own() -> None:
    """One problem a tier, two rollouts each; T1 is all right, so T0 gets both further ones, as samples 2 and 3."""
    model = Listening(
        lambda request: f"w{add(request)}" if "/T1/" in request.key or number_of(request) == 0 else "no idea"
    )
    found = finish(a_run(with_fields(SMALL, problems=2, samples=2, second_wave=2, iterations=1), model))
    assert {tier: count.rollouts for tier, count in found.records[0].tiers.items()} == {"T0": 4, "T1": 2}
    assert [request.key.rpartition("/")[2] for request in model.asked] == ["0", "1", "0", "1", "2", "3"]
    assert len({request.seed for request in model.asked}) == 6


def test_without_accumulation_the_buffer_holds_the_iteration_alone() -> None:
    model = Listening(six_kinds)
    found = finish(a_run(with_fields(SMALL, accumulate=False, iterations=3), model))
    assert [record.buffer for record in found.records] == [{"T0": 4, "T1": 4}] * 3
    assert [{trace.iteration for trace in traces} for traces in model.taught] == [{n} for n in (1, 2, 3) for _ in "abc"]


def test_without_accumulation_a_problem_that_comes_back_is_learned_again() -> None:
    found = finish(a_run(with_fields(SMALL, accumulate=False, pool=2), Listening(six_kinds)))
    assert [record.admitted for record in found.records] == [8, 8]


def test_epochs_pass_over_the_whole_buffer_instead_of_drawn_batches() -> None:
    """The reference's recipe: batches of one, each trace once an epoch."""
    model = Listening(six_kinds)
    found = finish(a_run(with_fields(SMALL, epochs=2, batch=1), model))
    assert [record.updates for record in found.records] == [16, 32]
    taught = Counter(trace.key for (trace,) in model.taught)
    first = {record["key"] for record in found.store.read("traces") if record["iteration"] == 1}
    assert taught == {trace.key: 4 if trace.key in first else 2 for trace in found.state.buffer}


@pytest.mark.parametrize(
    ("weighting", "least", "most"), [("uniform-tier", 80, 80), ("equal", 104, 136), ("failure-rate", 137, 156)]
)
def test_tiers_share_the_batches_as_the_weighting_says(weighting: str, least: int, most: int) -> None:
    """T0: 8 traces, none wrong. T1: 24 traces, half wrong. T1 gets 1/2, 3/4 or 0.5 / (0.5 + 0.05) of 160 places."""

    def answer(request: SampleRequest) -> str:
        number = number_of(request)
        if "/T0/" in request.key:
            return f"w{add(request)}"
        return f"{number} w{add(request)}" if number % 2 else "no idea"

    model = Listening(answer)
    config = with_fields(
        SMALL, per_problem=None, problems=16, updates=40, reuse=100.0, iterations=1, weighting=weighting
    )
    assert finish(a_run(config, model)).records[0].buffer == {"T0": 8, "T1": 24}
    places = Counter(trace.tier for traces in model.taught for trace in traces)
    assert places.total() == 160 and least <= places["T1"] <= most


def test_without_a_right_answer_nothing_is_learned_and_nothing_breaks() -> None:
    model = Listening(lambda request: "no idea")
    before = model.state()
    found = finish(a_run(SMALL, model))
    for record in found.records:
        assert (record.updates, record.loss, record.gradient_norm) == (0, None, None)
        assert (record.admitted, record.buffer) == (0, {})
        assert all(count.all_wrong == 2 for count in record.tiers.values())
    assert found.state.first_correct == {}
    assert same_state(before, found.learned)


def test_the_first_correct_iteration_of_each_tier_is_kept() -> None:
    def late(request: SampleRequest) -> str:
        number = int(request.key.partition("/")[0])
        return f"w{add(request)}" if number >= (2 if "/T1/" in request.key else 3) else "no idea"

    assert finish(a_run(with_fields(SMALL, iterations=4), Listening(late))).state.first_correct == {"T0": 3, "T1": 2}


def test_with_no_updates_the_model_stays_as_it_was() -> None:
    model = Listening(six_kinds)
    before = model.state()
    found = finish(a_run(with_fields(SMALL, updates=0), model))
    assert (found.records[0].updates, found.records[0].loss, found.state.updates) == (0, None, 0)
    assert same_state(before, found.learned)


def test_no_finishing_order_of_rollouts_changes_a_run() -> None:
    class Backwards(Listening):
        def sample(self, requests: Sequence[SampleRequest]) -> Iterator[Completion]:
            return iter(list(super().sample(requests))[::-1])

    assert_same_end(finish(a_run(SMALL, Listening(six_kinds))), finish(a_run(SMALL, Backwards(six_kinds))))


def test_the_same_seed_gives_the_same_run_and_another_seed_other_problems() -> None:
    one, again, other = (finish(a_run(with_fields(SMALL, seed=seed), careless(None, None))) for seed in (1, 1, 2))
    assert_same_end(one, again)
    mine, theirs = ({record["problem"] for record in run.store.read("rollouts")} for run in (one, other))
    assert not mine & theirs
    prompts = ({str(trace.messages) for trace in run.state.buffer} for run in (one, other))
    assert len(set.intersection(*prompts)) < 4


def test_looking_at_dev_problems_disturbs_nothing() -> None:
    looking = finish(a_run(with_fields(SMALL, dev_every=1), careless(None, None), dev=problems("dev", 4)))
    blind = finish(a_run(SMALL, careless(None, None)))
    assert all(record.dev for record in looking.records) and not any(record.dev for record in blind.records)
    assert same_state(looking.learned, blind.learned)
    assert evolve(looking.state, best=None, looks_since_best=0) == blind.state
    assert [evolve(record, dev={}) for record in looking.records] == blind.records


def dies_in(iteration: int, model: ScriptedModel, *, after: int = 5) -> ScriptedModel:
    """`model`, killed after a few rollouts of an iteration."""
    answer = model._answer
    left = [after]

    def mortal(request: SampleRequest) -> str:
        if request.key.startswith(f"{iteration}/"):
            left[0] -= 1
            if left[0] < 0:
                raise Interrupted
        return answer(request)

    model._answer = mortal
    return model


@pytest.mark.parametrize("killed_in", [1, 2, 3, 4])
@pytest.mark.parametrize(
    "change",
    [
        {},
        {"accumulate": False, "pool": 3},
        {"sampling": "adaptive", "second_wave": 5, "weighting": "failure-rate"},
        {"epochs": 1},
    ],
    ids=["default", "pool", "adaptive", "epochs"],
)
def test_a_killed_run_ends_as_one_that_was_not(killed_in: int, change: dict[str, Any]) -> None:
    """Killed in the middle of a wave, which is then drawn again whole."""
    config = with_fields(SMALL, iterations=4, dev_every=2, **change)
    dev = problems("dev", 2)
    whole = finish(a_run(config, careless(None, None), dev=dev))
    store = MemoryRun()
    with pytest.raises(Interrupted):
        finish(a_run(config, dies_in(killed_in, careless(None, None)), store, dev))
    assert len(list(store.read("iterations"))) == killed_in - 1
    rest = finish(a_run(config, careless(None, None), reopened(store), dev))
    assert_same_end(whole, rest)
    assert timeless(rest.records) == timeless(whole.records)[killed_in - 1 :]


@pytest.mark.parametrize("accumulate", [True, False])
def test_a_finished_run_resumes_to_its_end(accumulate: bool) -> None:
    config = with_fields(SMALL, accumulate=accumulate)
    whole = finish(a_run(config, careless(None, None)))
    again = finish(a_run(config, careless(None, None), whole.store))
    assert again.records == []
    assert_same_end(whole, again)


def test_more_iterations_may_be_asked_for_later() -> None:
    longer = with_fields(SMALL, iterations=4)
    store = finish(a_run(SMALL, careless(None, None))).store
    assert_same_end(finish(a_run(longer, careless(None, None), store)), finish(a_run(longer, careless(None, None))))


def test_a_killed_run_in_a_directory_ends_as_one_in_memory_that_was_not(tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    config = with_fields(SMALL, iterations=3)
    whole = finish(a_run(config, careless(None, None)))
    path = tmp_path / "run"
    with RunDirectory.create(path, to_plain(config)) as store, pytest.raises(Interrupted):
        finish(a_run(config, dies_in(3, careless(None, None)), store))
    with RunDirectory.open(path) as store:
        assert_same_end(whole, finish(a_run(config, careless(None, None), store)))


@pytest.mark.slow
@pytest.mark.parametrize(("dropout", "precision"), [(0.0, "float32"), (0.1, "float32"), (0.0, "bfloat16")])
def test_a_killed_run_of_a_real_model_ends_with_the_same_bytes(tmp_path: Path, dropout: float, precision: Any) -> None:
    pytest.importorskip("mlx.core")
    pytest.importorskip("mlx_lm")
    if precision == "bfloat16":
        pytest.importorskip("torch")
    from tiny_llama import write_tiny_llama

    from gce.adapters.models.backends.mlx.model import LoraSettings, load_mlx_model

    base = write_tiny_llama(tmp_path / "base", layers=2, hidden=16)
    config = with_fields(SMALL, iterations=3, problems=2, samples=4, updates=2, max_tokens=6)

    def model() -> Any:
        lora = LoraSettings(rank=4, layers=(1,), dropout=dropout)
        return load_mlx_model(base, lora=lora, seed=3, threads=1, precision=precision)

    class Mortal:
        """The model until the second iteration is half sampled."""

        def __init__(self) -> None:
            self.model = model()

        def sample(self, requests: Sequence[SampleRequest]) -> Iterator[Completion]:
            for count, completion in enumerate(self.model.sample(requests)):
                if completion.key.startswith("3/") and count == 3:
                    raise Interrupted
                yield completion

        def __getattr__(self, name: str) -> Any:
            return getattr(self.model, name)

    with RunDirectory.create(tmp_path / "whole", {}) as store:
        whole = finish(a_run(config, model(), store))
        assert whole.state.updates > 0, "a run that learns nothing proves nothing"
        with RunDirectory.create(tmp_path / "killed", {}) as killed, pytest.raises(Interrupted):
            finish(a_run(config, Mortal(), killed))
        with RunDirectory.open(tmp_path / "killed") as killed:
            assert present(killed.last())[0] == 2
            assert_same_end(whole, finish(a_run(config, model(), killed)))
    names = ["adapters.safetensors", "optimizer.safetensors", "adapter_config.json", "state.json"]
    folders = (tmp_path / run / "checkpoints" / "last" for run in ("whole", "killed"))
    one, other = ([(folder / name).read_bytes() for name in names] for folder in folders)
    assert one == other


def test_few_traces_are_not_passed_over_more_often_than_asked() -> None:
    """With reuse 1 the updates read the buffer once, whatever their configured number."""
    config = with_fields(SMALL, updates=10, reuse=1.0, batch=4, iterations=1)
    ended = finish(a_run(config, careless(None, None)))
    held = sum(ended.records[0].buffer.values())
    assert held > 0 and ended.records[0].updates == min(10, -(-held // 4))


# When to stop


class Learning(Listening):
    """Always right in training; on dev problems, of one tier more after each iteration."""

    def __init__(self) -> None:
        super().__init__(lambda request: f"w{add(request)}")

    def sample(self, requests: Sequence[SampleRequest]) -> Iterator[Completion]:
        known = ["/train/", *(f"/T{index}/" for index in range(self.steps // 3))]
        for completion in super().sample(requests):
            right = any(name in completion.key for name in known)
            yield completion if right else evolve(completion, text="no idea")


def learning(**settings: Any) -> tuple[Run, Finished]:
    run = a_run(with_fields(SMALL, dev_every=1, **settings), Learning(), dev=problems("dev", 2))
    return run, finish(run)


def test_a_run_stops_when_dev_accuracy_is_reached() -> None:
    """One tier of three right after the first iteration, two after the second: 67 %."""
    run, found = learning(iterations=9, until=0.6)
    assert [round(sum(i.share for i in record.dev.values()) / 3, 2) for record in found.records] == [0.33, 0.67]
    iteration, share = present(found.state.best)
    assert iteration == 2 and share == pytest.approx(2 / 3)
    assert why_stop(run, found.state) == "dev accuracy reached 60% in iteration 2"


def test_a_run_stops_when_dev_accuracy_no_longer_rises() -> None:
    """All right after three iterations, and no better in the two looks that follow; the first of equals is the best."""
    run, found = learning(iterations=9, patience=2)
    assert (found.state.iteration, found.state.best, found.state.looks_since_best) == (5, (3, 1.0), 2)
    assert why_stop(run, found.state) == "no gain on dev problems in 2 looks"


def test_a_run_stops_before_its_time_is_over() -> None:
    """Each iteration takes 24 samples of a second and 3 updates of ten: two fit into 120 s, and a third would not."""
    config = with_fields(SMALL, iterations=9, minutes=2.0)
    run = evolve(a_run(config, Listening(six_kinds)), deadline=120.0)
    found = finish(run)
    assert found.state.iteration == 2
    assert why_stop(run, found.state) == "another iteration would exceed 2 minutes"


def test_all_iterations_are_a_reason_to_stop() -> None:
    run, found = learning(iterations=2)
    assert why_stop(run, found.state) == "all iterations done"


def test_a_resumed_run_stops_where_it_would_have() -> None:
    """Interrupted after each iteration: what was best, and for how long, is remembered."""
    store, ends = MemoryRun(), []
    for _ in range(6):
        run = a_run(with_fields(SMALL, iterations=9, patience=2, dev_every=1), Learning(), store, problems("dev", 2))
        state = resume(run)
        if why_stop(run, state):
            break
        state, _ = next(iterate(run, state))
        ends.append(state.best)
        store = reopened(store)
    assert len(ends) == 5 and ends[-1] == (3, 1.0)


# Controls


def test_a_control_admits_every_rollout() -> None:
    found = finish(a_run(with_fields(SMALL, admission="all"), Listening(six_kinds)))
    assert found.records[0].buffer == {"T0": 12, "T1": 12}, "equal ones and all of one problem included"
    assert [count.correct for count in found.records[0].tiers.values()] == [8, 8]


def test_a_control_admits_as_many_as_were_right_but_not_those() -> None:
    """Eight of twelve a tier, drawn anew each iteration and the same in every run of the seed."""
    config = with_fields(SMALL, admission="shuffled", per_problem=None, deduplicate=False)
    found, again = (finish(a_run(config, Listening(six_kinds))) for _ in range(2))
    assert found.records[0].buffer == {"T0": 8, "T1": 8}
    right = [trace.verdicts[0].right for trace in found.state.buffer]
    assert len(right) == 32 and 0 < sum(right) < 32
    assert [trace.key for trace in found.state.buffer] == [trace.key for trace in again.state.buffer]
    other = finish(a_run(with_fields(config, seed=1), Listening(six_kinds)))
    numbers = [[trace.key.rpartition("/")[2] for trace in each.state.buffer] for each in (found, other)]
    assert numbers[0] != numbers[1]


def test_a_format_reward_admits_what_can_be_read_whatever_it_says() -> None:
    """Of four answers a problem, one is right, two are wrong, and one has no number at its end."""
    said = ("w{right}", "w999", "w998", "no number")

    def answer(request: SampleRequest) -> str:
        return said[number_of(request) % 4].format(right=add(request))

    config = with_fields(SMALL, iterations=1, samples=4, admission="format", per_problem=None, deduplicate=False)
    records = list(finish(a_run(config, ScriptedModel(answer))).store.read("rollouts"))
    assert {record["text"] for record in records if not record["admitted"]} == {"no number"}


def test_a_random_reward_knows_only_its_rate() -> None:
    """With rate 0 nothing is admitted, with rate 1 everything; by default as often as answers are right."""
    fields = {"iterations": 1, "admission": "random", "per_problem": None, "deduplicate": False}
    config = with_fields(SMALL, random_rates={"T0": 0.0, "T1": 1.0}, **fields)
    found = finish(a_run(config, Listening(six_kinds)))
    assert found.records[0].buffer == {"T1": 12}
    own = [finish(a_run(with_fields(SMALL, **fields), Listening(six_kinds))) for _ in range(2)]
    assert own[0].records[0].buffer == own[1].records[0].buffer
    right = [trace.verdicts[0].right for trace in own[0].state.buffer]
    assert 8 <= len(right) <= 23 and 0 < sum(right) < len(right), "16 of 24 expected"


def test_every_admission_is_known_to_settings_and_to_learning() -> None:
    assert set(CHANGED_REWARDS) == set(ADMISSION.names) - {"verified"}


def test_only_right_answers_with_true_steps_are_learned_from() -> None:
    """Of three right answers one has a false step and one has none; for the plan, too, they are not right."""

    def steps(_problem: Problem, text: str) -> tuple[Step, ...]:
        return tuple(Step(word, "true" if word == "yes" else "false") for word in text.split()[:-1])

    def answer(request: SampleRequest) -> str:
        right = f"w{add(request)}"
        return [f"yes yes {right}", f"yes no {right}", right, "yes nothing"][number_of(request) % 4]

    config = with_fields(SMALL, iterations=1, samples=4, admission="reasoned")
    ended = finish(
        on(
            a_run(config, ScriptedModel(answer)),
            evolve(ADDITION, teaching=evolve(ADDITION.teaching, check_steps=steps)),
        )
    )
    texts = {record["text"].split()[0] for record in ended.store.read("rollouts") if record["admitted"]}
    assert texts == {"yes"}
    (record,) = ended.records
    right = sum(count.correct for count in record.tiers.values())
    assert right == 12 and record.admitted == 4, "what was right stays on record"
    assert sum(ended.state.history.right.values()) == 4


def test_a_control_plans_by_what_it_may_know() -> None:
    """T0 all right, T1 undecided: with all taken for right both tiers look decided, and get the same."""
    config = with_fields(SMALL, sampling="adaptive", problems=10, samples=2, iterations=2, admission="all")
    model = Listening(lambda request: f"w{add(request)}" if "/T0/" in request.key or number_of(request) else "no idea")
    found = finish(a_run(config, model))
    assert [count.problems for count in found.records[1].tiers.values()] == [5, 5]
    waved = finish(a_run(with_fields(config, second_wave=10, iterations=1), Listening(lambda _: "no idea")))
    assert waved.state.rollouts == 30
    assert found.records[0].tiers["T1"].correct == 5, "what is shown stays what the verifier said"


def test_shuffled_verdicts_decide_on_the_second_wave_too() -> None:
    """Every problem is half right. Shuffled, some look solved and get nothing more: not the same as in a true run."""
    config = with_fields(SMALL, problems=12, samples=2, second_wave=12, iterations=1)
    asked = []
    for admission in ("verified", "shuffled"):
        model = Listening(lambda request: f"w{add(request)}" if number_of(request) % 2 else "no idea")
        finish(a_run(with_fields(config, admission=admission), model))
        asked.append({request.key.rpartition("/")[0] for request in model.asked if number_of(request) > 1})
    true, control = asked
    assert len(true) == 12 and control < true


def test_a_critic_allocates_the_second_wave() -> None:
    """T0 is always right, T1 in one of two rollouts: most of the 12 further ones are for T1."""
    config = with_fields(SMALL, problems=12, samples=2, second_wave=12, second_wave_by="critic", iterations=1)

    def answer(request: SampleRequest) -> str:
        known = "/T0/" in request.key or number_of(request) % 2
        return f"w{add(request)}" if known else "no idea"

    model = Listening(answer)
    finish(a_run(config, model))
    extra = Counter("/T0/" in request.key for request in model.asked if number_of(request) > 1)
    assert extra.total() == 12 and extra[False] > extra[True]


def test_replay_by_surprise_keeps_it_with_the_traces_and_survives_a_restart() -> None:
    """T0 is always right, of T1 one of six: right answers of T1 are the more surprising."""
    config = with_fields(SMALL, problems=12, weighting="surprise", iterations=2)

    def answer(request: SampleRequest) -> str:
        return f"w{add(request)}" if "/T0/" in request.key or not number_of(request) else "no idea"

    found = finish(a_run(config, Listening(answer)))
    easy, hard = ([t.surprise or 0.0 for t in found.state.buffer if t.tier == tier] for tier in ("T0", "T1"))
    assert math.fsum(easy) / len(easy) < math.fsum(hard) / len(hard) < 1.0
    trace = next(iter(found.state.buffer))
    assert trace_of_record(trace_record(trace)).surprise == trace.surprise
    assert all(trace.surprise is None for trace in finish(a_run(SMALL, Listening(answer))).state.buffer)


# Variants of learning


def test_solved_problems_can_be_left_out_of_the_buffer() -> None:
    def answer(request: SampleRequest) -> str:
        return f"{number_of(request)} w{add(request)}" if "/T0/" in request.key or number_of(request) else "no idea"

    config = with_fields(SMALL, iterations=1)
    assert finish(a_run(config, Listening(answer))).records[0].buffer == {"T0": 4, "T1": 4}
    assert finish(a_run(with_fields(config, drop_solved=True), Listening(answer))).records[0].buffer == {"T1": 4}


def test_wrong_rollouts_can_weigh_against() -> None:
    """Batches of four right traces, and four of the iteration's eight wrong ones at -0.25."""
    model = Listening(six_kinds)
    finish(a_run(with_fields(SMALL, algorithm="weighted", negative=0.25, iterations=1), model))
    assert model.weights == [(1.0,) * 4 + (-0.25,) * 4] * 3
    for traces in model.taught:
        assert [trace.verdicts[0].right for trace in traces] == [True] * 4 + [False] * 4
        assert len({trace.key for trace in traces[4:]}) == 4


def test_group_relative_weights_of_this_iterations_rollouts() -> None:
    """Of six rollouts a problem four are right: weights sqrt(1/2) and -sqrt(2), with ratios clipped."""
    model = Listening(six_kinds)
    finish(a_run(with_fields(SMALL, algorithm="grpo", kl=0.01), model))
    assert [batch.clip for batch in model.batches] == [0.2] * 6
    assert [batch.kl for batch in model.batches] == [0.01] * 6
    for place, batch in enumerate(model.batches):
        assert {trace.iteration for trace in batch.traces} == {1 + place // 3}
        for trace, weight in zip(batch.traces, batch.weights, strict=True):
            assert weight == pytest.approx(0.5**0.5 if trace.verdicts[0].right else -(2**0.5), rel=1e-5)


@pytest.mark.parametrize(
    ("settings", "bounds", "ratio", "normalization"),
    [
        ({"algorithm": "rloo"}, (0.8, 1.2), "product", "sequence"),
        ({"algorithm": "dr-grpo"}, (0.8, 1.2), "token", "constant"),
        ({"algorithm": "dapo"}, (0.8, 1.28), "token", "token"),
        ({"algorithm": "dapo", "clip": 0.1}, (0.9, 1.1), "token", "token"),
        ({"algorithm": "dapo", "clip_high": 0.5}, (0.8, 1.5), "token", "token"),
        ({"algorithm": "gspo"}, (1 - 3e-4, 1 + 4e-4), "sequence", "sequence"),
        ({"algorithm": "raft", "clip_high": 0.5}, (0.0, math.inf), "token", "token"),
    ],
    ids=str,
)
def test_an_algorithm_decides_the_loss_and_settings_its_clipping_range(
    settings: Any, bounds: Any, ratio: str, normalization: str
) -> None:
    model = Listening(six_kinds)
    finish(a_run(with_fields(SMALL, iterations=1, max_tokens=20, **settings), model))
    for batch in model.batches:
        assert batch.bounds == pytest.approx(bounds)
        assert (batch.ratio, batch.normalization, batch.length) == (ratio, normalization, 20)


@pytest.mark.parametrize("algorithm", ["raft", "grpo", "weighted"])
def test_truncated_importance_sampling_weighs_every_trained_token(algorithm: str) -> None:
    """The sampler finds the first token four times, and each other one half as likely as the model: 0.25, and 2 cut to
    1.5.
    """

    class Hot(Listening):
        def sample(self, requests: Sequence[SampleRequest]) -> Iterator[Completion]:
            for found in super().sample(requests):
                own = found.log_probabilities or ()
                shifts = (math.log(4), *[-math.log(2)] * (len(own) - 1))
                yield evolve(found, sampling_log_probabilities=tuple(p + q for p, q in zip(own, shifts, strict=True)))

    model = Hot(six_kinds)
    finish(a_run(with_fields(SMALL, algorithm=algorithm, importance_cap=1.5), model))
    for traces in model.taught:
        for trace in traces:
            assert trace.turns[-1].weights == pytest.approx([0.25, *[1.5] * (len(trace.turns[-1].weights) - 1)])
            assert not any(turn.weights for turn in trace.turns[:-1])


def test_truncated_importance_sampling_needs_the_sampler_s_log_probabilities() -> None:
    class Untold(Listening):
        def sample(self, requests: Sequence[SampleRequest]) -> Iterator[Completion]:
            return (evolve(found, sampling_log_probabilities=None) for found in super().sample(requests))

    with pytest.raises(ModelError, match=r"leave out objective\.importance_cap"):
        finish(a_run(with_fields(SMALL, importance_cap=2.0), Untold(six_kinds)))


def test_metrics_of_an_iteration_by_hand() -> None:
    """24 rollouts, 16 of them right: mean 2/3, variance 24 x 2/9 / 23."""
    model = Listening(six_kinds)
    found = finish(a_run(with_fields(SMALL, algorithm="grpo"), model))
    first, second = (record.metrics for record in found.records)
    assert first is not None and second is not None
    assert first.reward == pytest.approx(2 / 3)
    assert first.reward_std == pytest.approx(math.sqrt(24 * 2 / 9 / 23))
    assert first.learning_rate == SMALL.optimizer.learning_rate
    assert (first.kl, first.max_length) == (None, 8)
    assert first.logp_difference == first.max_logp_difference == 0.0, "as sampled, before the first step"
    assert first.approx_kl is not None and first.approx_kl > 0.0, "later steps have moved"
    assert first.clipped_low is not None and first.clipped_high is not None
    prompts = sum(len(model.prompt_tokens(request.messages)) for request in model.asked)
    written = [count.mean_tokens * count.rollouts for record in found.records for count in record.tiers.values()]
    assert second.tokens == found.state.tokens == pytest.approx(prompts + sum(written))
    assert [record.tokens_per_second for record in found.records] == pytest.approx([sum(written[:2]) / 24] * 2)
    raft = finish(a_run(with_fields(SMALL, kl=0.1), Listening(six_kinds))).records[0].metrics
    assert raft is not None and raft.kl is not None and raft.clipped_low is None, "without ratios nothing is clipped"


def test_rollouts_without_an_answer_do_not_count_for_weights() -> None:
    """They have no log-probabilities, which says nothing of those that have an answer."""

    class Crowded(Listening):
        def sample(self, requests: Sequence[SampleRequest]) -> Iterator[Completion]:
            for found in super().sample(requests):
                none = evolve(found, text="", finish_reason="context", error="no room", log_probabilities=None)
                yield none if "/T1/" in found.key else found

    model = Crowded(six_kinds)
    finish(a_run(with_fields(SMALL, algorithm="grpo", iterations=1), model))
    assert {trace.tier for traces in model.taught for trace in traces} == {"T0"}


def test_decided_problems_are_left_out_of_reinforce_rej() -> None:
    """T0 is always right, T1 where the sample's number is even: T1 alone is learned from, by 1 and -1."""

    def answer(request: SampleRequest) -> str:
        return (
            "no idea" if "/T1/" in request.key and number_of(request) % 2 else f"{number_of(request)} w{add(request)}"
        )

    model = Listening(answer)
    finish(a_run(with_fields(SMALL, algorithm="reinforce-rej", iterations=1), model))
    assert {trace.tier for traces in model.taught for trace in traces} == {"T1"}
    for batch in model.batches:
        assert [weight == 1.0 for weight in batch.weights] == [trace.verdicts[0].right for trace in batch.traces]
        assert {abs(weight) for weight in batch.weights} == {1.0}


def test_rejection_without_replay_learns_from_this_iteration_alone() -> None:
    model = Listening(six_kinds)
    finish(a_run(with_fields(SMALL, algorithm="raft++"), model))
    assert [{trace.iteration for trace in traces} for traces in model.taught] == [{1}] * 3 + [{2}] * 3
    assert all(trace.verdicts[0].right for traces in model.taught for trace in traces)
    assert model.weights == [(1.0,) * 4] * 6


def test_each_iteration_can_learn_from_the_base_again() -> None:
    """One update for each iteration so far, 1 + 2 + 3 in all; the last three alone are left in the model."""
    config = with_fields(SMALL, updates=1, iterations=3, restart=True)
    model = Listening(six_kinds)
    start = model.state()
    found = finish(evolve(a_run(config, model), start=start))
    assert [record.updates for record in found.records] == [1, 2, 3]
    fresh = Listening(six_kinds)
    for traces in model.taught[-3:]:
        fresh.update(TrainingBatch(traces, (1.0,) * len(traces)))
    assert same_state(fresh.state(), found.learned)
    with pytest.raises(ValueError, match="first state"):
        finish(a_run(config, Listening(six_kinds)))


def test_only_what_is_known_to_be_wrong_weighs_against() -> None:
    """Of six answers two are wrong; a third, that ended in an error, is not held against the model."""

    class Failing(Listening):
        def sample(self, requests: Sequence[SampleRequest]) -> Iterator[Completion]:
            for completion in super().sample(requests):
                failed = completion.key.endswith("/5")
                yield evolve(completion, text="", finish_reason="error") if failed else completion

    model = Failing(six_kinds)
    config = with_fields(SMALL, algorithm="weighted", negative=0.25, iterations=1, batch=16, min_coverage=0.8)
    finish(a_run(config, model))
    assert {trace.key[-2:] for traces in model.taught for trace in traces[16:]} == {"/4"}


# Worked examples


def shy(knows: Callable[[ScriptedModel], bool]) -> ScriptedModel:
    """A model that answers only after examples, or once `knows` says so of it."""

    def answer(request: SampleRequest) -> str:
        a, b, _ = (int(word[1:]) for word in request.messages[-1].content.split())
        return f"w{request.seed % 97} w{a + b}" if len(request.messages) > 1 or knows(model) else "what?"

    model = ScriptedModel(answer)
    return model


def bootstrapped(model: ScriptedModel, **settings: Any) -> Finished:
    config = with_fields(SMALL, **{"bootstrap": "few-shot", "shots": 2, "samples": 4, **settings})
    worked = demonstrations(WORKED, TaskVerifier(WORKED), "small", ADDITION.training_tiers("small"), 6)
    return finish(evolve(on(a_run(config, model), WORKED), demonstrations=worked))


def test_examples_are_shown_to_three_rollouts_of_four_and_not_learned_with() -> None:
    found = bootstrapped(shy(lambda model: False))
    for record in found.records:
        for count in record.tiers.values():
            assert (count.shown, count.shown_correct) == (3 * count.rollouts // 4, 3 * count.rollouts // 4)
            assert count.correct == count.shown_correct
    traces = [trace_of_record(record) for record in found.store.read("traces")]
    assert traces
    for trace in traces:
        assert len(trace.messages) == 1, "the prompt alone"
        assert trace.completion.prompt_token_ids is None and trace.completion.log_probabilities is None
        assert trace.completion.token_ids, "what was sampled is what is learned"
    shown = {row["shown"] for row in found.store.read("rollouts") if row["right"]}
    assert shown == {True}


@pytest.mark.parametrize(("rollouts", "shown"), [(2, 1), (3, 2), (4, 3), (5, 4), (8, 6)])
def test_some_rollouts_of_every_problem_go_alone(rollouts: int, shown: int) -> None:
    found = bootstrapped(shy(lambda model: False), samples=rollouts, iterations=1)
    for count in found.records[0].tiers.values():
        assert count.shown * rollouts == shown * count.rollouts


def test_no_training_problem_is_a_worked_example() -> None:
    """Of the addition problems of a tier there are few, so examples and problems would often be the same."""
    found = bootstrapped(shy(lambda model: False), iterations=4)
    worked = demonstrations(WORKED, TaskVerifier(WORKED), "small", ADDITION.training_tiers("small"), 6)
    examples = {each.problem.digest for examples in worked.values() for each in examples}
    trained = {ProblemSource(ADDITION).redraw(row["problem"]).digest for row in found.store.read("rollouts")}
    assert trained and not trained & examples
    with pytest.raises(BadInput, match="all problems of T0 are demonstrations: take fewer"):
        first = draw_problems(ADDITION, "small", "T0", "train", 1, seed=SMALL.seed)[0]
        pool = with_fields(SMALL, pool=1, iterations=1)
        finish(evolve(a_run(pool, shy(lambda model: False)), demonstrations={"T0": (Demonstration(first, "w1", ()),)}))


def test_a_tier_that_gets_on_alone_is_shown_nothing_more() -> None:
    found = bootstrapped(shy(lambda model: model.steps > 0), iterations=3)
    assert all(count.shown for count in found.records[0].tiers.values())
    assert all(count.shown for count in found.records[1].tiers.values()), "not yet known that it does"
    assert not any(count.shown for count in found.records[2].tiers.values())


def test_without_the_setting_nothing_is_shown() -> None:
    found = finish(a_run(SMALL, careless(SMALL, ADDITION)))
    assert not any(count.shown for record in found.records for count in record.tiers.values())


def warmed_up(model: ScriptedModel, store: RunWriter | None = None, **settings: Any) -> Run:
    worked = demonstrations(WORKED, TaskVerifier(WORKED), "small", ADDITION.training_tiers("small"), 6)
    config = with_fields(SMALL, **{"warm_up": 5, **settings})
    return evolve(on(a_run(config, model, store, problems("dev", 1)), WORKED), demonstrations=worked)


def test_a_warm_up_is_an_iteration_that_learns_worked_examples_and_samples_nothing() -> None:
    """Five steps of four; dev problems are looked at after it, whatever `dev_every` says."""
    model = Listening(six_kinds)
    run = warmed_up(model, iterations=1, dev_every=9)
    found = finish(run)
    first, second = found.records
    assert (first.tiers, first.buffer, first.admitted, first.updates, first.entropy) == ({}, {}, 0, 5, None)
    assert first.loss is not None and set(first.dev) == {"T0", "T1", "T2"}
    examples = {each.trace.key for worked in run.demonstrations.values() for each in worked}
    taught = [{trace.key for trace in traces} for traces in model.taught]
    assert set.union(*taught[:5]) <= examples and not set.union(*taught[5:]) & examples
    assert Counter(trace.tier for traces in model.taught[:5] for trace in traces) == {"T0": 10, "T1": 10}
    assert second.tiers and second.buffer == {"T0": 4, "T1": 4}
    assert {row["iteration"] for row in found.store.read("rollouts")} == {2}
    assert not any(count.shown for count in second.tiers.values()), "learned, not shown"
    assert not {trace.key for trace in found.state.buffer} & examples


@pytest.mark.parametrize(("first", "rates"), [(None, [1, 1, 1, 1, 1]), (0.02, [10, 7.75, 5.5, 3.25, 1])])
def test_the_learning_rate_of_a_warm_up_goes_in_a_line_to_that_of_the_run(
    first: float | None, rates: list[float]
) -> None:
    model = Listening(six_kinds)
    finish(warmed_up(model, iterations=1, learning_rate=0.002, warm_up_rate=first))
    assert [batch.rate for batch in model.batches[:6]] == pytest.approx([*rates, 1])


def test_a_warm_up_goes_with_a_divergence_from_the_base_and_with_ratios() -> None:
    model = Listening(six_kinds)
    finish(warmed_up(model, algorithm="grpo", kl=0.1, iterations=1))
    assert [(batch.clip, batch.kl) for batch in model.batches[:6]] == [(None, 0.1)] * 5 + [(0.2, 0.1)]


def test_a_long_warm_up_is_several_iterations_and_is_looked_at_once() -> None:
    """Of 130 steps, 60, 60 and 10; no batch comes twice."""
    model = Listening(six_kinds)
    found = finish(warmed_up(model, iterations=1, warm_up=130, learning_rate=0.002, warm_up_rate=0.02))
    assert [record.updates for record in found.records[:3]] == [60, 60, 10]
    assert why_stop(a_run(with_fields(SMALL, iterations=1, warm_up=130), model), found.state) == (
        "all iterations after the warm-up done"
    )
    assert [bool(record.dev) for record in found.records] == [False, False, True, True]
    assert [batch.rate for batch in model.batches[:130]] == pytest.approx([10 - 9 * step / 129 for step in range(130)])
    assert len({tuple(trace.key for trace in traces) for traces in model.taught[:130]}) > 100


@pytest.mark.parametrize("steps", [0, 3, 60, 61, 70, 71])
def test_a_run_that_is_cut_off_around_its_warm_up_goes_on_to_the_same_end(steps: int) -> None:
    """Of 70 steps: before the first, within and between its two parts, in the next iteration's first and second."""
    settings: dict[str, Any] = {"iterations": 2, "warm_up": 70, "warm_up_rate": 0.01}

    class Cut(Listening):
        def update(self, batch: TrainingBatch) -> UpdateReport:
            if len(self.batches) == steps:
                raise Interrupted
            return super().update(batch)

    whole = finish(warmed_up(Listening(six_kinds), **settings))
    store, again = MemoryRun(), Listening(six_kinds)
    with pytest.raises(Interrupted):
        finish(warmed_up(Cut(six_kinds), store, **settings))
    assert_same_end(finish(warmed_up(again, store, **settings)), whole)
    kept = 0 if steps < 60 else 60 if steps < 70 else 70
    assert len(again.batches) == whole.state.updates - kept, "no part is learned twice"


def test_a_warm_up_says_nothing_of_how_long_an_iteration_takes() -> None:
    """600 s of 60 steps and 3 of dev; then 24 + 30 + 3: a limit of 700 s lets one such iteration begin, no second."""
    run = evolve(warmed_up(Listening(six_kinds), warm_up=60, iterations=8, minutes=12.0), deadline=700.0)
    assert [record.updates for record in finish(run).records] == [60, 3]


@pytest.mark.parametrize(
    ("deadline", "step"),
    [(25.0, 10.0), (51.5, 1.0), (60.0, 1.0), (90.0, 10.0), (108.0, 1.0)],
    ids=["warm-up", "dev after the warm-up", "rollouts", "optimizer steps", "dev"],
)
def test_a_limit_ends_every_phase_and_the_run_goes_on_to_the_same_end(deadline: float, step: float) -> None:
    """Five steps to 50 s, dev to 53, 24 rollouts to 77, three steps to 107, dev to 110."""
    whole = finish(warmed_up(Listening(six_kinds), iterations=1))
    store, model = MemoryRun(), Listening(six_kinds)
    with pytest.raises(TimeIsUp):
        finish(evolve(warmed_up(model, store, iterations=1), deadline=deadline))
    assert deadline <= model.clock.now() < deadline + step
    assert len(list(store.read("iterations"))) == (deadline > 53)
    assert_same_end(finish(warmed_up(Listening(six_kinds), store, iterations=1)), whole)


@pytest.mark.parametrize("deadline", [109.5, 110.0])
def test_what_is_complete_when_time_is_over_is_kept(deadline: float) -> None:
    found = finish(evolve(warmed_up(Listening(six_kinds), iterations=1), deadline=deadline))
    assert len(found.records) == 2 and found.records[-1].dev


def test_a_limit_of_minutes_begins_no_part_of_a_warm_up_that_would_exceed_it() -> None:
    """600 s a part of 60 steps, and 1,000 s: the second part would end at 1,200."""
    run = evolve(warmed_up(Listening(six_kinds), warm_up=130, minutes=17.0), deadline=1000.0)
    assert [record.updates for record in finish(run).records] == [60]


def test_a_run_of_before_whose_warm_up_was_one_iteration_has_no_more_than_it_was_to_have() -> None:
    """200 steps in iteration 1, and it counted as one of three."""
    run = warmed_up(Listening(six_kinds), iterations=3, warm_up=200)
    old = evolve(begin(run.settings), iteration=3, updates=230)
    assert why_stop(run, old) == "all iterations done"
    assert why_stop(run, evolve(old, iteration=2, updates=215)) == ""


def test_rollouts_whose_prompt_does_not_fit_count_against_the_model() -> None:
    short = ScriptedModel(lambda request: "w1", context=10)
    (record,) = finish(a_run(with_fields(SMALL, iterations=1), short)).records
    assert record.failed == {}
    assert sum(count.rollouts for count in record.tiers.values()) == SMALL.rollouts.problems * SMALL.rollouts.samples


def test_a_step_whose_traces_do_not_fit_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    watcher = Silent()
    monkeypatch.setattr(watcher, "say", said.append)
    run = warmed_up(Listening(lambda request: "w1", context=12), iterations=1)
    record = finish(evolve(run, watcher=watcher)).records[0]
    assert (record.updates, record.loss, record.gradient_norm, record.dropped) == (0, None, None, 20)
    assert "warning: 5 of 5 optimizer steps had no effect: none of their traces fits into the context" in said


RUNGS = (TaskTier("T0", curriculum_level=True, max_tokens=3), TaskTier("T1"), TaskTier("T2", held_out=True))
LADDER = evolve(ADDITION, presets={"small": RUNGS})


def climbing(store: RunWriter | None = None, iterations: int = 4) -> Run:
    """Right on the curriculum level from the second update on; the tier above comes once that is known."""
    model = Listening(lambda request: f"w{add(request)}" if model.steps > 0 or number_of(request) == 0 else "w")
    config = with_fields(SMALL, ladder=True, iterations=iterations)
    return on(a_run(config, model, store), LADDER)


def test_a_ladder_begins_below_and_goes_up_once_a_tenth_is_right() -> None:
    run = climbing()
    found = finish(run)
    tiers = [tuple(record.tiers) for record in found.records]
    assert tiers[0] == ("T0",) and tiers[1] == ("T0", "T1"), tiers
    assert isinstance(run.model, Listening)
    assert {request.max_tokens for request in run.model.asked if "/T0/" in request.key} == {3}, (
        "a level's own token budget"
    )
    without = finish(
        evolve(run, settings=with_fields(run.settings, ladder=False), model=climbing().model, store=MemoryRun())
    )
    assert {tier for record in without.records for tier in record.tiers} == {"T1"}


def test_a_ladder_resumes_to_the_same_records(tmp_path: Path) -> None:
    pytest.importorskip("safetensors", reason="checkpoints are safetensors")
    whole = finish(climbing())
    config = to_plain(climbing().settings)
    with RunDirectory.create(tmp_path / "run", config) as store:
        finish(climbing(store, iterations=2))
    with RunDirectory.open(tmp_path / "run") as store:
        run = climbing(store)
        found = finish(run)
        assert timeless([from_plain(IterationRecord, record) for record in store.read("iterations")]) == timeless(
            whole.records
        )
    assert found.state.history == whole.state.history


def test_records_of_runs_before_there_were_examples_are_read() -> None:
    old = {"rollouts": 8, "correct": 1, "problems": 2, "all_right": 0, "all_wrong": 1, "truncated": 0, "unparsed": 0}
    assert from_plain(TierCount, {**old, "distinct": 1, "mean_tokens": 3.0}).shown == 0
    assert from_plain(TierHistory, {"problems": {"T0": 2.0}, "undecided": {"T0": 1.0}}).alone == {}
    completion = {"key": "k", "text": "t", "finish_reason": "stop", "policy": "p", "token_ids": [1, 2]}
    assert from_plain(Completion, completion).tokens == 2


GRADES = {"w0": 0.0, "w4": 0.4, "w9": 0.9, "w10": 1.0}


def graded(admission: str = "verified", admit_at: float = 1.0, algorithm: str = "raft") -> Finished:
    """A run of one iteration on rewards 0, 0.4, 0.9 and 1 for the rollouts of each problem, in this order."""
    order: dict[str, int] = {}

    def answer(request: SampleRequest) -> str:
        problem = request.key.rpartition("/")[0]
        order[problem] = order.get(problem, -1) + 1
        return list(GRADES)[order[problem] % 4]

    def verify(_problem: Problem, completion: Completion, _evidence: object = None) -> tuple[Verdict, ...]:
        grade = GRADES[completion.text]
        return (Verdict("right" if grade == 1.0 else "wrong", grade, "grades", "1"),)

    task = evolve(ADDITION, verify=verify, reward=lambda verdicts: verdicts[0].score, admit_at=admit_at)
    config = with_fields(
        SMALL, iterations=1, problems=2, samples=4, per_problem=None, admission=admission, algorithm=algorithm
    )
    return finish(on(a_run(config, ScriptedModel(answer)), task))


@pytest.mark.parametrize(
    ("admission", "admit_at", "positives"),
    [
        ("verified", 1.0, {"w10"}),
        ("verified", 0.9, {"w9", "w10"}),
        ("verified", 0.3, {"w4", "w9", "w10"}),
        ("top:0.25", 1.0, {"w10"}),
        ("top:0.5", 1.0, {"w9", "w10"}),
        ("top:1", 1.0, {"w4", "w9", "w10"}),
        ("all", 1.0, set(GRADES)),
    ],
)
def test_positives_of_graded_rewards_enter_the_buffer(admission: str, admit_at: float, positives: set[str]) -> None:
    """Of rewards 0, 0.4, 0.9 and 1: a quarter is one rollout, a half two, and one with reward 0 is never a positive."""
    ended = graded(admission, admit_at)
    traces = list(ended.store.read("traces"))
    texts = {record["text"] for record in ended.store.read("rollouts") if record["admitted"]}
    assert texts == positives
    assert len(traces) == 2 * len(positives)


@pytest.mark.parametrize(
    ("admission", "texts"),
    [("verified", ["w10"]), ("top:0.25", ["w10", "w10"]), ("top:0.5", ["w10", "w10", "w9", "w9"])],
)
def test_sft_top_takes_the_best_of_all_problems_together(admission: str, texts: list[str]) -> None:
    """Of eight rollouts of two problems a tenth is one rollout, although each problem has one with reward 1."""
    ended = graded(admission, algorithm="sft-top")
    assert sorted(record["text"] for record in ended.store.read("rollouts") if record["admitted"]) == texts


def test_a_trace_keeps_a_reward_that_its_verdicts_alone_do_not_say() -> None:
    """Of 0.9, and not of 1: where rewards are 0 and 1 a record says no more than it did."""
    ended = graded("top:0.5")
    texts = {rollout["key"]: rollout["text"] for rollout in ended.store.read("rollouts")}
    found = {texts[trace["key"]]: trace.get("reward", "unsaid") for trace in ended.store.read("traces")}
    assert found == {"w9": 0.9, "w10": "unsaid"}
    assert {trace.reward for trace in ended.state.buffer} == {0.9, None}


@pytest.mark.parametrize(
    ("weights", "got"),
    [((), r"\(\)"), ((1.0,), r"\(1\.0,\)"), ((math.nan,) * 6, "nan"), (None, "None"), (("a",) * 6, "'a'")],
    ids=["none", "one", "no number", "nothing", "text"],
)
def test_an_algorithm_whose_weights_are_none_is_one_clear_error(weights: Any, got: str) -> None:
    mine = Algorithm("mine", lambda _rewards: weights)
    with pytest.raises(BadInput, match=rf"algorithm mine: expected a finite weight for each of 6 rewards, got .*{got}"):
        finish(evolve(a_run(SMALL, Listening(six_kinds)), algorithm=mine))


def test_weights_may_be_an_array() -> None:
    mine = Algorithm("mine", lambda rewards: np.array(rewards))  # type: ignore[arg-type,return-value]
    model = Listening(six_kinds)
    finish(evolve(a_run(SMALL, model), algorithm=mine))
    assert set(model.weights[0]) == {1.0}


def test_group_relative_weights_read_rewards_and_rejection_reads_positives() -> None:
    """GRPO learns from the rewards' distances to their mean, so also from rollouts that are no positives."""
    learned = {name: graded(algorithm=name).records[0].updates for name in ("grpo", "raft++", "reinforce-rej")}
    assert all(learned.values())
    best = graded("top:0.5").state.history
    assert best.right == {"T0": 2.3, "T1": 2.3}, "the curriculum goes by rewards: 0, 0.4, 0.9 and 1"
    counts = graded().records[0].tiers["T0"]
    assert (counts.correct, counts.problems, counts.all_right, counts.all_wrong) == (1, 1, 0, 0)


def test_a_group_of_equal_rewards_is_decided_whatever_they_are() -> None:
    task = evolve(
        ADDITION,
        verify=lambda *_: (Verdict("wrong", 0.4, "grades", "1"),),
        reward=lambda verdicts: verdicts[0].score,
    )
    config = with_fields(SMALL, iterations=1, problems=2, samples=4)
    counts = finish(on(a_run(config, ScriptedModel(lambda _: "w4")), task)).records[0].tiers["T0"]
    assert (counts.problems, counts.all_right, counts.all_wrong) == (1, 0, 1)
