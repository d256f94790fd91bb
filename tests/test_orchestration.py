"""Graphs of roles: what is refused, that they end, in which order nodes come, and what `gce orchestrate` finds."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gce
from gce.adapters.evaluators.verifier import TaskVerifier
from gce.adapters.models.scripted import ScriptedModel
from gce.app import cli
from gce.app.evaluation.conversations import converse
from gce.app.evaluation.orchestrating import OrchestrationRow, front_of, orchestrate
from gce.app.wiring.names import find_strategy
from gce.domain.answers import Answer
from gce.domain.completions import Completion, SampleRequest
from gce.domain.statistics import Estimate
from gce.domain.strategies.graph import SHIPPED, Graph, Node, graph_of
from gce.domain.strategies.orchestrate import graph_strategy
from gce.domain.strategies.requests import Act, Ask, Failed, Observation, Settings, draft_of
from gce.domain.tasks import TASKS, draw_problems
from gce.domain.text import voted
from gce.errors import BadInput, SettingError

TASK = TASKS["scheduling"]
GRAPHS = Path(__file__).parents[1] / "examples" / "graphs"
PROBLEMS = list(draw_problems(TASK, "grounded", "T0", "test", 3))


def held(graph: Graph, say: Any) -> tuple[list[list[Ask | Act]], Any]:
    """All waves of a conversation and its result; `say` maps a request to the text of the reply."""
    exchange, replies = graph_strategy(graph).converse(TASK, PROBLEMS[0], Settings()), None
    waves = list[list[Ask | Act]]()
    while True:
        try:
            asked: Any = exchange.send(replies)
        except StopIteration as ended:
            return waves, ended.value
        waves.append(list(asked))
        replies = tuple(
            Observation(say(each)) if isinstance(each, Act) else draft_of(PROBLEMS[0], say(each)) for each in asked
        )


def said(answers: Any) -> str:
    (last,) = answers
    assert isinstance(last, Answer)
    return last.completion.text


def last_words(request: Any) -> str:
    return str(request.turns[-1].content.rpartition("\n")[2])


# What is refused


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ([{"name": "a", "reads": ["b"]}, {"name": "b", "reads": ["a"]}], "without cycles, got a <- b <- a"),
        ([{"name": "a", "reads": ["a"]}], "without cycles"),
        ([{"name": "a", "reads": ["x"]}], "node 'a' reads 'x', which is none of a"),
        ([{"name": "a"}, {"name": "a"}], "'a' more than once"),
        ([{"name": "a", "colour": 1}], "expected no other fields, got 'colour'"),
        ([{"name": "a\n"}], "expected a name"),
        ([{"name": "a", "choose": "vote"}], "need nodes that it reads"),
        ([{"name": "a"}, {"name": "b", "reads": ["a"], "choose": "best"}], "expected one of"),
        ([{"name": "a"}, {"name": "b", "reads": ["a"], "choose": "vote", "tool": "t"}], "expected one of choose"),
        ([{"name": "a"}, {"name": "b", "reads": ["a"], "tool": "t"}], "an answer from the last node"),
        ([{"name": "a", "temperature": float("nan")}], "temperature: expected a number"),
        ([{"name": "a", "model": "gpt"}], "expected one of"),
        ([], "node"),
    ],
)
def test_what_is_no_graph_is_refused_with_one_line(nodes: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words) as error:
        graph_of({"node": nodes})
    assert "\n" not in str(error.value)


def test_a_file_is_refused_with_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for text in ("[[node]]\nname = 'a'\nreads = ['b']", "steps = ", "node = 3", "\udcff", "a = " + "[" * 5000):
        (tmp_path / "g.toml").write_bytes(text.encode("utf-8", "surrogateescape"))
        with pytest.raises(BadInput) as error:
            find_strategy(f"orchestrate@{tmp_path / 'g.toml'}")
        assert "\n" not in str(error.value)
    for arguments, words in (
        (["knitting"], "expected sequence, vote, planner-worker-critic, debate or a TOML file, got 'knitting'"),
        (["none.toml"], "none.toml"),
        (["vote", "vote"], "must be different graphs"),
    ):
        assert cli.main(["orchestrate", *arguments]) == 2
        assert words in capsys.readouterr().err


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(
    st.integers(1, 8),
    st.integers(1, 12),
    st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=16),
    st.lists(st.tuples(st.sampled_from(["", "vote", "likely", "accept", "tool"]), st.integers(-2, 2)), min_size=8),
    st.sampled_from(["accept", "no", "", "</think>"]),
)
def test_every_graph_is_refused_or_ends_within_its_steps(
    count: int, steps: int, edges: list[tuple[int, int]], kinds: list[tuple[str, int]], text: str
) -> None:
    nodes = []
    for number in range(count):
        kind, priority = kinds[number]
        reads = list(dict.fromkeys(f"n{low}" for low, high in edges if high == number and low < count))
        own = {"accepts": "accept"} if kind == "accept" else {"tool": "t"} if kind == "tool" else {"choose": kind}
        nodes.append({"name": f"n{number}", "reads": reads, "priority": priority, **(own if reads else {})})
    try:
        graph = graph_of({"steps": steps, "node": nodes})
    except ValueError:
        return
    waves, ended = held(graph, lambda _request: text)
    assert sum(map(len, waves)) <= steps
    assert isinstance(ended, Failed) or said(ended) == text


# How a graph is held


def test_a_graph_with_one_node_equals_zero_shot_to_the_byte() -> None:
    def reply(request: SampleRequest) -> str:
        return f"{request.seed} {request.max_tokens} {request.temperature} {request.messages}"

    for chosen in (Settings(), Settings(seed=3, temperature=0.7, samples=2, max_tokens=9)):
        one, zero = (
            converse(strategy, ScriptedModel(reply), TASK, TaskVerifier(TASK), PROBLEMS, chosen)
            for strategy in (graph_strategy(Graph(node=(Node(name="one"),))), find_strategy("zero-shot"))
        )
        assert one == zero
        assert [each.said for each in one] == [each.said for each in zero]


def test_a_node_reads_the_problem_what_it_was_given_and_its_instruction() -> None:
    graph = graph_of({"node": [{"name": "a"}, {"name": "b", "reads": ["a"], "says": "Go on."}]})
    waves, ended = held(graph, lambda request: 'Answer: """A 1' if len(request.turns[-1].content) < 2000 else "x")
    assert [len(each) for each in waves] == [1, 1] and isinstance(ended[0], Answer)
    (first,), (second,) = waves
    assert isinstance(first, Ask) and isinstance(second, Ask)
    own = PROBLEMS[0].prompt[-1].content
    assert first.turns == PROBLEMS[0].prompt
    assert second.turns[-1].content == f'{own}\na wrote:\n"""\nAnswer: \'\'\'A 1\n"""\nGo on.'


