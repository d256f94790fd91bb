"""`gce report`: runs and studies as one page, as Markdown, or as pictures."""

from __future__ import annotations

import argparse
import html
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gce.adapters.output_files import check_output, write_output
from gce.app.options import PATH, Choice
from gce.app.reading import add_no_verify, verifies
from gce.app.report_sections import Section, Table, sections_of
from gce.app.terminal import put, put_json
from gce.domain.text import printable
from gce.errors import BadInput

__all__ = ["add_arguments", "page", "run"]

DESCRIPTION = """\
Show runs: results with intervals beside blind answers, training over iterations, the curriculum, the buffer, sample
answers drawn with what is wrong in them, costs, settings and hashes. Studies of gce ablate become tables of effects.
Works on a run that still goes on. Pictures need the extra `report`; Markdown and JSON do not.
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
PAGE_BEGINS = (
    '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<meta name="generator" content="gce report">\n'
)
MARKDOWN_BEGINS = "<!-- gce report -->"
MARKS = {
    "html": re.compile(re.escape(PAGE_BEGINS.encode())),
    "md": re.compile(re.escape(MARKDOWN_BEGINS.encode())),
    "png": re.compile(rb"\x89PNG\r\n\x1a\n.{0,200}?tEXtSoftware\0gce report", re.DOTALL),
}
"""How files that it wrote begin; only such ones are replaced."""
STYLE = """\
:root { color-scheme: light dark; --ink: #1a1a1a; --page: #fff; --faint: #6b6b6b; --line: #ddd; --band: #f5f5f5 }
@media (prefers-color-scheme: dark) { :root {
  --ink: #e8e8e8; --page: #141414; --faint: #a0a0a0; --line: #3a3a3a; --band: #1f1f1f } }
* { box-sizing: border-box }
body { margin: 0 auto; max-width: 76rem; padding: 1rem; color: var(--ink); background: var(--page);
  font: 16px/1.5 system-ui, sans-serif }
h1 { font-size: 1.5rem } h2 { font-size: 1.2rem; margin-top: 2.5rem; border-bottom: 1px solid var(--line) }
p { max-width: 50rem; overflow-wrap: anywhere }
.figures { display: grid; gap: 1.5rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 30rem), 1fr)) }
figure { margin: 0; max-width: 44rem } figure svg { width: 100%; height: auto } figcaption { font-weight: 600 }
.wide { overflow-x: auto } table { border-collapse: collapse; font-size: .9rem; margin: .5rem 0 }
th, td { padding: .2rem .6rem; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap }
th:first-child, td:first-child { text-align: left } thead th { background: var(--band) }
td { font-variant-numeric: tabular-nums } td:last-child { overflow-wrap: anywhere }
@media (max-width: 40rem) { td:first-child { white-space: normal; min-width: 8rem } }
.plain td { white-space: normal; text-align: left; overflow-wrap: anywhere; min-width: 8rem }
.plain th { text-align: left } details { color: var(--faint) }
nav { display: flex; flex-wrap: wrap; gap: .3rem .9rem } nav a { color: inherit }
"""


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
        if not path.is_dir():
            raise BadInput(f"expected a run directory, found none at {path}")
    first, replace = arguments.runs[0], arguments.force or arguments.out is None
    out: Path | None = arguments.out or (first / IN_RUN[arguments.format] if arguments.format in IN_RUN else None)
    mark = MARKS[arguments.format]
    if out is not None and arguments.format != "png" and not arguments.json:
        check_output(out, mark=mark, replace=replace)
    sections = sections_of(arguments.runs, verify=verifies(arguments))
    if arguments.json:
        put_json([_data(section) for section in sections], indent=1)
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
                write_output(path, figure.png(), mark=mark, replace=replace)
        case "html":
            write_output(out, page(title, sections).encode(), mark=mark, replace=replace)
        case "md":
            content = f"{MARKDOWN_BEGINS}\n\n{markdown(title, sections)}"
            write_output(out, content.encode(), mark=mark, replace=replace)
    put(str(out))
    return 0


def _data(section: Section) -> dict[str, Any]:
    figures = {figure.title: {"head": figure.head, "rows": figure.rows} for figure in section.figures}
    tables = [{"head": table.head, "rows": table.rows} for table in section.tables]
    return {"title": section.title, "words": section.words, "tables": tables, "figures": figures}


def page(title: str, sections: Sequence[Section]) -> str:
    """One HTML file that needs no other and no network."""
    links = "".join(f'<a href="#s{n}">{_shown(section.title)}</a>' for n, section in enumerate(sections))
    body = "".join(_part(n, section) for n, section in enumerate(sections))
    return (
        f"{PAGE_BEGINS}"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_shown(title)}</title>\n<style>\n{STYLE}</style>\n</head>\n"
        f"<body>\n<h1>{_shown(title)}</h1>\n<nav>{links}</nav>\n{body}</body>\n</html>\n"
    )


def _part(number: int, section: Section) -> str:
    words = "".join(f"<p>{_shown(text)}</p>\n" for text in section.words)
    tables = "".join(_table(table) for table in section.tables)
    figures = "".join(
        f"<figure><figcaption>{_shown(figure.title)}</figcaption>\n{figure.svg()}"
        f"<details><summary>data</summary>{_table(Table(figure.head, figure.rows))}</details></figure>\n"
        for figure in section.figures
    )
    grid = f'<div class="figures">\n{figures}</div>\n' if figures else ""
    return f'<section id="s{number}"><h2>{_shown(section.title)}</h2>\n{words}{tables}{grid}</section>\n'


def _table(table: Table) -> str:
    head = "".join(f"<th>{_shown(cell)}</th>" for cell in table.head)
    rows = "".join("<tr>" + "".join(f"<td>{_shown(cell)}</td>" for cell in row) + "</tr>\n" for row in table.rows)
    kind = ' class="plain"' if table.head[-1] in ("value", "what") else ""
    return f'<div class="wide"><table{kind}><thead><tr>{head}</tr></thead><tbody>\n{rows}</tbody></table></div>\n'


def markdown(title: str, sections: Sequence[Section]) -> str:
    """The same without pictures: their data as tables."""
    lines = [f"# {_cell(title)}", ""]
    for section in sections:
        lines += [f"## {_cell(section.title)}", ""]
        for text in section.words:
            lines += [_cell(text), ""]
        for table in section.tables:
            lines += [*_rows(table), ""]
        for figure in section.figures:
            lines += [f"{_cell(figure.title)}:", "", *_rows(Table(figure.head, figure.rows)), ""]
    return "\n".join(lines)


def _rows(table: Table) -> list[str]:
    rows = [table.head, tuple("---" for _ in table.head), *table.rows]
    return ["| " + " | ".join(map(_cell, row)) + " |" for row in rows]


def _line(text: str) -> str:
    """A text of any origin as one line that hides nothing."""
    return printable(" ".join(text.split()))


def _shown(text: str) -> str:
    return html.escape(_line(text))


def _cell(text: str) -> str:
    return _line(text).replace("|", "\\|")
