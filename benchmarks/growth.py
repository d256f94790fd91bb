"""How cost grows: `python -m benchmarks.growth`, or some of its questions: `python -m benchmarks.growth buffer`.

Prints one JSON object for each measurement, and with `--pictures FOLDER` draws them as SVG (needs matplotlib, in the
extra `report`).
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.contest import Contestant, compete
from benchmarks.machine import median_seconds
from gce.adapters.runs.run_directory import RunDirectory
from gce.domain.buffer import BufferSettings, admit, draw, empty
from gce.domain.completions import Completion
from gce.domain.learning import Trace, single_turn
from gce.domain.problems import Message
from gce.domain.randomness import generator
from gce.domain.tasks.scheduling.answer import render
from gce.domain.tasks.scheduling.instance import Instance, Job, Resource
from gce.domain.tasks.scheduling.verify import verify

Found = Iterator[dict[str, Any]]


def verifier_length() -> Found:
    """Seconds to judge an answer of ten jobs after more and more text."""
    instance, answer = _chain(10)
    for size in (1_000, 10_000, 100_000, 1_000_000):
        text = ("A starts at 0 and B waits. " * (size // 27 + 1))[: size - len(answer) - 1] + "\n" + answer
        yield {"characters": len(text), "seconds": _seconds(instance, text)}


def verifier_jobs() -> Found:
    """Seconds to judge a right answer of more and more jobs."""
    for jobs in (10, 100, 1_000, 10_000):
        instance, answer = _chain(jobs)
        yield {"jobs": jobs, "seconds": _seconds(instance, answer)}


def _chain(jobs: int) -> tuple[Instance, str]:
    """Two lines of jobs side by side on one resource, with deadlines, and the right answer."""
    labels = [f"J{number}" for number in range(jobs)]
    starts = {label: 3 * (number // 2) for number, label in enumerate(labels)}
    instance = Instance(
        [Job(label, 3, (1,), deadline=starts[label] + 3) for label in labels],
        list(zip(labels[:-2], labels[2:], strict=True)),
        [Resource("machines", 2)],
    )
    return instance, render(starts)


def _seconds(instance: Instance, text: str) -> float:
    assert verify(instance, text).right
    return median_seconds(lambda: verify(instance, text), rounds=15)


def buffer(traces: int = 1_000_000) -> Found:
    """Admission, drawing a batch of 64 and memory, from a thousandth of the traces to all of them."""
    messages, completion = (Message("user", "x"),), Completion("k", "t", "stop", "p")
    for count in (traces // 1000, traces // 100, traces // 10, traces):
        offered = [
            Trace(f"k{i}", f"p{i // 4}", f"T{i * i % 6}", 0, single_turn(messages, completion), (), f"{i:032x}")
            for i in range(count)
        ]
        before, held = _resident(), empty(BufferSettings())
        begun = time.perf_counter()
        for start in range(0, count, 1000):
            held = admit(held, offered[start : start + 1000])
        admitted = count / (time.perf_counter() - begun)
        assert len(held) == count
        drawing = generator(0, "draw")
        times = []
        for _ in range(500):
            begun = time.perf_counter()
            draw(held, drawing, 64)
            times.append(time.perf_counter() - begun)
        yield {
            "traces": count,
            "admitted_a_second": round(admitted),
            "draw_milliseconds": round(1e3 * float(np.median(times)), 4),
            "index_bytes_a_trace": round((_resident() - before) / count),
            "record_bytes_a_trace": round(_record_bytes(offered)),
        }
        del offered, held
        gc.collect()


def _record_bytes(traces: Sequence[Trace]) -> float:
    """Of a trace's own record and strings; what many share, prompts and completions, is counted apart."""
    some = traces[: min(len(traces), 1000)]
    return float(np.mean([sum(map(sys.getsizeof, (t, t.key, t.problem, t.content_digest))) for t in some]))


def _resident() -> int:
    """Bytes of this process in memory; Linux alone tells."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:"))


def batch() -> Found:
    """Sampled tokens a second against the sequences asked for at once, beside `mlx_lm.batch_generate`."""
    for sequences in (1, 4, 16, 64):
        prompts = max(1, sequences // 8)
        shape = {"model": "gce-tiny", "prompts": prompts, "samples": min(8, sequences), "tokens": 100, "tier": "T3"}
        found = compete(
            [
                Contestant("gce", "benchmarks.rollouts:ours", shape),
                Contestant("mlx-lm", "benchmarks.rollouts:mlx_lm", {**shape, "batch": sequences, "fast_blas": True}),
            ],
            3,
        )
        yield {"sequences": sequences, "gce": round(found[0].rate, 1), "mlx_lm": round(found[1].rate, 1)}


def learning() -> Found:
    """Seconds an iteration spends in updates: the batches that a default run draws, and a pass over the buffer."""
    shape = {"model": "gce-tiny", "tokens": 300, "tier": "T3", "samples": 4, "blocks": 4, "batch": 16}
    for size in (16, 32, 64, 128, 256):
        buffer = {**shape, "prompts": size // 4}
        found = compete(
            [Contestant(part, "benchmarks.training:ours", {**buffer, "part": part}) for part in ("first", "drawn")], 2
        )
        whole, drawn = (round(min(turn.seconds for turn in outcome.turns), 3) for outcome in found)
        yield {"traces": size, "whole_buffer_seconds": whole, "drawn_batches_seconds": drawn}


def memory() -> Found:
    """The highest resident memory of a run, and of one with ten times the iterations and so the rollouts.

    Not from one iteration: before it has learned, the model has few right traces to learn from, and short ones.
    """
    for iterations in (2, 20):
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "gce.app.train", "--run-dir", f"{folder}/run", "--json"]
            limits = ["--iterations", str(iterations), "--problems", "16", "--test", "0", "--dev", "0"]
            done = subprocess.run([*command, *limits], check=True, capture_output=True, text=True)
        summary = json.loads(done.stdout)
        yield {
            "iterations": iterations,
            "rollouts": summary["rollouts"],
            "peak_megabytes": summary["peak_bytes"] // 10**6,
        }


READ = """
import sys
from gce.adapters.runs.reader import DirectoryReader
while True:
    with DirectoryReader(sys.argv[1]) as run:
        for stream in ("iterations", "rollouts"):
            for record in run.read(stream):
                pass
