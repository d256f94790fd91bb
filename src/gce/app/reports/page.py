"""A report as one HTML page, as Markdown and as plain data."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from typing import Any

from gce.app.reports.section import Section
from gce.domain.figures import Figure, Table
from gce.domain.text import printable

__all__ = ["MARKDOWN_BEGINS", "PAGE_BEGINS", "html_page", "markdown", "plain"]

PAGE_BEGINS = (
    '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<meta name="generator" content="gce report">\n'
)
MARKDOWN_BEGINS = "<!-- gce report -->"
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


def plain(section: Section) -> dict[str, Any]:
    """A section as plain data."""
    figures = {figure.title: _data(figure.table) for figure in section.figures}
    tables = [_data(table) for table in section.tables]
    return {"title": section.title, "words": section.words, "tables": tables, "figures": figures}


def _data(table: Table) -> dict[str, Any]:
    return {"head": table.head, "rows": table.rows}


def html_page(title: str, sections: Sequence[Section], svg: Callable[[Figure], str]) -> str:
    """One HTML file that needs no other and no network; `svg` draws a figure as an element."""
    links = "".join(f'<a href="#s{n}">{_shown(section.title)}</a>' for n, section in enumerate(sections))
    body = "".join(_part(n, section, svg) for n, section in enumerate(sections))
    return (
        f"{PAGE_BEGINS}"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_shown(title)}</title>\n<style>\n{STYLE}</style>\n</head>\n"
        f"<body>\n<h1>{_shown(title)}</h1>\n<nav>{links}</nav>\n{body}</body>\n</html>\n"
    )


def _part(number: int, section: Section, svg: Callable[[Figure], str]) -> str:
    words = "".join(f"<p>{_shown(text)}</p>\n" for text in section.words)
    tables = "".join(_table(table) for table in section.tables)
    figures = "".join(
        f"<figure><figcaption>{_shown(figure.title)}</figcaption>\n{svg(figure)}"
        f"<details><summary>data</summary>{_table(figure.table)}</details></figure>\n"
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
    """The same as Markdown, without pictures: their data as tables."""
    lines = [f"# {_cell(title)}", ""]
    for section in sections:
        lines += [f"## {_cell(section.title)}", ""]
        for text in section.words:
            lines += [_cell(text), ""]
        for table in section.tables:
            lines += [*_rows(table), ""]
        for figure in section.figures:
            lines += [f"{_cell(figure.title)}:", "", *_rows(figure.table), ""]
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
