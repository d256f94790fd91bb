"""Contract checks for storage of runs: one check for each sentence of the port's docstrings.

    check_runs(MemoryRuns(), within="runs")

Independent of files. The first failing check raises AssertionError, or passes on an exception of the storage.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gce.domain.learning import ModelState
from gce.errors import BadInput, RunInUse
from gce.ports.runs import Runs, RunWriter

__all__ = ["assert_same_state", "check_runs", "example_state"]

_RECORD: dict[str, Any] = {
    "text": 'Zoë said \U0001f600 \x00 \ud800 "so"\n',
    "nested": {"list": [1, -2.5, True, None, {"": []}], "empty": {}},
    "small": 5e-324,
    "whole": 2**70,
    "third": 1 / 3,
}
_NOT_PLAIN: tuple[Any, ...] = (
    float("nan"),
    float("inf"),
    {1: "key"},
    {None: "key"},
    {"deep": [{"x": {2.0}}]},
    b"bytes",
    object(),
    1j,
    np.arange(2),
    [{"list": [0.5, float("-inf")]}],
)


def check_runs(runs: Runs, *, within: str) -> None:
    """Assert that `runs`, which has no run named `within` or `within/NAME` yet, satisfies the ports.

    A closed writer stands for a killed one; the effects of a real kill are not checked.
    """
    number = 0
    for check_writer in _WRITER_CHECKS:
        with runs.create(f"{within}/{number}", {}) as run:
            check_writer(run)
        number += 1
    for check in _CHECKS:
        check(runs, f"{within}/{number}")
        number += 1
    assert set(runs.find(within)) == {f"{within}/{each}" for each in range(number)}, "every run is found by its name"


def example_state(seed: int = 0) -> ModelState:
    """Return a small state with what is easily lost: a scalar, an empty array, another memory order, several types."""
    rng = np.random.default_rng(seed)
    arrays: dict[str, np.ndarray] = {
        "adapter.model.layers.1.self_attn.q_proj.lora_a": rng.standard_normal((4, 2)).astype(np.float32),
        "adapter.model.layers.1.self_attn.q_proj.lora_b": np.asfortranarray(
            rng.standard_normal((2, 3)).astype(np.float32)
        ),
        "adapter.half": np.array([-0.0, 65504.0, np.inf], dtype=np.float16),
        "optimizer.step": np.array(seed + 3, dtype=np.uint64),
        "optimizer.double": rng.standard_normal((3, 2)).T,
        "optimizer.none": np.zeros((0, 5), dtype=np.float32),
        "optimizer.mask": np.array([True, False]),
        "optimizer.nan": np.array([np.nan, 1e-40], dtype=np.float32),
    }
    config = {"fine_tune_type": "lora", "num_layers": 2, "lora_parameters": {"rank": 2, "scale": 20.0, "dropout": 0.0}}
    return ModelState(arrays=arrays, settings={"adapter_config": config, "layers": [0, 1], "seed": seed})


def assert_same_state(found: ModelState | None, expected: ModelState | None) -> None:
    """Assert that two states have the same names, types, shapes, bytes and settings."""
    if found is None or expected is None:
        assert found is expected, f"expected {expected}, got {found}"
        return
    assert set(found.arrays) == set(expected.arrays)
    for name, array in expected.arrays.items():
        other = found.arrays[name]
        assert (other.dtype, other.shape) == (array.dtype, array.shape), f"{name}: {other.dtype} {other.shape}"
        assert other.tobytes() == array.tobytes(), f"{name}: values differ"
    assert found.settings == expected.settings


def _refuses(error: type[Exception], call: Callable[[], object], what: str) -> None:
    try:
        call()
    except error:
        return
    raise AssertionError(f"expected {error.__name__} for {what}")


def _check_empty(run: RunWriter) -> None:
    assert run.last() is None, "before the first commit, last() is None"
    assert list(run.read("unknown")) == [], "an unknown stream is empty"


def _check_appended_is_hidden_until_commit(run: RunWriter) -> None:
    run.append("a", {"x": 1})
    assert list(run.read("a")) == [], "appended records are not visible before the commit"
    assert run.last() is None
    run.commit(0, None, {"n": 1})
    assert list(run.read("a")) == [{"x": 1}]
    run.append("a", {"x": 2})
    assert list(run.read("a")) == [{"x": 1}]
    assert run.last() == (0, None, {"n": 1})


def _check_order(run: RunWriter) -> None:
    for iteration in range(3):
        for number in range(300):
            run.append(("a", "b")[number % 2], {"iteration": iteration, "number": number})
        run.commit(iteration, None, {})
    for parity, stream in enumerate(("a", "b")):
        expected = [{"iteration": i, "number": n} for i in range(3) for n in range(parity, 300, 2)]
        assert list(run.read(stream)) == expected, "streams are apart, each oldest first"
    assert list(run.read("c")) == []


def _check_plain_data(run: RunWriter) -> None:
    for value in _NOT_PLAIN:
        _refuses(TypeError, lambda value=value: run.append("a", {"fine": 1, "value": value}), f"{value!r}")  # type: ignore[misc]
        _refuses(TypeError, lambda value=value: run.commit(0, None, {"value": value}), f"loop {value!r}")  # type: ignore[misc]
    _refuses(TypeError, lambda: run.append("a", [1]), "a record that is a list")  # type: ignore[arg-type]
    loop: dict[str, Any] = {}
    loop["self"] = loop
    _refuses(TypeError, lambda: run.append("a", loop), "a record within itself")
    assert run.last() is None, "a refused loop state commits nothing"
    run.append("a", _RECORD)
    run.append("a", {})
    run.commit(0, None, _RECORD)
    found = list(run.read("a"))
    assert found == [_RECORD, {}], "what was refused is not there, the rest comes back equal"
    assert list(found[0]) == list(_RECORD), "keys keep their order"
    assert isinstance(found[0]["nested"]["list"][2], bool)
    assert run.last() == (0, None, _RECORD)


def _check_records_are_copies(run: RunWriter) -> None:
    record, loop = {"list": [1]}, {"list": [1]}
    run.append("a", record)
    record["list"].append(2)
    run.commit(0, None, loop)
    loop["list"].append(2)
    next(run.read("a"))["list"].append(3)
    assert list(run.read("a")) == [{"list": [1]}], "later changes to a record do not reach the run"
    last = run.last()
    assert last is not None
    last[2]["list"].append(3)
    assert run.last() == (0, None, {"list": [1]}), "later changes to the loop's state do not reach the run"


def _check_reading_is_not_disturbed(run: RunWriter) -> None:
    run.append("a", {"x": 1})
    run.append("a", {"x": 2})
    run.commit(0, None, {})
    reading = run.read("a")
    assert next(reading) == {"x": 1}
    run.append("a", {"x": 3})
    run.commit(1, None, {})
    assert list(reading) == [{"x": 2}], "a reader sees the stream as it was when it began"


def _check_iterations_rise(run: RunWriter) -> None:
    _refuses(ValueError, lambda: run.commit(-1, None, {}), "a negative iteration")
    run.commit(3, None, {"n": 1})
    run.append("a", {"x": 1})
    for iteration in (3, 2, 0, -1):
        _refuses(ValueError, lambda i=iteration: run.commit(i, example_state(), {}), f"{iteration} after 3")  # type: ignore[misc]
    assert run.last() == (3, None, {"n": 1})
    assert list(run.read("a")) == [], "a refused commit commits nothing"
    run.commit(10, None, {"n": 2})
    assert run.last() == (10, None, {"n": 2}), "iterations may leave gaps"
    assert list(run.read("a")) == [{"x": 1}], "what was appended before a refused commit goes with the next"


def _check_states(run: RunWriter) -> None:
    for iteration, state in enumerate((example_state(1), None, example_state(2))):
        run.commit(iteration, state, {"i": iteration})
        last = run.last()
        assert last is not None and last[0] == iteration and last[2] == {"i": iteration}
        assert_same_state(last[1], state)
    state = example_state(3)
    run.commit(3, state, {})
    for array in state.arrays.values():
        array.fill(0)
    for _ in range(2):
        last = run.last()
        assert last is not None and last[1] is not None
        assert_same_state(last[1], example_state(3))
        for array in last[1].arrays.values():
            array.fill(1)
    run.commit(4, ModelState(arrays={}), {})
    last = run.last()
    assert last is not None
    assert_same_state(last[1], ModelState(arrays={}))


def _check_refused_commits(run: RunWriter) -> None:
    run.append("a", {"x": 1})
    one = np.ones(1)
    for state, error in (
        (ModelState(arrays={"lora_a": one}), ValueError),
        (ModelState(arrays={"adapter.": one}), ValueError),
        (ModelState(arrays={"adapter.__metadata__": one}), ValueError),
        (ModelState(arrays={"adapter.x": np.array(["text"])}), ValueError),
        (ModelState(arrays={"adapter.x": np.array([None])}), ValueError),
        (ModelState(arrays={"adapter.x": one}, settings={"scale": float("nan")}), TypeError),
        (ModelState(arrays={"adapter.x": one}, settings={"adapter_config": [1]}), TypeError),
    ):
        _refuses(error, lambda state=state: run.commit(0, state, {}), f"{state}")  # type: ignore[misc]
        assert run.last() is None and list(run.read("a")) == [], "a refused state commits nothing"
    run.commit(0, example_state(), {})
    assert list(run.read("a")) == [{"x": 1}]


def _check_held(run: RunWriter) -> None:
    assert list(run.held()) == [], "nothing is held at first"
    run.append("a", {"x": 1})
    for record in (_RECORD, {}, {"last": True}):
        run.hold(record)
    for value in _NOT_PLAIN:
        _refuses(TypeError, lambda value=value: run.hold({"value": value}), f"{value!r}")  # type: ignore[misc]
    found = list(run.held())
    assert found == [_RECORD, {}, {"last": True}], "what was held comes back in order, what was refused does not"
    assert list(run.read("a")) == [] and run.last() is None, "to hold commits nothing"
    _refuses(TypeError, lambda: run.commit(0, None, {"value": object()}), "a loop's state")
    assert list(run.held()) == found, "a refused commit lets nothing go"
    run.commit(0, None, {})
    assert list(run.held()) == [], "a commit lets go what was held"
    assert list(run.read("a")) == [{"x": 1}]
    run.hold({"x": 2})
    assert list(run.held()) == [{"x": 2}]


def _check_pins(run: RunWriter) -> None:
    run.pin(0)
    run.commit(1, example_state(1), {})
    run.commit(2, None, {})
    run.pin(1)
    run.commit(3, example_state(3), {})
    for pinned in ((1, 3), (2,), (99,)):
        run.pin(*pinned)
    for iteration in range(4, 9):
        run.commit(iteration, example_state(iteration), {})


def _check_reports(run: RunWriter) -> None:
    run.write_summary(_RECORD)
    run.write_answers("test", [_RECORD, {}])
    for value in _NOT_PLAIN:
        _refuses(TypeError, lambda value=value: run.write_summary({"value": value}), f"{value!r}")  # type: ignore[misc]
        _refuses(TypeError, lambda value=value: run.write_answers("test", [{"value": value}]), f"{value!r}")  # type: ignore[misc]


_WRITER_CHECKS: tuple[Callable[[RunWriter], None], ...] = (
    _check_empty,
    _check_appended_is_hidden_until_commit,
    _check_order,
    _check_plain_data,
    _check_records_are_copies,
    _check_reading_is_not_disturbed,
    _check_iterations_rise,
    _check_states,
    _check_refused_commits,
    _check_held,
)


def _check_names(runs: Runs, name: str) -> None:
    _refuses(BadInput, lambda: runs.read(name), "a run that is not there")
    _refuses(BadInput, lambda: runs.open(name), "a run that is not there")
    assert runs.find(name) == {}
    for value in _NOT_PLAIN:
        _refuses(TypeError, lambda value=value: runs.create(name, {"value": value}), f"config {value!r}")  # type: ignore[misc]
    runs.check_free(name)
    with runs.create(name, _RECORD) as run:
        _refuses(RunInUse, lambda: runs.open(name), "a run that is being written")
        _refuses(BadInput, lambda: runs.check_free(name), "a name that is taken")
        _refuses(BadInput, lambda: runs.create(name, {}), "a name that is taken")
        assert runs.find(name) == {name: False}, "a run is there as soon as it is created"
        run.write_summary({})
        assert runs.find(name) == {name: True}
    with runs.read(name) as reader:
        assert reader.config == _RECORD and list(reader.config) == list(_RECORD)
        assert reader.name and run.name, "both say what the run is called"


def _check_going_on(runs: Runs, name: str) -> None:
    with runs.create(name, {}) as run:
        run.append("a", {"x": 0})
    with runs.open(name) as run:
        assert run.last() is None and list(run.read("a")) == [], "nothing appended survives before the first commit"
    for number in range(2):
        with runs.open(name) as run:
            run.hold({"held": number})
    with runs.open(name) as run:
        assert list(run.held()) == [{"held": 0}, {"held": 1}], "what is held survives"
        run.append("a", {"x": 1})
        run.commit(2, example_state(), {"n": 1})
        run.append("a", {"x": 2})
        run.hold({"held": 2})
    with runs.open(name) as run:
        assert list(run.read("a")) == [{"x": 1}], "commits survive, what was appended since does not"
        assert list(run.held()) == [{"held": 2}], "nor does what was held before the commit"
        last = run.last()
        assert last is not None and (last[0], last[2]) == (2, {"n": 1})
        assert_same_state(last[1], example_state())
        _refuses(ValueError, lambda: run.commit(2, None, {}), "an iteration committed before reopening")
        run.append("a", {"x": 3})
        run.commit(3, None, {"n": 2})
    with runs.open(name) as run:
        assert list(run.read("a")) == [{"x": 1}, {"x": 3}]
        assert run.last() == (3, None, {"n": 2})


def _check_going_back(runs: Runs, name: str) -> None:
    with runs.create(name, {}) as run:
        for iteration in (1, 3, 4):
            run.append("a", {"x": iteration})
            run.commit(iteration, example_state(iteration), {"n": iteration})
            run.write_answers(f"after-{iteration}", [{}])
        run.hold({})
    for iteration in (0, 2, 5):
        _refuses(BadInput, lambda each=iteration: runs.open(name, discard_after=each), f"{iteration} of 1, 3, 4")  # type: ignore[misc]
    with runs.open(name, discard_after=3) as run:
        assert list(run.read("a")) == [{"x": 1}, {"x": 3}] and list(run.held()) == []
        last = run.last()
        assert last is not None and (last[0], last[2]) == (3, {"n": 3})
        assert_same_state(last[1], example_state(3))
    with runs.read(name) as reader:
        assert reader.answers("after-3") == [{}] and reader.answers("after-4") == [], "what was written since is gone"


def _check_reader(runs: Runs, name: str) -> None:
    with runs.create(name, {}) as run:
        run.append("a", _RECORD)
        with runs.read(name) as early:
            run.commit(1, None, {})
            assert list(early.read("a")) == [], "a reader sees what was committed when it was opened"
        for verify in (True, False):
            with runs.read(name, verify=verify) as reader:
                assert list(reader.read("a")) == [_RECORD] and list(reader.read("unknown")) == []
                assert reader.answers("test") == list(reader.each_answer("test")) == []
                assert reader.card() is None and reader.summary() is None
        _check_reports(run)
        with runs.read(name) as reader:
            assert reader.answers("test") == [_RECORD, {}], "answers come back in order, what was refused does not"
            assert list(reader.each_answer("test")) == [_RECORD, {}]
            begun = reader.each_answer("test")
            first = next(begun)
            run.write_answers("test", [{}])
            assert [first, *begun] == [_RECORD, {}], "answers that are replaced are read to their end as they were"
            assert reader.summary() is None, "a summary that counts other iterations is of an earlier end"
        run.append("iterations", {"iteration": 7})
        run.commit(7, None, {})
        run.write_summary({"iterations": 7, "record": _RECORD})
        with runs.read(name) as reader:
            assert reader.summary() == {"iterations": 7, "record": _RECORD}
        run.append("iterations", {"iteration": 8})
        run.commit(8, None, {})
        with runs.read(name) as reader:
            assert reader.summary() is None, "the run went on"
        kept = runs.write_card(name, {"lines": [1]})
        assert kept["lines"] == [1]
        with runs.read(name) as reader:
            assert reader.card() == kept


def _check_checkpoints(runs: Runs, name: str) -> None:
    with runs.create(name, {}) as run:
        with runs.read(name) as reader:
            _refuses(BadInput, reader.checkpoint, "a run without a model state")
        _check_pins(run)
    with runs.open(name) as run:
        run.commit(9, None, {})
    for verify in (True, False):
        with runs.read(name, verify=verify) as reader:
            for asked, expected in ((None, 8), (8, 8), (1, 1), (3, 3)):
                found, state = reader.checkpoint(asked)
                assert found == expected, "the newest by default; pinned ones are kept, also over a restart"
                assert_same_state(state, example_state(expected))
            for iteration in (0, 2, 9):
                _refuses(BadInput, lambda each=iteration: reader.checkpoint(each), f"{iteration}, without a state")  # type: ignore[misc]


def _check_verify(runs: Runs, name: str) -> None:
    _refuses(BadInput, lambda: runs.verify(name), "a run that is not there")
    digests = []
    with runs.create(name, _RECORD) as run:
        digests.append(runs.verify(name).digest)
        for iteration in (1, 2):
            run.append("a", {"x": iteration})
            run.commit(iteration, example_state(iteration), {})
            digests.append(runs.verify(name).digest)
        run.hold({})
        run.write_summary({})
        run.write_answers("test", [_RECORD, {}])
    runs.write_card(name, {"lines": []})
    found = runs.verify(name)
    assert (found.iteration, found.problems, found.checkpoints[-1]) == (2, (), 2), f"nothing is wrong: {found}"
    assert len({*digests}) == 3 and found.digest == digests[-1], "each commit has a digest of its own, nothing else has"


_CHECKS: tuple[Callable[[Runs, str], None], ...] = (
    _check_names,
    _check_going_on,
    _check_going_back,
    _check_reader,
    _check_checkpoints,
    _check_verify,
)
