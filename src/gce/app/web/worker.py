"""What the server has done in other processes: draw problems, judge answers, ask a model, report.

    python -m gce.app.web.worker                asks on standard input, replies on standard output, one a line
    python -m gce.app.web.worker REQUEST.json   one ask, whose reply is printed

Judging and drawing may take long, and run code that is not ours; models take memory. None of it can hold up the server
or bring it down.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any

from attrs import evolve

from gce.app.evaluation.conversations import converse
from gce.app.evaluation.demonstrations import few_shot_turns
from gce.app.evaluation.scoring import judge as judged
from gce.app.evaluation.shown_problem import plain_problem
from gce.app.evaluation.verifying import KnownProblems, response_of
from gce.app.loaded_model import load_model
from gce.app.reports.report import report
from gce.app.terminal import put, put_json
from gce.app.web.asks import PERSONAS
from gce.app.wiring.evaluators import find_evaluator
from gce.app.wiring.files import parse_json, read_input, standard_input_lines
from gce.app.wiring.models import SHIPPED_MODEL, default_model
from gce.app.wiring.names import find_strategy
from gce.app.wiring.solvers import find_solve
from gce.app.wiring.system import limits
from gce.app.wiring.tasks import find_preset, find_task, find_tiers
from gce.domain.answers import Answer
from gce.domain.conversations import Conversation
from gce.domain.marks import pieces
from gce.domain.problems import Message, Problem, ProblemId
from gce.domain.serialization import to_plain
from gce.domain.strategies.requests import Settings
from gce.domain.tasks import NoProblem, Task
from gce.errors import BadInput, GceError, one_line
from gce.ports.evaluator import Evaluator

__all__ = ["reply"]

MOST_OF_A_REQUEST = 2**20
SHOTS = 3
MOST_DRAWN = 200
"""Problems among which one with a user of a persona is looked for."""
MEMORY = 2**30
"""Bytes of data of a worker that judges."""


def _draw(asked: Mapping[str, Any]) -> dict[str, Any]:
    """A problem by preset, tier, split, seed and index."""
    task, _, known = _of(asked["task"])
    preset = find_preset(task, asked["preset"])
    tier = asked["tier"] or find_tiers(task, preset, ())[0]
    if tier not in task.training_tiers(preset, ladder=True):
        find_tiers(task, preset, (tier,))
    name = ProblemId(task.name, preset, asked["split"], tier, asked["seed"], asked["index"])
    problem = known.problem(str(name))
    return {**plain_problem(problem), "max_tokens": task.token_budget(problem)}


def _judge(asked: Mapping[str, Any]) -> dict[str, Any]:
    """The verdict on an answer to the problem of a key, as `gce verify` gives it."""
    task, evaluator, known = _of(asked["task"])
    problem = known.problem(asked["problem"])
    found = judged(task, evaluator, problem, response_of(asked["answer"]))
    return _plain(task, found)


def _plain(task: Task, found: Answer) -> dict[str, Any]:
    said = [(fault.about, fault.message) for verdict in found.verdicts for fault in verdict.violations]
    return {
        "problem": found.problem.key,
        **{"outcome": found.outcome, "right": found.right, "reward": found.reward},
        "verdicts": to_plain(found.verdicts),
        "steps": to_plain(task.judge_steps(found.problem, found.completion.text)),
        "pieces": to_plain(pieces(found.completion.text, said)),
    }


def _answer(asked: Mapping[str, Any]) -> dict[str, Any]:
    """A model's answer to the problem of a key, by a strategy, with its verdict."""
    task, _, known = _of(asked["task"])
    (held,) = _held(asked, task, known.problem(asked["problem"]), [asked["strategy"]])
    last = held.last
    said = {"text": last.completion.text, "tokens": last.completion.tokens, "reason": last.reason}
    return {**said, **_plain(task, last)}


def _simulate(asked: Mapping[str, Any]) -> dict[str, Any]:
    """How a model does on one problem by each of several strategies: what was said, and the verdict."""
    task, _, known = _of(asked["task"])
    problem = known.problem(asked["problem"]) if "problem" in asked else _consultation(asked)
    held = _held(asked, task, problem, asked["strategies"])
    return {"problem": problem.key, "held": list(map(_told, asked["strategies"], held))}


