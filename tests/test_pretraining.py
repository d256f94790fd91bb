"""What the shipped model was taught can be drawn again, byte for byte, and the command that teaches ends."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from gce.app.wiring.models import shipped_model_path
from gce.domain.randomness import python_generator
from gce.domain.tasks import TASKS, draw_problems
from gce.domain.tasks.scheduling.alphabets import CODE_WORDS, LOWER, UPPER
from gce.domain.tasks.scheduling.generate import CREW, RESOURCE_NAMES
from pretraining import corpus
from pretraining.corpus import STAGES, conversation, texts_for_tokens
from pretraining.tokenizer import VOCABULARY, train_tokenizer, write_tokenizer
from pretraining.words import NAMES

ROOT = Path(__file__).parent.parent
SEED = 7
"""The one that the shipped model was made with. The tokenizer reads texts of the next seed, and steps are measured on
those of the one after."""
TAUGHT = "889dc50ece96c44ee26f8adb7da4984c9bb4497e2a90ab9a715dcbdb9f4fc62c"
"""SHA-256 over the first 700 examples of each stage."""


@pytest.mark.slow
def test_the_texts_are_those_that_the_shipped_model_was_taught_with() -> None:
    """Number 605 of the second stage draws tiers that nothing fits."""
    texts = hashlib.sha256()
    for stage in STAGES:
        for index in range(700):
            for turn in conversation(stage, SEED, index):
                texts.update(f"{turn.role}\n{turn.content}\n".encode())
    assert texts.hexdigest() == TAUGHT


@pytest.mark.slow
@pytest.mark.parametrize("seed", [SEED + 1, SEED + 2])
def test_the_texts_of_the_tokenizer_and_of_the_measured_steps_can_be_drawn(seed: int) -> None:
    for stage in STAGES:
        for index in range(100):
            assert conversation(stage, seed, index)[-1].role == "assistant"


@pytest.mark.slow
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
    write_tokenizer(train_tokenizer(texts_for_tokens(SEED + 1), VOCABULARY), tmp_path)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        assert (tmp_path / name).read_bytes() == (shipped_model_path() / name).read_bytes(), name


def _pretrain(directory: Path, *options: str) -> None:
    command = [
        sys.executable,
        "-m",
        "pretraining",
        "train",
        "--directory",
        str(directory),
        "--scale",
        "0.001",
        *options,
    ]
    done = subprocess.run(command, cwd=ROOT, env=os.environ, capture_output=True, text=True, timeout=1500)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_pretraining_at_a_small_scale_ends_with_a_model_whether_or_not_it_was_stopped(tmp_path: Path) -> None:
    """Every stage, through the command line; stopped in the middle of a pool of examples and taken up again."""
    for package in ("torch", "transformers", "tokenizers", "safetensors"):
        pytest.importorskip(package)
    from pretraining.digests import drawn_examples

    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    _pretrain(whole)
    lines = [json.loads(line) for line in (whole / "log.jsonl").read_text().splitlines()]
    assert [line["stage_name"] for line in lines] == [stage.name for stage in STAGES]
    assert lines[-1]["loss"] < lines[0]["loss"]
    small = [evolve(stage, tokens=int(stage.tokens * 0.001)) for stage in STAGES]
    assert drawn_examples(SEED, 2, small) == {line["stage_name"]: line["examples"] for line in lines}
    assert (whole / "model.safetensors").stat().st_size > 10**6
    assert json.loads((whole / "config.json").read_text())["model_type"] == "llama"
    _pretrain(stopped, "--stop-at", "0.3")
    weak = (stopped / "model.safetensors").read_bytes()
    assert json.loads((stopped / "log.jsonl").read_text().splitlines()[-1])["tokens"] < lines[-1]["tokens"]
    _pretrain(stopped)
    assert (stopped / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes() != weak


def test_every_label_of_the_alphabets_is_a_name_that_is_drawn_anew_and_no_number_or_step_is() -> None:
    """With a space in front and, where it is one token, without."""
    pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    pytest.importorskip("torch")
    from pretraining import training

    tokenizer = tokenizers.Tokenizer.from_file(str(shipped_model_path() / "tokenizer.json"))
    names = training.names_of(tokenizer)
    word_of = dict(zip(names.rows, names.words, strict=True))
    for label in (*UPPER, *LOWER, *CODE_WORDS):
        (spaced,) = tokenizer.encode(f" {label}").ids
        bare = tokenizer.encode(label).ids
        assert spaced in word_of
        assert len(bare) > 1 or word_of[bare[0]] == word_of[spaced]
    steps = "Order Free Job Rest takes needs from out wait left start end running after for before planned later Answer"
    for word in (*steps.split(), *map(str, range(100))):
        assert not {tokenizer.encode(f" {word}").ids[0]} & {*word_of}, word


def test_names_drawn_anew_differ_between_steps_and_tell_a_space_in_front_by_one_channel() -> None:
    torch = pytest.importorskip("torch")
    from pretraining.start import READ, WRITTEN, Names, redraw

    names = Names(rows=(1, 3, 4), words=(0, 0, 1), spaced=(True, False, True))
    embeddings, head = torch.zeros(5, 128), torch.zeros(5, 128)
    redraw(embeddings, head, names, 0.08, 7, "step", 1)
    first = embeddings.clone()
    assert not first[[0, 2]].any() and not head[[0, 2]].any()
    differing = (first[1] != first[3]).nonzero().flatten().tolist()
    assert differing == [1]
    assert first[1, 1] == first[4, 1] == -first[3, 1] > 0
    likeness = torch.cosine_similarity(first[:, None, READ], head[None, :, WRITTEN], dim=2)
    assert torch.allclose(likeness[[1, 3, 4, 1], [1, 3, 4, 3]], torch.ones(4)) and likeness[1, 4] < 0.9
    redraw(embeddings, head, names, 0.08, 7, "step", 2)
    assert (embeddings[1, READ] != first[1, READ]).all()
    redraw(embeddings, head, names, 0.08, 7, "step", 1)
    assert torch.equal(embeddings, first)


def test_a_head_of_the_start_writes_the_name_that_stood_before_an_earlier_copy_of_the_number_at_hand() -> None:
    """Mostly, and before any training: "Lamp 12, Fox 30, Roof 7 ... 30" -> Fox, read from what the head adds."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    from pretraining.start import WRITTEN, redraw
    from pretraining.training import DEVIATION, model_from_nothing, names_of

    tokenizer = tokenizers.Tokenizer.from_file(str(shipped_model_path() / "tokenizer.json"))
    model = model_from_nothing(tokenizer, SEED)
    names = names_of(tokenizer)
    labels = ["Lamp", "Fox", "Roof", "Owl", "Tile", "Hat"]
    hours = [12, 30, 7, 21, 16, 4]
    listed = ",".join(f" {label} {hour}" for label, hour in zip(labels, hours, strict=True))
    written: dict[int, Any] = {}
    for block in (2, 3):
        attention = model.model.layers[block].self_attn
        attention.o_proj.register_forward_pre_hook(lambda _, given, block=block: written.update({block: given[0]}))
    rows = [tokenizer.encode(f" {label}").ids[0] for label in labels]
    right: Counter[int] = Counter()
    for step in range(10):
        redraw(model.model.embed_tokens.weight, model.lm_head.weight, names, DEVIATION, SEED, "test", step)
        for label, hour in zip(labels, hours, strict=True):
            with torch.no_grad():
                model(input_ids=torch.tensor([tokenizer.encode(f"{listed}. {hour}").ids]))
                for block, heads in written.items():
                    output = model.model.layers[block].self_attn.o_proj.weight[WRITTEN, 96:] @ heads[0, -1, 96:]
                    scores = model.lm_head.weight[rows][:, WRITTEN] @ output
                    right[block] += labels[int(scores.argmax())] == label
    assert min(right[2], right[3]) >= 48, right  # of 60, found 52 and 58; by chance 10


