"""Scores `gce workflow` on a folder of recordings with known logs: `python -m benchmarks.workflow DIR`.

Prints steps found and right with bootstrap intervals over recordings, the accuracy of typed characters, false steps a
minute of recordings without steps, and how many times faster than real time it is, decoding and reading included.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np

from benchmarks.recordings.recording import read_recordings
from benchmarks.recordings.score import table, tally
from gce.app.workflow import find_steps

__all__ = ["main"]


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder with a folder a recording: video.mp4 and log.json")
    parser.add_argument("--no-text", action="store_true", help="do not read what was typed")
    arguments = parser.parse_args()
    tallies, factors, busy = [], list[float](), list[float]()
    for video, recording in read_recordings(arguments.folder):
        began, worked = time.perf_counter(), time.process_time()
        found = find_steps(video, read=not arguments.no_text)
        factors.append(recording.seconds / (time.perf_counter() - began))
        busy.append(recording.seconds / (time.process_time() - worked))
        tallies.append(tally(recording, found.steps))
        print(
            f"{video.parent.name}: {len(found.steps)} steps, {factors[-1]:.1f} x real time", file=sys.stderr, flush=True
        )
    if not tallies:
        sys.exit(f"no recordings in {arguments.folder}")
    print(table(tallies))
    low, middle, high = np.percentile(factors, [0, 50, 100])
    print(f"Speed: {middle:.1f} times real time (median of {len(factors)}, {low:.1f} to {high:.1f});")
    print(f"{np.median(busy):.1f} seconds of video a second of processor time (median).")


if __name__ == "__main__":
    main()
