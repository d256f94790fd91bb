"""The chain of digests over what a run committed, the same wherever the run is kept.

Each commit's digest covers the digest before it, its own row and its records; the first covers the config. A changed
bit in what was committed breaks the chain, except that the chain cannot tell when commits are missing at its end. What
is held since the last commit goes on with the chain. The digests guard against accidents, not against someone who
recomputes them. Knows no storage.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import evolve, frozen

from gce.adapters.runs.checkpoint_files import content_hash
from gce.adapters.runs.values import encode

__all__ = [
    "CommitRow",
    "commit_values",
    "config_digest",
    "config_rows",
    "held_digest",
    "verified_commits",
    "written_digest",
    "wrong_held",
]

_CHAIN = "gce run 1"
"""What every chain of digests begins with."""


@frozen
class CommitRow:
    """What a commit says beside its records and the loop's state."""

    iteration: int
    checkpoint: str | None
    """Name of the checkpoint's directory."""
    hashes: Mapping[str, str] | None
    """SHA-256 of each file of the checkpoint."""
    pinned: tuple[int, ...]
    digest: str


def config_rows(config: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The config as it is kept: names, and JSON text of each value."""
    return [(name, encode({name: value})) for name, value in json.loads(encode(config, "config")).items()]


def config_digest(rows: Iterable[Sequence[Any]]) -> str:
    """What the chain starts from, given the config's rows."""
    return _chained(_CHAIN, [part for row in rows for part in row], "")


def commit_values(
    row: CommitRow, loop: str, records: Iterable[tuple[str, int, str]], *, before: str
) -> tuple[tuple[Any, ...], CommitRow]:
    """The columns of a commit but its digest, and the row with it.

    `records` are (stream, sequence, body). `before` is the digest to chain to; the row's own is ignored.
    """
    summed = hashlib.sha256()
    for record in sorted(records, key=lambda record: (record[0].encode(), record[1])):
        _add(summed, *record)
    values = (
        row.iteration,
        row.checkpoint,
        None if row.hashes is None else content_hash(row.hashes),
        None if row.hashes is None else json.dumps(dict(row.hashes)),
        json.dumps(row.pinned),
        loop,
    )
    return values, evolve(row, digest=_chained(before, values, summed.hexdigest()))


def verified_commits(
    first: str, records: Iterable[tuple[Any, ...]], commits: Iterable[tuple[Any, ...]]
) -> tuple[list[CommitRow], str | None]:
    """The commits from the first on that match their digests, and in words what is wrong with the next, if any.

    `records` are (stream, sequence, body, iteration) by stream, as bytes, and sequence; `commits` are the columns of
    `commit_values` and the digest, by iteration.
    """
    sums: dict[object, Any] = {}
    for stream, sequence, body, iteration in records:
        _add(sums.setdefault(iteration, hashlib.sha256()), stream, sequence, body)
    found: list[CommitRow] = []
    digest, nothing = first, hashlib.sha256()
    for *values, stored in commits:
        digest = _chained(digest, values, sums.pop(values[0], nothing).hexdigest())
        if digest != stored:
            return found, f"what iteration {values[0]} committed does not match its digest"
        try:
            found.append(_commit_row(values, digest))
        except (TypeError, ValueError, RecursionError):
            return found, f"what iteration {values[0]} committed cannot be read"
    if sums:
        return found, f"it holds records of iteration {next(iter(sums))!r} but no such commit"
    return found, None


def held_digest(before: str, sequence: int, body: object) -> str:
    """The digest of what is held, given the one before it: of what was held earlier, or else of the last commit."""
    return _chained(before, [sequence], body)


def wrong_held(before: str, rows: Iterable[tuple[Any, ...]]) -> str | None:
    """What is wrong, in words, with what is held since the commit of this digest, if anything.

    `rows` are (sequence, body, digest), in order.
    """
    digest = before
    for place, (sequence, body, stored) in enumerate(rows):
        digest = held_digest(digest, place, body)
        if (sequence, digest) != (place, stored):
            return "what is held since the last commit does not match its digest"
    return None


def written_digest(name: object, iteration: object, hash_: object) -> str:
    """The digest of what is said of a summary or of answers: SHA-256, and the iteration that was the last one then."""
    return _chained(_CHAIN, [name, iteration], hash_)


def _add(summed: Any, stream: object, sequence: object, body: object) -> None:
    # Lengths first, so that no two different sequences of records give the same bytes. What is not text was damaged.
    parts = [str(part).encode() if isinstance(part, (str, int)) else b"?" for part in (stream, sequence, body)]
    summed.update(b"%d %d %d\n" % tuple(len(part) for part in parts))
    for part in parts:
        summed.update(part)


def _chained(before: str, values: Sequence[object], records: object) -> str:
    try:
        return hashlib.sha256(json.dumps([before, *values, records]).encode()).hexdigest()
    except TypeError:  # bytes where text was written
        return "damaged"


def _commit_row(values: Sequence[Any], digest: str) -> CommitRow:
    iteration, checkpoint, _, hashes, pinned, _ = values
    files, kept = None if hashes is None else json.loads(hashes), json.loads(pinned)
    if not isinstance(files, dict | None) or not isinstance(kept, list):
        raise ValueError("neither files nor pins")
    return CommitRow(iteration=iteration, checkpoint=checkpoint, hashes=files, pinned=tuple(kept), digest=digest)
