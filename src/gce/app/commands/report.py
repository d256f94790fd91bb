"""`gce report`: runs and studies as one page, as Markdown, or as pictures."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from gce.app.options import PATH, Choice
from gce.app.reports.contents import sections_of
from gce.app.reports.page import MARKDOWN_BEGINS, PAGE_BEGINS, html_page, markdown, plain
from gce.app.terminal import put, put_json
from gce.app.wiring.figures import png, svg
from gce.app.wiring.files import check_output, write_output
from gce.app.wiring.runs import add_no_verify, runs_of, verifies
from gce.errors import BadInput

__all__ = ["add_arguments", "run"]

DESCRIPTION = """\
Show runs: results with intervals beside blind answers, training over iterations, the curriculum, the buffer, sample
answers drawn with what is wrong in them, transcripts to filter and search, costs, settings and hashes. Studies of gce
ablate become tables of effects. Works on a run that still goes on. Pictures need the extra `report`; Markdown and JSON
do not.
"""
EXAMPLES = """\
examples:
  gce report runs/1                       one self-contained page, runs/1/report.html
  gce report runs/1 runs/2 --out both.html
  gce report studies/ablations --out ablations.html
  gce report runs/1 --out page.html --force      replace what an earlier gce report wrote there
  gce report runs/1 --format md           Markdown on standard output
  gce report runs/1 --format png --out pictures/
"""
FORMATS = Choice(("html", "md", "png"))
IN_RUN = {"html": "report.html", "png": "pictures"}
"""Where in the first run they go without --out."""
MARKS = {
    "html": re.compile(re.escape(PAGE_BEGINS.encode())),
    "md": re.compile(re.escape(MARKDOWN_BEGINS.encode())),
    "png": re.compile(rb"\x89PNG\r\n\x1a\n.{0,200}?tEXtSoftware\0gce report", re.DOTALL),
}
"""How files that it wrote begin; only such ones are replaced."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line of `gce report`."""
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("runs", nargs="+", type=PATH, metavar="RUN", help="a run directory, or a study's")
    parser.add_argument("--format", type=FORMATS, choices=FORMATS.names, default="html", help="default html")
    parser.add_argument("--out", type=PATH, help="file, or folder for png (default: in the first run)")
    parser.add_argument(
        "--force", action="store_true", help="replace --out, where gce report wrote it in the same format; nothing else"
    )
    parser.add_argument("--json", action="store_true", help="print all that it shows as JSON, and write nothing")
    add_no_verify(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    for path in arguments.runs:
        if not path.is_dir() and not runs_of(path).find(str(path)):
            raise BadInput(f"expected a run directory, found none at {path}")
    first, replace = arguments.runs[0], arguments.force or arguments.out is None
    out: Path | None = arguments.out or (first / IN_RUN[arguments.format] if arguments.format in IN_RUN else None)
    mark = MARKS[arguments.format]
    if out is not None and arguments.format != "png" and not arguments.json:
        check_output(out, mark=mark, replace=replace)
    sections = sections_of([str(path) for path in arguments.runs], runs_of, verify=verifies(arguments))
    if arguments.json:
        put_json([plain(section) for section in sections], indent=1)
        return 0
    title = ", ".join(path.resolve().name for path in arguments.runs)
    if out is None:
        put(*markdown(title, sections).removesuffix("\n").split("\n"))
        return 0
    match arguments.format:
        case "png":
            pictures = {out / f"{figure.name}.png": figure for section in sections for figure in section.figures}
            for path in pictures:
                check_output(path, mark=mark, replace=replace)
            for path, figure in pictures.items():
                write_output(path, png(figure), mark=mark, replace=replace)
        case "html":
            write_output(out, html_page(title, sections, svg).encode(), mark=mark, replace=replace)
        case "md":
            content = f"{MARKDOWN_BEGINS}\n\n{markdown(title, sections)}"
            write_output(out, content.encode(), mark=mark, replace=replace)
    put(str(out))
    return 0
