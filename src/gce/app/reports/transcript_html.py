"""Transcripts as HTML: what models wrote is text whatever is in it, and a filter that needs no server."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from math import ceil

from gce.app.reports.transcript_text import values_words
from gce.app.transcripts import MOMENTS, OUTCOMES, Transcript
from gce.domain.marks import Piece
from gce.domain.prefix_values import PrefixValues
from gce.domain.problems import Message
from gce.domain.text import printable
from gce.domain.verdicts import Step

__all__ = [
    "LONGEST",
    "SCRIPT",
    "TRANSCRIPT_STYLE",
    "clipped",
    "filter_form",
    "line_html",
    "shade",
    "text_html",
    "transcripts_html",
]

LONGEST = 8_000
"""Characters of a prompt or an answer that are shown: the beginning and the end."""
LONGEST_LINE = 500
"""Characters of what is no prompt and no answer: messages, steps, names."""
MOST_STEPS = 200
MOST_FAULTS = 20
_STEP = {"true": "\u2713", "false": "\u2717", "unreadable": "?"}

TRANSCRIPT_STYLE = """\
.filter { display: flex; flex-wrap: wrap; gap: .5rem 1rem; align-items: center; margin: .8rem 0 }
.filter[hidden], .transcript[hidden] { display: none }
.filter input, .filter select { font: inherit; color: inherit; background: var(--page); border: 1px solid var(--line);
  border-radius: .3rem; padding: .2rem .4rem; max-width: 100% }
.transcript { border: 1px solid var(--line); border-radius: .4rem; margin: .4rem 0; color: var(--ink) }
.transcript > summary { padding: .35rem .7rem; cursor: pointer; overflow-wrap: anywhere }
.transcript[open] > summary { border-bottom: 1px solid var(--line) }
.outcome { display: inline-block; min-width: 6.2rem; font-weight: 600 }
.right .outcome { color: var(--right) } .wrong .outcome { color: var(--wrong) }
.unreadable .outcome, .truncated .outcome { color: var(--odd) } .failed .outcome { color: var(--faint) }
.sides { display: grid; gap: 0 1.5rem; padding: 0 .7rem .7rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr)) }
.sides > div { min-width: 0 } .sides h3 { font-size: .95rem; margin: .6rem 0 .2rem }
pre { margin: .2rem 0; padding: .5rem .6rem; background: var(--band); border-radius: .3rem; white-space: pre-wrap;
  overflow-wrap: anywhere; font: .85rem/1.45 ui-monospace, monospace }
