"""The tokenizer of `gce-tiny`: byte-level BPE in which every number below 100 and every label is one token."""

from __future__ import annotations

import json
import string
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

__all__ = ["CHAT_TEMPLATE", "SPECIAL_TOKENS", "VOCABULARY", "train_tokenizer", "write_tokenizer"]

VOCABULARY = 2816
"""Entries of the shipped tokenizer."""
SPECIAL_TOKENS = ("<|pad|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>")
CHAT_TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>"
    "{% if message['role'] == 'assistant' %}{% generation %}{{ message['content'] }}<|end|>{% endgeneration %}"
    "{% else %}{{ message['content'] }}<|end|>{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
"""What stands between `generation` and `endgeneration` is what an assistant writes, its end token too: trainers such as
TRL with `assistant_only_loss` learn from that alone. The tag is one of transformers; plain Jinja does not know it."""
PIECES = r"\n| ?[A-Za-z]+| ?[0-9]+|[^\sA-Za-z0-9]|\s"
NUMBERS_REPEATED = 400


def train_tokenizer(texts: Iterable[str], vocabulary: int) -> Any:
    """A `tokenizers.Tokenizer` of at most `vocabulary` entries; any text can be encoded, byte by byte if need be."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )

    def with_numbers() -> Iterator[str]:
        yield from texts
        everything = [f"{space}{number}" for number in range(100) for space in (" ", "")]
        everything += [f" {letter}" for letter in string.ascii_letters]
        for _ in range(NUMBERS_REPEATED):
            yield from everything

    tokenizer.train_from_iterator(with_numbers(), trainer)
    return tokenizer


def write_tokenizer(tokenizer: Any, directory: Path) -> None:
    """The files that `transformers` and `mlx_lm` read."""
    tokenizer.save(str(directory / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "pad_token": "<|pad|>",
        "eos_token": "<|end|>",
        "additional_special_tokens": ["<|system|>", "<|user|>", "<|assistant|>"],
        "clean_up_tokenization_spaces": False,
        "model_max_length": 4096,
        "chat_template": CHAT_TEMPLATE,
    }
    (directory / "tokenizer_config.json").write_text(json.dumps(config, indent=1))
