"""Every hostile program against every sandbox of this machine: `python -m attacks.sandbox`.

Prints how many were tried and which escaped, by what they are after; exit status 1 where one did. `gce.testing` has the
programs (`hostile_programs`) and the check (`runner_contract`), for a runner of your own.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

from gce.adapters.sandboxes.pool import RunnerPool
from gce.app.tables.layout import table
from gce.app.wiring.sandboxes import SANDBOXES, why_not
from gce.testing.contracts.runner import attack_runner
from gce.testing.sandboxes.hostile_programs import ATTACKS


def main() -> int:
    """Try, count and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=1, help="how often to try them all (default 1)")
    arguments = parser.parse_args()
    kinds = Counter(attack.name.partition(":")[0] for attack in ATTACKS)
    rows, escaped = [], []
    for name, start in SANDBOXES.items():
        reason = why_not(name)
        if reason:
            print(f"{name}: {reason}", file=sys.stderr)
            continue
        found: list[str] = []
        for _ in range(arguments.times):
            # Not under /tmp, which is another one inside, so that a program that gets out would find it.
            with tempfile.TemporaryDirectory(dir="/var/tmp") as scratch, RunnerPool(start) as runner:
                found += attack_runner(runner, Path(scratch)).escaped
        tried = {kind: str(arguments.times * count) for kind, count in kinds.items()}
        rows.append([name, *tried.values(), str(arguments.times * len(ATTACKS)), str(len(found))])
        escaped += [f"{name}: {line}" for line in found]
    if not rows:
        print("no sandbox holds on this machine", file=sys.stderr)
        return 2
    print(table(["sandbox", *(f"to {kind}" for kind in kinds), "tried", "escaped"], rows))
    print("\n".join(escaped))
    return 1 if escaped else 0


if __name__ == "__main__":
    sys.exit(main())
