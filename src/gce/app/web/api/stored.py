"""What is stored in the served folder: runs, their answers, their reports."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, ClassVar

from attrs import asdict, frozen
from starlette.requests import Request

from gce.app.options import Choice, Count
from gce.app.settings.fields import setting
from gce.app.transcripts import MOMENTS, OUTCOMES
from gce.app.web.answer_list import index_of
from gce.app.web.api.endpoints import Endpoint, Given, problem
from gce.app.web.asks import WORD, Page
from gce.app.web.overview import overview_of
from gce.app.web.served import find_run, served_of
from gce.app.wiring.runs import AnswerQuery

__all__ = ["ENDPOINTS"]


@frozen(kw_only=True)
class AnswersAsked:
    """Answers of a run, in their order."""

    section: ClassVar = ""
    moment: str = setting("", Choice(("", *MOMENTS)), "test answers after or before training, or rollouts")
    tier: str = setting("", WORD, "tier of the problem")
    outcome: str = setting("", Choice(("", *OUTCOMES)), "outcome of the answer")
    q: str = setting("", WORD, "words in the prompt, the answer or a violation")
    after: int = setting(0, Count(0, 2**53), "id of the answer before the first one wanted")
    limit: int = setting(50, Count(1, 200), "answers at most")


def _overview(request: Request, path: Path) -> dict[str, Any]:
    found = overview_of(served_of(request), path)
    names = ("id", "name", "state", "task", "model", "iteration", "last", "seconds", "tokens")
    gain = None if found.gain is None else asdict(found.gain)
    return {**{name: getattr(found, name) for name in names}, "gain": gain}


async def _runs(given: Given) -> Any:
    page = given.asked

    def read() -> Any:
        runs = list(served_of(given.request).runs().values())
        shown = runs[page.offset : page.offset + page.limit]
        found = [_overview(given.request, path) for path in shown]
        return {"total": len(runs), "offset": page.offset, "runs": found}

    return await asyncio.to_thread(read)


async def _run(given: Given) -> Any:
    def read() -> Any:
        path = find_run(given.request)
        return {**_overview(given.request, path), "summary": overview_of(served_of(given.request), path).summary}

    return await asyncio.to_thread(read)


async def _answers(given: Given) -> Any:
    asked = given.asked

    def read() -> Any:
        growing = index_of(served_of(given.request), find_run(given.request))
        whole, query = growing.grow(), AnswerQuery(asked.moment, asked.tier, asked.outcome, words=asked.q)
        found = growing.index.page(query, size=asked.limit, after=asked.after)
        answers = [{**asdict(each), "record": growing.index.record(each.moment, each.sequence)} for each in found]
        return {"whole": whole, "next": found[-1].id if len(found) == asked.limit else None, "answers": answers}

    return await asyncio.to_thread(read)


async def _report(given: Given) -> Any:
    path = await asyncio.to_thread(find_run, given.request)
    found = await given.request.app.state.desk.ask({"do": "report", "run": str(path)})
    return problem(404, "The run cannot be reported.") if "error" in found else found


_RUN = "/api/v1/runs/{run}"
_LIST = "Answers of a run with their records; `next` is the next page's `after`, `whole` whether all are indexed"
ENDPOINTS = (
    Endpoint(path="/api/v1/runs", handle=_runs, help="The runs of the served folder", query=Page),
    Endpoint(path=_RUN, handle=_run, help="One run, with its summary"),
    Endpoint(path=f"{_RUN}/answers", handle=_answers, help=_LIST, query=AnswersAsked),
    Endpoint(path=f"{_RUN}/report", handle=_report, help="What gce report says, as plain data", errors=(503,)),
)
