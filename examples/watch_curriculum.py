"""The curriculum of a run in a terminal: the share of right rollouts in each tier, iteration by iteration.

python examples/watch_curriculum.py RUN             what there is
python examples/watch_curriculum.py RUN --follow    until the run ends
"""

import sys
import time

from gce.app.wiring.runs import open_run
from gce.errors import GceError

SHADES = " .:-=+*#%@"


def show(path: str) -> bool:
    """Draw the run as far as it has come; whether it has ended."""
    with open_run(path) as reader:
        records = list(reader.read("iterations"))
        ended = reader.summary() is not None
    tiers = list(dict.fromkeys(tier for record in records for tier in record["tiers"]))
    for tier in tiers:
        shares = [count["correct"] / count["rollouts"] for r in records if (count := r["tiers"].get(tier))]
        line = "".join(SHADES[min(int(share * len(SHADES)), len(SHADES) - 1)] * 3 for share in shares)
        first = next((r["iteration"] for r in records if r["tiers"].get(tier, {}).get("correct")), None)
        print(f"{tier:>6} |{line}| {100 * shares[-1]:3.0f} %  first right trace: {first or 'none'}")
    held = sum(records[-1]["buffer"].values()) if records else 0
    print(f"{len(records)} iterations, {held} traces in the buffer{', ended' if ended else ''}\n", flush=True)
    return ended


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    try:
        while not show(sys.argv[1]) and "--follow" in sys.argv:
            time.sleep(5)
    except GceError as error:
        sys.exit(str(error))
