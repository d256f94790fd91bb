"""`gce workflow`: from a screen recording to timed steps, a storyboard and an environment."""

from __future__ import annotations

import argparse
import json
import re

from gce.app.evaluation.recordings import read_recording
from gce.app.options import PATH
from gce.app.reports.storyboard import STORYBOARD_MARK, storyboard, told
from gce.app.tables.layout import table
from gce.app.terminal import note, put, put_json
from gce.app.wiring.files import check_output, write_output
from gce.domain.serialization import to_plain
from gce.domain.text import counted

__all__ = ["add_arguments", "run"]

STEPS_FILE, PAGE_FILE = "workflow.json", "storyboard.html"
STEPS_MARK = re.compile(rb'\{\n "width": [0-9]+,\n "height": [0-9]+,\n "seconds": ')
DESCRIPTION = f"""\
Detect what was done in a screen recording: clicks, typing, scrolling and new pages, with times and boxes. Writes
{STEPS_FILE}, the steps, and {PAGE_FILE}, a page with a picture of each.

The pointer has to be in the picture; no marks of clicks are needed. A click is found where it changes something at the
pointer, or opens another page. Typed texts and labels are read with the extra ocr; without it, steps have no text.

The task workflow:DIR lets a model repeat the steps turn by turn.
"""
EXAMPLES = """\
examples:
  gce workflow recording.mp4 --out recorded
  gce evaluate --task workflow:recorded --strategies episode --model openai:MODEL
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line of `gce workflow`."""
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("video", type=PATH, metavar="VIDEO", help="MP4, WebM, MKV, AVI or GIF, at most 30 minutes")
    parser.add_argument(
        "--out", type=PATH, default="workflow", metavar="DIR", help="folder of the results (default workflow)"
    )
    parser.add_argument("--no-text", action="store_true", help="read no texts")
    parser.add_argument("--force", action="store_true", help="replace files that this command wrote")
    parser.add_argument("--json", action="store_true", help="print the steps as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    out, force = arguments.out, arguments.force
    files = {out / STEPS_FILE: STEPS_MARK, out / PAGE_FILE: STORYBOARD_MARK}
    for path, mark in files.items():
        check_output(path, mark=mark, replace=force)
    found = read_recording(arguments.video, text=not arguments.no_text)
    plain = to_plain(found.workflow)
    contents = f"{json.dumps(plain, indent=1)}\n", storyboard(arguments.video.name, found)
    for (path, mark), content in zip(files.items(), contents, strict=True):
        write_output(path, content.encode(), mark=mark, replace=force)
    if arguments.json:
        put_json(plain, indent=1)
        return 0
    if not (found.reads or arguments.no_text):
        note("texts are not read: this needs the extra ocr: pip install 'grounded-eval[ocr]'")
    rows = [(f"{step.time:.1f}", told(step), ", ".join(map(str, step.box))) for step in found.workflow.steps]
    put(f"{counted(len(rows), 'step')} in {found.workflow.seconds:.1f} s; {out / PAGE_FILE}")
    if rows:
        put(*table(("second", "step", "box"), rows, words=True).split("\n"))
    return 0
