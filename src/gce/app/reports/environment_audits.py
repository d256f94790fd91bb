"""The audit of all environments of a framework as one HTML page, and as lines.

All that comes from the framework, from a scorer or from a problem is text: escaped, cut, and never markup.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections import Counter
from collections.abc import Sequence
from hashlib import sha256

from gce.app.evaluation.environment_audit import AuditFinding, EnvironmentAudit
from gce.app.evaluation.environment_audits import EnvironmentAudits, gravest
from gce.app.reports.page import STYLE
from gce.app.reports.transcript_html import SCRIPT, TRANSCRIPT_STYLE, clipped, filter_form, line_html, text_html
from gce.domain.figures import Table
from gce.domain.text import counted
from gce.testing.verifiers.severity import SEVERITIES

__all__ = ["PAGE_FILE", "PAGE_MARK", "audits_page", "audits_summary", "levels_table"]

PAGE_FILE = "audit.html"
_BEGIN = (
    '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<meta name="generator" content="gce audit">\n'
)
PAGE_MARK = re.compile(re.escape(_BEGIN.encode()))
MOST_FINDINGS = 40
"""Of one environment that are shown; the file has all."""
_POLICY = b64encode(sha256(SCRIPT.encode()).digest()).decode()
_META = (
    '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
    f"style-src 'unsafe-inline'; script-src 'sha256-{_POLICY}'\">\n"
    '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
)
_STYLE = """\
.filter label { display: flex; gap: .4rem; align-items: baseline } .transcript > summary small { color: var(--faint) }
.transcript > div { padding: 0 .7rem .7rem } .outcome { min-width: 6.6rem }
.critical .outcome, .high .outcome, .finding-critical b, .finding-high b { color: var(--wrong) }
.medium .outcome, .finding-medium b, .not-audited .outcome { color: var(--odd) }
.clean .outcome { color: var(--right) } .doubtful .outcome { color: var(--faint) }
.finding { border-left: .25rem solid var(--line); padding-left: .7rem; margin: .8rem 0 }
.finding-critical, .finding-high { border-color: var(--wrong) } .finding-medium { border-color: var(--odd) }
.finding p { margin: .2rem 0; max-width: 60rem } .finding dl { display: grid; gap: .1rem .8rem; margin: .3rem 0;
  grid-template-columns: max-content minmax(0, 1fr) } dt { color: var(--faint) }
