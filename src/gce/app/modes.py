"""Ways to put a problem to a model: at once, after examples, with feedback, or in three calls.

A mode is a conversation about one problem: a generator that yields what the model is asked, gets its judged answer
back, and returns the attempts, of which the last one counts. `converse` holds many conversations at once and knows
nothing of what is said.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence

from attrs import evolve, field, frozen

from gce.app.evaluation import Judged, answered
from gce.domain.randomness import key
from gce.domain.tasks import Task
from gce.domain.types import Completion, Message, Problem, SampleRequest
from gce.errors import BadInput
from gce.ports.model import Sampler

__all__ = ["ATTEMPTS", "MODES", "Answered", "Settings", "converse"]

ATTEMPTS = 3
"""Of the multi-turn mode, at most."""

Turns = tuple[Message, ...]


@frozen
class Ask:
    """What the model is asked for in one call."""

    turns: Turns
    draft: bool = False
    """Whether it is not to be judged: the answer then comes back without verdicts."""


Conversation = Generator[Ask, Judged, tuple[Judged, ...]]


@frozen
class Settings:
    """How answers are drawn."""

    seed: int = 0
    temperature: float = 0.0
    samples: int = 1
    """Conversations about each problem."""
    max_tokens: int | None = None
    """Generated tokens of one reply; None takes the task's."""
    examples: Mapping[str, Turns] = field(factory=dict)
    """By tier, what the few-shot mode shows first."""


@frozen
class Answered:
    """A conversation that has ended."""

    attempts: tuple[Judged, ...]
    replies: int
    """What the model was asked for, drafts included."""
    prompt_tokens: int | None
    """Read in all replies together; None where the backend does not tell."""
    tokens: int | None
    """Written."""

    @property
    def last(self) -> Judged:
        """The attempt that counts."""
        return self.attempts[-1]


def zero_shot(_task: Task, problem: Problem, _settings: Settings) -> Conversation:
    """The prompt as it is."""
    return ((yield Ask(problem.prompt)),)


def few_shot(_task: Task, problem: Problem, settings: Settings) -> Conversation:
    """The prompt after solved examples of the same tier, or for a held-out tier of the last one that is not."""
    return ((yield Ask(settings.examples[problem.tier] + problem.prompt)),)


def multi_turn(task: Task, problem: Problem, _settings: Settings) -> Conversation:
    """Up to `ATTEMPTS` answers; after a wrong one the model is told what is wrong with it."""
    turns, attempts = problem.prompt, list[Judged]()
    while True:
        attempt = yield Ask(turns)
        attempts.append(attempt)
        if attempt.right or attempt.completion.finish_reason == "context" or len(attempts) == ATTEMPTS:
            return tuple(attempts)
        wrong = [verdict for verdict in attempt.verdicts if not verdict.right]
        told = "\n".join(map(task.feedback, wrong)) or "Try again."
        turns = (*turns, Message("assistant", attempt.completion.text), Message("user", told))


def simulate(task: Task, problem: Problem, _settings: Settings) -> Conversation:
    """Three calls: list the constraints; draft and check against them; answer. Only the last reply is judged."""
    if not task.calls:
        raise BadInput(f"task {task.name} has no calls: leave out the mode simulate")
    first, *others = task.calls
    *before, last = problem.prompt
    turns = (*before, evolve(last, content=f"{last.content}\n{first}"))
    for call in others:
        draft = yield Ask(turns, draft=True)
        turns = (*turns, Message("assistant", draft.completion.text), Message("user", call))
    return ((yield Ask(turns)),)


MODES: Mapping[str, Callable[[Task, Problem, Settings], Conversation]] = {
    "zero-shot": zero_shot,
    "few-shot": few_shot,
    "multi-turn": multi_turn,
    "simulate": simulate,
}


def converse(
    mode: Callable[[Task, Problem, Settings], Conversation],
    model: Sampler,
    task: Task,
    problems: Sequence[Problem],
    settings: Settings,
    *,
    done: Mapping[str, Answered] | None = None,
    on_answer: Callable[[str, Answered], None] = lambda _name, _answered: None,
) -> list[Answered]:
    """Conversations about all problems, in their order; those that are `done`, by name, are not held again.

    In each round all that wait for a reply are asked for it together; `on_answer` is told of each that ends. A reply
    that fails ends its conversation, which has failed with it.
    """
    about = {f"{problem.key}/{sample}": problem for problem in problems for sample in range(settings.samples)}
    found = {name: answered for name, answered in (done or {}).items() if name in about}
    talks = {name: mode(task, problem, settings) for name, problem in about.items() if name not in found}
    waiting = {name: next(talk) for name, talk in talks.items()}
    replies: dict[str, list[Completion]] = {name: [] for name in talks}
    attempts: dict[str, list[Judged]] = {name: [] for name in talks}
    number = 0
    while waiting:
        requests = [
            SampleRequest(
                name,
                ask.turns,
                seed=key(settings.seed, "evaluate", f"{name}/{number}" if number else name),
                temperature=settings.temperature,
                max_tokens=task.room(about[name], settings.max_tokens),
            )
            for name, ask in waiting.items()
        ]
        going_on: dict[str, Ask] = {}
        drafts = {name for name, ask in waiting.items() if ask.draft}
        for answer in answered(model, task, requests, about, drafts=drafts):
            name = answer.completion.key
            replies[name].append(answer.completion)
            if name not in drafts or answer.failed:
                attempts[name].append(answer)
            if answer.failed:
                talks[name].close()
                found[name] = _answered(tuple(attempts[name]), replies[name])
                on_answer(name, found[name])
                continue
            try:
                going_on[name] = talks[name].send(answer)
            except StopIteration as ended:
                found[name] = _answered(ended.value, replies[name])
                on_answer(name, found[name])
        waiting = {name: going_on[name] for name in waiting if name in going_on}
        number += 1
    return [found[name] for name in about]


def _answered(attempts: tuple[Judged, ...], replies: Sequence[Completion]) -> Answered:
    read = [reply.prompt_tokens for reply in replies]
    written = [reply.tokens for reply in replies if reply.finish_reason in ("stop", "length")]
    return Answered(
        attempts,
        len(replies),
        sum(tokens or 0 for tokens in read) if None not in read else None,
        sum(tokens or 0 for tokens in written) if None not in written else None,
    )
