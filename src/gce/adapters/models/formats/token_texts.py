"""The text of each token of a model in the Hugging Face layout, read from its tokenizer alone."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

__all__ = ["texts_of_tokens"]


def texts_of_tokens(directory: Path, ids: Sequence[int]) -> list[str] | None:
    """The text of each token; None without the package tokenizers, or a file that it reads.

    A character that several tokens make is not in the text of one of them alone.
    """
    tokenizer = _tokenizer(directory / "tokenizer.json")
    if tokenizer is None:
        return None
    return [str(tokenizer.decode([id_], skip_special_tokens=True)) for id_ in ids]


@lru_cache(maxsize=4)
def _tokenizer(file: Path) -> Any:
    try:
        from tokenizers import Tokenizer

        return Tokenizer.from_file(str(file))
    except Exception:  # tokenizers raises no other kind.
        return None