"""


def reader(rounds: int = 10, commits: int = 10) -> Found:
    """Milliseconds of a commit of 128 rollouts, in turns beside a process that reads the whole run without rest."""
    times: dict[bool, list[float]] = {False: [], True: []}
    rollouts = [{"key": str(number), "text": "A starts at 0. " * 60} for number in range(128)]
    with tempfile.TemporaryDirectory() as folder, RunDirectory.create(f"{folder}/run", {}) as run:
        run.commit(0, None, {})
        iteration = 0
        for _ in range(rounds):
            for beside in (False, True):
                reading = subprocess.Popen([sys.executable, "-c", READ, f"{folder}/run"]) if beside else None
                time.sleep(1.0 if beside else 0.0)  # Until it reads.
                for _ in range(commits):
                    iteration += 1
                    begun = time.perf_counter()
                    for record in rollouts:
                        run.append("rollouts", record)
                    run.append("iterations", {"iteration": iteration})
                    run.commit(iteration, None, {"iteration": iteration})
                    times[beside].append(1e3 * (time.perf_counter() - begun))
                if reading is not None:
                    reading.kill()
                    reading.wait()
    for beside, found in times.items():
        low, middle, high = np.percentile(found, [10, 50, 90])
        yield {
            "read_beside": beside,
            "commits": len(found),
            "median_milliseconds": round(float(middle), 2),
            "from_10_to_90_percent": [round(float(low), 2), round(float(high), 2)],
            "longest": round(max(found), 2),
        }


QUESTIONS: Mapping[str, Callable[[], Found]] = {
    "verifier-length": verifier_length,
    "verifier-jobs": verifier_jobs,
    "buffer": buffer,
    "batch": batch,
    "learning": learning,
    "memory": memory,
    "reader": reader,
}
PICTURES: Mapping[str, tuple[str, str, Mapping[str, str], bool]] = {
    "verifier-length": ("characters", "Seconds to judge one answer", {"seconds": "ten jobs"}, True),
    "verifier-jobs": ("jobs", "Seconds to judge one answer", {"seconds": "right answers"}, True),
    "batch": (
        "sequences",
        "Sampled tokens a second, gce-tiny",
        {"gce": "gce", "mlx_lm": "mlx_lm.batch_generate"},
        True,
    ),
    "learning": (
        "traces",
        "Seconds in updates, gce-tiny",
        {
            "whole_buffer_seconds": "one pass over the buffer",
            "drawn_batches_seconds": "batches that a default run draws",
        },
        False,
    ),
}
"""What a picture's axis across is, its title, its lines with their names, and whether both axes are logarithmic."""


def draw_picture(question: str, found: Sequence[Mapping[str, Any]], folder: Path) -> None:
    """One SVG of lines."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "gce"
    from matplotlib import pyplot

    across, title, lines, logarithmic = PICTURES[question]
    figure, axes = pyplot.subplots(figsize=(6, 3.6), layout="constrained")
    for key, name in lines.items():
        axes.plot([row[across] for row in found], [row[key] for row in found], marker="o", label=name)
    if logarithmic:
        axes.set_xscale("log")
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    axes.set_title(title)
    axes.set_xlabel(across)
    axes.grid(alpha=0.3)
    axes.legend()
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / f"{question}.svg", metadata={"Date": None})
    pyplot.close(figure)


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.growth", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("questions", nargs="*", metavar="QUESTION", help=f"of {', '.join(QUESTIONS)}; all where none")
    parser.add_argument("--pictures", type=Path, metavar="FOLDER", help="draw them here")
    options = parser.parse_args()
    unknown = [name for name in options.questions if name not in QUESTIONS]
    if unknown:
        parser.error(f"no question {unknown[0]!r}: choose of {', '.join(QUESTIONS)}")
    for name in options.questions or QUESTIONS:
        found = []
        for row in QUESTIONS[name]():
            found.append(row)
            print(json.dumps({"question": name, **row}), flush=True)
        if options.pictures is not None and name in PICTURES:
            draw_picture(name, found, options.pictures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
