"""The hash that names a request's answer, however it is obtained."""

from __future__ import annotations

import hashlib
import json

from gce.domain.completions import SampleRequest
from gce.domain.models import ModelInfo
from gce.domain.serialization import to_plain

__all__ = ["request_hash"]


def request_hash(info: ModelInfo, request: SampleRequest) -> str:
    """Return the SHA-256 of a model's identity and of all that its answer may depend on.

    The request's key is not part of it, and its seed is not at temperature 0 if the model is known to be greedy there.
    """
    plain = {
        "model": info.identity,
        "messages": to_plain(request.messages),
        "max_tokens": request.max_tokens,
        "temperature": float(request.temperature),
        "stop": list(request.stop),
        **({"seed": request.seed} if request.temperature or not info.greedy else {}),
    }
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()
