"""Tasks, problems to draw, and verdicts on answers."""

from __future__ import annotations

from typing import Any

from attrs import asdict
from starlette.requests import Request

from gce.app.web.api.endpoints import Endpoint, Given, problem
from gce.app.web.asks import DrawProblem, JudgeAnswer, Offered
from gce.app.wiring.tasks import find_task
from gce.domain.strategies import STRATEGIES

__all__ = ["ENDPOINTS", "ask_worker", "offered_of", "offered_tasks"]


def offered_of(request: Request) -> Offered:
    """What clients of this server may name."""
    found: Offered = request.app.state.launcher.offered
    return found


def offered_tasks(offered: Offered) -> list[dict[str, Any]]:
    """The tasks that are offered, with their presets and tiers."""
    return [
        {
            "name": name,
            "presets": {
                preset: [{"tier": tier.name, "held_out": tier.held_out} for tier in tiers]
                for preset, tiers in find_task(name).presets.items()
            },
        }
        for name in offered.tasks
    ]


async def ask_worker(request: Request, do: str, asked: Any) -> dict[str, Any]:
    """What a worker makes of it; `error` says why it makes nothing.

    Raises:
        SettingError: the task is not offered.
    """
    offered_of(request).check(task=asked.task)
    found: dict[str, Any] = await request.app.state.desk.ask({**asdict(asked), "do": do})
    return found


async def _tasks(given: Given) -> Any:
    offered = offered_of(given.request)
    return {"tasks": offered_tasks(offered), "models": list(offered.models), "strategies": list(STRATEGIES)}


async def _draw(given: Given) -> Any:
    found = await ask_worker(given.request, "draw", given.asked)
    return problem(404, "There is no such problem.") if "error" in found else found


async def _judge(given: Given) -> Any:
    found = await ask_worker(given.request, "judge", given.asked)
    return problem(404, "There is no problem with that key.") if "error" in found else found


_PROBLEM = {"type": "object", "required": ["key", "task", "tier", "split", "prompt", "instance", "max_tokens"]}
_VERDICT = {
    "type": "object",
    "required": ["problem", "outcome", "right", "reward", "verdicts", "steps"],
    "properties": {"outcome": {"enum": ["right", "wrong", "unreadable", "failed"]}, "right": {"type": "boolean"}},
}
ENDPOINTS = (
    Endpoint(
        path="/api/v1/tasks",
        handle=_tasks,
        help="Tasks with their presets and tiers, models and strategies",
        gives={"type": "object", "required": ["tasks", "models", "strategies"]},
    ),
    Endpoint(
        path="/api/v1/problems",
        handle=_draw,
        help="One problem, as gce generate --json prints it",
        query=DrawProblem,
        gives=_PROBLEM,
        errors=(404, 503),
    ),
    Endpoint(
        path="/api/v1/judge",
        method="POST",
        handle=_judge,
        help="The verdict on an answer, as gce verify gives it",
        body=JudgeAnswer,
        gives=_VERDICT,
        errors=(404, 503),
    ),
)
