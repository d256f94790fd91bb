"""A report as one HTML page, as Markdown and as plain data."""

from __future__ import annotations

import html
import re
from base64 import b64encode
from collections.abc import Callable, Sequence
from hashlib import sha256
from itertools import groupby
from typing import Any

from gce.app.reports.section import Picture, Section
from gce.app.reports.transcript_html import SCRIPT, TRANSCRIPT_STYLE, clipped, transcripts_html
from gce.app.reports.transcript_text import transcript_lines
from gce.domain.figures import Figure, Table
from gce.domain.serialization import to_plain
from gce.domain.text import printable

__all__ = ["MARKDOWN_BEGINS", "PAGE_BEGINS", "html_page", "markdown", "plain"]

PAGE_BEGINS = (
    '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<meta name="generator" content="gce report">\n'
)
MARKDOWN_BEGINS = "<!-- gce report -->"
MOST_BYTES = 3_000_000
"""Of a page, where its figures and tables leave that to the transcripts."""
_MOST_BESIDE = 10
"""Columns of a table that figures stand beside on a wide screen; one with more needs the width for itself."""
STYLE = """\
:root { color-scheme: light dark; --ink: #1a1a1a; --page: #fff; --faint: #6b6b6b; --line: #ddd; --band: #f5f5f5;
  --right: #1b7a34; --wrong: #b3261e; --odd: #8a5a00; --mark: #ffe08a }
@media (prefers-color-scheme: dark) { :root {
  --ink: #e8e8e8; --page: #141414; --faint: #a0a0a0; --line: #3a3a3a; --band: #1f1f1f;
  --right: #6fcf86; --wrong: #ff8a80; --odd: #e0b050; --mark: #5a4a10 } }
* { box-sizing: border-box }
body { margin: 0 auto; max-width: 100rem; padding: 1rem; color: var(--ink); background: var(--page);
  font: 16px/1.5 system-ui, sans-serif }
h1 { font-size: 1.5rem; margin: .5rem 0; overflow-wrap: anywhere }
h2 { font-size: 1.2rem; margin: 0 0 .6rem; padding-top: 2rem; border-bottom: 1px solid var(--line);
  overflow-wrap: anywhere }
p { max-width: 50rem; overflow-wrap: anywhere }
main { min-width: 0 } .beside { columns: 27rem 2; column-gap: 2.5rem } .beside section { break-inside: avoid }
nav { display: flex; flex-wrap: wrap; gap: .3rem .9rem; overflow-wrap: anywhere } nav a { color: inherit }
.content { display: flex; flex-wrap: wrap; gap: .8rem 2.5rem; align-items: flex-start }
.tables { min-width: 0; max-width: 100%; display: flex; flex-wrap: wrap; gap: .5rem 2.5rem; align-items: flex-start }
.figures { flex: 1 1 min(100%, 28rem); min-width: 0; display: grid; gap: 1.5rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 28rem), 1fr)) }
figure { margin: 0; max-width: 46rem; min-width: 0 } figure :is(svg, img) { width: 100%; height: auto }
figcaption { font-weight: 600; overflow-wrap: anywhere }
.wide { overflow-x: auto; max-width: 100% } table { border-collapse: collapse; font-size: .9rem; margin: .3rem 0 }
th, td { padding: .2rem .6rem; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap }
th, .measured { white-space: normal } .measured span { white-space: nowrap }
th:first-child, td:first-child { text-align: left; position: sticky; left: 0; background: var(--page) }
thead th, thead th:first-child { background: var(--band) }
td { font-variant-numeric: tabular-nums } td:last-child { overflow-wrap: anywhere }
.plain td { white-space: normal; text-align: left; overflow-wrap: anywhere; min-width: 8rem }
.plain th { text-align: left } details { color: var(--faint) }
@media (min-width: 75rem) { body { display: grid; grid-template-columns: 12rem minmax(0, 1fr); gap: 0 2.5rem }
  h1 { grid-column: 1 / -1 } nav { flex-direction: column; flex-wrap: nowrap; position: sticky; top: 0;
  padding-top: 2rem; align-self: start; max-height: 100vh; overflow-y: auto }
  .both { gap: .8rem 1.5rem } .both .tables { flex-flow: column } .both .figures { flex-basis: 24rem }
  .both .measured span { display: block } .both .tables :is(th, td) { padding: .2rem .4rem } }
@media (max-width: 75rem) { table { font-size: .84rem } th, td { padding: .2rem .35rem } }
@media (max-width: 40rem) { body { padding: .6rem; font-size: 15px }
  td:first-child { white-space: normal; min-width: 6rem }
  .plain td { min-width: 5rem } .measured span { display: block } .said { display: none } }
"""
_POLICY = b64encode(sha256(SCRIPT.encode()).digest()).decode()
"""Of the one script that a browser may run here; it fetches nothing, from nowhere."""
_META = (
    '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; img-src data:; '
    f"style-src 'unsafe-inline'; script-src 'sha256-{_POLICY}'\">\n"
    '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
)


