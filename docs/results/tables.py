"""Tables of stored answers, each distinct problem counted once: python docs/results/tables.py ANSWERS.jsonl.gz ...

Reads what `gce evaluate --answers` keeps, plain or compressed; prints Markdown. Older files may have a problem
several times under other keys: the first answer counts, as greedy answers to one prompt are all the same.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections import defaultdict
from pathlib import Path

from gce.app.evaluation.scoring import stored_outcome
from gce.app.tables.summary import accuracy_rows
from gce.domain.measurements import Interval
from gce.domain.outcomes import rate
from gce.domain.verdicts import Status


def rows_of(path: Path) -> dict[str, dict[str, Interval]]:
    """Rates by mode and tier."""
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as lines:
        _, *answers = map(json.loads, lines)
    found: dict[str, dict[str, dict[str, Status]]] = defaultdict(lambda: defaultdict(dict))
    for answer in answers:
        last = {**answer["attempts"][-1], "right": answer["right"]}
        found[answer["mode"]][answer["tier"]].setdefault(answer["digest"], stored_outcome(last))
    return {
        mode: {tier: rate(outcomes.values()) for tier, outcomes in sorted(tiers.items())}
        for mode, tiers in found.items()
    }


for name in sys.argv[1:]:
    rows = rows_of(Path(name))
    tiers = list(next(iter(rows.values())))
    head, lines = accuracy_rows(rows, tiers)
    sizes = {tier: share.n for tier, share in next(iter(rows.values())).items()}
    print(f"\n{name}: n = {', '.join(f'{n} in {tier}' for tier, n in sizes.items())}\n")
    for line in (head, ["---"] * len(head), *lines):
        print(f"| {' | '.join(line)} |")
