"""A small graph of roles over models and tools, checked, and those that are shipped. Knows not how it is held."""

from __future__ import annotations

import re
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any, Literal

from attrs import Attribute, field, frozen, validators

from gce.domain.serialization import from_plain

__all__ = ["MOST_STEPS", "SHIPPED", "Graph", "Node", "graph_of"]

MOST_STEPS = 64
LONGEST = 4000
"""Characters of an instruction."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 _-]{0,39}")


def _within(low: float, high: float) -> Any:
    def check(_record: object, attribute: Attribute[Any], value: float | None) -> None:
        if value is not None and not low <= value <= high:
            raise ValueError(f"{attribute.name}: expected a number from {low} to {high}, got {value!r:.40}")

    return check


@frozen(kw_only=True)
class Node:
    """One role: a model that is asked, a choice among replies, or a tool."""

    name: str
    says: str = field(default="", validator=validators.max_len(LONGEST))
    """The instruction after the problem and what the node reads."""
    reads: tuple[str, ...] = ()
    """Nodes whose replies it is given, which have to come before it."""
    model: Literal["evaluated", "another"] = "evaluated"
    temperature: float | None = field(default=None, validator=_within(0, 2))
    """None for that of the evaluation."""
    max_tokens: int | None = field(default=None, validator=_within(1, 100_000))
    priority: int = field(default=0, validator=_within(-1000, 1000))
    """Of the nodes that could come next, those with the highest priority do, together."""
    choose: Literal["", "vote", "likely"] = ""
    """Instead of asking a model: the most frequent of the replies that it reads, by the last line, or the one whose
    tokens are most likely. The first of equals."""
    tool: str = ""
    """Instead of asking a model: the tool of the environment that is called with the text of each reply."""
    accepts: str = ""
    """The word on the last line of the node's reply with which the reply that it read last counts, and the graph ends.
    """

    def __attrs_post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"expected a name of letters, digits, spaces, - and _, at most 40, got {self.name!r:.50}")
        if bool(self.choose) + bool(self.tool) + bool(self.says or self.accepts) > 1:
            raise ValueError(f"node {self.name!r}: expected one of choose, tool, and says with accepts")
        if not self.reads and (self.choose or self.tool or self.accepts):
            raise ValueError(f"node {self.name!r}: choose, tool and accepts need nodes that it reads")

    @property
    def asks(self) -> bool:
        """Whether a model is asked."""
        return not self.choose and not self.tool


@frozen(kw_only=True)
class Graph:
    """Nodes in an order in which the last one that came counts."""

    node: tuple[Node, ...] = field(validator=[validators.min_len(1), validators.max_len(2 * MOST_STEPS)])
    steps: int = field(default=16, validator=_within(1, MOST_STEPS))
    """Calls of models and tools, at most."""

    def __attrs_post_init__(self) -> None:
        names = [each.name for each in self.node]
        if repeated := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"expected different names of nodes, got {repeated[0]!r} more than once")
        for each in self.node:
            if unknown := [read for read in each.reads if read not in names]:
                raise ValueError(f"node {each.name!r} reads {unknown[0]!r:.50}, which is none of {', '.join(names)}")
        try:
            TopologicalSorter({each.name: each.reads for each in self.node}).prepare()
        except CycleError as error:
            cycle = " <- ".join(error.args[1])
            raise ValueError(f"expected a graph without cycles, got {cycle}") from error
        if self.node[-1].tool:
            raise ValueError(f"expected an answer from the last node, got the tool {self.node[-1].tool!r:.50}")


def graph_of(data: Mapping[str, Any]) -> Graph:
    """Return the graph that plain data describe, as a TOML file has them.

    Raises:
        ValueError: they describe none; one line says why.
    """
    return from_plain(Graph, data)


_WORKER = "Solve the problem, in the form that is asked for."
_REVISER = "Check the answer above against the problem. Then give the right answer, in the form that is asked for."
SHIPPED: Mapping[str, Graph] = {
    "sequence": graph_of({"node": [{"name": "first"}, {"name": "reviser", "reads": ["first"], "says": _REVISER}]}),
    "vote": graph_of(
        {
            "node": [
                {"name": "one", "temperature": 0.8},
                {"name": "two", "temperature": 0.8},
                {"name": "three", "temperature": 0.8},
                {"name": "vote", "reads": ["one", "two", "three"], "choose": "vote"},
            ]
        }
    ),
    "planner-worker-critic": graph_of(
        {
            "steps": 4,
            "node": [
                {"name": "planner", "says": "Do not answer yet. Write a short plan of how to solve the problem."},
                {"name": "worker", "reads": ["planner"], "says": _WORKER},
                {
                    "name": "critic",
                    "reads": ["worker"],
                    "says": "Name what is wrong with that answer. If nothing is, write the word accept alone.",
                    "accepts": "accept",
                },
                {"name": "reworker", "reads": ["worker", "critic"], "says": _WORKER},
            ],
        }
    ),
    "debate": graph_of(
        {
            "node": [
                {"name": "one", "temperature": 0.8},
                {"name": "other", "temperature": 0.8},
                {
                    "name": "critic of one",
                    "reads": ["one"],
                    "says": "Argue against that answer, in a few sentences.",
                },
                {
                    "name": "critic of other",
                    "reads": ["other"],
                    "says": "Argue against that answer, in a few sentences.",
                },
                {
                    "name": "judge",
                    "reads": ["one", "critic of one", "other", "critic of other"],
                    "says": "Weigh both answers, and give the right one, in the form that is asked for.",
                },
            ]
        }
    ),
}
"""Graphs by name; `examples/graphs` has them as files."""
