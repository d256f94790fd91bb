"""Power of the paired exact test: by hand, against sums over all outcomes, simulated, and on the command line."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from present import present

import gce
from gce.app import cli
from gce.domain.power import Pairing, discordance, mcnemar_power, minimal_gain, problems_needed
from gce.domain.randomness import generator
from gce.domain.statistics import mcnemar


def over_all_outcomes(n: int, gained: float, lost: float, level: float) -> float:
    return sum(
        math.comb(n, up) * math.comb(n - up, down) * gained**up * lost**down * (1 - gained - lost) ** (n - up - down)
        for up in range(n + 1)
        for down in range(n - up + 1)
        if mcnemar(up, down) <= level
    )


def test_five_discordant_problems_cannot_be_significant_and_six_of_six_are() -> None:
    """2 / 2**5 is above 5 %, 2 / 2**6 below."""
    assert mcnemar_power(5, 1.0, 0.0) == 0.0
    assert mcnemar_power(6, 1.0, 0.0) == 1.0
    assert mcnemar_power(6, 0.5, 0.5) == pytest.approx(2 / 64), "the test's own error rate"


def test_power_with_concordant_problems_by_hand() -> None:
    """Of 7, at least 6 gained and none lost: (1 + 7) / 2**7."""
    assert mcnemar_power(7, 0.5, 0.0) == pytest.approx(8 / 128)
    assert mcnemar_power(0, 0.5, 0.0) == mcnemar_power(100, 0.0, 0.0) == 0.0


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 30), st.floats(0, 1), st.floats(0, 1), st.sampled_from([0.001, 0.05, 0.4]))
def test_it_is_the_sum_over_all_outcomes(n: int, changed: float, up: float, level: float) -> None:
    gained, lost = changed * up, changed * (1 - up)
    expected = over_all_outcomes(n, gained, lost, level)
    assert mcnemar_power(n, gained, lost, level=level) == pytest.approx(expected, abs=1e-9)
    assert mcnemar_power(n, lost, gained, level=level) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(("n", "gained", "lost"), [(400, 0.15, 0.08), (1200, 0.1, 0.06), (200, 0.2, 0.2)])
def test_it_is_how_often_simulated_tests_reject(n: int, gained: float, lost: float) -> None:
    """4,000 data sets: within four standard errors."""
    drawn = generator(0, "power", n).multinomial(n, [gained, lost, 1 - gained - lost], 4_000)
    rejected = np.mean([mcnemar(int(up), int(down)) <= 0.05 for up, down, _ in drawn])
    power = mcnemar_power(n, gained, lost)
    assert rejected == pytest.approx(power, abs=4 * math.sqrt(power * (1 - power) / 4_000))


def test_it_never_rejects_more_often_than_the_level_without_a_gain() -> None:
    for n in (10, 100, 1_000, 100_000):
        assert mcnemar_power(n, 0.1, 0.1) <= 0.05
    assert mcnemar_power(100_000, 0.1, 0.1) > 0.045, "and many problems use it up"


@pytest.mark.parametrize(
    ("arguments", "level", "message"),
    [
        ((-1, 0.1, 0.1), 0.05, "n from 0"),
        ((5, -0.1, 0.1), 0.05, "shares"),
        ((5, 0.6, 0.6), 0.05, "at most 1 together"),
        ((5, 0.1, 0.1), 0.0, r"level in \(0, 1\)"),
    ],
)
def test_impossible_arguments_are_refused(arguments: Any, level: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mcnemar_power(*arguments, level=level)


def test_discordance_by_hand() -> None:
    """Independent halves: a quarter right in both, so 1/2. Correlation 0.5 adds 0.5 * 0.25 to that: 1/4."""
    assert discordance(0.5, 0.0, 0.0) == pytest.approx(0.5)
    assert discordance(0.5, 0.0, 0.5) == pytest.approx(0.25)
    assert discordance(0.5, 0.2, 1.0) == pytest.approx(0.2), "at most as correlated as the rates allow"
    assert discordance(0.0, 0.1, 0.5) == pytest.approx(0.1)


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_discordance_is_a_share_of_at_least_the_gain(base: float, after: float, correlation: float) -> None:
    share = discordance(base, after - base, correlation)
    assert abs(after - base) - 1e-9 <= share <= 1 + 1e-9


def test_seeds_count_by_their_design_effect() -> None:
    """3 seeds at correlation 0.5: 600 differences are worth 600 / 2 pairs."""
    assert Pairing(tiers=2).pairs(100) == 200
    assert Pairing(seeds=3).pairs(200) == 300
    assert Pairing(seeds=3, seed_correlation=1.0).pairs(200) == 200
    assert Pairing(seeds=3, seed_correlation=0.0).pairs(200) == 600


def test_the_smallest_gain_and_the_problems_needed_invert_the_power() -> None:
    pairing = Pairing(base=0.4, tiers=3)
    gain = present(minimal_gain(pairing, 150))
    assert pairing.power(150, gain) >= 0.8 > pairing.power(150, gain - 2e-5)
    needed = present(problems_needed(pairing, 0.06, power=0.9))
    assert pairing.power(needed, 0.06) >= 0.9 > pairing.power(needed - 1, 0.06)
    assert minimal_gain(pairing, 1) is None, "three problems tell nothing"
    assert minimal_gain(Pairing(base=1.0), 100) is None
    assert problems_needed(Pairing(), 1e-4) is None


def test_six_problems_find_a_gain_from_nothing_to_everything() -> None:
    """Of base 0, all discordant problems are gained: 6 of n are needed, and of n = 6 all with 0.8**(1/6) each."""
    pairing = Pairing(base=0.0)
    assert problems_needed(pairing, 1.0) == 6
    assert minimal_gain(pairing, 6) == pytest.approx(0.8 ** (1 / 6), abs=2e-5)


def test_a_given_discordance_replaces_the_correlation() -> None:
    """A gain of 2 points of 12 % discordant problems: 7 % gained, 5 % lost."""
    assert Pairing(discordant=0.12).changes(0.02) == pytest.approx((0.07, 0.05))
    assert Pairing(discordant=0.01).changes(-0.05) == pytest.approx((0.0, 0.05)), "at least the gain itself"
    with pytest.raises(ValueError, match="base rate plus gain"):
        Pairing(base=0.9).changes(0.2)


# gce.power and `gce power`


def test_from_assumptions() -> None:
    found = gce.power(n=100, tiers=6, gain=0.05)
    (row,) = found.rows
    assert row.power == pytest.approx(Pairing(tiers=6).power(100, 0.05)) and row.p is None
    assert row.needed == problems_needed(Pairing(tiers=6), 0.05)
    assert str(found).startswith("assumed: 6 tiers, McNemar's exact test at 5 %, correlation 0.5\nn ")
    assert [each.gain for each in gce.power(base=0.97).rows] == [0.01, 0.02]
    with pytest.raises(gce.BadInput, match="base rate plus gain"):
        gce.power(base=0.9, gain=0.2)


def answers(path: Path, **strategies: str) -> Path:
    """A file of `gce evaluate --answers`: a digit each for the problems of two tiers, "T0/T1"; x failed."""
    lines: list[Any] = [{"evaluation": {}}]
    for name, digits in strategies.items():
        for tier, each in enumerate(digits.split("/")):
            lines += [
                {
                    "mode": name,
                    "problem": f"{tier}/{number}",
                    "digest": f"{tier}/{number}",
                    "tier": f"T{tier}",
                    "right": digit == "1",
                    "outcome": {"1": "right", "0": "wrong", "x": "failed"}[digit],
                }
                for number, digit in enumerate(each)
            ]
    path.write_text("\n".join(map(json.dumps, lines)) + "\n")
    return path


def test_strategies_in_a_file_are_compared_with_zero_shot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of 19 judged problems 8 gained and none lost: 40 % discordant, p = 2 / 2**8, doubled by Holm's correction."""
    file = answers(
        tmp_path / "answers.jsonl",
        **{"few-shot": "1111110000/111100000x", "zero-shot": "1100000000/0000000001", "simulate": "11/11"},
    )
    assert cli.main(["power", str(file), "--json"]) == 0
    rows = {row["what"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
    assert set(rows) == {"few-shot - zero-shot", "simulate - zero-shot"}
    row = rows["few-shot - zero-shot"]
    assert (row["n"], row["gain"], row["discordant"]) == (9, pytest.approx(8 / 19), pytest.approx(8 / 19))
    assert row["p"] == pytest.approx(2 * 2 / 2**8)
    assert row["power"] == pytest.approx(mcnemar_power(18, 8 / 19, 0.0, level=0.025))
    assert cli.main(["power", str(file), "--gain", "0.1", "--n", "50", "--comparisons", "1"]) == 0
    out = capsys.readouterr().out
    assert f"{100 * mcnemar_power(100, (8 / 19 + 0.1) / 2, (8 / 19 - 0.1) / 2):.1f}" in out and "p (Holm)" in out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "no two sets of answers"),
        ('{"evaluation": {}}\nno json\n', "has no answers of gce evaluate"),
        ('{"evaluation": {}}\n[]\n', "has no answers of gce evaluate"),
        ('{"evaluation": {}}\n{"mode": "a", "outcome": "right"}\n{"mode": "b"}\n', "has no answers of gce evaluate"),
    ],
)
def test_files_without_pairs_are_refused(
    content: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "answers.jsonl").write_text(content)
    assert cli.main(["power", str(tmp_path / "answers.jsonl")]) == 2
    out, err = capsys.readouterr()
    assert out == "" and said in err and err.count("\n") == 1


def test_a_run_is_compared_before_and_after(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("safetensors")  # Runs are kept in directories.
    run = tmp_path / "run"
    sizes = ("--problems", "4", "--rollouts", "2", "--iterations", "1", "--updates", "1", "--test", "8", "--dev", "0")
    toy = ("--task", "toy_task:ADDITION", "--model", "toy_task:careless")
    assert cli.main(["train", *toy, *sizes, "--run-dir", str(run)]) == 0
    capsys.readouterr()
    assert cli.main(["power", str(run), "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert row["what"] == "after - before" and row["n"] == 8 and 0.0 <= row["p"] <= 1.0
