"""The check that prompts are read back rightly, on which `gce attack` relies: for tasks that can read theirs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import cycle, islice

from gce.domain.attacks import ATTACKS, attacked, targets
from gce.testing.verifiers.agreement import changed_instances
from gce.testing.verifiers.bench import Bench

__all__ = ["meaning"]

EDITS = (1, 2, 4, 8, 16)


def meaning(bench: Bench, advance: Callable[[], None]) -> None:
    """Check that a problem's own prompt states it, and that the prompt of another instance does not.

    Attacked prompts are read back, too, one for every two generated responses; how many had to be dropped is noted.
    """
    task, dropped, tried = bench.task, 0, 0
    restates = task.audit.restates
    if restates is None:
        return
    pairs = [(attack, edits) for edits in EDITS for attack in ATTACKS.values()]
    each = -(-bench.responses // 2 // len(bench.problems))
    for problem in bench.problems:
        said = problem.prompt[-1].content
        bench.tried["meaning"] += 1
        if not bench.call("restates", partial(restates, problem.instance, said), problem, said):
            bench.find("meaning", "own prompt", "the problem's own prompt is not read back into it", problem, said)
        for seed, (attack, edits) in enumerate(islice(cycle(pairs), each)):
            words = targets(problem, seed)
            tried += 1
            dropped += attacked(task, problem, attack, edits, seed=seed, words=words) is None
        for other in changed_instances(bench, problem):
            text = task.prompt(other, bench.rng("wording", problem.key))[-1].content
            bench.tried["meaning"] += 1
            if task.digest(other) != problem.digest and bench.call(
                "restates", partial(restates, problem.instance, text), problem, text
            ):
                bench.find(
                    "meaning", "another instance", "the prompt of another instance is taken for it", problem, text
                )
        advance()
    bench.tried["meaning"] += tried
    if dropped:
        bench.not_checked.append(f"meaning: {dropped:,} of {tried:,} attacked prompts were not read back, and dropped")
