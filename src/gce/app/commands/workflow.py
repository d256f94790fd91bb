"""`gce workflow`: from a screen recording to steps."""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path

from gce.app.options import PATH
from gce.app.parser import Parser
from gce.app.reports.report import MARKS
from gce.app.tables.layout import table as aligned
from gce.app.terminal import note, put_json, put_result
from gce.app.wiring.files import check_output, write_output
from gce.app.workflow import find_steps, plain, storyboard, table

__all__ = ["add_arguments", "run"]

DESCRIPTION = """\
Find what somebody did in a screen recording: clicks, typing, scrolling, and pages that appear, with times, boxes and
typed text. The pointer is followed by how it looks while it moves; what changes while it moves is taken for an effect
of hovering, and places that change again and again for carets, clocks and spinners. Clicks that change nothing visible
within half a second are not found. Needs the extra: pip install 'grounded-eval[workflow]'.
"""
EXAMPLES = """\
examples:
  gce workflow recording.mp4                            the steps as a table
  gce workflow recording.mp4 --out steps.html           also a page with a picture of each step
  gce workflow recording.mp4 --steps steps.json         also a file that a model is evaluated on:
  gce evaluate --task workflow:steps.json --strategies episode --model smollm2
"""
STEPS = re.compile(rb'\{\s*"video"')
"""How a file of steps begins."""
EVERY = 30.0
"""Seconds of the recording between two notes."""


def add_arguments(parser: Parser) -> None:
    """The command line of `gce workflow`."""
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("video", type=PATH, metavar="VIDEO", help="file that FFmpeg reads: mp4, webm, mkv, mov")
    parser.add_argument("--out", type=PATH, metavar="PAGE.html", help="also write a page with a picture of each step")
    parser.add_argument("--steps", type=PATH, metavar="FILE.json", help="also write the steps for --task workflow:FILE")
    parser.add_argument("--no-text", action="store_true", help="do not read what was typed")
    parser.add_argument("--json", action="store_true", help="print the steps as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    if arguments.out is not None:
        check_output(arguments.out, mark=MARKS["html"], replace=True)
    if arguments.steps is not None:
        check_output(arguments.steps, mark=STEPS, replace=True)
    video, told = Path(arguments.video), [EVERY]

    def watch(seconds: float) -> None:
        if seconds >= told[0]:
            note(f"{seconds:.0f} s of the recording seen")
            told[0] += EVERY

    found = find_steps(video, watch=watch, read=not arguments.no_text)
    if arguments.json:
        put_json(plain(found), indent=1)
    else:
        steps = table(found.steps)
        put_result(*(aligned(steps.head, steps.rows, words=True).split("\n") if found.steps else ["no steps found"]))
    if arguments.out is not None:
        storyboard(video, found).write_page(arguments.out)
        note(f"wrote {arguments.out}")
    if arguments.steps is not None:
        write_output(arguments.steps, (json.dumps(plain(found), indent=1) + "\n").encode(), mark=STEPS, replace=True)
        note(f"wrote {arguments.steps}")
    arguments.following = None if not found.steps else _following(arguments)
    return 0


def _following(arguments: argparse.Namespace) -> str:
    if arguments.steps is None:
        return "gce workflow {video} --steps steps.json"
    return "gce evaluate --task workflow:{steps} --strategies episode"
