"""Statistics of `gce analyze` by hand and as properties, and the command from stored answers to tables."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import toy_task
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from test_rescoring import TOY, stricter

from gce.app import cli
from gce.app.analysis.evidence import SHARES, along_text, is_scored, spread_over
from gce.app.analysis.sources import Setup, labels
from gce.app.analysis.stages import Recompute, recompute_of
from gce.domain.analysis.answer_features import FEATURES
from gce.domain.analysis.associations import associations
from gce.domain.analysis.correlations import rank_correlation
from gce.domain.answers import Answer
from gce.domain.completions import Completion
from gce.domain.conversations import Conversation
from gce.domain.problems import Message, Problem, ProblemId
from gce.domain.randomness import generator
from gce.domain.verdicts import Verdict
from gce.errors import BadInput, ModelError


def test_a_rank_correlation_by_hand() -> None:
    """One swap of neighbours in four: 1 - 6 * 2 / 60; 8 of the 24 orders are as far from 0."""
    found = rank_correlation([1, 2, 3, 4], [10, 20, 40, 30])
    assert found is not None and found.n == 4
    assert (found.value, found.p) == pytest.approx((0.8, 8 / 24))
    reach = 1.959964 * math.sqrt(1 + 0.8**2 / 2)
    expected = math.tanh(math.atanh(0.8) - reach), math.tanh(math.atanh(0.8) + reach)
    assert (found.low, found.high) == pytest.approx(expected, abs=1e-6)


def test_a_perfect_order_of_four_has_a_wide_interval_and_is_not_significant() -> None:
    found = rank_correlation([1, 2, 3, 4], [1, 2, 3, 4])
    assert found is not None
    assert (found.value, found.high, found.p) == pytest.approx((1.0, 1.0, 2 / 24))
    assert found.low < -0.8


def test_three_units_or_a_constant_measure_have_no_correlation() -> None:
    assert rank_correlation([1, 2, 3], [1, 2, 3]) is None
    assert rank_correlation([1, 2, 3, 4], [1, 1, 1, 1]) is None
    with pytest.raises(ValueError, match="finite"):
        rank_correlation([1, 2, 3, math.nan], [1, 2, 3, 4])
    with pytest.raises(ValueError, match="confidence"):
        rank_correlation([1, 2, 3, 4], [1, 2, 3, 4], confidence=1.0)


def test_twelve_units_are_tested_with_drawn_orders() -> None:
    found = rank_correlation(range(12), [*range(1, 12), 0])
    assert found is not None and 0.05 < found.p < 0.3 and found.low < found.value < found.high


COLUMN = st.lists(st.integers(-5, 5), min_size=4, max_size=7)


@settings(deadline=None, max_examples=40)
@given(COLUMN, st.randoms(use_true_random=False))
def test_a_rank_correlation_is_symmetric_and_only_about_order(x: list[int], random: Any) -> None:
    y = [random.randint(-5, 5) for _ in x]
    found, swapped = rank_correlation(x, y), rank_correlation(y, x)
    monotone, turned = rank_correlation([math.exp(each) for each in x], y), rank_correlation([-each for each in x], y)
    if found is None or swapped is None or monotone is None or turned is None:
        assert found is swapped is monotone is turned is None
        return
    assert -1 <= found.low <= found.value <= found.high <= 1
    assert (found.value, found.p) == pytest.approx((swapped.value, swapped.p))
    assert (found.value, found.p) == pytest.approx((monotone.value, monotone.p))
    assert (found.value, found.low, found.p) == pytest.approx((-turned.value, -turned.high, turned.p))


def drawn(seed: int, problems: int = 40) -> dict[str, Any]:
    """Two answers to each problem of four tiers; the score is 0.3 z + 2 for each tier + noise, and d is z + noise."""
    rng = generator(seed, "associations")
    problem = np.arange(2 * problems) // 2
    tier = problem % 4
    z = rng.normal(size=problem.size) + tier
    d, noise = z + rng.normal(size=problem.size), 0.1 * rng.normal(size=problem.size)
    return {
        "features": {"z": z, "d": d, "constant": np.ones(problem.size), "the tier": 1.0 * tier},
        "score": 0.3 * z + 2.0 * tier + noise,
        "group": [f"T{each}" for each in tier],
        "problem": [f"p{each:03}" for each in problem],
    }


def test_an_exact_slope_is_found_within_groups_despite_what_differs_between_them() -> None:
    """Score 2 z + 10 for the second group, whose z are larger: one standard deviation of z within groups is 1."""
    z = np.tile([-1.0, 1.0], 40)
    group = np.repeat([0, 1], 40)
    found = associations(
        {"z": z + 5 * group},
        2 * z + 10 * group,
        group=group.tolist(),
        problem=[f"{each // 2:02}" for each in range(80)],
    )
    assert found is not None and (found.n, found.problems) == (80, 40)
    change = found.features["z"].change
    assert (change.value, change.low, change.high) == pytest.approx((2.0, 2.0, 2.0))
    assert found.explained.value > 0.99


def test_a_feature_that_only_follows_the_one_that_counts_has_no_association() -> None:
    data = drawn(1)
    found = associations(**data)
    alone = associations(**{**data, "features": {"d": data["features"]["d"]}})
    assert found is not None and alone is not None
    assert set(found.features) == {"z", "d"}, "what is constant within tiers is left out"
    assert found.features["z"].adjusted < 1e-6 < 0.01 < found.features["d"].p
    assert alone.features["d"].adjusted < 0.01
    assert 0.5 < found.explained.value < 1.0


def test_pure_noise_predicts_nothing_on_problems_that_no_fit_saw() -> None:
    data = drawn(2)
    noise = generator(3, "noise").normal(size=(6, len(data["score"])))
    found = associations(**{**data, "features": {f"n{at}": each for at, each in enumerate(noise)}})
    assert found is not None and found.explained.value < 0.1
    assert min(each.adjusted for each in found.features.values()) > 0.01


def test_a_feature_twice_has_no_association_of_its_own() -> None:
    data = drawn(4)
    z = data["features"]["z"]
    found = associations(**{**data, "features": {"z": z, "again": z}})
    assert found is not None and not found.features and found.explained.value > 0.5


def test_too_few_problems_or_a_constant_score_have_no_associations() -> None:
    assert associations(**drawn(0, problems=19)) is None
    assert associations(**{**drawn(0), "score": [1.0] * 80}) is None
    with pytest.raises(ValueError, match="finite"):
        associations(**{**drawn(0), "score": [math.nan] * 80})
    with pytest.raises(ValueError, match="each row"):
        associations(**{**drawn(0), "group": ["T0"]})


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 1000), st.floats(0.01, 100), st.floats(-10, 10))
def test_neither_order_of_rows_nor_unit_of_a_feature_matters(seed: int, scale: float, shift: float) -> None:
    data = drawn(seed % 5, problems=24)
    order = generator(seed, "order").permutation(48)
    other = {
        "features": {name: (np.asarray(each) * scale + shift)[order] for name, each in data["features"].items()},
        "score": data["score"][order],
        "group": [data["group"][at] for at in order],
        "problem": [data["problem"][at] for at in order],
    }
    one, two = associations(**data), associations(**other)
    assert one is not None and two is not None
    for name in ("z", "d"):
        before, after = one.features[name].change, two.features[name].change
        assert (after.value, after.low) == pytest.approx((before.value, before.low), rel=1e-6, abs=1e-9)
    assert two.explained.value == pytest.approx(one.explained.value, rel=1e-6)


def answer(text: str, *, belief: float | None = None, reward: float = 0.5) -> Answer:
    problem = Problem(ProblemId("beliefs", "w", "test", "B1", 0, 0), None, (Message("user", "How probable?"),), "")
    measures = {} if belief is None else {"belief": belief}
    verdict = Verdict("wrong", reward, "beliefs", "1", measures)
    return Answer(problem, Completion("k", text, "length", "policy"), (verdict,), reward, False)


def test_features_by_hand() -> None:
    held = Conversation((answer("Perhaps 2 of 3?\nBut wait: it is, it is.\nAnswer: 0.5"),), replies=2)
    found = {name: read(held) for name, read in FEATURES.items()}
    assert found == pytest.approx(
        {
            "words, log2": math.log2(10),  # perhaps of but wait it is it is answer
            "numbers, log2": 2.0,
            "lines, log2": math.log2(3),
            "hedges, % of words": 100 / 9,
            "reversals, % of words": 200 / 9,
            "questions, log2": 1.0,
            "distinct words, share": 7 / 9,
            "replies": 2.0,
            "truncated": 1.0,
        }
    )
    assert all(math.isfinite(read(Conversation((answer(""),)))) for read in FEATURES.values())


def nats(_messages: Any, text: str) -> tuple[float, ...]:
    """One nat a word, half a nat for the end; an answer costs 4, or where the text says `so` 1 if it is 0.8, else 2."""
    costs, said = [], text.split()
    for place, word in enumerate(said):
        is_number = place > 0 and said[place - 1] == "Answer:"
        costs.append((1.0 if word == "0.8" else 2.0) if is_number and "so" in said else 4.0 if is_number else 1.0)
    return tuple(-each for each in (*costs, 0.5))


def test_the_answer_line_is_scored_along_the_text() -> None:
    """Two sentences; the second one says `so`. A quarter of two rounds to none, three quarters to both."""
    found = along_text(nats, answer("First this.\nThen so it is.\nAnswer: 0.8", belief=0.8))
    assert found.line == "Answer: 0.8" and len(SHARES) == 5
    assert found.answer == pytest.approx((-5.5, -5.5, -5.5, -2.5, -2.5))
    assert found.against == pytest.approx((0.0, 0.0, 0.0, 1.0, 1.0))


@pytest.mark.parametrize(
    ("line", "belief", "other"),
    [
        ("Answer: 35 %", 0.35, "Answer: 65 %"),
        ("Answer: 35.5%", 0.355, "Answer: 64.5%"),
        ("Answer: 0.123", 0.123, "Answer: 0.877"),
        ("Answer: 0.70", 0.7, "Answer: 0.30"),
    ],
)
def test_a_belief_is_compared_with_its_opposite_in_the_same_form(line: str, belief: float, other: str) -> None:
    asked: list[str] = []

    def scores(_messages: Any, text: str) -> tuple[float, ...]:
        asked.append(text)
        return (-1.0,)

    assert along_text(scores, answer(f"Because.\n{line}", belief=belief)).against is not None
    assert {line, other} <= set(asked)


def test_what_has_no_opposite_or_no_text_before_it() -> None:
    assert along_text(nats, answer("Because.\nAnswer: 50 %", belief=0.5)).against is None
    assert along_text(nats, answer("Because.\nAnswer: 0.50", belief=0.5)).against is None
    assert along_text(nats, answer("Order: A\nAnswer: A 0")).against is None
    assert not is_scored(answer("Answer: 0.8")) and not is_scored(answer("")) and not is_scored(answer("x\n" * 20_000))
    assert is_scored(answer("Because.\nAnswer: 0.8"))
    assert is_scored(answer("." * 19_000 + "\nAnswer: 0.8")), "in linear time"
    with pytest.raises(ModelError, match="finite"):
        along_text(lambda _messages, _text: (math.nan,), answer("Because.\nAnswer: 1"))


def test_answers_are_spread_over_all_there_are() -> None:
    several = [answer(str(each)) for each in range(10)]
    assert [each.completion.text for each in spread_over(several, 3)] == ["0", "4", "9"]
    assert spread_over(several, 20) == several and spread_over([], 3) == []


def test_labels_say_what_differs_if_it_is_short() -> None:
    one, other = Setup("beliefs/w", "org/a", "direct"), Setup("beliefs/w", "org/b", "direct")
    assert labels([one]) == {one: "direct"}
    assert labels([one, other, one]) == {one: "a", other: "b"}
    assert labels([one, evolve(one, trained="grpo")]) == {one: "not trained", evolve(one, trained="grpo"): "grpo"}
    assert [*labels([one, evolve(other, strategy="x" * 40)]).values()] == ["S1", "S2"]
    assert [*labels([one, evolve(one, model="elsewhere/a")]).values()] == ["S1", "S2"], "labels tell setups apart"


def test_labels_say_the_settings_that_differ_and_no_others() -> None:
    base = Setup("beliefs/w", "org/a", "zero-shot", settings=(("evaluator", '"verifier"'),))
    slow, fast = (
        evolve(
            base,
            trained="raft",
            settings=(("evaluator", '"verifier"'), ("lora.rank", "8"), ("optimizer.learning_rate", rate)),
        )
        for rate in ("0.1", "0.2")
    )
    assert labels([slow, fast]) == {slow: "learning_rate 0.1", fast: "learning_rate 0.2"}
    assert labels([base, slow]) == {base: "not trained", slow: "raft"}
    assert [*labels([base, slow, fast]).values()] == [
        "not trained",
        "raft, learning_rate 0.1",
        "raft, learning_rate 0.2",
    ]


def test_recompute_for_all_stages_or_for_one() -> None:
    assert recompute_of(()) == Recompute("never", "missing", "missing")
    assert recompute_of(("beliefs=all",)) == Recompute("all", "missing", "missing")
    assert recompute_of(("evidence=never", "all")) == Recompute("all", "all", "never"), "whatever comes first"
    with pytest.raises(BadInput, match="recompute"):
        recompute_of(("often",))


def gce(*arguments: str | int | Path) -> int:
    return cli.main([str(each) for each in arguments])


def analyzed(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> dict[str, Any]:
    capsys.readouterr()
    assert gce("analyze", *arguments, "--json") == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """10 answers in each of three tiers, under two strategies."""
    path = tmp_path_factory.mktemp("answers") / "answers.jsonl"
    assert gce("evaluate", *TOY, "--strategies", "zero-shot,multi-turn", "--n", 10, "--answers", path) == 0
    return path


def test_answers_of_an_evaluation_at_four_scales(evaluated: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = analyzed(capsys, evaluated)
    records = [json.loads(line) for line in evaluated.read_text().splitlines()[1:]]
    right = {
        mode: sum(each["right"] for each in records if each["mode"] == mode) for mode in ("zero-shot", "multi-turn")
    }
    assert [(each["label"], each["answers"], each["failed"]) for each in found["catalogue"]] == [
        (mode, 30, 0) for mode in right
    ]
    for mode, count in right.items():
        assert found["setups"]["accuracy"][mode]["value"] == pytest.approx(count / 30)
    (compared,) = found["comparisons"]
    assert (compared["first"], compared["second"], compared["n"]) == ("zero-shot", "multi-turn", 30)
    assert compared["gain"]["mean"]["value"] == pytest.approx((right["multi-turn"] - right["zero-shot"]) / 30)
    assert not found["training"] and not found["related"] and not found["evidence"]


def test_the_tables_fit_80_columns_and_a_next_command_is_named(
    evaluated: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("gce.app.commands.analyze.can_draw", lambda: True)
    capsys.readouterr()
    assert gce("analyze", evaluated) == 0
    out, err = capsys.readouterr()
    assert [line for line in out.splitlines() if len(line) > 80 and "  " in line] == []
    assert "association, not cause" in out or "was not tested" in out
    assert all(f"\n{title}\n" in f"\n{out}" for title in ("Catalogue", "Trajectories", "Setups", "Across setups"))
    assert err.splitlines()[-1] == f"next: gce analyze {evaluated} --out analysis.html"


def test_what_is_kept_is_not_computed_again(
    evaluated: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    keep = tmp_path / "analysis.json"
    first = analyzed(capsys, evaluated, "--keep", keep)

    def computed(*_given: Any) -> Any:
        raise AssertionError("computed")

    with monkeypatch.context() as patched:
        patched.setattr("gce.app.analysis.analysis._plain", computed)
        assert analyzed(capsys, evaluated, "--keep", keep) == first
        assert analyzed(capsys, evaluated, "--keep", keep, "--recompute", "never") == first
        assert gce("analyze", evaluated, "--keep", keep, "--recompute", "all") == cli.DEFECT, "it was computed"
    other = analyzed(capsys, evaluated, "--keep", tmp_path / "other.json", "--recompute", "never")
    assert other["setups"] == {} and other["comparisons"] == first["comparisons"]
    for damaged in ('{"gce analyze": "0.2.0", "kept": 3}', '{"gce analyze": "0.2.0"'):
        keep.write_text(damaged)
        assert gce("analyze", evaluated, "--keep", keep) == 2
        assert keep.read_text() == damaged


def test_verdicts_are_judged_again_on_request_and_the_file_stays_as_it_is(
    evaluated: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    held = evaluated.read_bytes()
    before = analyzed(capsys, evaluated)
    assert analyzed(capsys, evaluated, "--recompute", "beliefs=all") == before
    monkeypatch.setattr(toy_task, "ADDITION", stricter(toy_task.ADDITION))
    after = analyzed(capsys, evaluated, "--recompute", "beliefs=all")
    assert after["setups"]["accuracy"]["zero-shot"]["value"] == 0.0 < before["setups"]["accuracy"]["zero-shot"]["value"]
    assert analyzed(capsys, evaluated, "--recompute", "beliefs=missing") == before, "no judging has failed"
    assert evaluated.read_bytes() == held


@pytest.mark.slow
def test_variants_of_a_problem_are_judged_again_as_what_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Answers to questions with a user's opinion, whose posterior is another one."""
    answers = tmp_path / "agent.jsonl"
    agent = ("--task", "beliefs", "--model", "gce.testing.beliefs.models:agrees_with_the_user", "--tiers", "B1")
    assert gce("evaluate", *agent, "--strategies", "stated-opinion@0.8", "--n", 3, "--answers", answers) == 0
    before = analyzed(capsys, answers)
    assert "excess shift" in before["setups"]
    assert analyzed(capsys, answers, "--recompute", "beliefs=all") == before


