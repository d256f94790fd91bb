"""Jobs: submitted, watched, cancelled, resumed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

from attrs import asdict
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import StreamingResponse

from gce.app.settings.values import settings_from
from gce.app.web.api.endpoints import Endpoint, Given, plain_response, problem
from gce.app.web.asks import AskModel, EvaluateModel, Page, Train
from gce.app.web.jobs import JobRecord, Jobs
from gce.app.web.launching import Launcher
from gce.app.web.rendering import lines
from gce.app.web.served import find_run, served_of
from gce.errors import BadInput

__all__ = ["ENDPOINTS", "adapter_of", "job_of", "jobs_of", "launcher_of", "plain_job"]

MOST_LOOKS = 3600
"""A browser asks again where a stream ends before its time."""


def jobs_of(request: Request) -> Jobs:
    """The jobs of the served folder."""
    return launcher_of(request).jobs


def launcher_of(request: Request) -> Launcher:
    """What puts jobs into the queue."""
    found: Launcher = request.app.state.launcher
    return found


def job_of(request: Request) -> JobRecord:
    """The job that the path names; 404 where there is none."""
    found = jobs_of(request).find(request.path_params["job"])
    if found is None:
        raise HTTPException(404)
    return found


def adapter_of(request: Request, run: str) -> Path | None:
    """The directory of the run of this id, for its adapter; None for no id, 404 where there is no such run."""
    return find_run(request, run) if run else None


def plain_job(jobs: Jobs, job: JobRecord) -> dict[str, Any]:
    """A job as clients see it: without paths and commands."""
    shown = {name: getattr(job, name) for name in ("id", "kind", "title", "run", "created", "attempt")}
    return {**shown, **asdict(jobs.status(job))}


async def _events(given: Given) -> Any:
    """The state and the log of a job, each as an event when it changes."""
    request, jobs, job = given.request, jobs_of(given.request), job_of(given.request)

    def look() -> tuple[dict[str, str], bool]:
        over = jobs.status(job).is_over
        has_run = bool(job.run) and served_of(request).has(job.run)
        found = {"state": {**plain_job(jobs, job), "has_run": has_run}, "log": lines(jobs.log(job))}
        return {name: json.dumps(data) for name, data in found.items()}, over

    async def events() -> AsyncIterator[str]:
        sent: Mapping[str, str] = {}
        for _ in range(MOST_LOOKS):
            found, over = await asyncio.to_thread(look)
            new = [f"event: {name}\ndata: {text}\n\n" for name, text in found.items() if sent.get(name) != text]
            sent = found
            yield "".join(new) or ": \n\n"
            if over:
                yield "event: over\ndata: {}\n\n"
            if over or await request.is_disconnected():
                return
            await asyncio.sleep(1.0)

    return StreamingResponse(events(), media_type="text/event-stream", headers={"x-accel-buffering": "no"})


async def _list(given: Given) -> Any:
    jobs, page = jobs_of(given.request), given.asked
    each = jobs.each()
    shown = each[page.offset : page.offset + page.limit]
    return {"total": len(each), "offset": page.offset, "jobs": [plain_job(jobs, job) for job in shown]}


async def _train(given: Given) -> Any:
    launcher, asked = launcher_of(given.request), given.asked
    adapter = adapter_of(given.request, asked.run)
    settings = settings_from(given.settings)
    return _submitted(given, await asyncio.to_thread(launcher.train, asked, settings, adapter))


async def _evaluate(given: Given) -> Any:
    adapter = adapter_of(given.request, given.asked.run)
    return _submitted(given, await asyncio.to_thread(launcher_of(given.request).evaluate, given.asked, adapter))


async def _answer(given: Given) -> Any:
    adapter = adapter_of(given.request, given.asked.run)
    return _submitted(given, await asyncio.to_thread(launcher_of(given.request).answer, given.asked, adapter))


def _submitted(given: Given, job: JobRecord) -> Any:
    found = plain_response(plain_job(jobs_of(given.request), job), 202)
    found.headers["location"] = f"/api/v1/jobs/{job.id}"
    return found


async def _one(given: Given) -> Any:
    jobs, job = jobs_of(given.request), job_of(given.request)
    return {**plain_job(jobs, job), "log": jobs.log(job), "output": jobs.output(job)}


async def _cancel(given: Given) -> Any:
    jobs, job = jobs_of(given.request), job_of(given.request)
    jobs.cancel(job.id)
    return plain_job(jobs, job)


async def _resume(given: Given) -> Any:
    jobs, job = jobs_of(given.request), job_of(given.request)
    try:
        return plain_job(jobs, jobs.resume(job.id))
    except BadInput:
        return problem(409, "The job is queued, running or done.")


_JOB: dict[str, Any] = {
    "type": "object",
    "required": ["id", "kind", "title", "run", "created", "attempt", "state", "started", "ended", "status", "why"],
    "properties": {"state": {"enum": ["queued", "running", "done", "failed", "cancelled", "interrupted"]}},
}
_POST: dict[str, Any] = {"method": "POST", "gives": _JOB}
_SUBMIT: dict[str, Any] = {**_POST, "status": 202, "errors": (404,)}
_TRAIN: dict[str, Any] = {**_SUBMIT, "errors": (404, 409), "body": Train, "takes_settings": True}
_ONE = "/api/v1/jobs/{job}"
ENDPOINTS = (
    Endpoint(path="/api/v1/jobs", handle=_list, help="All jobs, the newest first", query=Page),
    Endpoint(path="/api/v1/jobs/train", handle=_train, help="Train a model", **_TRAIN),
    Endpoint(path="/api/v1/jobs/evaluate", handle=_evaluate, help="Evaluate a model", body=EvaluateModel, **_SUBMIT),
    Endpoint(path="/api/v1/jobs/answer", handle=_answer, help="Let a model answer a problem", body=AskModel, **_SUBMIT),
    Endpoint(path=_ONE, handle=_one, help="One job, with its log and what it printed", gives=_JOB),
    Endpoint(
        path=f"{_ONE}/events",
        handle=_events,
        help="State and log of a job as server-sent events",
        media="text/event-stream",
        gives={"type": "string"},
    ),
    Endpoint(path=f"{_ONE}/cancel", handle=_cancel, help="End a job, or take it out of the queue", **_POST),
    Endpoint(
        path=f"{_ONE}/resume", handle=_resume, help="Put a job into the queue again", **{**_POST, "errors": (409,)}
    ),
)
