"""The buffer against a plain list, its draws against what they promise, and its costs."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from gce.domain.buffer import Buffer, BufferSettings, Weighting, admit, composition, draw, empty, epoch, only, tiers
from gce.domain.completions import Completion
from gce.domain.learning import Trace, single_turn
from gce.domain.problems import Message
from gce.domain.randomness import generator

WITHOUT_LIMITS = BufferSettings(per_problem=None, deduplicate=False)
MESSAGES = (Message("user", "Plan it."),)
COMPLETION = Completion(key="k", text="A at 0.", finish_reason="stop", policy="base")


def trace(
    index: int | str = 0, *, problem: str = "p", tier: str = "T0", iteration: int = 0, digest: str | None = None
) -> Trace:
    return Trace(
        key=f"rollout {index}",
        problem=problem,
        tier=tier,
        iteration=iteration,
        turns=single_turn(MESSAGES, COMPLETION),
        verdicts=(),
        content_digest=f"digest {index}" if digest is None else digest,
    )


def filled(**sizes: int) -> Buffer:
    """A buffer with so many distinct traces of each tier."""
    return admit(empty(), (trace(f"{t}{i}", problem=f"{t}{i}", tier=t) for t, n in sizes.items() for i in range(n)))


TRACES = st.builds(
    trace,
    st.integers(0, 10**9),
    problem=st.sampled_from(["p", "q", "r"]),
    tier=st.sampled_from(["T0", "T1", "T2"]),
    iteration=st.integers(0, 2),
    digest=st.sampled_from("abcdefghijklmnop"),
)
SETTINGS = st.builds(BufferSettings, per_problem=st.sampled_from([None, 1, 2, 4]), deduplicate=st.booleans())


def admitted_by_a_plain_list(held: Iterable[Trace], traces: Iterable[Trace], its: BufferSettings) -> list[Trace]:
    """What the buffer should do, written down without any index."""
    held = list(held)
    for one in traces:
        known = its.deduplicate and any(one.content_digest == other.content_digest for other in held)
        full = its.per_problem is not None and sum(one.problem == other.problem for other in held) >= its.per_problem
        if not known and not full:
            held.append(one)
    return held


class BufferAgainstList(RuleBasedStateMachine):
    """Values of any age are grown, and none of them ever changes."""

    buffers = Bundle("buffers")

    def __init__(self) -> None:
        super().__init__()
        self.all: list[tuple[Buffer, list[Trace]]] = []

    def kept(self, buffer: Buffer, model: list[Trace]) -> tuple[Buffer, list[Trace]]:
        self.all.append((buffer, model))
        return buffer, model

    @rule(target=buffers, its=SETTINGS)
    def start(self, its: Any) -> Any:
        return self.kept(empty(its), [])

    @rule(target=buffers, pair=buffers, traces=st.lists(TRACES, max_size=6))
    def grow(self, pair: Any, traces: Any) -> Any:
        buffer, model = pair
        return self.kept(admit(buffer, iter(traces)), admitted_by_a_plain_list(model, traces, buffer.settings))

    @rule(pair=buffers, traces=st.lists(TRACES, max_size=4))
    def break_off_while_growing(self, pair: Any, traces: Any) -> None:
        def stream() -> Iterator[Any]:
            yield from traces
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            admit(pair[0], stream())

    @rule(target=buffers, pair=buffers, iteration=st.integers(0, 2))
    def keep_one_iteration(self, pair: Any, iteration: int) -> Any:
        buffer, model = pair
        return self.kept(only(buffer, iteration), [one for one in model if one.iteration == iteration])

    @rule(pair=buffers, seed=st.integers(0, 99), size=st.integers(1, 9))
    def go_through_it(self, pair: Any, seed: int, size: Any) -> None:
        buffer, model = pair
        batches = list(epoch(buffer, generator(seed), size))
        assert sorted(one.key for batch in batches for one in batch) == sorted(one.key for one in model)
        assert all(len(batch) == size for batch in batches[:-1])
        assert all(batches)

    @rule(pair=buffers, seed=st.integers(0, 99), size=st.integers(0, 9))
    def draw_from_it(self, pair: Any, seed: int, size: Any) -> None:
        buffer, model = pair
        if model:
            assert all(one in model for one in draw(buffer, generator(seed), size))

    @invariant()
    def every_value_is_what_it_was(self) -> None:
        for buffer, model in self.all:
            assert list(buffer) == model
            assert len(buffer) == len(model)
            assert composition(buffer) == Counter(one.tier for one in model)
            assert list(tiers(buffer)) == list(dict.fromkeys(one.tier for one in model))


BufferAgainstList.TestCase.settings = settings(max_examples=60, stateful_step_count=20)
test_the_buffer_does_what_a_plain_list_does = BufferAgainstList.TestCase


class TestAdmission:
    def test_a_trace_that_teaches_the_same_is_refused(self) -> None:
        buffer = admit(empty(), [trace(1, digest="a"), trace(2, digest="a"), trace(3, digest="b")])
        assert [one.key for one in buffer] == ["rollout 1", "rollout 3"]

    def test_a_problem_has_four_traces_at_most_the_first_ones(self) -> None:
        buffer = admit(empty(), [trace(index) for index in range(6)] + [trace(9, problem="other")])
        assert [one.key for one in buffer] == ["rollout 0", "rollout 1", "rollout 2", "rollout 3", "rollout 9"]

    def test_a_cap_in_the_hundreds_holds(self) -> None:
        buffer = admit(empty(BufferSettings(per_problem=300)), [trace(index) for index in range(302)])
        assert len(buffer) == 300

    def test_a_refused_trace_is_not_counted(self) -> None:
        """Neither one that is there already, nor one too many of its problem."""
        buffer = admit(empty(BufferSettings(per_problem=2)), [trace(1), trace(1), trace(2), trace(3)])
        assert composition(buffer) == {"T0": 2}

    def test_a_refused_trace_does_not_use_up_its_problems_places(self) -> None:
        buffer = admit(empty(BufferSettings(per_problem=2)), [trace(1, digest="a")] * 5 + [trace(2)])
        assert len(buffer) == 2

    def test_without_limits_everything_is_held(self) -> None:
        assert len(admit(empty(WITHOUT_LIMITS), [trace(1)] * 9)) == 9

    @pytest.mark.parametrize("size", [1, 300])
    def test_an_old_value_can_be_grown_in_another_direction(self, size: int) -> None:
        start = filled(T0=size)
        held = [one.key for one in start]
        left, right = admit(start, [trace(2)]), admit(start, [trace(3)])
        assert [one.key for one in left] == [*held, "rollout 2"]
        assert [one.key for one in right] == [*held, "rollout 3"]
        assert [one.key for one in start] == held

    def test_an_old_value_does_not_take_a_newer_values_traces_for_its_own(self) -> None:
        start = empty(BufferSettings(per_problem=1))
        admit(start, [trace(1)])
        assert len(admit(start, [trace(1)])) == 1

    def test_iterating_does_not_see_what_comes_later(self) -> None:
        buffer = admit(empty(), [trace(1)])
        traces = iter(buffer)
        admit(buffer, [trace(2)])
        assert [one.key for one in traces] == ["rollout 1"]

    def test_buffers_are_equal_when_settings_and_traces_are(self) -> None:
        one, other = filled(T0=3), filled(T0=3)
        assert one == other
        assert admit(one, []) == one
        assert one != filled(T0=2)
        assert filled(T0=2) != one
        assert one != admit(empty(WITHOUT_LIMITS), one)
        assert one != list(one)

    def test_a_buffer_is_equal_to_its_like_though_another_has_grown_from_it(self) -> None:
        one = filled(T0=300)
        admit(one, [trace("late")])
        assert one == filled(T0=300)

    def test_a_buffer_is_printed_without_its_traces(self) -> None:
        assert "rollout" not in repr(filled(T0=3))

    @pytest.mark.parametrize("per_problem", [0, -1])
    def test_a_cap_is_at_least_one(self, per_problem: int) -> None:
        with pytest.raises(ValueError, match="expected at least 1 trace per problem, or None for no limit, got"):
            BufferSettings(per_problem=per_problem)

    def test_only_one_iteration_is_kept(self) -> None:
        iterations = [0, 1, 1, 300]
        buffer = admit(empty(), [trace(index, iteration=iteration) for index, iteration in enumerate(iterations)])
        assert [one.key for one in only(buffer, 1)] == ["rollout 1", "rollout 2"]
        assert [one.key for one in only(buffer, int("300"))] == ["rollout 3"]
        assert len(only(buffer, 2)) == 0


BUFFERS = st.dictionaries(st.sampled_from(["T0", "T1", "T2", "T3"]), st.integers(1, 12), min_size=1).map(
    lambda sizes: filled(**sizes)
)
WEIGHTINGS = st.sampled_from(["equal", "uniform-tier", "failure-rate"])
FAILURE = {"T0": 0.0, "T1": 0.3, "T2": 0.6, "T3": 1.0}


class TestDraw:
    @given(BUFFERS, st.integers(0, 40), WEIGHTINGS, st.integers(0, 99))
    def test_a_batch_has_its_size_and_repeats_nothing_before_all_have_come(
        self, buffer: Buffer, size: int, weighting: Weighting, seed: int
    ) -> None:
        batch = draw(buffer, generator(seed), size, weighting=weighting, failure=FAILURE)
        assert len(batch) == size
        held = {one.key for one in buffer}
        assert {one.key for one in batch} <= held
        groups = [held] if weighting == "equal" else [{o.key for o in buffer if o.tier == t} for t in tiers(buffer)]
        times = Counter(one.key for one in batch)
        for group in groups:
            seen = [times[key] for key in group]
            assert max(seen) - min(seen) <= 1

    @given(BUFFERS, st.integers(0, 40), st.integers(0, 99))
    def test_every_tier_has_its_even_share_of_a_batch(self, buffer: Buffer, size: int, seed: int) -> None:
        places = Counter(one.tier for one in draw(buffer, generator(seed), size))
        even = size / len(tiers(buffer))
        assert all(even - 1 < places[tier] < even + 1 for tier in tiers(buffer))

    @given(BUFFERS, st.integers(1, 40), WEIGHTINGS, st.integers(0, 99))
    def test_the_same_generator_draws_the_same_batch(
        self, buffer: Buffer, size: int, weighting: Weighting, seed: int
    ) -> None:
        one = draw(buffer, generator(seed), size, weighting=weighting, failure=FAILURE)
        assert draw(buffer, generator(seed), size, weighting=weighting, failure=FAILURE) == one

    @given(BUFFERS, st.integers(1, 40), WEIGHTINGS, st.integers(0, 99))
    def test_an_old_value_draws_as_if_nothing_had_come_since(
        self, buffer: Buffer, size: int, weighting: Weighting, seed: int
    ) -> None:
        before = draw(buffer, generator(seed), size, weighting=weighting, failure=FAILURE)
        admit(buffer, [trace(f"late {i}", problem=f"late {i}", tier=f"T{i % 5}") for i in range(20)])
        assert draw(buffer, generator(seed), size, weighting=weighting, failure=FAILURE) == before

    @pytest.mark.parametrize(
        ("weighting", "shares"),
        [
            ("uniform-tier", {"T0": 1 / 3, "T1": 1 / 3, "T2": 1 / 3}),
            ("equal", {"T0": 60 / 80, "T1": 15 / 80, "T2": 5 / 80}),
            ("failure-rate", {"T0": 0.05 / 0.95, "T1": 0.3 / 0.95, "T2": 0.6 / 0.95}),
        ],
    )
    @pytest.mark.parametrize("size", [1, 2, 8])
    def test_tiers_come_as_often_as_their_weights_say(
        self, weighting: Weighting, shares: dict[str, float], size: int
    ) -> None:
        times: Counter[str] = Counter()
        buffer, random = filled(T0=60, T1=15, T2=5), generator("tiers", weighting, size)
        for _ in range(1500):
            times.update(one.tier for one in draw(buffer, random, size, weighting=weighting, failure=FAILURE))
        for tier, share in shares.items():
            error = (share * (1 - share) / (1500 * size)) ** 0.5
            assert abs(times[tier] / (1500 * size) - share) < 4 * error

    def test_surprising_traces_come_more_often(self) -> None:
        """Surprises 0.9, 0 (the floor, 0.1) and none (1): 45, 5 and 50 % of 10,000, within four errors."""
        traces = [evolve(trace(i, problem=f"{i}"), surprise=known) for i, known in enumerate((0.9, 0.0, None))]
        drawn = draw(admit(empty(), traces), generator("surprise"), 10_000, weighting="surprise", floor=0.1)
        times = Counter(one.key for one in drawn)
        for one, share in zip(traces, (0.45, 0.05, 0.5), strict=True):
            assert times[one.key] / 10_000 == pytest.approx(share, abs=4 * (share * (1 - share) / 10_000) ** 0.5)

    def test_any_two_tiers_meet_in_a_small_batch(self) -> None:
        buffer, random = filled(T0=2, T1=2, T2=2, T3=2), generator("pairs")
        met = {frozenset(one.tier for one in draw(buffer, random, 2)) for _ in range(200)}
        assert len(met) == 6

    def test_inside_a_tier_all_traces_are_alike(self) -> None:
        times: Counter[str] = Counter()
        buffer, random = filled(T0=8, T1=40), generator("alike")
        for _ in range(1000):
            times.update(one.key for one in draw(buffer, random, 8) if one.tier == "T0")
        assert all(430 <= count <= 570 for count in times.values())  # 500 expected, 4.4 standard errors
        assert len(times) == 8

    def test_tiers_are_mixed_inside_a_batch(self) -> None:
        """Of two tiers with two places each, the first two places are the same tier's one time in three."""
        buffer, random = filled(T0=8, T1=8), generator("places")
        batches = [[one.tier for one in draw(buffer, random, 4)] for _ in range(600)]
        assert 150 <= sum(batch[0] == batch[1] for batch in batches) <= 250
        assert 250 <= sum(batch[0] == "T0" for batch in batches) <= 350

    def test_the_floor_keeps_a_mastered_tier(self) -> None:
        buffer, random = filled(T0=50, T1=50), generator("floor")
        batch = [
            one.tier
            for _ in range(100)
            for one in draw(buffer, random, 10, weighting="failure-rate", failure={"T0": 0.0, "T1": 1.0}, floor=0.25)
        ]
        assert batch.count("T0") == pytest.approx(200, abs=20)

    @pytest.mark.parametrize(("size", "times"), [(7, [0] + [1] * 7), (8, [1] * 8), (20, [2] * 4 + [3] * 4)])
    def test_no_trace_comes_twice_before_all_have_come(self, size: int, times: list[int]) -> None:
        buffer = filled(T0=8)
        for seed in range(5):
            seen = Counter(one.key for one in draw(buffer, generator(seed), size))
            assert sorted(seen[one.key] for one in buffer) == times

    def test_a_floor_of_1_makes_all_tiers_alike(self) -> None:
        """Two of each in a batch of four, whatever the failure rates."""
        buffer, failure = filled(T0=9, T1=9), {"T0": 0.0, "T1": 1.0}
        batch = draw(buffer, generator(0), 4, weighting="failure-rate", failure=failure, floor=1.0)
        assert Counter(one.tier for one in batch) == {"T0": 2, "T1": 2}

    def test_a_batch_of_nothing_is_empty(self) -> None:
        assert draw(filled(T0=2), generator(0), 0) == ()

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"size": -1}, "expected a batch size from 0, got -1"),
            ({"weighting": "hard"}, "expected weighting equal, uniform-tier, failure-rate or surprise, got 'hard'"),
            ({"weighting": "all"}, "expected weighting equal, uniform-tier, failure-rate or surprise, got 'all'"),
            ({"weighting": "wild"}, "expected weighting equal, uniform-tier, failure-rate or surprise, got 'wild'"),
            ({"weighting": "failure-rate"}, r"expected a failure rate in \[0, 1\] for tier T0, got None"),
            ({"weighting": "failure-rate", "failure": {"T0": 2.0}}, "for tier T0, got 2.0"),
            ({"weighting": "failure-rate", "failure": {"T0": 0.5}, "floor": 0.0}, r"expected a floor in \(0, 1\]"),
            ({"weighting": "failure-rate", "failure": {"T0": 0.5}, "floor": 1.5}, r"expected a floor in \(0, 1\]"),
            ({"weighting": "failure-rate", "failure": {"T0": 0.5}, "floor": -1.0}, r"expected a floor in \(0, 1\]"),
        ],
    )
    def test_what_cannot_be_drawn_is_refused(self, options: dict[str, Any], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            draw(filled(T0=2), generator(0), **{"size": 2, **options})

    def test_an_empty_buffer_has_nothing_to_draw(self) -> None:
        with pytest.raises(ValueError, match="got an empty one"):
            draw(empty(), generator(0), 2)


class TestEpoch:
    def test_a_pass_is_shuffled_and_keyed(self) -> None:
        buffer = filled(T0=30)
        keys = [one.key for batch in epoch(buffer, generator(1), 7) for one in batch]
        assert keys != [one.key for one in buffer]
        assert keys == [one.key for batch in epoch(buffer, generator(1), 7) for one in batch]

    @pytest.mark.parametrize(("size", "sizes"), [(7, [7, 7, 7, 7, 2]), (15, [15, 15]), (40, [30]), (1, [1] * 30)])
    def test_each_trace_comes_once_in_batches_of_the_size_asked_for(self, size: int, sizes: list[int]) -> None:
        buffer = filled(T0=30)
        batches = list(epoch(buffer, generator(1), size))
        assert [len(batch) for batch in batches] == sizes
        assert sorted(one.key for batch in batches for one in batch) == sorted(one.key for one in buffer)

    def test_an_empty_buffer_has_no_batches(self) -> None:
        assert list(epoch(empty(), generator(0), 3)) == []

    def test_what_is_drawn_or_admitted_meanwhile_does_not_matter(self) -> None:
        buffer, random = filled(T0=30), generator(1)
        undisturbed = list(epoch(buffer, generator(1), 7))
        batches = epoch(buffer, random, 7)
        random.random(5)
        admit(buffer, [trace("late")])
        assert list(batches) == undisturbed

    def test_a_batch_holds_something(self) -> None:
        with pytest.raises(ValueError, match="expected a batch size from 1, got 0"):
            epoch(filled(T0=2), generator(0), 0)


class TestCosts:
    """In allocated bytes, which do not depend on how busy the machine is."""

    @pytest.fixture(scope="class")
    @staticmethod
    def large() -> Any:
        return filled(T0=20_000, T1=10_000, T2=10)

    @staticmethod
    def peak(action: Any) -> tuple[Any, Any]:
        tracemalloc.start()
        try:
            result = action()
            return tracemalloc.get_traced_memory()[1], result
        finally:
            tracemalloc.stop()

    def test_bookkeeping_is_far_below_a_kilobyte_a_trace(self) -> None:
        traces = [trace(index, problem=f"p{index}") for index in range(10_000)]
        used, buffer = self.peak(lambda: admit(empty(), traces))
        assert len(buffer) == 10_000
        assert used / 10_000 < 400

    @pytest.mark.slow
    def test_admitting_few_does_not_copy_many(self, large: Any) -> None:
        more = [trace(f"more {index}", problem=f"more {index}", tier="T2") for index in range(3)]
        assert self.peak(lambda: admit(admit(large, [evolve(more[0], content_digest="")]), more))[1] is not large
        newest = admit(large, more)
        used, _ = self.peak(lambda: admit(newest, [trace("one more", problem="one more", tier="T2")]))
        assert used < 20_000

    @pytest.mark.parametrize("weighting", ["equal", "uniform-tier", "failure-rate"])
    def test_drawing_few_does_not_touch_many(self, large: Any, weighting: Weighting) -> None:
        random = generator("costs")
        used, _ = self.peak(lambda: draw(large, random, 64, weighting=weighting, failure=FAILURE))
        assert used < 50_000
