"""A model wrapper that keeps answers in a directory and asks nothing twice. Independent of the inner model."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from attrs import evolve

from gce.adapters.models.request_hash import request_hash
from gce.adapters.models.requests import all_different
from gce.domain.completions import Completion, SampleRequest
from gce.domain.models import ModelInfo
from gce.domain.serialization import from_plain, to_plain
from gce.errors import BadInput
from gce.ports.model import Sampler

__all__ = ["Cached"]

_UNREADABLE = (ValueError, LookupError, TypeError, AttributeError, RecursionError)
"""What reading a damaged or foreign file raises."""


class Cached:
    """`inner` with its answers in `folder`, a file for each request hash. Has only `Sampler` of `gce.ports.model`.

    Equal requests of one call are asked once. Answers that failed, or did not fit the context, are not kept; a file
    that cannot be read is as if it were not there, and is replaced. Several processes may share the directory.
    """

    def __init__(self, inner: Sampler, folder: Path) -> None:
        """`folder` is made with the first answer."""
        self._inner = inner
        self._folder = folder

    def info(self) -> ModelInfo:
        """See `gce.ports.model.Model`. Answers are those of the inner model, and so is the identity."""
        return evolve(self._inner.info(), capabilities=frozenset({"sample"}))

    def sample(self, requests: Sequence[SampleRequest]) -> Iterator[Completion]:
        """See `gce.ports.model.Sampler`. Answers that are kept come first.

        Raises:
            BadInput: an answer cannot be written.
        """
        requests = all_different(requests)
        info = self._inner.info()
        missing: dict[str, list[SampleRequest]] = defaultdict(list)
        for request in requests:
            missing[request_hash(info, request)].append(request)
        for name in list(missing):
            if (kept := self._kept(name)) is not None:
                yield from (evolve(kept, key=request.key) for request in missing.pop(name))
        if not missing:
            return
        asked = {same[0].key: (name, same) for name, same in missing.items()}
        for completion in self._inner.sample([same[0] for same in missing.values()]):
            name, same = asked[completion.key]
            if completion.finish_reason in ("stop", "length"):
                self._keep(name, same[0], completion)
            yield from (evolve(completion, key=request.key) for request in same)

    def _path(self, name: str) -> Path:
        return self._folder / name[:2] / f"{name}.json"

    def _kept(self, name: str) -> Completion | None:
        with suppress(OSError, *_UNREADABLE):
            return from_plain(Completion, json.loads(self._path(name).read_bytes())["completion"])
        return None

    def _keep(self, name: str, request: SampleRequest, completion: Completion) -> None:
        content = json.dumps({"request": to_plain(request), "completion": to_plain(completion)}).encode()
        path = self._path(name)
        half = path.with_name(f".{name}.{os.getpid()}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            half.write_bytes(content)  # Not synced: what a crash damages is asked again.
            os.replace(half, path)
        except OSError as error:
            raise BadInput(f"cannot write {path}: {error.strerror}", hint="give another {cache}") from error
