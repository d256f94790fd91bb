"""Measures gce against its peers: `python -m benchmarks`, or some rows of the table: `python -m benchmarks verifier`.

Each row lets two contestants take turns, each in a process of its own, and compares them round by round. What a row
needs and the machine lacks is said, and the row is left out. Results go to stdout, and with `--out FILE` also to a file
of JSON lines.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import Factory, frozen

from benchmarks.contest import Contestant, Outcome, compete
from benchmarks.machine import gigabytes_a_second, gigaflops
from benchmarks.smollm2 import model_folder

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "gce-benchmarks"


@frozen
class Row:
    """One line of the table: two contestants, and how many times as fast the first is to be."""

    what: str
    unit: str
    ours: str
    peer: str
    peer_name: str
    target: float
    needs_model: bool = False
    arguments: Mapping[str, Any] = Factory(dict)
    """Of both contestants."""
    ours_arguments: Mapping[str, Any] = Factory(dict)
    peer_arguments: Mapping[str, Any] = Factory(dict)
    peer_batches: tuple[int, ...] = ()
    """The peer gets the best of these as its `batch`."""
    rounds: int = 5


_SAMPLED = {"prompts": 6, "samples": 8, "tokens": 100}
_TRAINED = {"prompts": 6, "samples": 4, "tokens": 100, "blocks": 8, "batch": 4}

ROWS = {
    "verifier": Row(
        "verify a 1,000-character answer of ten jobs", "answers",
        "benchmarks.verifier:ours", "benchmarks.verifier:reference", "the reference's method", 5.0, rounds=9,
    ),
    "problems": Row(
        "grounded T5 problem with its proven optimum, one core", "problems",
        "benchmarks.problems:ours", "benchmarks.problems:cp_sat", "CP-SAT at default settings", 4.0, rounds=9,
    ),
    "imports": Row(
        "start an interpreter with `import gce`", "starts",
        "benchmarks.imports:interpreter", "benchmarks.imports:interpreter", "without the import", 0.0,
        ours_arguments={"code": "import gce"}, peer_arguments={"code": "pass"},
    ),
    "rollouts": Row(
        "rollouts, SmolLM2-135M", "tokens",
        "benchmarks.rollouts:ours", "benchmarks.rollouts:mlx_lm", "`mlx_lm.batch_generate`, same BLAS", 2.0,
        needs_model=True, arguments=_SAMPLED, ours_arguments={"batch": 64},
        peer_arguments={"fast_blas": True}, peer_batches=(8, 16, 48),
    ),
    "rollouts-plain": Row(
        "rollouts, SmolLM2-135M", "tokens",
        "benchmarks.rollouts:ours", "benchmarks.rollouts:mlx_lm", "mlx-lm as pip installs it", 25.0,
        needs_model=True, arguments=_SAMPLED | {"prompts": 2, "tokens": 20}, ours_arguments={"batch": 64},
        peer_arguments={"fast_blas": False}, peer_batches=(16,), rounds=3,
    ),
    "rollouts-torch": Row(
        "rollouts, SmolLM2-135M", "tokens",
        "benchmarks.rollouts:ours", "benchmarks.rollouts:transformers", "transformers, float32", 1.5,
        needs_model=True, arguments=_SAMPLED, ours_arguments={"batch": 64},
        peer_arguments={"dtype": "float32"}, peer_batches=(8, 16, 48),
    ),
    "rollouts-torch-bfloat16": Row(
        "rollouts, SmolLM2-135M", "tokens",
        "benchmarks.rollouts:ours", "benchmarks.rollouts:transformers", "transformers, bfloat16", 1.5,
        needs_model=True, arguments=_SAMPLED, ours_arguments={"batch": 64},
        peer_arguments={"dtype": "bfloat16"}, peer_batches=(8, 16, 48),
    ),
    "training": Row(
        "training, top 8 of 30 blocks, SmolLM2-135M", "tokens",
        "benchmarks.training:ours", "benchmarks.training:mlx_lm", "`mlx_lm.tuner.trainer.train`, same BLAS", 3.0,
        needs_model=True, arguments=_TRAINED, rounds=3,
    ),
}  # fmt: skip


def run(name: str, row: Row, rounds: int | None) -> dict[str, Any]:
    """Measure one row."""
    shared = dict(row.arguments)
    if row.needs_model:
        shared["model"] = str(model_folder(CACHE))
    peer = {**shared, **row.peer_arguments}
    if row.peer_batches:
        peer["batch"] = _best_batch(row, peer)
    contestants = [
        Contestant("gce", row.ours, {**shared, **row.ours_arguments}),
        Contestant(row.peer_name, row.peer, peer),
    ]
    ours, theirs = compete(contestants, rounds or row.rounds)
    ratio, low, high = ours.against(theirs)
    return {
        "row": name,
        "what": row.what,
        "unit": row.unit,
        "peer": row.peer_name + (f", batch {peer['batch']}" if row.peer_batches else ""),
        "ours": _facts(ours),
        "theirs": _facts(theirs),
        "ratio": {"median": round(ratio, 3), "low": round(low, 3), "high": round(high, 3), "target": row.target},
        "rounds": len(ours.turns),
    }


def _best_batch(row: Row, peer: Mapping[str, Any]) -> int:
    """By one turn each; a peer that has only one to choose from needs none."""
    if len(row.peer_batches) == 1:
        return row.peer_batches[0]
    found = compete([Contestant(f"batch {b}", row.peer, {**peer, "batch": b}) for b in row.peer_batches], 1)
    return max(zip(found, row.peer_batches, strict=True), key=lambda pair: pair[0].rate)[1]


def _facts(outcome: Outcome) -> dict[str, float]:
    return {
        "units_a_second": round(outcome.rate, 4),
        "low": round(min(outcome.rates), 4),
        "high": round(max(outcome.rates), 4),
        "peak_megabytes": round(outcome.peak_bytes / 1e6),
    }


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"of {', '.join(ROWS)}; all where none is named")
    parser.add_argument("--rounds", type=int, help="turns of each contestant that count")
    parser.add_argument("--out", type=Path, help="append the results here, one JSON object a line")
    options = parser.parse_args()
    unknown = [name for name in options.rows if name not in ROWS]
    if unknown:
        parser.error(f"no row {unknown[0]!r}: choose of {', '.join(ROWS)}")
    machine = {
        "row": "machine",
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "gigaflops": round(gigaflops(), 1),
        "gigabytes_a_second": round(gigabytes_a_second(), 1),
    }
    _report(machine, options.out)
    failed = 0
    for name in options.rows or ROWS:
        print(name, end=" ", file=sys.stderr, flush=True)
        try:
            _report(run(name, ROWS[name], options.rounds), options.out)
        except (FileNotFoundError, RuntimeError) as error:
            failed += 1
            print(f"{name}: left out: {error}", file=sys.stderr)
    return 1 if failed else 0


def _report(found: Mapping[str, Any], out: Path | None) -> None:
    line = json.dumps(found)
    print(line, flush=True)
    if out is not None:
        with out.open("a") as file:
            print(line, file=file)


if __name__ == "__main__":
    sys.exit(main())
