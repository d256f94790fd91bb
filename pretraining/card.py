"""The model card: what the shipped model is, what it was taught, and how often its teachers were right."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from attrs import asdict

from gce.domain.randomness import python_generator
from gce.domain.statistics import interval
from gce.domain.tasks import TASKS, draw_problems
from gce.domain.tasks.scheduling.language_fingerprint import language_fingerprint
from gce.domain.tasks.scheduling.verify import verify
from pretraining.corpus import FORMATS, STAGES, careless_response

__all__ = ["correct_shares", "write_card"]


def correct_shares(count: int = 400) -> dict[str, dict[str, list[float]]]:
    """By stage and tier: share of careless traces whose answer is right, with its 95 % interval.

    Measured on training problems of the tiers themselves, which pretraining never draws. T5 is left out: no
    pretraining text combines all three families.
    """
    task = TASKS["scheduling"]
    shares: dict[str, dict[str, list[float]]] = {}
    for tier in task.training_tiers("grounded"):
        problems = draw_problems(task, "grounded", tier, "train", count, seed=1)
        for stage in STAGES:
            right = 0
            for problem in problems:
                rng = python_generator("shares", stage.name, problem.key)
                right += verify(problem.instance, careless_response(problem.instance, rng, stage)).right
            found = interval(right, count)
            shares.setdefault(stage.name, {})[tier] = [round(x, 4) for x in (found.share, found.low, found.high)]
    return shares


def write_card(directory: Path, log: Path, seed: int, processes: int) -> None:
    """`card.json` beside the weights; all that `python -m pretraining train` needs to make them again is in it."""
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    last = lines[-1]
    steps = [line["steps_right"] for line in lines if "steps_right" in line][-1]
    tokenizer = (directory / "tokenizer.json").read_bytes()
    card: dict[str, Any] = {
        "name": "gce-tiny",
        "what": "A demonstration policy for the loop of gce, not a language model for use.",
        "language": language_fingerprint(),
        "tokenizer": hashlib.sha256(tokenizer).hexdigest(),
        "seed": seed,
        "processes": processes,
        "tokens": last["tokens"],
        "hours": round(last["seconds"] / 3600, 2),
        "last_loss": round(last["loss"], 4),
        "steps_right": steps,
        "formats": FORMATS,
        "stages": [asdict(stage) for stage in STAGES],
        "share_of_correct_traces": correct_shares(),
    }
    (directory / "card.json").write_text(json.dumps(card, indent=1) + "\n")
