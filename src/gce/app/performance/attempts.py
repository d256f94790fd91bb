"""One attempt at a performance task: by a control, by a command, or by a loop over a model.

The patch is the difference of the tree that is left, limited to allowed paths.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from json import dumps

from attrs import evolve, frozen

from gce import __version__
from gce.app.loaded_model import LoadedModel
from gce.app.wiring.access import Access, known_prices
from gce.app.wiring.models import price_of
from gce.app.wiring.performance import atif_of_trace, keys_at_hand, run_agent, without_keys
from gce.domain.completions import Completion
from gce.domain.learning import Trace, Turn, trained_turn
from gce.domain.performance.agents import AgentCommand, AgentUsage, Attempt, Ending
from gce.domain.performance.decision import Comparison
from gce.domain.performance.model_loop import improve
from gce.domain.performance.overlap import overlap
from gce.domain.performance.patches import Patch, Tree, applied, diff_text, difference, lint, reverted
from gce.domain.performance.prompts import IN_FILES, task_prompt
from gce.domain.performance.task import PerformanceTask
from gce.domain.problems import Message
from gce.domain.randomness import key
from gce.domain.spending import Used, cost_of
from gce.domain.traces import conversation_digest
from gce.errors import BadInput, ModelError

__all__ = ["Made", "Subject", "by_command", "by_control", "by_model"]

RESERVED = frozenset(sys.stdlib_module_names)
_MOST_KEPT = 200
"""Paths of one attempt that are recorded."""


@frozen
class Subject:
    """A task with its trees."""

    task: PerformanceTask
    base: Tree
    human: Tree

    @property
    def human_patch(self) -> Patch:
        """The human's changes in allowed paths."""
        return difference(self.base, self.human, self.task.allowed)


@frozen
class Made:
    """An attempt with its patch, and texts that are kept of it, by file name."""

    attempt: Attempt
    patch: Patch
    texts: Mapping[str, str]


def by_control(name: str, subject: Subject) -> Made:
    """Do what a control does."""
    tree = dict(subject.base)
    if name == "human":
        tree = applied(tree, subject.human_patch)
    elif name == "revert":
        tree = applied(applied(tree, subject.human_patch), reverted(subject.human_patch))
    return _made(subject, Attempt("ended"), tree)


def by_command(agent: AgentCommand, subject: Subject, item: str, *, isolated: bool) -> Made:
    """Run a command in a copy of the code; the attempt fails if it cannot be run."""
    prompt = task_prompt(subject.task) + IN_FILES
    beside = {"workload.py": subject.task.workload, "tests.py": subject.task.tests}
    try:
        worked = run_agent(agent, prompt, subject.base, beside, keys=keys_at_hand(), isolated=isolated)
    except BadInput as error:
        return Made(Attempt("failed", without_keys(str(error))), Patch(), {})
    usage = worked.attempt.usage
    said = Completion(item, worked.output, "stop", "", prompt_tokens=usage.prompt_tokens, tokens=usage.tokens)
    turns = (Turn("task", Message("user", prompt)), trained_turn(said))
    # What the agent wrote itself knows more.
    trajectory = worked.trajectory or _trajectory(item, subject.task, turns)
    texts = {"stdout.txt": worked.output, "stderr.txt": worked.complaint, "trajectory.json": trajectory}
    return _made(subject, worked.attempt, worked.tree, odd=worked.odd, texts=texts)


def by_model(
    model: LoadedModel,
    subject: Subject,
    item: str,
    measure: Callable[[Tree, int], Comparison],
    *,
    turns: int,
    max_tokens: int,
    temperature: float,
    seed: int,
    clock: Callable[[], float],
) -> Made:
    """Let a model edit, and tell it what is measured.

    An error of the model's server or of measuring fails the attempt; a conversation that no longer fits the model's
    context ends it.

    Args:
        model: who is asked.
        subject: the task.
        item: key of the attempt.
        measure: compares a tree with the base, quickly, from inputs of a seed.
        turns: replies of the model.
        max_tokens: of one reply.
        temperature: of sampling.
        seed: of sampling and of quick measurements.
        clock: seconds from any origin.
    """
    begun = clock()
    price = price_of(model.name, Access(prices=known_prices()[1]))
    said: list[Turn] = []
    used = Used()

    def ask(messages: tuple[Message, ...]) -> str | None:
        nonlocal used
        said.append(Turn("tool" if said else "task", messages[-1]))
        drawn = key(seed, "turn", len(said))
        (completion,) = model.answer(
            [messages], max_tokens=max_tokens, temperature=temperature, seed=drawn, progress=False
        )
        used += cost_of(price, completion.prompt_tokens or 0, completion.tokens or 0)
        if completion.finish_reason == "error":
            raise ModelError(completion.error or "the model gave no reply")
        if completion.finish_reason == "context":
            return None
        said.append(trained_turn(completion))
        return completion.text

    ending: Ending = "ended"
    tree = dict(subject.base)
    try:
        tree, reason = improve(
            task_prompt(subject.task),
            subject.base,
            subject.task.allowed,
            turns=turns,
            reserved=RESERVED,
            ask=ask,
            measure=lambda tree: measure(tree, key(seed, "quick", len(said))),
        )
    except (BadInput, ModelError) as error:
        reason, ending = str(error), "failed"
    replies = sum(turn.trained for turn in said)
    usage = AgentUsage(used.prompt_tokens, used.tokens, used.cost if price is not None else None)
    attempt = Attempt(ending, without_keys(reason), clock() - begun, usage, replies)
    texts = {
        "stdout.txt": "\n\n".join(turn.message.content for turn in said if turn.trained),
        "trajectory.json": _trajectory(item, subject.task, tuple(said)) if replies else "",
    }
    return _made(subject, attempt, tree, texts=texts)


def _made(
    subject: Subject,
    attempt: Attempt,
    tree: Tree,
    *,
    odd: tuple[str, ...] = (),
    texts: Mapping[str, str] | None = None,
) -> Made:
    patch = difference(subject.base, tree, subject.task.allowed, reserved=RESERVED, odd=odd)
    known = overlap(patch, subject.human_patch)
    paths, refused, findings = patch.paths[:_MOST_KEPT], patch.refused[:_MOST_KEPT], lint(patch)
    attempt = evolve(attempt, paths=paths, refused=refused, findings=findings, overlap=known)
    kept = {name: without_keys(text) for name, text in {**(texts or {}), "patch.diff": diff_text(patch)}.items()}
    return Made(attempt, patch, kept)


def _trajectory(item: str, task: PerformanceTask, turns: tuple[Turn, ...]) -> str:
    """Return a conversation as ATIF."""
    digest = conversation_digest(task.name, turns)
    trace = Trace(item, f"performance/{task.name}", "performance", 0, turns, (), digest)
    return dumps(atif_of_trace(trace, version=__version__), indent=1) + "\n"
