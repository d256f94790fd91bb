"""The chat format of a model: its tokenizer, its chat template and its end tokens, the same for all backends."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from attrs import frozen

from gce.adapters.models.local.chat_template import ChatTemplate, TemplateSettings
from gce.adapters.models.requests import PLAIN_TEMPLATE
from gce.errors import ModelError

__all__ = ["ChatFormat", "chat_format"]

_ENDS_OF_TURNS = frozenset(
    {
        *("<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end|>", "<|return|>", "<|call|>", "<end_of_turn>", "<turn|>"),
        *("<|end_of_turn|>", "<|END_OF_TURN_TOKEN|>", "<|eot|>", "<EOT>", "_<EOT>"),
    }
)
"""Special tokens that end a turn wherever they occur. Source: llama.cpp, `llama_vocab::impl::load`."""
_HARMONY_END, _HARMONY_RETURN = "<|end|>", "<|return|>"
"""In OpenAI's harmony format the first one ends a message, such as reasoning, and not the turn."""
_NEVER_TEXT = ("image_token", "audio_token", "video_token")
"""Tokens that only other media are written with: a text model of the same family has no embeddings of them."""


@frozen
class ChatFormat:
    """How conversations become tokens, and where an answer ends."""

    tokenizer: Any
    """One of transformers', or one with its methods."""
    template: ChatTemplate
    end: int
    """The token with which the model ends its turns."""
    stop: frozenset[int]
    """All tokens that end a text."""
    rows: int | None = None
    """Number of tokens that have an embedding; None if all have one."""

    def tokens(self, text: str) -> tuple[int, ...]:
        """Return the tokens of a text as it stands; ModelError if one has no embedding."""
        found = tuple(self.tokenizer.encode(text, add_special_tokens=False))
        if self.rows is not None and found and (beyond := max(found)) >= self.rows:
            text = self.tokenizer.decode([beyond], skip_special_tokens=False)
            raise ModelError(f"the token {text!r} ({beyond}) has no embedding: the model has {self.rows:,}")
        return found


def chat_format(
    name: str, tokenizer: Any, settings: TemplateSettings | None, *, ends: Iterable[int], rows: int | None
) -> ChatFormat:
    """Return the chat format of the model `name`.

    `ends` are end tokens that the model's files name, beside the tokenizer's own; `rows` is the number of tokens that
    have an embedding, None if all have one. Raises ModelError if the model cannot hold a conversation: there is no chat
    template or no end token, the template has an error, or a token has no embedding.
    """
    settings = settings or TemplateSettings()
    vocabulary: Mapping[str, int] = tokenizer.get_vocab()
    names = {kind: str(token) for kind, token in tokenizer.special_tokens_map.items() if not isinstance(token, list)}
    if rows is not None:
        _check_embeddings(name, tokenizer, rows, without={names.get(kind) for kind in _NEVER_TEXT})
    begin = ""
    if settings.template == PLAIN_TEMPLATE and tokenizer.bos_token_id is not None:
        begins = tokenizer.encode("a", add_special_tokens=True)[:1] == [tokenizer.bos_token_id]
        begin = names["bos_token"] if begins else ""
    template = ChatTemplate(name, tokenizer.chat_template, names, settings, begin=begin)
    eos = tokenizer.eos_token_id
    named = {*ends, *([] if eos is None else [eos])}
    if missing := sorted(named - set(vocabulary.values())):
        raise ModelError(
            f"the end token {missing[0]} of {name!r} is not among the {len(vocabulary):,} tokens of its vocabulary"
        )
    special = {*tokenizer.all_special_ids, *(i for i, one in tokenizer.added_tokens_decoder.items() if one.special)}
    known = {vocabulary[text] for text in _ENDS_OF_TURNS & vocabulary.keys()} & special
    if _HARMONY_RETURN in vocabulary:
        known -= {vocabulary.get(_HARMONY_END)}
    end = _end_of_turn(tokenizer, template, special)
    end = next((each for each in (end, eos, *sorted(named)) if each is not None), None)
    if end is None:
        raise ModelError(f"expected a tokenizer with an end token, that of {name!r} has none")
    return ChatFormat(tokenizer, template, end, frozenset({end, *named, *known}), rows)


def _check_embeddings(name: str, tokenizer: Any, rows: int, *, without: Collection[str | None]) -> None:
    """Raise ModelError if a token that a text may have is beyond the rows of the embedding."""
    vocabulary = tokenizer.get_vocab()
    beyond = {token: text for text, token in vocabulary.items() if token >= rows and text not in without}
    unlisted = _unlisted(tokenizer) if beyond else set()
    token = min((token for token, text in beyond.items() if text not in unlisted), default=None)
    if token is not None:
        raise ModelError(
            f"the token {beyond[token]!r} ({token}) of {name!r} has no embedding: the model has {rows:,}, and its "
            f"tokenizer {len(vocabulary):,} tokens; resize the embedding, or take the tokenizer of its training"
        )


def _unlisted(tokenizer: Any) -> set[str]:
    """Return the tokens that transformers adds for the family, though the model's own files do not have them."""
    path = Path(str(getattr(tokenizer, "name_or_path", "")), "tokenizer.json")
    try:
        written = json.loads(path.read_bytes())
        vocabulary = written["model"]["vocab"]
        listed = vocabulary if isinstance(vocabulary, dict) else dict(vocabulary)
        return set(tokenizer.get_vocab()) - listed.keys() - {token["content"] for token in written["added_tokens"]}
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return set()


def _end_of_turn(tokenizer: Any, template: ChatTemplate, special: Collection[int]) -> int | None:
    """Return the special token with which the template ends an assistant's message; None if it writes none."""
    before, after = (tokenizer.encode(text.rstrip(), add_special_tokens=False) for text in template.around_answer)
    ends = [token for token in after if token in special]
    # A token directly before the message begins a turn, and stands here where the template always writes a prompt.
    return ends[0] if ends and ends[0] not in before[-1:] else None
