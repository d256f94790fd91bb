"""What is stored in the served folder: runs, their answers, their reports."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

from attrs import frozen
from starlette.requests import Request

from gce.app.options import Choice
from gce.app.settings.fields import setting
from gce.app.transcripts import MOMENTS, stored_answers
from gce.app.web.api.endpoints import Endpoint, Given, problem
from gce.app.web.asks import Page
from gce.app.web.served import Served, served_run
from gce.app.wiring.names import plain_name
from gce.app.wiring.runs import open_run

__all__ = ["ENDPOINTS"]


@frozen(kw_only=True)
class AnswersPage(Page):
    """A page of the answers of a run."""

    section: ClassVar = ""
    moment: str = setting("after", Choice(MOMENTS), "test answers after or before training, or training rollouts")


def _served(request: Request) -> Served:
    found: Served = request.app.state.served
    return found


def _plain_run(name: str, path: Path) -> dict[str, Any]:
    with open_run(path, verify=False) as run:
        settings: Mapping[str, Any] = run.config.get("settings", {})
        summary = run.summary()
    return {
        "id": name,
        "name": path.name,
        "task": plain_name(settings.get("task", "")),
        "model": plain_name(settings.get("model", {}).get("name", "")),
        "finished": summary is not None,
        "summary": summary,
    }


async def _runs(given: Given) -> Any:
    page = given.asked
    runs = sorted((await asyncio.to_thread(_served(given.request).runs)).items())
    shown = [{"id": name, "name": path.name} for name, path in runs[page.offset : page.offset + page.limit]]
    return {"total": len(runs), "offset": page.offset, "runs": shown}


async def _run(given: Given) -> Any:
    path = await asyncio.to_thread(served_run, given.request)
    return await asyncio.to_thread(_plain_run, given.request.path_params["run"], path)


async def _answers(given: Given) -> Any:
    page, path = given.asked, await asyncio.to_thread(served_run, given.request)

    def read() -> list[dict[str, Any]]:
        with open_run(path, verify=False) as run:
            found = stored_answers(run, (page.moment,))
            return [
                {"number": each.number, "outcome": each.outcome, **each.record}
                for each in islice(found, page.offset, page.offset + page.limit)
            ]

    return {"moment": page.moment, "offset": page.offset, "answers": await asyncio.to_thread(read)}


async def _report(given: Given) -> Any:
    path = await asyncio.to_thread(served_run, given.request)
    found = await given.request.app.state.desk.ask({"do": "report", "run": str(path)})
    return problem(404, "The run cannot be reported.") if "error" in found else found


_RUN = "/api/v1/runs/{run}"
ENDPOINTS = (
    Endpoint(path="/api/v1/runs", handle=_runs, help="The runs of the served folder", query=Page),
    Endpoint(path=_RUN, handle=_run, help="One run: task, model, summary"),
    Endpoint(path=f"{_RUN}/answers", handle=_answers, help="Answers of a run, page by page", query=AnswersPage),
    Endpoint(
        path=f"{_RUN}/report", handle=_report, help="What gce report says of a run, as plain data", errors=(503,)
    ),
)
