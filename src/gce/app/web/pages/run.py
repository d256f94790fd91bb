"""A run: how far it has come, live, and its report."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path
from typing import Any

from markupsafe import Markup
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from gce.app.settings.config_file import settings_toml
from gce.app.settings.written import call_of, command_of, differing
from gce.app.tables.summary import rollout_rows
from gce.app.web.api.jobs import launcher_of
from gce.app.web.desk import Busy
from gce.app.web.jobs import JobRecord
from gce.app.web.launching import Launcher
from gce.app.web.overview import RunOverview, other_runs, overview_of
from gce.app.web.pages.answers import number
from gce.app.web.reading import figure_key, figure_response, report_of
from gce.app.web.rendering import fragment, page
from gce.app.web.served import Served, find_run, served_of, stamp_of
from gce.app.wiring.figures import can_draw
from gce.app.wiring.runs import writer_of
from gce.app.wiring.system import resident_bytes
from gce.domain.figures import Table
from gce.errors import BadInput

__all__ = ["ROUTES"]

SECONDS_BETWEEN_LOOKS = 1.0
SECONDS_BETWEEN_SIGNS = 15.0
"""Of life, where nothing happens; behind a proxy, a silent connection is closed."""


def run(request: Request) -> Response:
    """The page of a run; a form continues it."""
    served, path, wrong = served_of(request), find_run(request), ""
    live = _live(request, path)  # First: what changes while the rest is read is told again.
    found: RunOverview = live["run"]
    if found.settings is None:
        return page(request, "unreadable.html", 422, run=found)
    if request.method == "POST":
        given = str(request.state.form.get("discard", "")).strip()
        try:
            if (discard := number(given)) is None and given:
                raise BadInput("expected the number of an iteration, or nothing")
            begun = launcher_of(request).resume(path, found.settings, discard)
            return RedirectResponse(f"/jobs/{begun.id}", 303)
        except BadInput as error:
            wrong = str(error)
    report = served.kept(("report page", path), found, lambda: _report(served, path, found))
    others = other_runs(served, found)
    return page(request, "run.html", 409 if wrong else 200, **live, report=report, wrong=wrong, others=others)


def _report(served: Served, path: Path, found: RunOverview) -> Markup:
    """The part of the page that stays as it is until something is written."""
    assert found.settings is not None
    return fragment(
        "run_report.html",
        run=found,
        sections=report_of(served, path).sections,
        figure_key=figure_key,
        can_draw=can_draw(),
        differing=differing(found.settings),
        command=command_of(found.settings),
        call=call_of(found.settings),
        toml="\n".join(settings_toml(found.settings)),
    )


async def report(request: Request) -> Response:
    """The report as one HTML file."""
    path = await run_in_threadpool(find_run, request)
    try:
        found = await request.app.state.desk.ask({"do": "page", "run": str(path)})
    except Busy as error:
        raise HTTPException(503) from error
    if "error" in found:
        raise HTTPException(422)
    named = {"content-disposition": f'attachment; filename="{request.path_params["run"]}.html"'}
    return HTMLResponse(found["page"].replace(f"{served_of(request).folder}/", ""), headers=named)


def live(request: Request) -> Response:
    """The part of the page that changes while the run goes on."""
    return page(request, "live.html", **_live(request, find_run(request)))


def _live(request: Request, path: Path) -> dict[str, Any]:
    served, launcher = served_of(request), launcher_of(request)
    writer, job, progress, seen = _now(launcher, path)
    found = overview_of(served, path)
    memory = None if writer is None else resident_bytes(writer)
    return {
        "run": found,
        "last": served.kept(("last iteration", path), (found, memory), lambda: _last_iteration(found, memory)),
        "job": job,
        "queued": job is not None and launcher.jobs.status(job).state == "queued",
        "progress": progress,
        "seen": seen,
    }


def _last_iteration(run: RunOverview, memory: int | None) -> Markup:
    """What the last iteration came to; empty where there is none."""
    if not run.records:
        return Markup("")
    last = run.records[-1]
    rollouts = Table(*rollout_rows([last])) if last.tiers else None
    return fragment("last_iteration.html", run=run, last=last, memory=memory, rollouts=rollouts)


def _now(launcher: Launcher, path: Path) -> tuple[int | None, JobRecord | None, str | None, str]:
    """Who writes the run, its job, the last line of a job under way, and another text whenever any of that changes."""
    stamp, writer, job = stamp_of(path), writer_of(path), launcher.of_run(path)
    progress = None
    if job is not None and not launcher.jobs.status(job).is_over:
        progress = launcher.jobs.log(job).rstrip().rpartition("\n")[2]
    return writer, job, progress, sha256(repr((stamp, writer, progress)).encode()).hexdigest()[:16]


async def events(request: Request) -> Response:
    """A line for each change of a run, as server-sent events."""
    path, launcher = find_run(request), launcher_of(request)

    async def lines() -> AsyncIterator[str]:
        before, said = "", 0.0
        while not await request.is_disconnected():
            *_, now = await run_in_threadpool(_now, launcher, path)
            if now != before or time.monotonic() - said > SECONDS_BETWEEN_SIGNS:
                yield f"id: {now}\ndata: {now}\n\n" if now != before else ": nothing new\n\n"
                before, said = now, time.monotonic()
            await asyncio.sleep(SECONDS_BETWEEN_LOOKS)

    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(lines(), media_type="text/event-stream", headers=headers)


def figure(request: Request) -> Response:
    """A figure of the report."""
    return figure_response(request, report_of(served_of(request), find_run(request)).sections)


ROUTES = (
    Route("/runs/{run}", run, methods=["GET", "POST"]),
    Route("/runs/{run}/live", live),
    Route("/runs/{run}/report.html", report),
    Route("/runs/{run}/events", events),
    Route("/runs/{run}/figures/{figure}", figure),
)
