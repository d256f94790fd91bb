"""A function as a model that samples: a person at a keyboard, a command, another library's model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from gce.adapters.models.requests import all_different, cut_before
from gce.domain.completions import Completion, SampleRequest
from gce.domain.models import ModelInfo
from gce.domain.serialization import to_plain
from gce.errors import one_line

__all__ = ["FunctionModel"]


class FunctionModel:
    """Asks a function for every completion: messages, each a dict with role and content, in; the reply's text out.

    What the function raises, or returns that is no text, is a completion with finish reason `error`. Whether it heeds
    limits on tokens, seeds and temperatures is its own business.
    """

    def __init__(self, function: Callable[[list[dict[str, Any]]], str], name: str) -> None:
        self._function = function
        self._info = ModelInfo(f"function {name}", frozenset({"sample"}))

    def info(self) -> ModelInfo:
        """See `gce.ports.model.Model`. The identity is the function's name: what it does cannot be told."""
        return self._info

    def sample(self, requests: Sequence[SampleRequest]) -> Iterator[Completion]:
        """See `gce.ports.model.Sampler`. One after another, in the order of the requests."""
        for request in all_different(requests):
            try:
                text = self._function([to_plain(message) for message in request.messages])
                error = "" if isinstance(text, str) else f"expected the function to return text, got {text!r:.60}"
            except Exception as raised:  # It may be anybody's.
                text, error = "", f"the function raised {type(raised).__name__}: {one_line(raised)}"
            if error:
                yield Completion(request.key, "", "error", self._info.identity, error=error)
            else:
                yield Completion(request.key, cut_before(text, request.stop), "stop", self._info.identity)
