"""The interface of ISOPro: its health check and its simulations, in its envelope.

A simulation is about a problem that a verifier judges; the verdict is in `metadata`.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from attrs import asdict, frozen
from starlette.exceptions import HTTPException
from starlette.responses import Response

from gce.app.web.api.endpoints import Endpoint, Given, plain_response
from gce.app.web.api.jobs import adapter_of, jobs_of, launcher_of
from gce.app.web.asks import PERSONAS, Attack, Consult, Orchestrate, Reason
from gce.app.web.desk import Busy
from gce.domain.strategies.attack import ATTACK
from gce.domain.strategies.consultation import CONSULTATION
from gce.domain.strategies.orchestrate import ORCHESTRATE
from gce.domain.strategies.single_turn import ZERO_SHOT
from gce.domain.tasks.consultation.personas import SHIPPED
from gce.errors import BadInput, SettingError

__all__ = ["ENDPOINTS"]

SECONDS = 120.0
"""That a client waits for a reply; the job is cancelled then."""
REFUSED = 2
"""Exit status of a worker for what cannot be done."""
GRAPHS = {"parallel": "vote", "node": "planner-worker-critic"}
"""By ISOPro's names of modes."""


@frozen
class Simulation:
    """A type of simulation."""

    asked: type
    strategies: Callable[[Any], list[str]]
    """How a problem is gone about; none for a prompt that is no problem."""
    output: Callable[[Mapping[str, Any]], Any]
    """Of what the worker replied."""
    gives: Mapping[str, Any]
    """Schema of the output."""
    help: str


def _consulted(asked: Consult) -> list[str]:
    names, wanted = [each.name for each in SHIPPED], asked.persona_type
    if asked.task == "consultation" and wanted not in ("", *names, *PERSONAS.values()):
        expected = f"one of {', '.join(names)}"
        raise SettingError("persona_type", expected, wanted, f"expected {expected}, got {wanted}")
    return [f"{CONSULTATION.name}@{asked.num_turns}"]


def _attacked(asked: Attack) -> list[str]:
    attacks = (f"{ATTACK.name}@{asked.attack_type}+{asked.edits}+seed={step}" for step in range(asked.num_steps))
    return [ZERO_SHOT.name, *attacks]


def _orchestrated(asked: Orchestrate) -> list[str]:
    if asked.mode == "agent":
        return [ZERO_SHOT.name]
    return [f"{ORCHESTRATE.name}@{GRAPHS.get(asked.mode, asked.mode)}"]


def _history(found: Mapping[str, Any]) -> Any:
    return found["held"][0]["messages"]


def _pairs(found: Mapping[str, Any]) -> Any:
    """Each attacked prompt beside the original; null where none keeps the meaning."""
    before, *attacked = (_prompt_and_reply(each) for each in found["held"])
    return [
        {
            **{"original_input": before[0], "perturbed_input": prompt},
            **{"original_output": before[1], "perturbed_output": reply},
        }
        for prompt, reply in attacked
    ]


def _prompt_and_reply(held: Mapping[str, Any]) -> tuple[Any, Any]:
    said = [each["content"] for each in held["messages"]]
    return (said[-2], said[-1]) if said else (None, None)


def _reply(found: Mapping[str, Any]) -> Any:
    return found["held"][-1]["text"]


_OBJECTS = {"type": "array", "items": {"type": "object"}}
SIMULATIONS: Mapping[str, Simulation] = {
    "reason": Simulation(
        Reason, lambda _: [], lambda found: found["text"], {"type": "string"}, "Let a model reason about a prompt"
    ),
    "qa": Simulation(Consult, _consulted, _history, _OBJECTS, "Let a model ask a simulated user before it answers"),
    "adversarial": Simulation(Attack, _attacked, _pairs, _OBJECTS, "Let a model answer attacked prompts of a problem"),
    "orchestration": Simulation(
        Orchestrate, _orchestrated, _reply, {"type": "string"}, "Let a graph of roles answer a problem"
    ),
}
NAMES = {each.asked: name for name, each in SIMULATIONS.items()}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


async def _health(_: Given) -> Any:
    return {"status": "ok", "timestamp": _now()}


async def _simulate(given: Given) -> Any:
    name = NAMES[type(given.asked)]
    simulation, jobs, launcher = SIMULATIONS[name], jobs_of(given.request), launcher_of(given.request)
    strategies = simulation.strategies(given.asked)
    adapter = adapter_of(given.request, given.asked.run) if strategies else None
    job = await asyncio.to_thread(launcher.simulate, name, given.asked, strategies, adapter)
    try:
        async with asyncio.timeout(SECONDS):
            while not jobs.status(job).is_over:
                if await given.request.is_disconnected():
                    raise Busy
                await asyncio.sleep(0.1)
    except TimeoutError as error:
        raise Busy from error
    finally:
        jobs.cancel(job.id)
    status = jobs.status(job)
    if status.status == REFUSED:
        raise BadInput("it cannot be simulated")
    if status.state != "done":
        raise HTTPException(500)
    found = json.loads(jobs.output(job))
    verdicts = {"problem": found["problem"], "verdicts": _verdicts(found)} if strategies else {}
    metadata = {"simulation_type": name, "timestamp": _now(), **asdict(given.asked), **verdicts}
    return {"run_id": str(uuid.uuid4()), "output": simulation.output(found), "metadata": metadata}


def _verdicts(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """By strategy; without the messages, of which the output has what was asked for."""
    return [{name: value for name, value in each.items() if name not in ("messages", "text")} for each in found["held"]]


def _refused(status: int, detail: str, fields: Any) -> Response:
    """ISOPro's errors: one field, and 400 for all that the client can mend."""
    words = "; ".join(f"{name}: expected {expected}" for name, expected in fields.items())
    text = words or detail or {500: "The model gave no reply."}.get(status, "")
    return plain_response({"error": text or "It cannot be done."}, 400 if status in (404, 415, 422) else status)


def _endpoint(path: str, help: str, output: Mapping[str, Any], **body: Any) -> Endpoint:
    envelope = {
        "type": "object",
        "required": ["run_id", "output", "metadata"],
        "properties": {
            "run_id": {"type": "string", "format": "uuid"},
            "output": output,
            "metadata": {"type": "object", "required": ["simulation_type", "timestamp"]},
        },
    }
    found: dict[str, Any] = {"method": "POST", "gives": envelope, "errors": (500, 503), "refuses": _refused, **body}
    return Endpoint(path=path, handle=_simulate, help=help, **found)


ENDPOINTS = (
    Endpoint(path="/healthcheck", handle=_health, help="Whether the server is there"),
    _endpoint("/simulate", "Simulate, by type", {}, bodies={name: each.asked for name, each in SIMULATIONS.items()}),
    *(_endpoint(f"/simulate/{name}", each.help, each.gives, body=each.asked) for name, each in SIMULATIONS.items()),
)