# What measures a shift is not taught


@pytest.mark.slow
def test_no_four_words_in_a_row_of_the_paraphrased_prompts_are_in_the_corpus() -> None:
    task = TASKS["scheduling-reworded"]
    runs: set[str] = set()
    for tier in task.presets["grounded"]:
        for problem in draw_problems(task, "grounded", tier.name, "train", 5):
            for line in problem.prompt[0].content.split("\n"):
                words = re.findall(r"[A-Za-z]+", line.partition("Answer:")[0])
                fixed = [word for word in words if len(word) > 1 and word not in problem.instance.labels]
                runs.update(" ".join(fixed[at : at + 4]) for at in range(len(fixed) - 3))
    assert len(runs) > 30
    kinds = set(RESOURCE_NAMES) | {CREW}
    runs = {run for run in runs if not kinds.intersection(run.split())}
    for stage in STAGES:
        for index in range(600):
            for turn in conversation(stage, SEED, index):
                if turn.role == "user":
                    text = " ".join(re.findall(r"[A-Za-z]+", turn.content))
                    assert not [run for run in runs if f" {run} " in f" {text} "], turn.content


@pytest.mark.slow
def test_no_job_of_the_corpus_has_a_name_from_the_alphabets_of_the_shifts() -> None:
    held_out = {*LOWER, *CODE_WORDS}
    assert not held_out.intersection((*UPPER, *NAMES))
    for stage in STAGES:
        rng = python_generator(SEED, "names", stage.name)
        for _ in range(50):
            instance = corpus._instance(stage, rng)
            assert not held_out.intersection(instance.labels)
            assert len(instance.labels) <= stage.jobs[1] <= 14


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


def test_whole_pools_are_counted() -> None:
    """A stage of few tokens ends in its first pool, one of more tokens than a pool has in a later one."""
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    pytest.importorskip("tokenizers")
    from pretraining.digests import drawn_examples
    from pretraining.training import POOL

    few, more = (evolve(STAGES[0], name=name, tokens=tokens) for name, tokens in (("few", 1), ("more", 150_000)))
    found = drawn_examples(SEED, 2, (few, more))
    assert found["few"] == 2 * POOL and found["more"] == 2 * found["few"]
