"""Train with several evaluators and a held-out one.

python examples/evaluators/loop.py
"""

from typing import Any

import gce

SIZES: Any = {"iterations": 1, "problems": 8, "samples": 4, "test": 4, "dev": 0, "shifts": 0, "progress": False}

result = gce.train(
    evaluators={"teach": {"verifier": 1.0, "steps": 0.5, "length": 0.2}, "hold_out": ("deadlines",)},
    **SIZES,
)
for row in result.summary["evaluators"]["rows"]:
    kind = "held out" if row["weight"] is None else "teaches"
    print(f"{row['name']} ({kind}): {row['before']:.3f} -> {row['after']:.3f}, n = {row['n']}")
gap = result.summary["evaluators"]["gap"]["mean"]
print(f"gap: those that teach rose by {gap['value']:+.3f} more ({gap['low']:+.3f} to {gap['high']:+.3f})")
