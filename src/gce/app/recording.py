"""`gce.trace`: a conversation made by the user's own code, recorded as a trace that is judged and learned from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, TypeVar

from attrs import define, field

from gce.app.evaluation.checking import the_task
from gce.app.evaluation.scoring import judge, sampled
from gce.app.loaded_model import load_model
from gce.app.wiring.evaluators import VERIFIER, find_evaluator
from gce.domain.answers import Answer
from gce.domain.completions import Completion, SampleRequest
from gce.domain.learning import Trace, Turn
from gce.domain.problems import Message, Problem, ToolCall
from gce.domain.randomness import key
from gce.domain.tasks import Task
from gce.domain.traces import trace_of
from gce.errors import BadInput, ModelError
from gce.ports.evaluator import Evaluator
from gce.ports.model import Sampler

__all__ = ["Recorder", "trace"]

Ended = TypeVar("Ended", Answer, Trace)


@define(eq=False)
class Recorder:
    """A conversation that goes on; `trace` makes it. When the `with` block ends, the last reply is judged."""

    problem: Problem
    task: Task
    evaluator: Evaluator
    model: Sampler | None
    name: str
    seed: int
    tools: tuple[Mapping[str, Any], ...]
    turns: list[Turn]
    """So far, the problem's prompt first."""
    _answer: Answer | None = field(default=None, init=False)
    _trace: Trace | None = field(default=None, init=False)

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if error is None:
            self._end()

    @property
    def messages(self) -> tuple[Message, ...]:
        """What has been said so far, to hand to a model of one's own."""
        return tuple(turn.message for turn in self.turns)

    @property
    def answer(self) -> Answer:
        """The last reply with its verdicts; BadInput before the `with` block has ended."""
        return _ended(self._answer)

    @property
    def trace(self) -> Trace:
        """The conversation with its verdicts, for `gce.admit`; BadInput before the `with` block has ended."""
        return _ended(self._trace)

    def system(self, text: str) -> None:
        """Instructions."""
        self.turns.append(Turn("task", Message("system", text)))

    def user(self, text: str) -> None:
        """What a person, or whoever stands in for one, says."""
        self.turns.append(Turn("user", Message("user", text)))

    def tool(self, text: str, *, call: str = "") -> None:
        """What a tool returned; `call` is the id of the tool call."""
        self.turns.append(Turn("tool", Message("tool", text, tool_call_id=call)))

    def ask(self, *, temperature: float = 0.8, max_tokens: int | None = None, stop: Sequence[str] = ()) -> str:
        """The model's reply to what has been said so far, recorded with its tokens and their log-probabilities.

        Raises:
            BadInput: no model was given.
            ModelError: the conversation does not fit the model's context, or it failed to reply.
        """
        if self.model is None:
            raise BadInput("gce.trace was given no model to ask: give it model=, or record replies with assistant()")
        name = f"{self.name}/{len(self.turns)}"
        limit = self.task.token_budget(self.problem, max_tokens)
        drawn = key(self.seed, "trace", self.problem.key, len(self.turns))
        (reply,) = sampled(self.model, [SampleRequest(name, self.messages, drawn, temperature, limit, tuple(stop))])
        if reply.finish_reason in ("context", "error"):
            raise ModelError(f"the model gave no reply: {reply.error or 'no reason was given'}")
        self.assistant(reply)
        return reply.text

    def assistant(self, said: str | Completion, *, calls: Sequence[ToolCall] = ()) -> None:
        """What the model replied, where one's own code asked it, with the tools that it calls; it is trained on."""
        name = f"{self.name}/{len(self.turns)}"
        written = said if isinstance(said, Completion) else Completion(name, said, "stop", policy="")
        message = Message("assistant", written.text, tool_calls=tuple(calls))
        self.turns.append(Turn("policy", message, written, trained=True))

    def _end(self) -> None:
        replies = [turn.completion for turn in self.turns if turn.trained and turn.completion is not None]
        if not replies:
            raise BadInput("the recorded conversation has no reply of the model: call ask() or assistant()")
        self._answer = judge(self.task, self.evaluator, self.problem, replies[-1])
        verdicts, reward = self._answer.verdicts, self._answer.reward
        self._trace = trace_of(self.problem, self.turns, verdicts, key=self.name, reward=reward, tools=self.tools)


def _ended(found: Ended | None) -> Ended:
    if found is None:
        raise BadInput("the conversation has not ended: read this after the with block")
    return found


def trace(
    problem: Problem,
    *,
    model: Any = None,
    task: str | Task | None = None,
    evaluator: str | Evaluator = VERIFIER,
    seed: int = 0,
    tools: Sequence[Mapping[str, Any]] = (),
) -> Recorder:
    """Record a conversation about a problem, made by one's own code.

        with gce.trace(problem, model=model) as recorder:
            draft = recorder.ask()
            recorder.user("Check it, and answer again.")
            recorder.ask()
        buffer = gce.admit(buffer, [recorder.trace])

    Args:
        problem: its prompt begins the conversation.
        model: whom `ask` asks: what `gce.load_model` takes or returned.
        task: of the problem; None takes the shipped one of its name.
        evaluator: who judges the last reply: the task's verifier, a name, or an `Evaluator`.
        seed: of sampling; with another seed, another trace of the same problem.
        tools: definitions of the tools that the model was shown, as chat templates take them.

    Raises:
        GceError: the task or the model cannot be used.
    """
    found = the_task(problem.task if task is None else task)
    asked = None if model is None else load_model(model, task=found).model
    judging = find_evaluator(found, evaluator=evaluator)
    turns = [Turn("task", message) for message in problem.prompt]
    name = f"{problem.key}/trace/{seed}"
    return Recorder(problem, found, judging, asked, name, seed, tuple(tools), turns)