def test_a_vote_takes_the_first_reply_with_the_most_frequent_last_line() -> None:
    assert voted(["p\nA", "q\nB", "r\nB ", "\n"]) == 1
    assert voted(["", "", "x"]) == 2 and voted(["", ""]) == 0 and voted(["A", "B"]) == 0
    texts = iter(["p\nA", "q\nB", "r\nB"])
    waves, ended = held(SHIPPED["vote"], lambda _request: next(texts))
    assert [len(each) for each in waves] == [3] and said(ended) == "q\nB"


def test_the_likeliest_reply_is_chosen_and_the_first_where_nothing_is_known() -> None:
    graph = graph_of({"node": [{"name": "a"}, {"name": "b"}, {"name": "c", "reads": ["a", "b"], "choose": "likely"}]})
    exchange = graph_strategy(graph).converse(TASK, PROBLEMS[0], Settings())
    next(exchange)
    replies = tuple(
        draft_of(PROBLEMS[0], Completion("k", text, "stop", policy="", log_probabilities=found))
        for text, found in (("a", (-1.0, -1.0)), ("b", (-0.5, -1.2)))
    )
    with pytest.raises(StopIteration) as ended:
        exchange.send(replies)
    assert said(ended.value.value) == "b"
    assert said(held(graph, lambda _request: "x")[1]) == "x"


def test_a_critic_that_accepts_ends_the_graph_with_what_it_read() -> None:
    for verdict, waves_held, counts in (("Well.\n**Accept.**", 3, "worker"), ("I accept that it is wrong", 4, "again")):
        texts = iter(["plan", "worker", verdict, "again"])
        waves, ended = held(SHIPPED["planner-worker-critic"], lambda _request, texts=texts: next(texts))
        assert len(waves) == waves_held and said(ended) == counts


def test_higher_priorities_come_first_and_the_last_node_that_came_counts() -> None:
    nodes = [{"name": each, "says": each, "priority": place} for place, each in enumerate("abc")]
    for steps, order, counts in ((3, "cba", "c"), (2, "cb", "c"), (1, "c", "c")):
        waves, ended = held(graph_of({"steps": steps, "node": nodes}), last_words)
        assert "".join(last_words(each) for (each,) in waves) == order and said(ended) == counts
    level = graph_of({"steps": 2, "node": [{"name": each, "says": each} for each in "abc"]})
    waves, ended = held(level, last_words)
    assert [len(each) for each in waves] == [2] and said(ended) == "b"


