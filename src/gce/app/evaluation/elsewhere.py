"""Judge responses in a new process: `python -m gce.app.evaluation.elsewhere TASK` is what runs there.

A verifier that keeps state between calls, or whose verdict depends on the hash seed, gives other scores there. The
process has this one's rights, as the verifier has here; what it prints is not read as verdicts.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from functools import partial

from gce.adapters.system.bounded_commands import run_bounded
from gce.app.wiring.tasks import find_task
from gce.domain.completions import Completion
from gce.domain.tasks import ProblemSource, Task
from gce.errors import one_line
from gce.testing.verifiers.bench import Elsewhere, scores

__all__ = ["by_name", "elsewhere", "serve"]

SECONDS = 300.0
MEMORY = 8 * 2**30
MOST_OUTPUT = 2**26


def elsewhere(words: Sequence[str]) -> Elsewhere:
    """Judging by `python WORDS`, a command that calls `serve`."""
    return partial(_judged, tuple(words))


def by_name(task: str) -> Elsewhere:
    """Judging by the task of this name."""
    return elsewhere(["-m", __name__, task])


def _judged(
    words: Sequence[str], asked: Sequence[tuple[str, str]], hash_seed: int
) -> Sequence[Sequence[tuple[str, float | None]]] | str:
    """See `Elsewhere`."""
    path = os.pathsep.join(entry for entry in sys.path if entry)
    ended = run_bounded(
        [sys.executable, *words],
        seconds=SECONDS,
        memory=MEMORY,
        most_output=MOST_OUTPUT,
        given=json.dumps(asked).encode("ascii"),
        environment={**os.environ, "PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": path},
    )
    if ended.status or ended.exceeded:
        last = ended.complaint.decode("utf-8", "replace").strip().rpartition("\n")[2]
        return f"it ended with status {ended.status}" + (f": {one_line(last, 150)}" if last else "")
    try:
        found = [[(status, score) for status, score in each] for each in json.loads(ended.output)]
    except (ValueError, TypeError):
        found = []
    return found if len(found) == len(asked) else "it printed no verdicts"


def serve(task: Task) -> None:
    """Read responses from standard input, and print what the task's verifier says of them."""
    asked = json.load(sys.stdin)
    print_here, sys.stdout = sys.stdout, sys.stderr
    source = ProblemSource(task)
    problems = {key: source.redraw(key) for key in dict.fromkeys(key for key, _ in asked)}
    found = [scores(task.judge(problems[key], Completion(key, text, "stop", policy="check"))) for key, text in asked]
    print_here.write(json.dumps(found))


if __name__ == "__main__":
    serve(find_task(sys.argv[1]))