@pytest.mark.slow
def test_the_effect_of_training_by_run_and_over_seeds(
    evaluated: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("safetensors", reason="checkpoints are safetensors")
    sizes = ("--problems", 3, "--rollouts", 2, "--iterations", 1, "--updates", 1, "--dev", 0, "--test", 4)
    for seed in (0, 1):
        assert gce("train", *TOY, *sizes, "--seed", seed, "--run-dir", tmp_path / "runs" / f"seed-{seed}") == 0
    (tmp_path / "runs" / "answers.jsonl").write_bytes(evaluated.read_bytes())
    (tmp_path / "runs" / "other.jsonl").write_text('{"text": "no answers of an evaluation"}\n')
    found = analyzed(capsys, tmp_path / "runs")
    assert [each["run"] for each in found["catalogue"]] == [
        *("seed-0", "seed-0", "seed-1", "seed-1", "answers.jsonl", "answers.jsonl")
    ]
    for seed in (0, 1):
        summary = json.loads((tmp_path / "runs" / f"seed-{seed}" / "summary.json").read_text())
        trained = found["training"][f"seed-{seed}"]
        assert trained["gain"]["mean"] == pytest.approx(summary["gain"]["mean"])
    ((name, (count, gain)),) = found["across_seeds"].items()
    assert count == 2 and name in {each["label"] for each in found["catalogue"]}
    means = [found["training"][f"seed-{seed}"]["gain"]["mean"]["value"] for seed in (0, 1)]
    assert gain["value"] == pytest.approx(sum(means) / 2)


@pytest.mark.slow
def test_runs_of_one_algorithm_with_other_settings_are_other_setups(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Their bases are one setup: nothing that differs has been used yet."""
    pytest.importorskip("safetensors", reason="checkpoints are safetensors")
    sizes = ("--problems", 3, "--rollouts", 2, "--iterations", 1, "--updates", 1, "--dev", 0, "--test", 4)
    for name, seed, rate in (("a", 0, "0.01"), ("b", 1, "0.01"), ("c", 0, "0.02")):
        more = ("--seed", seed, "--learning-rate", rate, "--run-dir", tmp_path / "runs" / name)
        assert gce("train", *TOY, *sizes, *more) == 0
    found = analyzed(capsys, tmp_path / "runs")
    told = {each["run"]: each["label"] for each in found["catalogue"]}
    assert told["a"] == told["b"] == "raft, learning_rate 0.01" and told["c"] == "raft, learning_rate 0.02"
    assert {each["label"] for each in found["catalogue"]} == {"not trained", told["a"], told["c"]}
    assert {name: count for name, (count, _) in found["across_seeds"].items()} == {told["a"]: 2}
    pairs = [("not trained", told["a"]), ("not trained", told["c"]), (told["a"], told["c"])]
    assert [(each["first"], each["second"]) for each in found["comparisons"]] == pairs
    assert gce("analyze", tmp_path / "runs") == 0
    shown = capsys.readouterr().out
    assert "optimizer.learning_rate" in shown and "optimizer.weight_decay" not in shown


@pytest.mark.slow
def test_a_page_is_written_once(evaluated: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib", reason="figures need matplotlib")
    page = tmp_path / "page.html"
    assert gce("analyze", evaluated, "--out", page) == 0
    assert all(words in page.read_text() for words in ("Catalogue", "Across setups", "<svg"))
    capsys.readouterr()
    assert gce("analyze", evaluated, "--out", page) == 2 and "--force" in capsys.readouterr().err
    assert gce("analyze", evaluated, "--out", page, "--force") == 0


def test_answers_are_scored_along_their_text_and_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script, answers, keep = (tmp_path / name for name in ("script.jsonl", "answers.jsonl", "analysis.json"))
    script.write_text('{"text": "Because of this.\\nAnswer: 3"}\n')
    model = ("--model", f"scripted:{script}")
    assert gce("evaluate", "--task", "toy_task:ADDITION", *model, "--n", 2, "--answers", answers) == 0
    first = analyzed(capsys, answers, *model, "--scored", "4", "--keep", keep)
    (found,) = first["evidence"].values()
    assert len(found["answers"]) == 4 and {each["line"] for each in found["answers"]} == {"Answer: 3"}
    assert [each["value"] for each in found["answer"]] == pytest.approx(
        np.mean([each["answer"] for each in found["answers"]], axis=0).tolist()
    )
    assert not first["other_model"]
    again = analyzed(capsys, answers, *model, "--scored", "4", "--keep", keep, "--recompute", "evidence=never")
    assert again == first
    fewer = analyzed(capsys, answers, *model, "--recompute", "evidence=never", "--keep", tmp_path / "none.json")
    assert fewer["evidence"] == {}
