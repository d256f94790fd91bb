"""Writes the digests of the pretraining text: `python -m pretraining.digests --out FILE`.

The text is drawn again and counted in tokens, as `python -m pretraining train` did, without training. `gce validity
--deep RUN --decontaminate FILE` then checks that no test problem of a run is among them.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

from gce.domain.tasks import TASKS
from gce.domain.tasks.scheduling.instance import Instance
from gce.domain.tasks.scheduling.wording import prompt_text
from pretraining import INSTALLED, SEED, SHARDS, corpus
from pretraining.corpus import STAGES, Stage, conversation

__all__ = ["digests", "drawn_examples", "instances", "write_digests"]

TASK = "scheduling"


def instances(stage: Stage, seed: int, index: int) -> list[Instance]:
    """Return the problems that example number `index` of a stage shows; those of drills lack what is not shown.

    Every problem of the text is put into words by one function, which is listened to while the text is drawn again.
    """
    found: list[Instance] = []

    def noting(instance: Instance, *given: Any, **named: Any) -> str:
        found.append(instance)
        return worded(instance, *given, **named)

    worded = prompt_text
    with patch.object(corpus, "prompt_text", noting):
        conversation(stage, seed, index)
    return found


def digests(seed: int, examples: Mapping[str, int]) -> Iterator[str]:
    """Yield the digest of each problem in the first so many examples of each stage, by the stage's name."""
    for stage in STAGES:
        for index in range(examples.get(stage.name, 0)):
            yield from map(TASKS[TASK].digest, instances(stage, seed, index))


def drawn_examples(seed: int, processes: int, stages: Sequence[Stage] = STAGES) -> dict[str, int]:
    """Return how many examples each stage drew: all of a pool, though few of it were read."""
    # Imported here: they import torch, and the digests need none.
    from tokenizers import Tokenizer

    from pretraining.training import POOL, Encoder, Place, groups

    encode = Encoder(Tokenizer.from_file(str(INSTALLED / "tokenizer.json")))
    found: dict[str, int] = {}
    for stage in stages:
        shares = [groups(stage, encode, seed, shard=i, shards=processes, place=Place()) for i in range(processes)]
        read, pools = 0, 0
        while read < stage.tokens:
            for share in shares:
                ids, _, place = next(share)
                read += int((ids > 0).sum())
                pools = max(pools, place.pool)
        found[stage.name] = (pools + 1) * processes * POOL
    return found


def write_digests(out: Path, seed: int, examples: Mapping[str, int]) -> int:
    """Write the file that `--decontaminate` reads, and return the number of different digests in it."""
    found = sorted(set(digests(seed, examples)))
    source = f"the pretraining text of gce-tiny (seed {seed}, {sum(examples.values()):,} examples)"
    header = json.dumps({"digests": TASK, "source": source})
    out.write_text("\n".join([header, *found]) + "\n")
    return len(found)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m pretraining.digests", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="file to write")
    parser.add_argument("--seed", type=int, default=SEED, help=f"seed of the training (default {SEED})")
    parser.add_argument("--processes", type=int, default=SHARDS, help=f"processes of the training (default {SHARDS})")
    options = parser.parse_args()
    examples = drawn_examples(options.seed, options.processes)
    count = write_digests(options.out, options.seed, examples)
    print(f"{count:,} digests of {sum(examples.values()):,} examples: {options.out}")


if __name__ == "__main__":
    main()