def plain(section: Section) -> dict[str, Any]:
    """A section as plain data."""
    figures = {figure.title: _data(figure.table) for figure in section.figures}
    tables = [_data(table) for table in section.tables]
    found = {"title": section.title, "words": section.words, "tables": tables, "figures": figures}
    return {**found, "transcripts": to_plain(section.transcripts)} if section.transcripts else found


def _data(table: Table) -> dict[str, Any]:
    return {"head": table.head, "rows": table.rows}


def html_page(title: str, sections: Sequence[Section], svg: Callable[[Figure], str]) -> str:
    """One HTML file that needs no other and no network; `svg` draws a figure as an element.

    Of the transcripts it holds as many as fit in `MOST_BYTES`, shared among the sections that have some.
    """
    ends = ["</section>\n"] * len(sections)
    links = "".join(f'<a href="#s{n}">{_shown(section.title)}</a>' for n, section in enumerate(sections))
    parts = [_part(n, section, svg) for n, section in enumerate(sections)]
    for narrow, group in groupby(range(len(sections)), lambda n: _narrow(sections[n])):
        if narrow:
            first, *_ = numbers = list(group)
            parts[first] = f'<div class="beside">\n{parts[first]}'
            ends[numbers[-1]] += "</div>\n"
    head = (
        f"{PAGE_BEGINS}{_META}<title>{_shown(title)}</title>\n<style>\n{STYLE}{TRANSCRIPT_STYLE}</style>\n</head>\n"
        f"<body>\n<h1>{_shown(title)}</h1>\n<nav>{links}</nav>\n<main>\n"
    )
    having = sum(bool(section.transcripts) for section in sections)
    end = "</main>\n" + (f"<script>{SCRIPT}</script>\n" if having else "") + "</body>\n</html>\n"
    room = MOST_BYTES - len("".join((head, *parts, *ends, end)).encode())
    for n, section in enumerate(sections):
        if section.transcripts:
            parts[n] += transcripts_html(section.transcripts, room // having)
        parts[n] += ends[n]
    return "".join((head, *parts, end))


def _part(number: int, section: Section, svg: Callable[[Figure], str]) -> str:
    """All of a section but its transcripts and its end."""
    words = "".join(f"<p>{_shown(text)}</p>\n" for text in section.words)
    tables = "".join(_table(table) for table in section.tables)
    figures = "".join(
        f"<figure><figcaption>{_shown(figure.title)}</figcaption>\n{svg(figure)}"
        f"<details><summary>data</summary>{_table(figure.table)}</details></figure>\n"
        for figure in section.figures
    ) + "".join(map(_picture, section.pictures))
    narrow = all(len(table.head) <= _MOST_BESIDE for table in section.tables)
    both = " both" if tables and figures and narrow else ""
    rows = f'<div class="tables">\n{tables}</div>\n' if tables else ""
    grid = f'<div class="figures">\n{figures}</div>\n' if figures else ""
    title = f"<h2>{_shown(section.title)}</h2>"
    return f'<section id="s{number}">{title}\n{words}<div class="content{both}">{rows}{grid}</div>\n'


def _picture(picture: Picture) -> str:
    data = b64encode(picture.jpeg).decode()
    title = _shown(picture.title)
    return (
        f'<figure><figcaption>{title}</figcaption>\n<img alt="{title}" src="data:image/jpeg;base64,{data}"></figure>\n'
    )


def _narrow(section: Section) -> bool:
    """Whether it may stand beside another one: it is one figure."""
    return len(section.figures) == 1 and not section.tables and not section.transcripts


def _table(table: Table) -> str:
    head = "".join(f"<th>{_shown(cell)}</th>" for cell in table.head)
    rows = "".join(f"<tr>{''.join(map(_data_cell, row))}</tr>\n" for row in table.rows)
    kind = ' class="plain"' if table.head[-1] in ("value", "what") else ""
    return f'<div class="wide"><table{kind}><thead><tr>{head}</tr></thead><tbody>\n{rows}</tbody></table></div>\n'


def _data_cell(text: str) -> str:
    """A cell; a line may end between a value and its interval."""
    value, space, interval = _shown(text).partition(" (")
    return f'<td class="measured">{value} <span>({interval}</span></td>' if space else f"<td>{value}</td>"


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
        tiers = list(dict.fromkeys(each.tier for each in section.transcripts))
        for found in sorted(section.transcripts, key=lambda each: each.place(tiers)):
            lines += [*_fenced(clipped("\n".join(transcript_lines(found)).rstrip())), ""]
    return "\n".join(lines)


def _fenced(text: str) -> list[str]:
    """A text of any origin as a block of code, in a fence that is longer than any in it."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return [f"{fence}text", *map(printable, text.split("\n")), fence]


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
