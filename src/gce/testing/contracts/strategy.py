"""Contract check for prompting strategies: one conversation with scripted replies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import evolve, frozen

from gce.domain.answers import Answer, answered_by
from gce.domain.completions import Completion
from gce.domain.problems import Problem
from gce.domain.strategies.requests import (
    MODEL,
    Act,
    Ask,
    Exchange,
    Failed,
    Observation,
    Reply,
    Request,
    Score,
    Settings,
    Strategy,
    draft_of,
)
from gce.domain.tasks.task import Task

__all__ = ["Script", "check_strategy"]

MOST_REQUESTS = 1000


@frozen
class Script:
    """Scripted replies."""

    say: Callable[[Ask], str]
    score: Callable[[str], tuple[float, ...]] = lambda continuation: (-1.0,) * (len(continuation) + 1)
    act: Callable[[Act], Observation | Failed] = lambda _act: Observation("done", done=True)


def check_strategy(
    strategy: Strategy, task: Task, problem: Problem, script: Script, *, settings: Settings | None = None
) -> tuple[Answer, ...]:
    """Assert the docstrings of `Strategy` and `Exchange`; return the attempts of the scripted conversation.

    Checks that the requests are reproducible and covered by the strategy's needs, and that the strategy continues or
    ends properly if a request fails.
    """
    given = settings or Settings()
    assert strategy.name and "," not in strategy.name and strategy.help and strategy.attempts >= 1

    def hold(failing: int | None = None) -> tuple[list[Request], Any]:
        return _held(strategy.converse(task, problem, given), strategy, task, problem, script, failing)

    requests, attempts = hold()
    assert hold() == (requests, attempts), "the same replies, the same requests"
    assert isinstance(attempts, tuple) and attempts, f"expected attempts, got {attempts!r}"
    assert all(isinstance(each, Answer) and each.problem.id == problem.id for each in attempts), attempts
    assert attempts[-1].problem == problem and not attempts[-1].reading, "the last attempt is at the problem itself"
    tries = [each for each in attempts if not each.reading]
    assert all(each.problem == problem for each in tries), attempts
    assert len(tries) <= strategy.attempts, f"{len(tries)} attempts, and it says {strategy.attempts} at most"
    for place, request in enumerate(requests):
        if isinstance(request, Ask) and request.to == MODEL:
            continue  # A failure here ends the conversation regardless of the strategy.
        _, ended = hold(failing=place)
        assert isinstance(ended, Failed) or (isinstance(ended, tuple) and ended), f"{request} fails, and then {ended!r}"
    strategy.converse(task, problem, given).close()
    return attempts


def _held(
    exchange: Exchange, strategy: Strategy, task: Task, problem: Problem, script: Script, failing: int | None
) -> tuple[list[Request], Any]:
    """Return all requests of a conversation and its result; the reply to request number `failing` is `Failed`."""
    requests: list[Request] = []
    replies: Any = None
    while len(requests) < MOST_REQUESTS:
        try:
            asked = exchange.send(replies)
        except StopIteration as ended:
            return requests, ended.value
        several = asked if isinstance(asked, tuple) else (asked,)
        assert several, "an empty tuple asks for nothing"
        found = []
        for request in several:
            _check_request(request, strategy)
            failed = len(requests) == failing
            found.append(Failed("scripted") if failed else _reply(request, task, problem, script))
            requests.append(request)
        replies = tuple(found) if isinstance(asked, tuple) else found[0]
    raise AssertionError(f"{strategy.name} goes on after {MOST_REQUESTS} requests")


def _check_request(request: Request, strategy: Strategy) -> None:
    assert isinstance(request, Ask | Score | Act), f"expected a request, got {request!r}"
    if isinstance(request, Act):
        named = {"environment", "episodes"} & strategy.needs
        assert named, f"{strategy.name} acts, and its needs name no environment"
        return
    capability = "sample" if isinstance(request, Ask) else "score"
    need = capability if request.to == MODEL else f"{request.to}.{capability}"
    assert need in strategy.needs, f"{strategy.name} needs {need}, and does not say so"
    assert request.turns, "nothing is asked"


def _reply(request: Request, task: Task, problem: Problem, script: Script) -> Reply:
    if isinstance(request, Act):
        return script.act(request)
    if isinstance(request, Score):
        return tuple(map(script.score, request.continuations))
    completion = Completion(problem.key, script.say(request), "stop", policy="scripted")
    about = request.problem or problem
    if request.draft or request.to != MODEL:
        return draft_of(about, completion, reading=request.reading)
    return evolve(answered_by(task, about, completion, task.judge(about, completion)), reading=request.reading)
