"""Conversations about problems, many at once: what strategies ask for is served, and counted.

Knows nothing of what is said. In each round all conversations that wait for completions are asked together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from attrs import define, evolve, field, frozen

from gce.app.evaluation.environments import TimedEnvironment
from gce.app.evaluation.scoring import answered, judge
from gce.domain.answers import Answer
from gce.domain.completions import Completion, SampleRequest
from gce.domain.conversations import Conversation
from gce.domain.problems import Problem
from gce.domain.randomness import key
from gce.domain.strategies.requests import (
    ANOTHER,
    MODEL,
    RESET,
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
    Turns,
    draft_of,
)
from gce.domain.tasks import Task
from gce.errors import BadInput, GceError
from gce.ports.environment import Environment
from gce.ports.evaluator import Evaluator
from gce.ports.model import Model, Sampler, Scorer

__all__ = ["Environments", "Opening", "check_needs", "converse", "hold", "opening_of"]

Environments = Callable[[Problem], Environment]
"""Makes an environment for each conversation; it is closed when that ends."""


def check_needs(
    strategy: Strategy,
    task: Task,
    settings: Settings,
    model: object,
    *,
    roles: Mapping[str, object] | None = None,
    environments: Environments | None = None,
) -> None:
    """BadInput where something is missing that the strategy needs; nothing is asked for it."""
    models = {MODEL: model, **(roles or {})}
    for need in sorted(strategy.needs):
        role, _, capability = need.rpartition(".")
        if need == "calls":
            if not task.teaching.calls:
                raise BadInput(
                    f"task {task.name} has no prompts for three calls: leave out the strategy {strategy.name}"
                )
        elif need == "beliefs":
            if task.teaching.beliefs is None:
                raise BadInput(
                    f"the answers of task {task.name} are no probabilities: leave out the strategy {strategy.name}"
                )
        elif need == "consultation":
            if task.teaching.consultation is None:
                raise BadInput(f"task {task.name} has no simulated user: leave out the strategy {strategy.name}")
        elif need == "examples":
            if not settings.examples:
                raise BadInput(f"strategy {strategy.name} needs few-shot examples, got none")
        elif need == "environment":
            if environments is None:
                raise BadInput(f"strategy {strategy.name} needs an environment, got none")
        elif need == "episodes":
            if task.teaching.episodes is None:
                raise BadInput(
                    f"the problems of task {task.name} are not played turn by turn: leave out the strategy "
                    f"{strategy.name}"
                )
        elif (role or MODEL) not in models:
            hint = "give two models with {models}" if role == ANOTHER else ""
            raise BadInput(f"strategy {strategy.name} needs a model for the role {role!r}, got none", hint=hint)
        elif capability not in _capabilities(models[role or MODEL]):
            whose = f"the model for the role {role!r}" if role else "the model"
            raise BadInput(f"strategy {strategy.name} needs {whose} to {capability}, which it does not support")


def _capabilities(model: object) -> frozenset[str]:
    return frozenset(model.info().capabilities) if isinstance(model, Model) else frozenset()


def converse(
    strategy: Strategy,
    model: Sampler,
    task: Task,
    evaluator: Evaluator,
    problems: Sequence[Problem],
    settings: Settings,
    *,
    roles: Mapping[str, Sampler] | None = None,
    environments: Environments | None = None,
    done: Mapping[str, Conversation] | None = None,
    on_end: Callable[[str, Conversation], None] = lambda _name, _conversation: None,
) -> list[Conversation]:
    """Conversations about all problems, in their order; those that are `done`, by name, are not held again.

    `roles` binds the roles that the strategy asks besides the model under test; `on_end` is told of each conversation
    that ends. A completion of the model under test that fails ends its conversation, which has failed with it.

    Raises:
        BadInput: something is missing that the strategy needs.
        ValueError: the strategy asks a role that its needs do not name, or returns no attempts.
    """
    check_needs(strategy, task, settings, model, roles=roles, environments=environments)
    models = {MODEL: model, **{role: each for role, each in (roles or {}).items() if role in strategy.roles}}
    about = {f"{problem.key}/{sample}": problem for problem in problems for sample in range(settings.samples)}
    known = done or {}
    openings = {
        name: opening_of(name, strategy, task, problem, settings)
        for name, problem in about.items()
        if name not in known
    }
    held = hold(openings, models, task, evaluator, settings, environments=environments, on_end=on_end)
    return [known[name] if name in known else held[name] for name in about]


def _seed(seed: int, name: str, number: int, place: int) -> int:
    """Of a request in an evaluation: see `Opening.seed`."""
    reply = f"{name}/{number}" if number or place else name
    return key(seed, "evaluate", f"{reply}/{place}" if place else reply)


@frozen
class Opening:
    """A conversation that is to be held."""

    problem: Problem
    exchange: Exchange
    """Not begun."""
    seed: Callable[[int, int], int]
    """Of a completion: from the number of the request, and its place among parallel ones, both from 0."""


def opening_of(name: str, strategy: Strategy, task: Task, problem: Problem, settings: Settings) -> Opening:
    """The opening of an evaluation's conversation of this name, which is PROBLEM/SAMPLE."""
    return Opening(problem, strategy.converse(task, problem, settings), partial(_seed, settings.seed, name))


