"""`gce report`: runs and studies as one page, as Markdown, or as pictures."""

from __future__ import annotations

import argparse
import html
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gce.adapters.durable_files import write_file
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
  gce report runs/1 --format md           Markdown on standard output
  gce report runs/1 --format png --out pictures/
"""
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
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="a run directory, or a study's")
    parser.add_argument("--format", choices=("html", "md", "png"), default="html", help="default html")
    parser.add_argument("--out", type=Path, help="file, or folder for png (default: beside the first run)")
    parser.add_argument("--json", action="store_true", help="print all that it shows as JSON, and write nothing")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    for path in arguments.runs:
        if not path.is_dir():
            raise BadInput(f"expected a run directory, found none at {path}")
    sections = sections_of(arguments.runs)
    if arguments.json:
        put_json([_data(section) for section in sections], indent=1)
        return 0
    title = ", ".join(path.resolve().name for path in arguments.runs)
    first = arguments.runs[0]
    try:
        if arguments.format == "png":
            folder = arguments.out or first / "pictures"
            folder.mkdir(parents=True, exist_ok=True)
            for section in sections:
                for figure in section.figures:
                    write_file(folder / f"{figure.name}.png", figure.png())
            put(str(folder))
        elif arguments.format == "html":
            out = arguments.out or first / "report.html"
            write_file(out, page(title, sections).encode())
            put(str(out))
        elif arguments.out is None:
            put(*markdown(title, sections).removesuffix("\n").split("\n"))
        else:
            write_file(arguments.out, markdown(title, sections).encode())
            put(str(arguments.out))
    except OSError as error:
        raise BadInput(f"cannot write {error.filename}: {error.strerror}: give another --out") from error
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
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
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
