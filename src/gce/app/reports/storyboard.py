"""The steps of a recording as one HTML page with a picture of each. All text of the recording is text, never markup."""

from __future__ import annotations

import re
from base64 import b64encode

from gce.app.evaluation.recordings import Recording
from gce.app.reports.page import STYLE
from gce.app.reports.transcript_html import line_html
from gce.domain.workflow.steps import Step

__all__ = ["STORYBOARD_MARK", "storyboard", "told"]

_BEGIN = (
    '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<meta name="generator" content="gce workflow">\n'
)
STORYBOARD_MARK = re.compile(re.escape(_BEGIN.encode()))
_META = (
    '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; img-src data:; '
    "style-src 'unsafe-inline'\">\n"
    '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
)
_STYLE = """\
@media (min-width: 75rem) { body { display: block } }
ol { display: grid; gap: 1.2rem; grid-template-columns: repeat(auto-fill, minmax(min(100%, 22rem), 1fr)); padding: 0;
  list-style: none } li { min-width: 0 } li p { margin: .3rem 0; overflow-wrap: anywhere }
.screen { position: relative } .screen img { width: 100%; display: block; border: 1px solid var(--line) }
.screen i { position: absolute; border: 2px solid var(--wrong); border-radius: 2px }
"""


def told(step: Step) -> str:
    """A step in words."""
    if step.kind == "click":
        return f'click on "{step.text}"' if step.text else f"click at {step.x:.0f}, {step.y:.0f}"
    if step.kind == "type":
        return f'type "{step.text}"' if step.text else "type (not read)"
    if step.kind == "scroll":
        return f"scroll {'down' if step.amount > 0 else 'up'} by {abs(step.amount)} pixels"
    return "new page"


def storyboard(name: str, recording: Recording) -> str:
    """One HTML file that needs no other and no network."""
    workflow = recording.workflow
    items = []
    for number, step in enumerate(workflow.steps):
        picture = ""
        if number < len(recording.pictures):
            x0, y0, x1, y1 = step.box
            place = (100 * x0 / workflow.width, 100 * y0 / workflow.height)
            size = (100 * (x1 - x0) / workflow.width, 100 * (y1 - y0) / workflow.height)
            box = f"left:{place[0]:.2f}%;top:{place[1]:.2f}%;width:{size[0]:.2f}%;height:{size[1]:.2f}%"
            image = b64encode(recording.pictures[number]).decode()
            shown = f"the screen at {step.time:.1f} s"
            picture = (
                f'<div class="screen"><img alt="{shown}" src="data:image/jpeg;base64,{image}"><i style="{box}"></i></div>'
            )
        items.append(f"<li>{picture}<p><b>{number + 1}.</b> {step.time:.1f} s: {line_html(told(step))}</p></li>")
    title = line_html(f"Workflow of {name}")
    size = f"{workflow.seconds:.1f} s, {workflow.width} x {workflow.height} pixels, {len(workflow.steps)} steps"
    return (
        f"{_BEGIN}{_META}<title>{title}</title>\n<style>\n{STYLE}{_STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n"
        f"<p>{size}</p>\n<ol>\n" + "\n".join(items) + "\n</ol>\n</body>\n</html>\n"
    )