def hold(
    openings: Mapping[str, Opening],
    models: Mapping[str, Sampler],
    task: Task,
    evaluator: Evaluator,
    settings: Settings,
    *,
    environments: Environments | None = None,
    on_end: Callable[[str, Conversation], None] = lambda _name, _conversation: None,
) -> dict[str, Conversation]:
    """Conversations by name, in the order in which they ended; `models` by role, the one under test as `MODEL`."""
    judged = partial(judge, task, evaluator)
    if environments is None and task.teaching.episodes is not None:
        environments = task.teaching.episodes.open
    found: dict[str, Conversation] = {}
    waiting = [_Open(name, opening, judged, environments) for name, opening in openings.items()]
    driver = _Driver(task, evaluator, settings, found, on_end)
    try:
        for each in waiting:
            each.go_on()
        while waiting:
            for each in waiting:
                each.serve(models)
            for role, sampler in models.items():
                driver.ask(role, sampler, waiting)
            for each in waiting:
                driver.end(each)
            waiting = [each for each in waiting if each.ended is None]
    finally:
        for each in waiting:
            each.close()
    return found


@frozen
class _Driver:
    """What serves all conversations."""

    task: Task
    evaluator: Evaluator
    settings: Settings
    found: dict[str, Conversation]
    """Those that have ended, by name."""
    on_end: Callable[[str, Conversation], None]

    def ask(self, role: str, model: Sampler, waiting: Sequence[_Open]) -> None:
        """Ask one role for all completions that are waited for."""
        asked = {name: (each, place, ask) for each in waiting for name, place, ask in each.asks(role)}
        if not asked:
            return
        requests = [self._request(name, *request) for name, request in asked.items()]
        about = {name: ask.problem or each.problem for name, (each, _, ask) in asked.items()}
        drafts = {name for name, (_, _, ask) in asked.items() if ask.draft or role != MODEL}
        for answer in answered(model, self.task, self.evaluator, requests, about, drafts=drafts):
            each, place, ask = asked[answer.completion.key]
            each.take(place, evolve(answer, reading=ask.reading) if ask.reading else answer)
            self.end(each)

    def end(self, each: _Open) -> None:
        """Note a conversation that has ended, once."""
        if each.ended is not None and each.name not in self.found:
            self.found[each.name] = each.ended
            self.on_end(each.name, each.ended)

    def _request(self, name: str, each: _Open, place: int, ask: Ask) -> SampleRequest:
        return SampleRequest(
            name,
            ask.turns,
            seed=each.opening.seed(each.number, place),
            temperature=self.settings.temperature if ask.temperature is None else ask.temperature,
            max_tokens=self.task.token_budget(each.problem, ask.max_tokens or self.settings.max_tokens),
            stop=ask.stop,
        )