mark { background: var(--mark); color: inherit; border-bottom: 2px solid var(--wrong) } mark sup { font-size: .65rem }
.sides ol, .sides ul { margin: .2rem 0; padding-left: 1.6rem; overflow-wrap: anywhere }
.said { margin-left: .8rem; color: var(--faint) } .sides small { color: var(--faint) }
.steps li { font: .85rem/1.45 ui-monospace, monospace; list-style: none } .steps { padding-left: 0 !important }
.heat [class^="gain"] { background: rgb(40 140 60 / calc(var(--heat) * 14%)) }
.heat [class^="loss"] { background: rgb(200 40 40 / calc(var(--heat) * 14%)) }
.heat [class$="1"] { --heat: 1 } .heat [class$="2"] { --heat: 2 } .heat [class$="3"] { --heat: 3 }
.heat [class$="4"] { --heat: 4 }
.steps .false { color: var(--wrong) } .steps .unreadable { color: var(--odd) }
"""

SCRIPT = """\
for (const section of document.querySelectorAll("section")) {
  const form = section.querySelector(".filter");
  if (!form) continue;
  const all = [...section.querySelectorAll(".transcript")];
  const texts = all.map(each => each.textContent.toLowerCase());
  const show = () => {
    const [words, ...picked] = [...form.querySelectorAll("input, select")].map(field => field.value);
    const said = words.toLowerCase();
    let shown = 0;
    all.forEach((each, place) => {
      const fits = picked.every(one => !one || each.classList.contains(one)) && texts[place].includes(said);
      each.hidden = !fits;
      shown += fits;
    });
    form.querySelector("output").textContent = shown + " of " + all.length;
  };
  form.addEventListener("input", show);
  form.addEventListener("submit", event => event.preventDefault());
  form.hidden = false;
  show();
}
"""
"""Shows the filters, which do nothing without it."""


def transcripts_html(transcripts: Sequence[Transcript], room: int) -> str:
    """The first transcripts that fit in `room` bytes, shown in the order of tiers, behind a filter."""
    tiers = list(dict.fromkeys(each.tier for each in transcripts))
    head = _filter(tiers)
    room -= len(head.encode()) + 200
    kept: list[tuple[tuple[int, ...], str]] = []
    for each in transcripts:
        text = _transcript(each, tiers)
        if len(text.encode()) > room:
            continue
        room -= len(text.encode())
        kept.append((each.place(tiers), text))
    left_out = len(transcripts) - len(kept)
    note = f"<p>{left_out:,} more are left out: gce transcript prints them.</p>\n" if left_out else ""
    return head + "".join(text for _, text in sorted(kept, key=lambda pair: pair[0])) + note


def filter_form(chosen: Mapping[str, Mapping[str, str]]) -> str:
    """The form that the script of a page filters with: by label, the classes to choose among and how they are shown."""
    selects = "".join(
        f'<label>{label} <select><option value="">all</option>'
        + "".join(f'<option value="{name}">{line_html(shown)}</option>' for name, shown in values.items())
        + "</select></label>"
        for label, values in chosen.items()
    )
    search = '<label>search <input type="search" maxlength="200"></label>'
    return f'<form class="filter" hidden autocomplete="off">{search}{selects}<output></output></form>\n'


def _filter(tiers: Sequence[str]) -> str:
    # Classes of tiers are numbers: their names may be anything.
    chosen = {
        "tier": {f"tier-{number}": tier for number, tier in enumerate(tiers)},
        "outcome": {each: each for each in OUTCOMES},
        "answers": {f"at-{each}": each for each in MOMENTS},
    }
    return filter_form(chosen)


def _transcript(found: Transcript, tiers: Sequence[str]) -> str:
    kinds = f"transcript {found.outcome} tier-{tiers.index(found.tier)} at-{found.moment}"
    moment = found.moment if found.iteration is None else f"rollout, iteration {found.iteration}"
    reward = "no reward" if found.reward is None else f"reward {found.reward:.3g}"
    said = f'<small class="said">{line_html(found.faults[0].message[:120])}</small>' if found.faults else ""
    summary = f"{line_html(found.within_task)} <small>{line_html(moment)}, {reward}</small> {said}"
    asked = "".join(map(_message, found.prompt)) or "<p>The prompt was not stored.</p>"
    answered = "".join(
        (_reasoning(found.reasoning), _answer(found), _faults(found), _heat(found.values), _steps(found.steps))
    )
    notes = "".join(f"<p><small>{line_html(note)}</small></p>" for note in found.notes)
    return (
        f'<details class="{kinds}"><summary><span class="outcome">{found.outcome}</span> {summary}</summary>\n'
        f'<div class="sides"><div>{asked}{notes}</div><div>{answered}</div></div></details>\n'
    )


def _message(message: Message) -> str:
    return f"<h3>{line_html(message.role)}</h3><pre>{text_html(clipped(message.content))}</pre>"


def _reasoning(text: str) -> str:
    shown = (
        f"<details><summary>reasoning, apart from the answer</summary><pre>{text_html(clipped(text))}</pre></details>"
    )
    return shown if text else ""


def _answer(found: Transcript) -> str:
    said = [f"{found.tokens:,} tokens" if found.tokens is not None else "", f"ended by {found.finish_reason}"]
    end = "<small>[cut off at the maximum tokens]</small>" if found.finish_reason == "length" else ""
    text = "".join(_pieces(found))
    return f"<h3>answer <small>{line_html(', '.join(filter(None, said)))}</small></h3><pre>{text}{end}</pre>"


def _pieces(found: Transcript) -> Iterator[str]:
    room = 2 * LONGEST
    for piece in found.answer:
        text = clipped(piece.text)
        room -= len(text)
        if room < 0:
            yield " [...]"
            return
        yield _piece(piece, text, found)


def _piece(piece: Piece, text: str, found: Transcript) -> str:
    if not piece.about:
        return text_html(text)
    title = " ".join(found.faults[number - 1].message for number in piece.about[:3])
    numbers = ",".join(map(str, piece.about))
    return f'<mark title="{line_html(title[:200])}">{text_html(text)}<sup>{numbers}</sup></mark>'


def _heat(values: PrefixValues | None) -> str:
    """The answer's segments, greener where they add to the value of the answer so far, redder where they take."""
    if values is None:
        return ""
    rows = "".join(
        f'<span class="{shade(advantage)}" title="{prefix.value:.2f} ({prefix.low:.2f} to {prefix.high:.2f}), '
        f'{advantage:+.2f}">{text_html(clipped(prefix.segment))}</span>'
        for prefix, advantage in zip(values.prefixes[1:], values.advantages, strict=True)
    )
    said = line_html(values_words(values))
    return f'<details><summary>value of the answer so far: {said}</summary><pre class="heat">{rows}</pre></details>'


def shade(advantage: float) -> str:
    """The class of a segment in a heat map, from loss-4 to gain-4."""
    size = ceil(4 * min(1.0, abs(advantage)))
    return f"{'gain' if advantage > 0 else 'loss'}-{size}" if size else "even"


def _faults(found: Transcript) -> str:
    verdicts = f"<h3>verdict <small>{line_html('; '.join(found.verdicts))}</small></h3>"
    rows = "".join(
        f"<li>{line_html(fault.kind)}: {line_html(fault.message)}</li>" for fault in found.faults[:MOST_FAULTS]
    )
    more = len(found.faults) - MOST_FAULTS
    return f"{verdicts}{f'<ol>{rows}</ol>' if rows else ''}{f'<p>and {more} more</p>' if more > 0 else ''}"


def _steps(steps: Sequence[Step]) -> str:
    if not steps:
        return ""
    counts = ", ".join(
        f"{count} {status}" for status in _STEP if (count := sum(_kind(step) == status for step in steps))
    )
    rows = "".join(
        f'<li class="{_kind(step)}">{_STEP[_kind(step)]} {line_html(step.text)}'
        f"{f' <small>{line_html(step.reason)}</small>' if step.reason else ''}</li>"
        for step in steps[:MOST_STEPS]
    )
    more = f"<li>and {len(steps) - MOST_STEPS} more</li>" if len(steps) > MOST_STEPS else ""
    return f'<details><summary>reasoning steps: {counts}</summary><ul class="steps">{rows}{more}</ul></details>'


def _kind(step: Step) -> str:
    return step.status if step.status in _STEP else "unreadable"


def clipped(text: str) -> str:
    """The beginning and the end of a text that is too long to show."""
    if len(text) <= LONGEST:
        return text
    half = LONGEST // 2
    return f"{text[:half]}\n[... {len(text) - LONGEST:,} characters left out ...]\n{text[-half:]}"


def text_html(text: str) -> str:
    """Text of any origin with its line ends; what is not seen as itself is escaped."""
    return html.escape("\n".join(map(printable, text.split("\n"))))


def line_html(text: str) -> str:
    """The beginning of a text of any origin, on one line."""
    return html.escape(printable(text[:LONGEST_LINE]))
