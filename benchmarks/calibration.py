"""Whether paired tests reject as often as they should: `python -m benchmarks.calibration ANSWERS.jsonl | --simulated`.

`--simulated` draws 10,000 data sets without a difference for each test, 200 problems a tier, and counts rejections at
5 %: graded rewards (continuous), right and wrong answers (discrete), families of comparisons with Holm's correction,
and studies of several seeds with and without differences between seeds. An interval rejects where it leaves out 0.

ANSWERS are several samples of each problem, as `gce evaluate --samples 8 --temperature 0.8 --answers FILE` writes them.
Each repetition draws problems of each tier anew, with replacement, and two different samples of each: two evaluations
of one model, which differ by chance alone (A/A). Then one of them gets ten points fewer in each tier, or where there
are not as many, ten more. Counted is how often p is below 0.05: with the exact test over all problems (McNemar), which
compares modes, with the same test in each tier alone, and with the test over tiers, which compares conditions of a
study.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gce.domain.paired import hierarchical_bootstrap
from gce.domain.randomness import generator
from gce.domain.statistics import (
    Estimate,
    holm,
    interval,
    mcnemar,
    paired_difference,
    sign_flip_test,
    stratified_bootstrap,
)

LEVEL = 0.05
POINTS = 0.1
DRAWN = 2000
"""Signs drawn for each p; a study draws more."""
Samples = Mapping[str, np.ndarray[Any, np.dtype[Any]]]
"""By tier, zeros and ones, (problems, samples)."""


def read(path: Path) -> Samples:
    """Stored answers; every problem must have as many samples, at least two."""
    found: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    if not path.is_file():
        raise SystemExit(f"no answers in {path}: write them with gce evaluate --samples 8 --temperature 0.8 --answers")
    with path.open(encoding="utf-8") as lines:
        for answer in map(json.loads, lines):
            if "problem" not in answer:
                continue  # The first line says what was asked.
            found[answer["tier"]][answer["problem"]].append(int(answer["right"]))
    sizes = {len(samples) for problems in found.values() for samples in problems.values()}
    if not sizes or min(sizes) < 2 or len(sizes) > 1:
        raise SystemExit(f"expected as many samples, at least two, of every problem in {path}, got {sorted(sizes)}")
    return {tier: np.array(list(problems.values())) for tier, problems in sorted(found.items())}


def rejections(samples: Samples, *, n: int, repetitions: int, planted: bool) -> dict[str, int]:
    """How many of the repetitions each test rejects."""
    rng = generator(0, "calibration", n, planted)
    counts = dict.fromkeys(("McNemar", "over tiers", *(f"McNemar, {tier} alone" for tier in samples)), 0)
    for _ in range(repetitions):
        changes = []
        for tier, answers in samples.items():
            problems = answers[rng.integers(0, len(answers), n)]
            places = rng.permuted(np.tile(np.arange(answers.shape[1]), (n, 1)), axis=1)[:, :2]
            one, other = np.take_along_axis(problems, places, axis=1).T
            changes.append((_changed(other, rng) if planted else other) - one)
            counts[f"McNemar, {tier} alone"] += _p(changes[-1]) < LEVEL
        counts["McNemar"] += _p(np.concatenate(changes)) < LEVEL
        counts["over tiers"] += (
            sign_flip_test([change.tolist() for change in changes], rng, repetitions=DRAWN)[1] < LEVEL
        )
    return counts


Numbers = np.ndarray[Any, np.dtype[Any]]
Null = Callable[[np.random.Generator, int], bool]
"""Draws a data set without a difference, of so many problems a tier; whether the test rejects."""
FEWER = 999
"""Signs or resamples drawn for each of many data sets."""
SEED_DEVIATION = 0.02
"""Standard deviation of the true difference between seeds; that of a mean over 200 problems is 0.02 too."""


def _rewards(rng: np.random.Generator, n: int) -> Numbers:
    """Differences of the graded rewards of two evaluations with the same means: (1, n)."""
    mean = rng.uniform(0.05, 0.95, n)
    drawn = rng.beta(4 * mean, 4 * (1 - mean), (2, n))
    return np.asarray(drawn[1:] - drawn[0])


def _tiers(rng: np.random.Generator, n: int) -> Iterator[Numbers]:
    return (_rewards(rng, n)[0] for _ in range(3))


def _unequal(rng: np.random.Generator, n: int) -> Iterator[Numbers]:
    return (tier + gain for tier, gain in zip(_tiers(rng, n), (-0.2, 0.0, 0.2), strict=True))


def _outcomes(rng: np.random.Generator, n: int, rows: int = 1) -> Numbers:
    """Differences of right and wrong answers of `rows` evaluations from one: (rows, n)."""
    right = rng.random((rows + 1, n)) < rng.beta(0.5, 0.5, n)
    return np.asarray(right[1:].astype(int) - right[0])


def _study(rng: np.random.Generator, n: int, seeds: int, deviation: float) -> Numbers:
    """Differences by seed and problem, of mean 0 over all seeds and problems: (seeds, n)."""
    each_seed, each_problem = rng.normal(0, deviation, (seeds, 1)), rng.normal(0, 0.1, n)
    noise = np.concatenate([_rewards(rng, n) for _ in range(seeds)])
    return np.asarray(each_seed + each_problem + noise)


def _misses(found: Estimate) -> bool:
    return not found.low <= 0.0 <= found.high


def _signs(rng: np.random.Generator, *tiers: Numbers) -> float:
    return sign_flip_test([tier.tolist() for tier in tiers], rng, repetitions=FEWER)[1]


def _bootstrap(rng: np.random.Generator, *tiers: Numbers) -> Estimate:
    return stratified_bootstrap([tier.tolist() for tier in tiers], rng, repetitions=FEWER)


def _wald(changes: Numbers) -> Estimate:
    return paired_difference([(int((changes > 0).sum()), int((changes < 0).sum()), changes.size)])


def _flips_over_problems(study: Callable[..., Numbers], rng: np.random.Generator, n: int) -> bool:
    return _signs(rng, study(rng, n).mean(axis=0)) < LEVEL


def _hierarchical(study: Callable[..., Numbers], rng: np.random.Generator, n: int) -> bool:
    return _misses(hierarchical_bootstrap([study(rng, n).tolist()], rng, repetitions=FEWER))


def nulls() -> Iterator[tuple[str, str, Null]]:
    """What is drawn, the test, and the function that does both."""
    yield "graded rewards, 1 tier", "sign flips", lambda rng, n: _signs(rng, *_rewards(rng, n)) < LEVEL
    yield "graded rewards, 1 tier", "paired bootstrap", lambda rng, n: _misses(_bootstrap(rng, *_rewards(rng, n)))
    yield "graded rewards, 3 tiers", "sign flips", lambda rng, n: _signs(rng, *_tiers(rng, n)) < LEVEL
    yield "graded rewards, 3 tiers", "paired bootstrap", lambda rng, n: _misses(_bootstrap(rng, *_tiers(rng, n)))
    unequal = "graded rewards, 3 tiers that gain -0.2, 0 and 0.2"
    yield unequal, "sign flips", lambda rng, n: _signs(rng, *_unequal(rng, n)) < LEVEL
    yield unequal, "paired bootstrap", lambda rng, n: _misses(_bootstrap(rng, *_unequal(rng, n)))
    yield "right or wrong, 1 tier", "McNemar, exact", lambda rng, n: _p(_outcomes(rng, n)) < LEVEL
    yield "right or wrong, 1 tier", "interval of Bonett and Price", lambda rng, n: _misses(_wald(_outcomes(rng, n)))
    yield (
        *("right or wrong, 5 rows against one", "McNemar, Holm: any rejected"),
        lambda rng, n: min(holm([_p(row) for row in _outcomes(rng, n, 5)])) < LEVEL,
    )
    differing = [(3, SEED_DEVIATION, "differ"), (10, SEED_DEVIATION, "differ"), (3, 5 * SEED_DEVIATION, "differ much")]
    for seeds, deviation, words in [(3, 0.0, "do not differ"), *differing]:
        what = f"study of {seeds} seeds that {words}"
        study = partial(_study, seeds=seeds, deviation=deviation)
        yield what, "sign flips over problems", partial(_flips_over_problems, study)
        yield what, "hierarchical bootstrap", partial(_hierarchical, study)


def _p(changes: np.ndarray[Any, np.dtype[Any]]) -> float:
    return mcnemar(int((changes > 0).sum()), int((changes < 0).sum()))


def _changed(answers: np.ndarray[Any, np.dtype[Any]], rng: np.random.Generator) -> np.ndarray[Any, np.dtype[Any]]:
    """Ten points fewer right, or where fewer than ten points are, ten more."""
    share = answers.mean()
    lose = share >= POINTS
    pool = answers == lose
    flipped = pool & (rng.random(len(answers)) < POINTS / (share if lose else 1 - share))
    return np.where(flipped, 1 - answers, answers)


def main(argv: Iterable[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.calibration",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("answers", type=Path, metavar="ANSWERS.jsonl", nargs="?")
    parser.add_argument("--simulated", action="store_true", help="draw data sets in place of stored answers")
    parser.add_argument("--n", type=int, default=200, help="problems a tier (default 200)")
    parser.add_argument("--repetitions", type=int, help="default 200, with --simulated 10,000")
    options = parser.parse_args(None if argv is None else list(argv))
    if options.simulated == (options.answers is not None):
        parser.error("expected either ANSWERS.jsonl or --simulated")
    if options.simulated:
        repetitions = options.repetitions or 10_000
        for what, test, rejects in nulls():
            rng = generator(0, "simulated", what, test)
            _print(what, test, sum(rejects(rng, options.n) for _ in range(repetitions)), repetitions)
        return 0
    samples, repetitions = read(options.answers), options.repetitions or 200
    for planted in (False, True):
        counts = rejections(samples, n=options.n, repetitions=repetitions, planted=planted)
        for test, count in counts.items():
            _print("ten points planted" if planted else "A/A", test, count, repetitions)
    return 0


def _print(what: str, test: str, count: int, repetitions: int) -> None:
    share = interval(count, repetitions)
    row = {"what": what, "test": test, "rejected": count, "of": repetitions}
    limits = {"share": share.share, "low": share.low, "high": share.high}
    print(json.dumps(row | {name: round(value, 4) for name, value in limits.items()}), flush=True)


if __name__ == "__main__":
    sys.exit(main())