dd { margin: 0; overflow-wrap: anywhere }
.levels td { white-space: normal; text-align: left; overflow-wrap: anywhere } .levels th { text-align: left }
.fail { color: var(--wrong) } .pass { color: var(--right) } .skip { color: var(--faint) }
@media (min-width: 75rem) { body { display: block } }
"""
CONFIRMED = {"yes": "shows it", "no": "does not show it", "no script": "none"}


def audits_page(audits: EnvironmentAudits) -> str:
    """One HTML file that needs no other and no network."""
    ordered = sorted(audits.audits, key=lambda each: (gravest(each), each.status == "audited", each.name))
    classes = list(dict.fromkeys(finding.defect for audit in ordered for finding in audit.findings))
    words = "".join(f"<p>{line_html(line)}</p>\n" for line in audits_summary(audits)[:4])
    table = _html_table(levels_table(audits))
    records = "".join(_record(each, classes) for each in ordered)
    title = line_html(f"{audits.framework} {audits.version}: audit of {len(audits.audits)} environments")
    return (
        f"{_BEGIN}{_META}<title>{title}</title>\n<style>\n{STYLE}{TRANSCRIPT_STYLE}{_STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{title}</h1>\n<main>\n<section>{words}{table}</section>\n"
        f"<section><h2>environments</h2>\n{_filter(classes)}{records}</section>\n</main>\n"
        f"<script>{SCRIPT}</script>\n</body>\n</html>\n"
    )


def audits_summary(audits: EnvironmentAudits) -> list[str]:
    """What was found, in lines, the gravest first."""
    confirmed = Counter(each.severity for audit in audits.audits for each in audit.findings)
    counts = ", ".join(f"{confirmed[level]} {level}" for level in SEVERITIES if confirmed[level])
    by_worst = Counter(min(gravest(audit), SEVERITIES.index("doubtful")) for audit in audits.audits if audit.findings)
    worst = ", ".join(f"{by_worst[place]} {SEVERITIES[place]}" for place in sorted(by_worst))
    verdicts, failed = (sum(getattr(each, name) for each in audits.audits) for name in ("verdicts", "failed"))
    covered = (
        f"{100 * (1 - failed / verdicts):.2f} % of {verdicts:,} answers have a verdict" if verdicts else "no verdict"
    )
    not_audited = [each for each in audits.audits if each.status != "audited"]
    lines = [
        f"{audits.framework} {audits.version}, gce {audits.gce}, seed {audits.seed}: {len(audits.audits)} of "
        f"{len(audits.named)} environments in {audits.minutes:.0f} minutes; {covered}",
        f"findings: {counts or 'none'}; environments by their gravest: {worst or 'none'}",
        f"second judges of their own: {sum(each.judged for each in audits.audits)} environments",
        f"not audited: {len(not_audited)}; no record yet: {len(audits.left())}",
    ]
    lines += [f"  {each.name}: {each.status}: {each.reason}" for each in not_audited]
    for audit in sorted(audits.audits, key=lambda each: (gravest(each), each.name)):
        kinds = Counter((each.severity, each.defect) for each in audit.findings if each.severity != "doubtful")
        said = ", ".join(f"{level} {defect} ({count})" for (level, defect), count in kinds.items())
        lines += [f"  {audit.name}: {said}"] if said else []
    return lines


def levels_table(audits: EnvironmentAudits) -> Table:
    """How many environments pass each check of RFC 008."""
    counts: dict[str, Counter[str]] = {}
    for audit in audits.audits:
        for level in audit.levels:
            counts.setdefault(level.check, Counter())[level.status] += 1
    rows = tuple(
        (check, *(str(found[status]) for status in ("pass", "fail", "skip"))) for check, found in counts.items()
    )
    return Table(("check", "pass", "fail", "skip"), rows)


def _html_table(table: Table) -> str:
    head = "".join(f"<th>{line_html(cell)}</th>" for cell in table.head)
    rows = "".join(f"<tr>{''.join(f'<td>{line_html(cell)}</td>' for cell in row)}</tr>\n" for row in table.rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>\n{rows}</tbody></table></div>\n'


def _filter(classes: Sequence[str]) -> str:
    # Classes of elements are numbers where names may be anything.
    chosen = {
        "gravest": {level: level for level in (*SEVERITIES[:4], "clean", "not-audited")},
        "defect": {f"defect-{number}": defect for number, defect in enumerate(classes)},
        "RFC 008": {"fails-a-check": "fails a check", "passes-all": "passes all"},
    }
    return filter_form(chosen)


def _record(audit: EnvironmentAudit, classes: Sequence[str]) -> str:
    worst = gravest(audit)
    is_done = audit.status == "audited"
    level = "not-audited" if not is_done else SEVERITIES[worst] if worst < len(SEVERITIES) else "clean"
    failing = [each.check for each in audit.levels if each.status == "fail"]
    kinds = ["transcript", level, "fails-a-check" if failing else "passes-all" if is_done else ""]
    kinds += sorted({f"defect-{classes.index(each.defect)}" for each in audit.findings})
    sure = [each for each in audit.findings if each.severity != "doubtful"]
    said = ", ".join(f"{count} {name}" for name, count in Counter(each.defect for each in sure).items())
    doubts = len(audit.findings) - len(sure)
    facts = [said or ("nothing confirmed" if is_done else f"{audit.status}: {audit.reason}")]
    facts += [f"{doubts} doubtful"] if doubts else []
    facts += [f"fails {', '.join(failing)}"] if failing else []
    facts += [f"coverage {100 * audit.coverage:.1f} %"] if audit.failed else []
    found = sorted(
        audit.findings, key=lambda each: (SEVERITIES.index(each.severity), SEVERITIES.index(each.panel_severity))
    )
    more = len(found) - MOST_FINDINGS
    body = "".join(map(_finding, found[:MOST_FINDINGS])) + (f"<p>and {more} more</p>" if more > 0 else "")
    return (
        f'<details class="{" ".join(filter(None, kinds))}"><summary><span class="outcome">{level}</span> '
        f"<b>{line_html(audit.name)}</b> <small>{line_html('; '.join(facts))}</small></summary>\n"
        f"<div>{body}{_levels(audit)}{_facts(audit)}</div></details>\n"
    )


def _finding(found: AuditFinding) -> str:
    severity = found.severity if found.severity != "doubtful" else f"doubtful, else {found.panel_severity}"
    rows = {
        "answer": ascii(clipped(found.answer)) if found.answer else "",
        "known": ascii(clipped(found.known)) if found.known else "",
        "second judge": found.judge or "none",
        "script": f"{CONFIRMED[found.confirmed]}; it printed {found.printed}" if found.script else "none",
        "problem": found.problem,
    }
    facts = "".join(f"<dt>{name}</dt><dd>{line_html(value)}</dd>" for name, value in rows.items() if value)
    script = f"<pre>{text_html(clipped(found.script))}</pre>" if found.script else ""
    asked = f"<details><summary>prompt</summary><pre>{text_html(clipped(found.question))}</pre></details>"
    return (
        f'<div class="finding finding-{found.severity}"><p><b>{line_html(f"{severity}: {found.defect}")}</b> '
        f"{line_html(f'{found.check}, {found.kind}: {found.message}')}</p><dl>{facts}</dl>{script}"
        f"{asked if found.question else ''}</div>\n"
    )


def _levels(audit: EnvironmentAudit) -> str:
    if not audit.levels:
        return ""
    rows = "".join(
        f'<tr><td>{line_html(each.check)}</td><td class="{each.status}">{each.status}</td>'
        f"<td>{line_html(each.measured)}</td></tr>\n"
        for each in audit.levels
    )
    head = "<thead><tr><th>check</th><th>result</th><th>measured</th></tr></thead>"
    return f'<div class="wide"><table class="levels">{head}<tbody>\n{rows}</tbody></table></div>\n'


def _facts(audit: EnvironmentAudit) -> str:
    covered = f"{counted(audit.verdicts, 'answer')} judged, {audit.failed:,} without a verdict; {audit.seconds:.0f} s"
    counted_by = ", ".join(f"{check} {count:,}" for check, count in audit.found.items())
    parts = [
        covered,
        f"findings of the panel by check: {counted_by or 'none'}",
        *(f"not checked: {each}" for each in audit.not_checked),
    ]
    parts += [f"refused, as a scorer may: {each}" for each in audit.notes]
    rows = "".join(f"<li>{line_html(each)}</li>" for each in parts)
    return f"<details><summary>coverage, what was not checked, notes</summary><ul>{rows}</ul></details>\n"
