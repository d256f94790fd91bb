"""Rollouts that can teach nothing are saved.

python examples/evaluators/governor.py
"""

from typing import Any

import gce

SIZES: Any = {"iterations": 1, "problems": 6, "samples": 8, "updates": 1, "test": 0, "dev": 0, "shifts": 0}


def tokens(governor: Any) -> tuple[int, int]:
    """Rollouts and generated tokens of one iteration."""
    result = gce.train(governor=governor, progress=False, **SIZES)
    with result.runs.read(result.name) as run:
        return result.summary["rollouts"], sum(each["tokens"] for each in run.read("rollouts"))


(fixed, all_tokens), (adaptive, fewer) = tokens("fixed"), tokens("adaptive")
print(f"fixed: {fixed} rollouts, {all_tokens:,} tokens")
print(f"adaptive: {adaptive} rollouts, {fewer:,} tokens, {100 * (1 - fewer / all_tokens):.0f} % fewer")
