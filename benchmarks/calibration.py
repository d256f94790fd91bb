"""Whether paired tests reject as often as they should: `python -m benchmarks.calibration ANSWERS.jsonl`.

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
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gce.domain.randomness import generator
from gce.domain.statistics import interval, mcnemar, sign_flip_p

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
        counts["over tiers"] += sign_flip_p([change.tolist() for change in changes], rng, repetitions=DRAWN) < LEVEL
    return counts


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
    parser.add_argument("answers", type=Path, metavar="ANSWERS.jsonl")
    parser.add_argument("--n", type=int, default=200, help="problems a tier (default 200)")
    parser.add_argument("--repetitions", type=int, default=200, help="default 200")
    options = parser.parse_args(None if argv is None else list(argv))
    samples = read(options.answers)
    for planted in (False, True):
        counts = rejections(samples, n=options.n, repetitions=options.repetitions, planted=planted)
        for test, count in counts.items():
            share = interval(count, options.repetitions)
            row = {
                "what": "ten points planted" if planted else "A/A",
                "test": test,
                "rejected": count,
                "of": options.repetitions,
                "share": round(share.share, 4),
                "low": round(share.low, 4),
                "high": round(share.high, 4),
            }
            print(json.dumps(row))
    return 0


if __name__ == "__main__":
    sys.exit(main())
