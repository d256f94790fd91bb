"""OpenAI's chat format and vLLM's adapters, from the server's side. Knows nothing of connections and models.

Beyond OpenAI's format, as vLLM: `return_token_ids` in a request, `prompt_token_ids` in a reply, `token_ids` in a
choice. Beyond both: `seeds` in a request, one for each choice, and `batch`; `sampling_logprobs` in a choice. Log-
probabilities are those of the model at temperature 1, whatever the temperature.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gce.app.loaded_model import MAX_TOKENS, messages_of
from gce.app.web.policy.batches import Asked
from gce.app.wiring.files import parse_json
from gce.app.wiring.runs import find_adapter, state_of_files
from gce.domain.completions import Completion, SampleRequest
from gce.domain.learning import ModelState
from gce.domain.randomness import key
from gce.errors import BadInput, GceError

__all__ = ["adapter_of", "asked_of", "name_of", "reply_of"]

MOST_CHOICES, MOST_TOKENS, MOST_OF_A_BATCH = 128, 1 << 20, 1 << 16
SEEDS = 1 << 63
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
FILES = ("adapters.safetensors", "optimizer.safetensors", "state.json")
"""Of a checkpoint, what `lora_files` must have."""


def asked_of(content: bytes, base: str) -> tuple[Asked, Mapping[str, Any]]:
    """Return what a chat request asks for, and its body. BadInput if it cannot be done."""
    body = _body(content)
    if body.get("stream"):
        raise BadInput("answers are not streamed: leave out stream")
    if body.get("top_p") not in (None, 1):
        raise BadInput("all tokens are sampled from: leave out top_p, or give 1")
    given = body.get("messages")
    if not isinstance(given, list):
        raise BadInput("expected messages as a list of objects with role and content")
    messages = messages_of(given)
    if any("\ud800" <= letter <= "\udfff" for each in messages for letter in each.content):
        raise BadInput("expected messages of whole characters, got half of a surrogate pair")
    count = _integer(body, "n", 1, 1, MOST_CHOICES)
    seed = _integer(body, "seed", 0, 0, SEEDS - 1)
    seeds = _integers(body, "seeds", count, SEEDS - 1)
    stop = body.get("stop") or []
    stop = [stop] if isinstance(stop, str) else stop
    if not isinstance(stop, list) or len(stop) > 16 or not all(isinstance(each, str) and each for each in stop):
        raise BadInput("expected stop as at most 16 texts")
    most = "max_tokens" if body.get("max_completion_tokens") is None else "max_completion_tokens"
    tokens = _integer(body, most, MAX_TOKENS, 1, MOST_TOKENS)
    temperature = body.get("temperature", 1.0)
    if type(temperature) not in (int, float) or not 0 <= temperature <= 100:
        raise BadInput(f"expected temperature from 0 to 100, got {temperature!r:.40}")
    requests = tuple(
        SampleRequest(str(place), messages, own, float(temperature), tokens, tuple(stop))
        for place, own in enumerate(seeds or [key(seed, "choice", place) if place else seed for place in range(count)])
    )
    model, batch = body.get("model") or base, body.get("batch") or {}
    if not isinstance(model, str) or not isinstance(batch, dict) or not isinstance(batch.get("id", ""), str):
        raise BadInput("expected model as a text, and batch as an object with id, size and places")
    if not batch.get("id"):
        return Asked(model, requests), body
    size = _integer(batch, "size", 0, count, MOST_OF_A_BATCH)
    return Asked(model, requests, batch["id"], size, tuple(_integers(batch, "places", count, MOST_OF_A_BATCH))), body


def reply_of(
    asked: Asked, body: Mapping[str, Any], found: Sequence[Completion], text_of: Callable[[Sequence[int]], str]
) -> dict[str, Any]:
    """Return the body of a reply. `text_of` returns the text of tokens."""
    with_ids = body.get("return_token_ids") is True
    choices = []
    for place, each in enumerate(found):
        choice: dict[str, Any] = {
            "index": place,
            "message": {"role": "assistant", "content": each.text},
            "finish_reason": each.finish_reason,
            "logprobs": None,
        }
        if body.get("logprobs") is True and each.log_probabilities is not None:
            tokens = each.token_ids or ()
            texts = [text_of([token]) for token in tokens] or [""] * len(each.log_probabilities)
            choice["logprobs"] = {
                "content": [
                    {"token": text, "logprob": value, "bytes": list(text.encode()), "top_logprobs": []}
                    for text, value in zip(texts, each.log_probabilities, strict=True)
                ]
            }
        if with_ids:
            choice |= {"token_ids": each.token_ids, "sampling_logprobs": each.sampling_log_probabilities}
        choices.append(choice)
    prompt, written = found[0].prompt_tokens or 0, sum(each.tokens or 0 for each in found)
    return {
        "id": f"chatcmpl-{found[0].policy[:16]}",
        "object": "chat.completion",
        "created": 0,
        "model": asked.model,
        "system_fingerprint": found[0].policy,
        "choices": choices,
        "usage": {"prompt_tokens": prompt, "completion_tokens": written, "total_tokens": prompt + written},
        **({"prompt_token_ids": found[0].prompt_token_ids} if with_ids else {}),
    }


def name_of(content: bytes) -> tuple[str, Mapping[str, Any]]:
    """Return the name of an adapter, and the body that has it. BadInput if it has none."""
    body = _body(content)
    name = body.get("lora_name")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise BadInput("expected lora_name of at most 128 letters, digits, dots, hyphens and underscores")
    return name, body


def adapter_of(body: Mapping[str, Any], folder: Path | None) -> ModelState:
    """Return the adapter that a body holds, or whose place in `folder` it names. BadInput if there is none."""
    files, path = body.get("lora_files"), body.get("lora_path")
    if isinstance(files, dict):
        return _adapter_in(files)
    if not isinstance(path, str):
        raise BadInput("expected lora_files, an object with the files of a checkpoint in base64, or lora_path")
    if folder is None:
        raise BadInput("this server reads no paths of clients: send lora_files", hint="start it with {adapters} DIR")
    try:
        place = (folder / path).resolve()
    except (OSError, ValueError) as error:  # As of a null byte.
        raise BadInput("expected lora_path that can be a path") from error
    if not place.is_relative_to(folder.resolve()):
        raise BadInput("expected lora_path inside the folder of adapters")
    try:
        return find_adapter(place)
    except GceError as error:
        raise BadInput("expected lora_path of a checkpoint in the folder of adapters") from error


def _adapter_in(files: Mapping[str, Any]) -> ModelState:
    missing = [name for name in FILES if not isinstance(files.get(name), str)]
    if missing:
        raise BadInput(f"expected lora_files to have {', '.join(FILES)} in base64, {missing[0]} is not there")
    try:
        state = state_of_files({name: base64.b64decode(files[name], validate=True) for name in FILES})
        layers, config = state.settings.get("layers", []), state.settings.get("adapter_config", {})
        sound = isinstance(layers, list) and all(type(layer) is int for layer in layers)
        sound = sound and isinstance(config, dict) and isinstance(config.get("lora_parameters", {}), dict)
        finite = all(array.dtype.kind in "fiu" and (array == array).all() for array in state.arrays.values())
    except GceError:
        raise
    except (binascii.Error, Exception) as error:  # safetensors has its own exceptions.
        raise BadInput("the files of the adapter are damaged") from error
    if not sound or not finite:
        raise BadInput("the adapter has settings or numbers that cannot be used")
    return state


def _body(content: bytes) -> dict[str, Any]:
    body = parse_json(content, "the body")
    if not isinstance(body, dict):
        raise BadInput("expected a body that is an object")
    return body


def _integer(body: Mapping[str, Any], name: str, default: int, least: int, most: int) -> int:
    value = default if body.get(name) is None else body[name]
    if type(value) is not int or not least <= value <= most:
        raise BadInput(f"expected {name} from {least} to {most}, got {value!r:.40}")
    return value


def _integers(body: Mapping[str, Any], name: str, count: int, most: int) -> list[int]:
    """Return a list of so many integers; empty if there is none."""
    values = body.get(name) or []
    sound = isinstance(values, list) and len(values) in (0, count)
    if not sound or not all(type(value) is int and 0 <= value <= most for value in values):
        raise BadInput(f"expected {name} as {count} integers from 0 to {most}")
    return list(values)