def test_a_tool_is_called_with_what_its_node_reads() -> None:
    nodes = [{"name": "a"}, {"name": "t", "reads": ["a"], "tool": "solve"}, {"name": "b", "reads": ["t"]}]
    strategy = graph_strategy(graph_of({"node": nodes}))
    assert strategy.needs == {"sample", "environment"}
    waves, ended = held(graph_of({"node": nodes}), lambda each: "found" if isinstance(each, Act) else "asked")
    assert waves[1] == [Act("solve", {"a": "asked"})] and said(ended) == "asked"
    assert isinstance(waves[2][0], Ask) and "t wrote:" in waves[2][0].turns[-1].content


def test_another_model_is_a_need() -> None:
    node = Node(name="a", model="another")
    assert graph_strategy(Graph(node=(node,))).needs == {"sample", "another.sample"}


def test_the_example_files_are_the_shipped_graphs() -> None:
    assert {file.stem for file in GRAPHS.iterdir()} == set(SHIPPED)
    for name, graph in SHIPPED.items():
        assert graph_of(tomllib.loads((GRAPHS / f"{name}.toml").read_text())) == graph


# gce orchestrate


def steady(messages: Any) -> str:
    return "Answer: A 0"


@pytest.mark.slow
def test_a_single_model_with_as_many_calls_stands_beside_every_graph(tmp_path: Path) -> None:
    kept = tmp_path / "answers.jsonl"
    own = tmp_path / "own.toml"
    own.write_text('[[node]]\nname = "a"\n[[node]]\nname = "b"\nreads = ["a"]\n')
    found = orchestrate(["vote", str(own)], model=steady, tiers=["T0"], n=2, answers=kept)
    assert [row.mode for row in found.rows] == ["zero-shot", "vote", "own", "majority@3", "majority@2"]
    assert [row.calls for row in found.rows] == [1, 3, 2, 3, 2]
    assert [row.is_graph for row in found.rows] == [False, True, True, False, False]
    assert {"vote - majority@3", "own - majority@2", "own - zero-shot"} <= set(found.gains)
    assert all(gain.gained == gain.lost == 0 for gain in found.gains.values())
    assert "Pareto" in str(found) and "<table>" in found._repr_html_()
    found.report.write_page(tmp_path / "modes.html")
    assert "Accuracy against calls" in (tmp_path / "modes.html").read_text()

    before = kept.read_bytes()
    again = orchestrate(["vote", str(own)], model=steady, tiers=["T0"], n=2, answers=kept)
    assert kept.read_bytes() == before and again.gains == found.gains
    own.write_text('[[node]]\nname = "a"\n')
    changed = gce.evaluate(model=steady, strategies=[f"orchestrate@{own}"], tiers=["T0"], n=2, answers=kept)
    assert [each.replies for each in changed.conversations[f"orchestrate@{own}"]] == [1, 1]


def test_the_front_has_no_row_that_another_one_beats() -> None:
    rows = [
        OrchestrationRow(mode, Estimate(share, 0.0, 1.0), tokens, 1.0, 1.0, None, False)
        for mode, share, tokens in (("a", 0.5, 100.0), ("b", 0.5, 200.0), ("c", 0.9, 300.0), ("d", 0.4, 50.0))
    ]
    assert [row.mode for row in front_of(rows)] == ["d", "a", "c"]


def test_equal_means_of_other_tiers_are_equal() -> None:
    means = (("a", (0.6 + 0.6) / 2, 100.0), ("b", (0.4 + 0.8) / 2, 200.0))
    assert means[0][1] < means[1][1]
    rows = [
        OrchestrationRow(mode, Estimate(mean, 0.0, 1.0), tokens, 1.0, 1.0, None, True) for mode, mean, tokens in means
    ]
    assert [row.mode for row in front_of(rows)] == ["a"]


def test_no_graph_is_refused() -> None:
    with pytest.raises(SettingError, match="different graphs, got none"):
        orchestrate([])


@pytest.mark.slow
def test_the_command_prints_a_table_and_writes_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("mlx_lm")
    page = tmp_path / "modes.html"
    assert cli.main(["orchestrate", "vote", "--tiers", "T0", "--n", "2", "--out", str(page), "--json"]) == 0
    assert '"mode": "majority@3"' in capsys.readouterr().out and page.read_text().startswith("<!doctype html>")