@define
class _Open:
    """A conversation that goes on."""

    name: str
    opening: Opening
    judged: Callable[[Problem, Completion], Answer]
    environments: Environments | None
    environment: Environment | None = None
    requests: tuple[Request, ...] = ()
    alone: bool = True
    """Whether the request came without a tuple around it."""
    replies: dict[int, Reply] = field(factory=dict)
    """By the place of the request."""
    number: int = -1
    """Of the requests, from 0."""
    said: list[tuple[Turns, Completion]] = field(factory=list)
    """What the model under test read and wrote."""
    scored: int = 0
    """Tokens that it was asked to score."""
    attempts: list[Answer] = field(factory=list)
    ended: Conversation | None = None

    @property
    def problem(self) -> Problem:
        """What it is about."""
        return self.opening.problem

    def asks(self, role: str) -> Iterator[tuple[str, int, Ask]]:
        """Completions that are wanted of a role: a name for each, the place of its request, and the request."""
        for place, request in enumerate(self.requests if self.ended is None else ()):
            if isinstance(request, Ask) and request.to == role and place not in self.replies:
                yield f"{self.name}#{place}" if place else self.name, place, request

    def serve(self, models: Mapping[str, object]) -> None:
        """Serve scores and acts until completions are waited for, or the conversation ends."""
        while self.ended is None:
            for place, request in enumerate(self.requests):
                if not isinstance(request, Act) and request.to not in models:
                    raise ValueError(f"the strategy asks the role {request.to!r}, which its needs do not name")
                if isinstance(request, Score) and place not in self.replies:
                    reply = _scored(models[request.to], request)
                    self.scored += sum(map(len, reply)) if request.to == MODEL and isinstance(reply, tuple) else 0
                    self.replies[place] = reply
                elif isinstance(request, Act) and place not in self.replies:
                    self.replies[place] = self._done(request)
            if len(self.replies) < len(self.requests):
                return
            self.go_on()

    def take(self, place: int, answer: Answer) -> None:
        """Take an answer; with the last one that was waited for, the conversation goes on."""
        request = self.requests[place]
        of_model = isinstance(request, Ask) and request.to == MODEL
        self.replies[place] = Failed(answer.reason) if answer.failed and not of_model else answer
        if len(self.replies) == len(self.requests):
            self.go_on()

    def go_on(self) -> None:
        """Hand over the replies, and take the next requests."""
        failed = self._count()
        if failed:
            self._end((*self.attempts, *failed))
            return
        replies = tuple(self.replies[place] for place in range(len(self.requests)))
        try:
            asked = self.opening.exchange.send(None if self.number < 0 else replies[0] if self.alone else replies)
        except StopIteration as ended:
            self._end(self._returned(ended.value))
            return
        self.alone = not isinstance(asked, tuple)
        self.requests = asked if isinstance(asked, tuple) else (asked,)
        self.replies = {}
        self.number += 1

    def _count(self) -> list[Answer]:
        """Note the answers of the model under test; those that failed."""
        failed = []
        for place, request in enumerate(self.requests):
            answer = self.replies[place]
            if isinstance(request, Ask) and request.to == MODEL and isinstance(answer, Answer):
                self.said.append((request.turns, answer.completion))
                if answer.failed:
                    failed.append(answer)
                elif not request.draft:
                    self.attempts.append(answer)
        return failed

    def _done(self, act: Act) -> Observation | Failed:
        if self.environment is None:
            if self.environments is None:
                raise ValueError("the strategy acts, and its needs name no environment")
            self.environment = TimedEnvironment(partial(self.environments, self.problem))
        return self.environment.reset(seconds=act.seconds) if act.name == RESET else self.environment.step(act)

    def _returned(self, value: tuple[Answer, ...] | Failed) -> tuple[Answer, ...]:
        """The attempts that the strategy returned, all judged."""
        if isinstance(value, Failed):
            completion = Completion(self.name, "", "error", policy="", error=value.reason)
            return (*self.attempts, draft_of(self.problem, completion))
        if not value:
            raise ValueError(f"expected attempts from the strategy, got {value!r}")
        return tuple(
            each
            if each.verdicts or each.failed
            else evolve(self.judged(each.problem, each.completion), reading=each.reading, notes=each.notes)
            for each in value
        )

    def close(self) -> None:
        """Free what it holds."""
        self.opening.exchange.close()
        if self.environment is not None:
            self.environment.close()

    def _end(self, attempts: tuple[Answer, ...]) -> None:
        self.close()
        read = [completion.prompt_tokens for _, completion in self.said]
        written = [each.tokens for _, each in self.said if each.finish_reason in ("stop", "length")]
        counts = (len(self.said), None if self.scored else _sum(read), _sum(written))
        self.ended = Conversation(attempts, *counts, said=tuple(self.said), scored=self.scored)


def _sum(counts: Sequence[int | None]) -> int | None:
    return None if None in counts else sum(count or 0 for count in counts)


def _scored(model: object, request: Score) -> tuple[tuple[float, ...], ...] | Failed:
    if not isinstance(model, Scorer):
        raise ValueError(f"the strategy wants scores of the role {request.to!r}, and its needs name no score")
    try:
        return tuple(model.log_probabilities(request.turns, each) for each in request.continuations)
    except GceError as error:
        return Failed(str(error))
