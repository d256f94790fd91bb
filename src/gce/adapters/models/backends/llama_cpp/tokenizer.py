"""The tokenizer and the chat template in a GGUF file, with the methods of one of transformers'."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import llama_cpp as api

from gce.adapters.models.backends.llama_cpp.library import GgufModel

__all__ = ["GgufTokenizer"]


class GgufTokenizer:
    """Text to tokens and back."""

    def __init__(self, model: GgufModel) -> None:
        self._vocabulary = model.vocabulary
        tokens = range(model.tokens)
        named = {
            "bos_token": api.llama_vocab_bos(self._vocabulary),
            "eos_token": api.llama_vocab_eos(self._vocabulary),
            "pad_token": api.llama_vocab_pad(self._vocabulary),
        }
        self.bos_token_id, self.eos_token_id = (
            None if named[kind] < 0 else int(named[kind]) for kind in ("bos_token", "eos_token")
        )
        self.ends = [i for i in tokens if api.llama_vocab_is_eog(self._vocabulary, i)]
        """All tokens that end a turn or a text."""
        self.all_special_ids = [i for i in tokens if api.llama_vocab_is_control(self._vocabulary, i)]
        self.added_tokens_decoder: dict[int, Any] = {}
        self.special_tokens_map = {kind: self._text(int(i)) for kind, i in named.items() if i >= 0}
        templates = {name: api.llama_model_chat_template(model.pointer, name) for name in (None, b"tool_use")}
        self.chat_template = {
            (name or b"default").decode(): found.decode(errors="replace") for name, found in templates.items() if found
        }
        """The chat templates by name; empty if the file has none."""

    def get_vocab(self) -> dict[str, int]:
        """Return all tokens by the text that the file has for them."""
        count = api.llama_vocab_n_tokens(self._vocabulary)
        texts = (api.llama_vocab_get_text(self._vocabulary, i) for i in range(count))
        return {text.decode(errors="replace"): i for i, text in enumerate(texts)}

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        """Return the tokens of a text; special tokens that it spells out are read as such."""
        data = text.encode()
        room = len(data) + 2
        while True:
            found = (api.llama_token * room)()
            count = api.llama_tokenize(self._vocabulary, data, len(data), found, room, add_special_tokens, True)
            if count >= 0:
                return list(found[:count])
            room = -count

    def decode(self, tokens: Sequence[int], *, skip_special_tokens: bool) -> str:
        """Return the text of tokens."""
        given, room = (api.llama_token * len(tokens))(*tokens), 8 * len(tokens) + 8
        while True:
            space = ctypes.create_string_buffer(room)
            size = api.llama_detokenize(
                self._vocabulary, given, len(tokens), space, room, False, not skip_special_tokens
            )
            if size >= 0:
                return space.raw[:size].decode(errors="replace")
            room = -size

    def _text(self, token: int) -> str:
        return self.decode([token], skip_special_tokens=False)