def _told(strategy: str, held: Conversation) -> dict[str, Any]:
    """The messages up to the last reply, and what that came to."""
    last, said = held.last, list[Message]()
    if held.said:
        prompt, completion = held.said[-1]
        said = [*prompt, Message("assistant", completion.text)]
    return {
        **{"strategy": strategy, "messages": to_plain(said), "text": last.completion.text},
        **{"outcome": last.outcome, "right": last.right, "reward": last.reward, "reason": last.reason},
        **{"calls": held.replies, "tokens": held.tokens, "notes": dict(last.notes)},
    }


def _consultation(asked: Mapping[str, Any]) -> Problem:
    """The first problem from an index on whose user is of the persona that is asked for."""
    task, _, known = _of(asked["task"])
    preset = find_preset(task, "")
    tier = find_tiers(task, preset, (asked["tier"],) if asked["tier"] else ())[0]
    personas = set[str]()
    for index in range(asked["index"], MOST_DRAWN):
        problem = known.problem(str(ProblemId(task.name, preset, "dev", tier, 0, index)))
        persona = getattr(problem.instance, "persona", None)
        if persona is not None:
            if asked["persona_type"] in ("", persona.name, PERSONAS.get(persona.name)):
                return problem
            personas.add(persona.name)
    raise BadInput(f"expected a persona of {task.name} ({', '.join(sorted(personas))}), got {asked['persona_type']}")


def _held(asked: Mapping[str, Any], task: Task, problem: Problem, strategies: Sequence[str]) -> list[Conversation]:
    """A conversation about the problem by each strategy."""
    evaluator, found = find_evaluator(task), list[Conversation]()
    model = load_model(asked["model"] or default_model(task), adapter=asked["adapter"], task=task)
    for strategy in map(find_strategy, strategies):
        settings = Settings(temperature=asked.get("temperature", 0.0), seed=asked.get("seed", 0))
        if strategy.needs_examples:
            preset, tiers = problem.id.preset, [problem.tier]
            shots = few_shot_turns(task, evaluator, preset, tiers, SHOTS, solve=find_solve("heuristic"))
            settings = evolve(settings, examples=shots)
        found += converse(strategy, model.model, task, evaluator, [problem], settings)
    return found


def _reason(asked: Mapping[str, Any]) -> dict[str, Any]:
    """A model's reply to a prompt, with a context before it."""
    said = [Message("system", asked["context"])] if asked["context"] else []
    model = load_model(asked["model"] or SHIPPED_MODEL, adapter=asked["adapter"])
    return {"text": model.chat([*said, Message("user", asked["prompt"])], max_tokens=asked["max_tokens"])}


def _report(asked: Mapping[str, Any]) -> dict[str, Any]:
    """What a report says of a run."""
    found = report(asked["run"], verify=False)
    return {"title": found.title, "sections": found.plain}


ACTIONS: Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "draw": _draw,
    "judge": _judge,
    "answer": _answer,
    "reason": _reason,
    **dict.fromkeys(("qa", "adversarial", "orchestration"), _simulate),
    "report": _report,
    "page": lambda asked: {"page": report(asked["run"], verify=False).page()},
}


@cache
def _of(name: str) -> tuple[Task, Evaluator, KnownProblems]:
    task = find_task(name)
    return task, find_evaluator(task), KnownProblems(task)


def reply(asked: Mapping[str, Any]) -> dict[str, Any]:
    """What an ask comes to; `error` says in a line why it comes to nothing."""
    try:
        return ACTIONS[asked["do"]](asked)
    except (GceError, NoProblem, ValueError) as error:
        return {"error": one_line(error)}


def _quietly(asked: Mapping[str, Any]) -> dict[str, Any]:
    """The reply; of what a task prints meanwhile, nothing is taken for it."""
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
        return reply(asked)


def _serve() -> int:
    limits(MEMORY)()
    for line in standard_input_lines(MOST_OF_A_REQUEST):
        put_json(_quietly(parse_json(line or b"{}", "the request")))
    return 0


def _once(path: Path) -> int:
    found = _quietly(parse_json(read_input(path, MOST_OF_A_REQUEST), "the request"))
    if "error" in found:
        put(found["error"], error=True)
        return 2
    put_json(found)
    return 0


if __name__ == "__main__":
    sys.exit(_once(Path(sys.argv[1])) if len(sys.argv) > 1 else _serve())
