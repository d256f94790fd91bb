"""The tokenizer and the chat template in a GGUF file, with the methods of one of transformers'."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import llama_cpp as api
from llama_cpp.llama_chat_format import Jinja2ChatFormatter

from gce.adapters.models.backends.llama_cpp.library import GgufModel

__all__ = ["GgufTokenizer"]


class GgufTokenizer:
    """Text to tokens and back."""

    def __init__(self, model: GgufModel) -> None:
        self._model = model
        self._vocabulary = model.vocabulary
        end, begin = (int(find(self._vocabulary)) for find in (api.llama_vocab_eos, api.llama_vocab_bos))
        self.end: int | None = None if end < 0 else end
        """The end token; None if the file names none."""
        self.stop = [i for i in range(model.tokens) if api.llama_vocab_is_eog(self._vocabulary, i)]
        """All tokens that end a turn or a text."""
        template = api.llama_model_chat_template(model.pointer, None)
        self.template: str = (template or b"").decode()
        """The chat template; empty if the file has none."""
        shown = {"eos_token": self._text(end), "bos_token": self._text(begin)}
        self._prompt, self._whole = (
            Jinja2ChatFormatter(self.template, **shown, add_generation_prompt=prompt) for prompt in (True, False)
        )

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

    def apply_chat_template(
        self, messages: Sequence[Mapping[str, Any]], *, add_generation_prompt: bool, **shown: Any
    ) -> list[int]:
        """Return the tokens of a conversation; `shown` may hold `tools`."""
        formatter = self._prompt if add_generation_prompt else self._whole
        text = formatter(messages=list(messages), tools=shown.get("tools")).prompt
        return self.encode(text, add_special_tokens=False)

    def _text(self, token: int) -> str:
        return "" if token < 0 else self.decode([token], skip_special_tokens=False)
