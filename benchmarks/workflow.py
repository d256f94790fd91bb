"""How well `gce workflow` finds what was done in rendered recordings: `python -m benchmarks.workflow tuning|held-out DIR`.

Renders the recordings into DIR, where they are not there yet (about 20 minutes), and prints a table. Intervals are
percentiles of 2,000 bootstrap samples of recordings. Needs the extras `browser` and `ocr`.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from attrs import frozen

from benchmarks import recordings, recordings_held_out
from gce.app.evaluation.recordings import read_recording
from gce.domain.workflow.steps import Step

__all__ = ["Counts", "compared"]

SETS = {"tuning": recordings.scenes, "held-out": recordings_held_out.scenes}
PIXELS, SECONDS = 12.0, 0.2
LOOSE = 0.6
"""Seconds by which typing, scrolling and pages may be off: they last."""
SAMPLES = 2000


@frozen
class Counts:
    """Of one recording: by kind, (found and true, true, found); and its texts."""

    kinds: Mapping[str, tuple[int, int, int]]
    without_effect: tuple[int, int]
    """Clicks that changed nothing: how many, and how many steps were found for them."""
    characters: tuple[int, int]
    """Of typed texts: right ones, all."""


def compared(steps: Sequence[Step], log: Sequence[Mapping[str, Any]]) -> Counts:
    """What was found beside what was done."""
    kinds = {}
    right = total = 0
    for kind in ("click", "type", "scroll", "page"):
        true = [each for each in log if each["kind"] == kind and each.get("visible", True)]
        left = [step for step in steps if step.kind == kind]
        found, matched = len(left), 0
        for each in true:
            fits = [step for step in left if _fits(each, step)]
            step = min(fits, key=lambda step: abs(step.time - each["t"]), default=None)
            if step is not None:
                left.remove(step)
                matched += 1
            if kind == "type":
                total += len(each["text"])
                right += 0 if step is None else len(each["text"]) - min(_edits(step.text, each["text"]), len(each["text"]))
        kinds[kind] = (matched, len(true), found)
    unseen = [each for each in log if each["kind"] == "click" and not each["visible"]]
    hits = sum(any(step.kind == "click" and _fits(each, step) for step in steps) for each in unseen)
    return Counts(kinds, (len(unseen), hits), (right, total))


def _fits(true: Mapping[str, Any], step: Step) -> bool:
    if true["kind"] != "click":
        return abs(step.time - true["t"]) <= LOOSE
    return abs(step.time - true["t"]) <= SECONDS + 1e-6 and np.hypot(step.x - true["x"], step.y - true["y"]) <= PIXELS


def _edits(one: str, other: str) -> int:
    """Levenshtein distance."""
    row = list(range(len(other) + 1))
    for n, a in enumerate(one, 1):
        before, row[0] = row[0], n
        for m, b in enumerate(other, 1):
            before, row[m] = row[m], min(row[m] + 1, row[m - 1] + 1, before + (a != b))
    return row[-1]


def _f1(kind: str) -> Callable[[Sequence[Counts]], float]:
    def value(found: Sequence[Counts]) -> float:
        matched, true, detected = (sum(each.kinds[kind][place] for each in found) for place in range(3))
        return 2 * matched / max(true + detected, 1)

    return value


def _characters(found: Sequence[Counts]) -> float:
    return sum(each.characters[0] for each in found) / max(sum(each.characters[1] for each in found), 1)


def _interval(found: Sequence[Counts], value: Callable[[Sequence[Counts]], float]) -> tuple[float, float]:
    generator = np.random.Generator(np.random.PCG64(0))
    drawn = generator.integers(0, len(found), (SAMPLES, len(found)))
    low, high = np.percentile([value([found[n] for n in row]) for row in drawn], (2.5, 97.5))
    return float(low), float(high)


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.workflow", description=__doc__)
    parser.add_argument("set", choices=SETS)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    scenes = SETS[options.set]()
    with recordings.chromium() as browser:
        made = [(scene, *recordings.record(browser, scene, options.folder)) for scene in scenes]
    acted, noise = [], []
    seconds = spent = cpu = quiet = 0.0
    for scene, path, log in made:
        begun, begun_cpu = time.perf_counter(), time.process_time()
        found = read_recording(path).workflow
        spent, cpu = spent + time.perf_counter() - begun, cpu + time.process_time() - begun_cpu
        seconds += found.seconds
        counts = compared(found.steps, log)
        if scene.noise:
            quiet += found.seconds
            noise.append(len(found.steps))
        else:
            acted.append(counts)
        row = {"name": scene.name, "kinds": counts.kinds, "characters": counts.characters, "steps": len(found.steps)}
        print(json.dumps(row), file=sys.stderr, flush=True)
    print(f"| {options.set}, {len(acted)} recordings | value (95 %) | found and true, true, found |\n|---|---|---|")
    for kind in ("click", "type", "scroll", "page"):
        low, high = _interval(acted, _f1(kind))
        matched, true, detected = (sum(each.kinds[kind][place] for each in acted) for place in range(3))
        print(f"| {kind}, F1 | {_f1(kind)(acted):.3f} ({low:.3f}-{high:.3f}) | {matched}, {true}, {detected} |")
    low, high = _interval(acted, _characters)
    right, total = (sum(each.characters[place] for each in acted) for place in range(2))
    print(f"| typed characters right | {_characters(acted):.3f} ({low:.3f}-{high:.3f}) | {right} of {total} |")
    unseen, hits = (sum(each.without_effect[place] for each in acted) for place in range(2))
    print(f"| clicks without a visible effect that were found | | {hits} of {unseen} |")
    print(f"| steps a minute in noise | {60 * sum(noise) / max(quiet, 1):.2f} | {sum(noise)} in {quiet:.0f} s |")
    print(f"| times real time | {seconds / spent:.1f}, of processor time {seconds / cpu:.1f} | {seconds:.0f} s |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
