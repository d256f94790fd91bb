"""Renders screen recordings with a known log: `python -m benchmarks.recordings render --out DIR`.

Needs Chromium, and `pip install '.[browser,workflow]'`. Each recording takes some 20 seconds on one core.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from benchmarks.recordings.layout import Take, read_layouts, read_themes, takes

HERE = Path(__file__).parent


def main(arguments: list[str] | None = None) -> None:
    """Render every take that is not there yet; exit status 1 says that a script does not do what README.md asks."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.recordings", description=__doc__)
    command = parser.add_subparsers(required=True).add_parser("render", help="render recordings into a folder")
    command.add_argument("--out", type=Path, required=True, help="folder of the recordings, one a sub-folder")
    command.add_argument("--layouts", type=Path, default=HERE / "layouts", help="folder of layouts: see README.md")
    command.add_argument("--themes", type=Path, default=HERE / "themes", help="folder of themes: see README.md")
    command.add_argument("--each", type=int, default=1, help="takes of each script (default 1)")
    command.add_argument("--seed", type=int, default=0, help="draws themes, pointers, speeds and qualities (default 0)")
    command.add_argument("--only", default="", help="render only takes whose name contains this text")
    options = parser.parse_args(arguments)
    made = takes(read_layouts(options.layouts), read_themes(options.themes), each=options.each, seed=options.seed)
    missing = [take for take in made if not (options.out / take.name / "log.json").exists()]
    if not all([_rendered(take, options.out / take.name) for take in missing if options.only in take.name]):
        sys.exit(1)


def _rendered(take: Take, folder: Path) -> bool:
    from benchmarks.recordings.render import render

    began = time.perf_counter()
    try:
        made = render(take, folder)
    except ValueError as exc:
        print(exc, flush=True)
        return False
    print(
        f"{take.name:32} {made.seconds:5.1f} s, {len(made.steps):2} steps, {len(made.silent)} silent clicks; "
        f"{take.theme.name}, {take.cursor}, crf {take.crf}; made in {time.perf_counter() - began:.0f} s",
        flush=True,
    )
    return True


if __name__ == "__main__":
    main()
