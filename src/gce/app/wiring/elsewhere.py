"""Judge responses in a new process: `python -m gce.app.wiring.elsewhere TASK` is what runs there.

A verifier that keeps state between calls, or whose verdict depends on the hash seed, gives other scores there. The
process has this one's rights, as the verifier has here; only the last line of what is printed is read.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from functools import partial

from gce.app.terminal import put_json
from gce.app.wiring.again import OtherProcessFailed, in_another_process
from gce.app.wiring.tasks import find_task
from gce.domain.completions import Completion
from gce.domain.tasks import ProblemSource, Task
from gce.testing.verifiers.bench import Elsewhere, scores

__all__ = ["by_name", "judged"]

SECONDS = 300.0
MOST_OUTPUT = 2**26


def by_name(task: str) -> Elsewhere:
    """Judging by the task of this name."""
    return partial(_in_new_process, task)


def _in_new_process(
    task: str, asked: Sequence[tuple[str, str]], hash_seed: int
) -> Sequence[Sequence[tuple[str, float | None]]] | str:
    """See `Elsewhere`."""
    try:
        output = in_another_process(
            [__name__, task],
            hash_seed=hash_seed,
            seconds=SECONDS,
            given=json.dumps(asked).encode("ascii"),
            most_output=MOST_OUTPUT,
        )
    except OtherProcessFailed as error:
        return str(error)
    try:
        found = [
            [(status, score) for status, score in each] for each in json.loads(output.strip().rpartition(b"\n")[2])
        ]
    except (ValueError, TypeError):
        found = []
    return found if len(found) == len(asked) else "it printed no verdicts"


def judged(task: Task, asked: Sequence[tuple[str, str]]) -> list[list[tuple[str, float | None]]]:
    """What the task's verifier says of each response to the problem of a key, in order; nothing where it raises."""
    source = ProblemSource(task)
    problems = {key: source.redraw(key) for key in dict.fromkeys(key for key, _ in asked)}
    found: list[list[tuple[str, float | None]]] = []
    for key, text in asked:
        try:
            found.append(scores(task.verify(problems[key], Completion(key, text, "stop", policy="check"), None)))
        except Exception:  # Judging here has said what it raised.
            found.append([])
    return found


def _main() -> None:
    """Read responses from standard input, judge them, and print the scores."""
    put_json(judged(find_task(sys.argv[1]), json.load(sys.stdin)))


if __name__ == "__main__":
    _main()
