"""What the shipped model was taught can be drawn again, byte for byte, and the command that teaches ends."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gce.app.wiring.models import shipped_model_path
from gce.domain.randomness import python_generator
from pretraining import corpus
from pretraining.corpus import STAGES, conversation, texts_for_tokens
from pretraining.tokenizer import train_tokenizer, write_tokenizer

ROOT = Path(__file__).parent.parent
SEED = 7
"""The one that the shipped model was made with. The tokenizer reads texts of the next seed, and steps are measured on
those of the one after."""
TAUGHT = "b117fbb392158dae9a02a735bb4ad258c3159d03e60d83dd7a5379297e69e047"
"""SHA-256 over the first 700 examples of each stage."""


def test_the_texts_are_those_that_the_shipped_model_was_taught_with() -> None:
    """Number 605 of the second stage draws tiers that nothing fits."""
    texts = hashlib.sha256()
    for stage in STAGES:
        for index in range(700):
            for turn in conversation(stage, SEED, index):
                texts.update(f"{turn.role}\n{turn.content}\n".encode())
    assert texts.hexdigest() == TAUGHT


@pytest.mark.parametrize("seed", [SEED + 1, SEED + 2])
def test_the_texts_of_the_tokenizer_and_of_the_measured_steps_can_be_drawn(seed: int) -> None:
    for stage in STAGES:
        for index in range(100):
            assert conversation(stage, seed, index)[-1].role == "assistant"


def test_a_tier_that_nothing_fits_is_left_for_another() -> None:
    (stage,) = [stage for stage in STAGES if stage.name == "steps"]
    rng = python_generator(SEED, "tiers")
    found = [corpus._instance_of_a_tier(stage, rng) for _ in range(2000)]
    assert 0 < sum(instance is None for instance in found) < 100


def test_no_text_is_drawn_from_the_rungs_below_the_tiers() -> None:
    for stage in STAGES:
        rng = python_generator(SEED, "rungs", stage.name)
        names = {corpus._tier(stage, rng)[0].name for _ in range(500)}
        assert names <= {"T0", "T1", "T2", "T3", "sequencing+resources", "resources+deadlines", "sequencing+deadlines"}


@pytest.mark.slow
def test_the_tokenizer_made_again_is_the_shipped_one(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    write_tokenizer(train_tokenizer(texts_for_tokens(SEED + 1), 1024), tmp_path)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        assert (tmp_path / name).read_bytes() == (shipped_model_path() / name).read_bytes(), name


@pytest.mark.slow
def test_pretraining_at_a_small_scale_ends_with_a_model(tmp_path: Path) -> None:
    """Every stage, a pool of examples each, through the command line."""
    for package in ("torch", "transformers", "tokenizers", "safetensors"):
        pytest.importorskip(package)
    command = [sys.executable, "-m", "pretraining", "train", "--directory", str(tmp_path), "--scale", "0.0001"]
    done = subprocess.run(command, cwd=ROOT, env=os.environ, capture_output=True, text=True, timeout=1500)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [line["stage_name"] for line in lines] == [stage.name for stage in STAGES]
    assert lines[-1]["loss"] < lines[0]["loss"]
    assert (tmp_path / "model.safetensors").stat().st_size > 10**6
    assert json.loads((tmp_path / "config.json").read_text())["model_type"] == "llama"


def test_the_digests_of_the_text_are_those_of_the_problems_in_it(tmp_path: Path) -> None:
    """Every solved example has one problem at least; nothing is left of the listening."""
    from gce.app.studies.controls.decontamination import read_digests
    from gce.domain.tasks import TASKS, draw_problem
    from gce.domain.tasks.scheduling.canonical import canonical_digest
    from pretraining.digests import instances, write_digests

    stage = STAGES[2]
    shown = [(conversation(stage, SEED, index), instances(stage, SEED, index)) for index in range(60)]
    for turns, problems in shown:
        text = "\n".join(turn.content for turn in turns if turn.role == "user")
        if "Answer" in turns[-1].content:
            assert problems and all(label in text for problem in problems for label in problem.labels)
    assert corpus.conversation(stage, SEED, 0) == shown[0][0], "nothing is left of the listening"
    count = write_digests(tmp_path / "digests", SEED, {stage.name: 60})
    task = TASKS["scheduling"]
    like = {draw_problem(task, next(iter(task.presets)), "T0", "test", 0).digest}
    found = read_digests(tmp_path / "digests", task, like)
    assert found.found == {canonical_digest(problem) for _, problems in shown for problem in problems}
    assert len(found.found) == count > 40


def test_how_much_was_drawn_is_read_from_the_log(tmp_path: Path) -> None:
    """The pool that a stage began last was drawn, though little of it was trained on."""
    from pretraining.digests import drawn_pools

    lines = [{"stage_name": name, "pool": pool} for name, pool in (("look-ups", 1), ("look-ups", 2), ("steps", 1))]
    (tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, lines)))
    assert drawn_pools(tmp_path / "log.jsonl") == {"look-ups": 3, "steps": 2}
