"""Random draws depend on their names, and on nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gce.domain.randomness import generator, key, python_generator

PARTS = st.lists(st.one_of(st.integers(), st.text(max_size=8)), max_size=5)


def test_the_keys_of_a_run_stay_what_they_were() -> None:
    """Runs made with an earlier release must repeat: these numbers never change."""
    assert key() == 8238016292129134938
    assert key(0) == 6148773199958884930
    assert key(7, "sample", 3, "scheduling/grounded/train/T1/5", 2) == 5210589178161748128


def test_the_draws_of_a_name_stay_what_they_were() -> None:
    raw = generator(7, "shuffle").bit_generator.random_raw(2)
    assert raw.tolist() == [10254832827542678993, 309924517386284414]
    assert python_generator(7, "shuffle").random() == 0.17126678476047696


@given(PARTS, PARTS)
def test_other_parts_give_another_key(one: Any, other: Any) -> None:
    assert (key(*one) == key(*other)) == (one == other)


def test_neither_borders_nor_kinds_of_parts_are_confused() -> None:
    names = [("ab", "c"), ("a", "bc"), ("abc",), ("abc", ""), ("1",), (1,), (-1,), (11,), (1, 1), ("", ""), ("",), ()]
    assert len({key(*name) for name in names}) == len(names)


@given(PARTS)
def test_a_key_fits_63_bits(parts: Any) -> None:
    assert 0 <= key(*parts) < 2**63


def test_every_bit_of_a_key_is_used() -> None:
    union, intersection = 0, 2**63 - 1
    for index in range(200):
        union |= key("bits", index)
        intersection &= key("bits", index)
    assert (union, intersection) == (2**63 - 1, 0)


def test_numpy_whole_numbers_and_lone_surrogates_are_parts() -> None:
    whole: Any = np.int64(5)
    assert key(whole) == key(5)
    assert key("\ud800") != key("\udfff")


@pytest.mark.parametrize("part", [1.0, None, b"a", ("a",)])
def test_what_is_neither_text_nor_whole_number_is_refused(part: Any) -> None:
    with pytest.raises(TypeError, match="expected text or a whole number as part of a random key, got"):
        key("a", part)


@given(PARTS)
def test_a_name_gives_the_same_draws_again(parts: Any) -> None:
    assert generator(*parts).random(3).tolist() == generator(*parts).random(3).tolist()
    assert python_generator(*parts).random() == python_generator(*parts).random()


def test_draws_of_different_names_are_unrelated() -> None:
    draws = np.array([generator("wave", index).random(200) for index in range(40)])
    correlations = np.corrcoef(draws)[~np.eye(40, dtype=bool)]
    assert abs(draws.mean() - 0.5) < 0.02
    assert np.abs(correlations).max() < 0.35  # about 5 standard errors


def test_global_generators_are_left_alone() -> None:
    import random

    random.seed(1)
    np.random.seed(1)
    before = random.getstate(), np.random.get_state(legacy=False)["state"]["key"].tolist()
    python_generator("a").random()
    generator("a").random()
    assert (random.getstate(), np.random.get_state(legacy=False)["state"]["key"].tolist()) == before


def test_the_hash_seed_of_the_process_does_not_matter() -> None:
    program = (
        "from gce.domain.randomness import *\n"
        "print(key(3, 'a'), generator(3, 'a').random(), python_generator('b').random())"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("0", "1")
    }
    assert len(printed) == 1
