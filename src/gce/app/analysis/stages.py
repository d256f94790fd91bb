"""The stages of an analysis, when each is computed anew, and a file that keeps what was computed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from attrs import evolve, frozen

from gce import __version__
from gce.app.options import Choice, refusal
from gce.app.wiring.files import check_output, parse_json, read_input, write_output
from gce.errors import BadInput

__all__ = ["RECOMPUTE", "Kept", "Recompute", "Stage", "When", "recompute_of"]

Stage = Literal["beliefs", "evaluations", "evidence"]
When = Literal["never", "missing", "all"]
Found = TypeVar("Found")
RECOMPUTE = Choice((*get_args(When), *(f"{stage}={when}" for stage in get_args(Stage) for when in get_args(When))))
"""What `--recompute` takes: one word for all stages, or words for some."""
MOST_BYTES = 2**30
_BEGINS = '{"gce analyze": '
_MARK = re.compile(re.escape(_BEGINS.encode()))


@frozen
class Recompute:
    """When each stage is computed anew: never, where it is missing, or always."""

    beliefs: When = "never"
    """Verdicts, which hold what was elicited; missing are those of answers whose judging failed."""
    evaluations: When = "missing"
    """Metrics."""
    evidence: When = "missing"
    """Log-probabilities along the text."""


def recompute_of(words: Iterable[str]) -> Recompute:
    """Read words of `RECOMPUTE`; a word for a stage overrides one for all.

    Raises:
        BadInput: another word.
    """
    found = Recompute()
    for word in sorted(words, key=lambda word: "=" in word):
        if not RECOMPUTE.takes(word):
            raise BadInput(f"recompute must be {refusal(RECOMPUTE, word)}")
        stage, _, when = word.rpartition("=")
        changed: dict[str, Any] = dict.fromkeys([stage] if stage else get_args(Stage), when)
        found = evolve(found, **changed)
    return found


class Kept:
    """What earlier analyses computed, by stage and by what it was computed from; without a file, only this one."""

    def __init__(self, path: Path | None, recompute: Recompute) -> None:
        """Read the file, if it is there.

        Raises:
            BadInput: it is another file, or nothing can be written there.
        """
        self._path, self._recompute = path, recompute
        self._values: dict[str, dict[str, Any]] = {stage: {} for stage in get_args(Stage)}
        if path is None:
            return
        check_output(path, mark=_MARK, replace=True, instead="give another {keep}")
        if path.exists():
            read = parse_json(read_input(path, MOST_BYTES), str(path))
            try:
                self._values |= {stage: dict(read["kept"].get(stage, {})) for stage in get_args(Stage)}
            except (LookupError, TypeError, ValueError, AttributeError) as error:
                raise BadInput(f"{path} was not written by gce analyze", hint="give another {keep}") from error

    @property
    def keeps(self) -> bool:
        """Whether there is a file, so that sources need names."""
        return self._path is not None

    def of(
        self,
        stage: Literal["evaluations", "evidence"],
        source: Mapping[str, Any],
        compute: Callable[[], Any],
        read: Callable[[Any], Found],
    ) -> Found | None:
        """Read plain data: what is kept for this source, or else, where the stage allows it, what `compute` returns.

        None where nothing is kept and the stage is never computed.

        Raises:
            BadInput: what is kept cannot be read.
        """
        when: When = getattr(self._recompute, stage)
        if not self.keeps:
            return None if when == "never" else read(compute())
        values = self._values[stage]
        name = sha256(json.dumps([__version__, source], sort_keys=True).encode()).hexdigest()
        if when == "all" or (when == "missing" and name not in values):
            values[name] = compute()
        try:
            return read(values[name]) if name in values else None
        except (ValueError, TypeError) as error:
            raise BadInput(f"{self._path} was not written by gce analyze", hint="give another {keep}") from error

    def write(self) -> None:
        """Write the file, if there is one.

        Raises:
            BadInput: it cannot be written.
        """
        if self._path is not None:
            content = f"{_BEGINS}{json.dumps(__version__)}, {json.dumps({'kept': self._values}, allow_nan=False)[1:]}\n"
            write_output(self._path, content.encode(), mark=_MARK, replace=True, instead="give another {keep}")
