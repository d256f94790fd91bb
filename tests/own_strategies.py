"""Strategies of one's own, as a user would write them: one for each kind of request."""

from __future__ import annotations

from gce.adapters.environments.scripted import ScriptedEnvironment
from gce.domain.problems import Message, Problem
from gce.domain.strategies.requests import (
    RESET,
    Act,
    Ask,
    Exchange,
    Failed,
    Observation,
    Score,
    Settings,
    Strategy,
    draft_of,
)
from gce.domain.tasks.task import Task


def _brief(_task: Task, problem: Problem, _settings: Settings) -> Exchange:
    """One short, warm draft, cut before a full stop, which is then judged."""
    return ((yield Ask(problem.prompt, draft=True, max_tokens=12, temperature=0.5, stop=(".",))),)


def _likeliest(_task: Task, problem: Problem, _settings: Settings) -> Exchange:
    """The likeliest of a few answers, by mean log-probability."""
    texts = ("w0", "w1", "w2")
    scores = yield Score(problem.prompt, texts)
    if isinstance(scores, Failed):
        return scores
    means = [sum(each) / len(each) for each in scores]
    return (draft_of(problem, texts[means.index(max(means))]),)


def _with_tool(_task: Task, problem: Problem, _settings: Settings) -> Exchange:
    """Looks at the world, adds with a tool, and answers with what that says."""
    first = yield Act(RESET)
    if isinstance(first, Failed):
        return first
    found = yield Act("add", {"a": problem.instance.a, "b": problem.instance.b})
    said = f"The tool failed: {found.reason}" if isinstance(found, Failed) else found.text
    return ((yield Ask((*problem.prompt, Message("assistant", first.text), Message("user", said)))),)


def _vote(_task: Task, problem: Problem, _settings: Settings) -> Exchange:
    """Three samples and a score in parallel; the text that most samples have."""
    *drafts, _ = yield (
        *(Ask(problem.prompt, draft=True, temperature=1.0) for _ in range(3)),
        Score(problem.prompt, ("w1",)),
    )
    texts = [draft.completion.text for draft in drafts]
    return (drafts[texts.index(max(texts, key=texts.count))],)


def _debate(_task: Task, problem: Problem, _settings: Settings) -> Exchange:
    """An answer, an opponent's word against it, and a last answer."""
    first = yield Ask(problem.prompt)
    turns = (*problem.prompt, Message("assistant", first.completion.text))
    against = yield Ask((*turns, Message("user", "What is wrong with it?")), to="opponent")
    if isinstance(against, Failed):
        return (first,)
    return (first, (yield Ask((*turns, Message("user", against.completion.text)))))


def calculator(problem: Problem) -> ScriptedEnvironment:
    tools = {"add": lambda given: Observation(f"w{given['a'] + given['b']}", reward=1.0)}
    return ScriptedEnvironment(tools, first=problem.key)


BRIEF = Strategy("brief", _brief, "a short draft")
LIKELIEST = Strategy("likeliest", _likeliest, "the likeliest answer", needs=frozenset({"score"}))
WITH_TOOL = Strategy("with-tool", _with_tool, "with a calculator", needs=frozenset({"sample", "environment"}))
VOTE = Strategy("vote", _vote, "three samples", needs=frozenset({"sample", "score"}))
DEBATE = Strategy("debate", _debate, "against an opponent", needs=frozenset({"sample", "opponent.sample"}), attempts=2)
OWN = (BRIEF, LIKELIEST, WITH_TOOL, VOTE, DEBATE)
