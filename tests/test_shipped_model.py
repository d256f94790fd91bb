"""The shipped model is what its card says, and speaks the language that the code speaks."""

from __future__ import annotations

import hashlib
import json

import pytest

from gce.app.resolve import shipped_model_path
from gce.domain.tasks.scheduling.language import language_fingerprint

PATH = shipped_model_path()
CARD = json.loads((PATH / "card.json").read_text())


def test_the_code_speaks_the_language_that_the_model_was_taught():
    """Who changes a wording, a grammar or a call pretrains again: python -m pretraining."""
    assert language_fingerprint() == CARD["language"]


def test_the_tokenizer_is_the_one_on_the_card():
    """A model reads ids: another tokenizer is another language."""
    assert hashlib.sha256((PATH / "tokenizer.json").read_bytes()).hexdigest() == CARD["tokenizer"]


def test_the_files_are_small_and_the_context_is_long():
    """At most 12 MB; at least 4,096 tokens."""
    assert sum(file.stat().st_size for file in PATH.iterdir()) <= 12_000_000
    assert json.loads((PATH / "config.json").read_text())["max_position_embeddings"] >= 4096


def test_no_tier_that_the_card_counts_combines_all_three_families():
    """The card counts correct traces in the teachers' text for the training tiers alone."""
    for shares in CARD["share_of_correct_traces"].values():
        assert set(shares) == {"T0", "T1", "T2", "T3", "T4"}


def test_mlx_lm_loads_it_and_every_small_number_and_label_is_one_token():
    """Plain `mlx_lm.load`, 1 to 6 million parameters."""
    pytest.importorskip("mlx.core")
    from mlx.utils import tree_flatten
    from mlx_lm import load

    model, tokenizer = load(str(PATH))
    assert 1_000_000 <= sum(array.size for _, array in tree_flatten(model.parameters())) <= 6_000_000
    pieces = [f" {number}" for number in range(100)] + [f" {chr(code)}" for code in range(65, 91)]
    assert all(len(tokenizer.encode(piece, add_special_tokens=False)) == 1 for piece in pieces)
    rendered = tokenizer.apply_chat_template([{"role": "user", "content": "Plan"}], add_generation_prompt=True)
    assert tokenizer.decode(rendered) == "<|user|>Plan<|end|><|assistant|>"
