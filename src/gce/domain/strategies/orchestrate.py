"""Strategies that a graph of roles describes: nodes that are asked, that choose among replies, or that call a tool.

No verifier is asked before the graph has ended. It ends after each node has come once, or where its steps are used up.
The reply of the last node that came counts, and is trained on.
"""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence

from attrs import evolve

from gce.domain.answers import Answer
from gce.domain.evaluators.critic import likelihood
from gce.domain.problems import Problem
from gce.domain.strategies.graph import MOST_STEPS, SHIPPED, Graph, Node, graph_of
from gce.domain.strategies.predictions import needed, quoted, who
from gce.domain.strategies.requests import (
    Act,
    Ask,
    Exchange,
    Failed,
    Observation,
    Settings,
    Strategy,
    Turns,
    instructed,
    whole_number,
)
from gce.domain.tasks.task import Task, without_thinking
from gce.domain.text import last_line, voted

__all__ = ["MAJORITY", "ORCHESTRATE", "graph_strategy"]

WROTE = "{} wrote:\n{}"
SAMPLES, TEMPERATURE = 5, 0.8
"""Of the majority vote."""


def graph_strategy(graph: Graph, *, name: str = "orchestrate", help: str = "a graph of roles") -> Strategy:
    """Return the strategy that a graph describes."""

    def converse(_task: Task, problem: Problem, _settings: Settings) -> Exchange:
        waiting, left = list(graph.node), graph.steps
        found = dict[str, Answer | str]()
        while waiting:
            ready = [each for each in waiting if all(read in found for read in each.reads)]
            first = max(each.priority for each in ready)
            wave = [each for each in ready if each.priority == first]
            if chosen := [each for each in wave if each.choose]:
                found |= {each.name: _chosen(each, found) for each in chosen}
                waiting = [each for each in waiting if each not in chosen]
                continue
            wave = wave[:left]
            if not wave:
                break
            left -= len(wave)
            replies = yield tuple(_request(each, problem.prompt, found) for each in wave)
            for each, reply in zip(wave, replies, strict=True):
                if isinstance(reply, Failed):
                    return reply
                found[each.name] = reply.text if isinstance(reply, Observation) else reply
                if _accepts(each, reply) and isinstance(accepted := found[each.reads[-1]], Answer):
                    return (accepted,)
            waiting = [each for each in waiting if each not in wave]
        answers = [reply for each in graph.node if isinstance(reply := found.get(each.name), Answer)]
        return (answers[-1],) if answers else Failed("the steps were used up before any model was asked")

    roles = {needed(who(each.model), "sample") for each in graph.node if each.asks}
    tools = {"environment"} if any(each.tool for each in graph.node) else set()
    return Strategy(name, converse, help, needs=frozenset({"sample", *roles, *tools}))


def _text(reply: Answer | str) -> str:
    return reply if isinstance(reply, str) else reply.completion.text


def _request(node: Node, prompt: Turns, found: Mapping[str, Answer | str]) -> Ask | Act:
    read = {name: _text(found[name]) for name in node.reads}
    if node.tool:
        return Act(node.tool, {name: without_thinking(text) for name, text in read.items()})
    words = [WROTE.format(name, quoted(text)) for name, text in read.items()]
    added = "\n".join([*words, *([node.says] if node.says else [])])
    turns = instructed(prompt, added) if added else prompt
    return Ask(turns, who(node.model), draft=True, max_tokens=node.max_tokens, temperature=node.temperature)


def _accepts(node: Node, reply: Answer | Observation) -> bool:
    if not node.accepts or isinstance(reply, Observation):
        return False
    said = last_line(without_thinking(reply.completion.text))
    return said.strip(string.punctuation + " ").casefold() == node.accepts.casefold()


def _chosen(node: Node, found: Mapping[str, Answer | str]) -> Answer | str:
    replies = [found[name] for name in node.reads]
    if node.choose == "vote":
        return replies[voted([without_thinking(_text(each)) for each in replies])]
    return replies[_likeliest(replies)]


def _likeliest(replies: Sequence[Answer | str]) -> int:
    found = [None if isinstance(each, str) else likelihood(each.completion) for each in replies]
    known = [-1.0 if each is None else each for each in found]
    return known.index(max(known))


def _majority(written: str) -> Strategy:
    count = whole_number(written, 2, MOST_STEPS)
    names = [f"sample {number}" for number in range(1, count + 1)]
    asked = tuple(Node(name=name, temperature=TEMPERATURE) for name in names)
    graph = Graph(node=(*asked, Node(name="vote", reads=tuple(names), choose="vote")), steps=count)
    words = f"the most frequent of {SAMPLES} answers sampled at temperature {TEMPERATURE}; @N: of N"
    return evolve(graph_strategy(graph, name="majority", help=words), options=_majority)


def _shipped(written: str) -> Strategy:
    if written not in SHIPPED:
        raise ValueError(f"expected {', '.join(SHIPPED)} or a TOML file, got {written!r:.60}")
    return graph_strategy(SHIPPED[written])


MAJORITY = _majority(str(SAMPLES))
ORCHESTRATE = evolve(
    graph_strategy(
        SHIPPED["planner-worker-critic"],
        help=f"a graph of roles, planner-worker-critic; @{', @'.join(SHIPPED)}, @FILE.toml: see gce orchestrate",
    ),
    options=_shipped,
    of_file=lambda data: graph_strategy(graph_of(data)),
)
