"""What every Store must do: one check for each sentence of the port's docstring.

    check_store(MemoryStore, reopen=lambda store: store.reopen())

Knows nothing of files. Each check asserts; the first that fails raises AssertionError.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from gce.domain.types import ModelState
from gce.ports.store import Store

__all__ = ["assert_same_state", "check_store", "example_state"]

S = TypeVar("S", bound=Store)

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


def check_store(make_store: Callable[[], S], *, reopen: Callable[[S], S] | None = None) -> None:
    """Assert that stores made by `make_store` keep to the port; each call must give a new, empty one.

    `reopen` takes a store to the one that a new process would find after the old one was killed. Without it, what
    survives a crash is not checked.
    """
    _check_empty(make_store())
    _check_appended_is_hidden_until_commit(make_store())
    _check_order(make_store())
    _check_plain_data(make_store())
    _check_records_are_copies(make_store())
    _check_reading_is_not_disturbed(make_store())
    _check_iterations_rise(make_store())
    _check_states(make_store())
    _check_refused_commits(make_store())
    _check_held(make_store())
    if reopen is not None:
        _check_reopen(make_store(), reopen)


def example_state(seed: int = 0) -> ModelState:
    """A small state with what is easily lost: a scalar, no elements, another memory order, several types."""
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


def _check_empty(store: Store) -> None:
    assert store.last() is None, "before the first commit, last() is None"
    assert list(store.read("unknown")) == [], "an unknown stream is empty"


def _check_appended_is_hidden_until_commit(store: Store) -> None:
    store.append("a", {"x": 1})
    assert list(store.read("a")) == [], "appended records are not visible before the commit"
    assert store.last() is None
    store.commit(0, None, {"n": 1})
    assert list(store.read("a")) == [{"x": 1}]
    store.append("a", {"x": 2})
    assert list(store.read("a")) == [{"x": 1}]
    assert store.last() == (0, None, {"n": 1})


def _check_order(store: Store) -> None:
    for iteration in range(3):
        for number in range(300):
            store.append(("a", "b")[number % 2], {"iteration": iteration, "number": number})
        store.commit(iteration, None, {})
    for parity, stream in enumerate(("a", "b")):
        expected = [{"iteration": i, "number": n} for i in range(3) for n in range(parity, 300, 2)]
        assert list(store.read(stream)) == expected, "streams are apart, each oldest first"
    assert list(store.read("c")) == []


def _check_plain_data(store: Store) -> None:
    for value in _NOT_PLAIN:
        _refuses(TypeError, lambda value=value: store.append("a", {"fine": 1, "value": value}), f"{value!r}")  # type: ignore[misc]
        _refuses(TypeError, lambda value=value: store.commit(0, None, {"value": value}), f"loop {value!r}")  # type: ignore[misc]
    _refuses(TypeError, lambda: store.append("a", [1]), "a record that is a list")  # type: ignore[arg-type]
    loop: dict[str, Any] = {}
    loop["self"] = loop
    _refuses(TypeError, lambda: store.append("a", loop), "a record within itself")
    assert store.last() is None, "a refused loop state commits nothing"
    store.append("a", _RECORD)
    store.append("a", {})
    store.commit(0, None, _RECORD)
    found = list(store.read("a"))
    assert found == [_RECORD, {}], "what was refused is not there, the rest comes back equal"
    assert list(found[0]) == list(_RECORD), "keys keep their order"
    assert isinstance(found[0]["nested"]["list"][2], bool)
    assert store.last() == (0, None, _RECORD)


def _check_records_are_copies(store: Store) -> None:
    record, loop = {"list": [1]}, {"list": [1]}
    store.append("a", record)
    record["list"].append(2)
    store.commit(0, None, loop)
    loop["list"].append(2)
    next(store.read("a"))["list"].append(3)
    assert list(store.read("a")) == [{"list": [1]}], "later changes to a record do not reach the store"
    last = store.last()
    assert last is not None
    last[2]["list"].append(3)
    assert store.last() == (0, None, {"list": [1]}), "later changes to the loop's state do not reach the store"


def _check_reading_is_not_disturbed(store: Store) -> None:
    store.append("a", {"x": 1})
    store.append("a", {"x": 2})
    store.commit(0, None, {})
    reading = store.read("a")
    assert next(reading) == {"x": 1}
    store.append("a", {"x": 3})
    store.commit(1, None, {})
    assert list(reading) == [{"x": 2}], "a reader sees the stream as it was when it began"


def _check_iterations_rise(store: Store) -> None:
    _refuses(ValueError, lambda: store.commit(-1, None, {}), "a negative iteration")
    store.commit(3, None, {"n": 1})
    store.append("a", {"x": 1})
    for iteration in (3, 2, 0, -1):
        _refuses(ValueError, lambda i=iteration: store.commit(i, example_state(), {}), f"{iteration} after 3")  # type: ignore[misc]
    assert store.last() == (3, None, {"n": 1})
    assert list(store.read("a")) == [], "a refused commit commits nothing"
    store.commit(10, None, {"n": 2})
    assert store.last() == (10, None, {"n": 2}), "iterations may leave gaps"
    assert list(store.read("a")) == [{"x": 1}], "what was appended before a refused commit goes with the next"


def _check_states(store: Store) -> None:
    for iteration, state in enumerate((example_state(1), None, example_state(2))):
        store.commit(iteration, state, {"i": iteration})
        last = store.last()
        assert last is not None and last[0] == iteration and last[2] == {"i": iteration}
        assert_same_state(last[1], state)
    state = example_state(3)
    store.commit(3, state, {})
    for array in state.arrays.values():
        array.fill(0)
    for _ in range(2):
        last = store.last()
        assert last is not None and last[1] is not None
        assert_same_state(last[1], example_state(3))
        for array in last[1].arrays.values():
            array.fill(1)
    store.commit(4, ModelState(arrays={}), {})
    last = store.last()
    assert last is not None
    assert_same_state(last[1], ModelState(arrays={}))


def _check_refused_commits(store: Store) -> None:
    store.append("a", {"x": 1})
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
        _refuses(error, lambda state=state: store.commit(0, state, {}), f"{state}")  # type: ignore[misc]
        assert store.last() is None and list(store.read("a")) == [], "a refused state commits nothing"
    store.commit(0, example_state(), {})
    assert list(store.read("a")) == [{"x": 1}]


def _check_held(store: Store) -> None:
    assert list(store.held()) == [], "nothing is held at first"
    store.append("a", {"x": 1})
    for record in (_RECORD, {}, {"last": True}):
        store.hold(record)
    for value in _NOT_PLAIN:
        _refuses(TypeError, lambda value=value: store.hold({"value": value}), f"{value!r}")  # type: ignore[misc]
    found = list(store.held())
    assert found == [_RECORD, {}, {"last": True}], "what was held comes back in order, what was refused does not"
    assert list(store.read("a")) == [] and store.last() is None, "to hold commits nothing"
    _refuses(TypeError, lambda: store.commit(0, None, {"value": object()}), "a loop's state")
    assert list(store.held()) == found, "a refused commit lets nothing go"
    store.commit(0, None, {})
    assert list(store.held()) == [], "a commit lets go what was held"
    assert list(store.read("a")) == [{"x": 1}]
    store.hold({"x": 2})
    assert list(store.held()) == [{"x": 2}]


def _check_reopen(store: S, reopen: Callable[[S], S]) -> None:
    store.append("a", {"x": 0})
    store = reopen(store)
    assert store.last() is None and list(store.read("a")) == [], "nothing appended survives before the first commit"
    for number in range(2):
        store.hold({"held": number})
        store = reopen(store)
    assert list(store.held()) == [{"held": 0}, {"held": 1}], "what is held survives"
    store.append("a", {"x": 1})
    store.commit(2, example_state(), {"n": 1})
    store.append("a", {"x": 2})
    store.hold({"held": 2})
    store = reopen(store)
    assert list(store.read("a")) == [{"x": 1}], "commits survive, what was appended since does not"
    assert list(store.held()) == [{"held": 2}], "nor does what was held before the commit"
    last = store.last()
    assert last is not None and (last[0], last[2]) == (2, {"n": 1})
    assert_same_state(last[1], example_state())
    _refuses(ValueError, lambda: store.commit(2, None, {}), "an iteration committed before reopening")
    store.append("a", {"x": 3})
    store.commit(3, None, {"n": 2})
    store = reopen(store)
    assert list(store.read("a")) == [{"x": 1}, {"x": 3}]
    assert store.last() == (3, None, {"n": 2})
