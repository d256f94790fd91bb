"""Values of prefixes: where answers are cut, what the values are by hand, and what a run learns from them."""

from __future__ import annotations

import itertools
from math import fsum
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from setting_fields import with_fields
from stores import reopened
from test_loop import SMALL, Interrupted, Listening, a_run, assert_same_end, dies_in, finish, number_of
from toy_task import ONE_TIER, on

from gce.adapters.runs.memory_store import MemoryRun
from gce.app import cli
from gce.app.reports.transcript_html import shade, transcripts_html
from gce.app.reports.transcript_text import transcript_lines
from gce.app.settings.checks import check_variants
from gce.app.transcripts import StoredAnswer, transcripts_of
from gce.domain.algorithms import ALGORITHMS
from gce.domain.completions import SampleRequest
from gce.domain.prefix_values import Prefix, PrefixValues, ends_of_segments, prefix_values
from gce.domain.problems import Message
from gce.errors import ModelError, SettingError
from gce.ports.model import Continuing

REWARD = st.floats(0, 1)


def test_answers_are_cut_after_line_ends() -> None:
    assert ends_of_segments(["a", "\n", "b", "\n", "c"]) == (2, 4, 5)
    assert ends_of_segments(["a", "b"]) == (2,)
    assert ends_of_segments(["a", "b\n"]) == (2,), "the last line end cuts nothing"
    assert ends_of_segments(["\n"] * 9, most=3) == (3, 7, 9)
    with pytest.raises(ValueError, match="at least one segment, got 0 and 8"):
        ends_of_segments([])


@given(st.lists(st.sampled_from(["a", "\n", "b\nc", ""]), min_size=1, max_size=60), st.integers(1, 12))
def test_segments_cover_an_answer_once(tokens: list[str], most: int) -> None:
    ends = ends_of_segments(tokens, most=most)
    assert ends[-1] == len(tokens) and len(ends) <= most and ends[0] > 0
    assert all(one < other for one, other in itertools.pairwise(ends))
    assert all("\n" in tokens[end - 1] for end in ends[:-1])


def test_values_by_hand() -> None:
    """Before: 1 of 4. After the first line 2 of 4, after the second 0 of 4; right all the same."""
    found = prefix_values((1, 0, 0, 0), ((2, "a\n"), (5, "b\n"), (6, "c")), ((1, 1, 0, 0), (0,) * 4), 1.0, cost=9)
    assert [(each.tokens, each.value, each.n) for each in found.prefixes] == [
        *((0, 0.25, 4), (2, 0.5, 4)),
        *((5, 0.0, 4), (6, 1.0, 1)),
    ]
    assert found.advantages == (0.25, -0.5, 1.0)
    assert found.token_weights == (0.25, 0.25, -0.5, -0.5, -0.5, 1.0)
    assert found.prefixes[1].low == pytest.approx(0.150, abs=1e-3), "Wilson's interval of 2 of 4"


def test_one_segment_has_the_centered_reward() -> None:
    """As under Dr. GRPO: reward minus the mean of the group."""
    assert prefix_values((1, 0, 0, 0), ((3, "abc"),), (), 1.0).token_weights == (0.75,) * 3


def test_a_prefix_that_could_not_be_judged_joins_the_next() -> None:
    found = prefix_values((0.5,), ((1, "a"), (2, "b"), (3, "c")), ((), (1.0,)), 1.0)
    assert [(each.tokens, each.segment) for each in found.prefixes] == [(0, ""), (2, "ab"), (3, "c")]


@pytest.mark.slow
@given(
    st.lists(REWARD, min_size=1, max_size=8),
    st.lists(st.tuples(st.integers(1, 50), st.lists(REWARD, max_size=8)), max_size=30),
    REWARD,
)
def test_advantages_add_up_to_the_outcome_minus_the_first_value(
    before: list[float], parts: list[tuple[int, list[float]]], reward: float
) -> None:
    ends = list(itertools.accumulate([*(size for size, _ in parts), 1]))
    found = prefix_values(before, [(end, "x") for end in ends], [rewards for _, rewards in parts], reward)
    assert fsum(found.advantages) == pytest.approx(reward - fsum(before) / len(before), abs=1e-9)
    assert len(found.token_weights) == ends[-1]
    assert all(each.low <= each.value <= each.high and 0 <= each.value <= 1 for each in found.prefixes)
    assert "".join(each.segment for each in found.prefixes) == "x" * len(ends)


def test_values_of_another_shape_are_refused() -> None:
    with pytest.raises(ValueError, match="growing length from 0"):
        PrefixValues((Prefix(0, "", 0.0, 0.0, 0.0, 1), Prefix(0, "", 0.0, 0.0, 0.0, 1)), 0)


# A run


def total(request: SampleRequest) -> int:
    a, b, _ = (int(word[1:]) for word in request.messages[0].content.split())
    return a + b


def by_lines(request: SampleRequest) -> str:
    """Sample 0 says `so`, then the sum; the others `hm`, then nothing. What begins with `so` always ends right."""
    begun = request.messages[-1].content if request.messages[-1].role == "assistant" else None
    if begun is not None:
        return f"w{total(request)}" if begun.startswith("so") else "no idea"
    return f"so\nw{total(request)}" if number_of(request) == 0 else "hm\nno idea"


CREDIT = with_fields(
    SMALL,
    iterations=1,
    problems=1,
    samples=4,
    per_problem=4,
    updates=1,
    batch=4,
    algorithm="dr-grpo",
    credit="prefix-value",
    credit_samples=3,
)


def test_tokens_are_weighed_by_what_their_line_added() -> None:
    """V0 = 1/4; `so` ends right 3 times of 3, so it adds 0.75 and the sum nothing; `hm` takes 0.25."""
    model = Listening(by_lines)
    done = finish(on(a_run(CREDIT, model), ONE_TIER))
    (batch,) = model.batches
    weights = {trace.turns[-1].message.content.split("\n")[0]: trace.turns[-1].weights for trace in batch.traces}
    assert set(batch.weights) == {1.0}
    assert weights["so"][:3] == (0.75,) * 3 and set(weights["so"][3:]) == {0.0}
    assert weights["hm"][:3] == (-0.25,) * 3 and set(weights["hm"][3:]) == {0.0}
    rollouts = list(done.store.read("rollouts"))
    assert [rollout["values"]["prefixes"][0]["value"] for rollout in rollouts] == [0.25] * 4
    cost = sum(rollout["values"]["cost"] for rollout in rollouts)
    assert done.records[0].credit_tokens == cost > 0
    plain = finish(on(a_run(with_fields(CREDIT, credit="outcome", credit_samples=4), Listening(by_lines)), ONE_TIER))
    metrics, without = done.records[0].metrics, plain.records[0].metrics
    assert metrics and without and metrics.tokens - without.tokens == cost
    assert all("values" not in rollout for rollout in plain.store.read("rollouts"))


def test_a_problem_without_a_mixed_outcome_costs_nothing() -> None:
    done = finish(on(a_run(CREDIT, Listening(lambda _request: "no\nidea")), ONE_TIER))
    assert done.records[0].credit_tokens == 0 and done.records[0].updates == 0


def test_a_killed_run_ends_as_one_that_was_not() -> None:
    config = with_fields(CREDIT, iterations=2, problems=2)
    whole = finish(a_run(config, Listening(by_lines)))
    store = MemoryRun()
    with pytest.raises(Interrupted):
        finish(a_run(config, dies_in(2, Listening(by_lines), after=0), store=store))
    assert_same_end(whole, finish(a_run(config, Listening(by_lines), store=reopened(store))))


def test_a_model_that_cannot_continue_is_refused() -> None:
    class Whole(Listening):
        continued = None  # type: ignore[assignment]

    assert isinstance(Listening(by_lines), Continuing)
    model = Whole(by_lines)
    with pytest.raises(ModelError, match="cannot continue an answer"):
        finish(on(a_run(CREDIT, model), ONE_TIER))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"algorithm": "raft"}, "needs .* grpo"),
        ({"algorithm": "gspo"}, "needs .* grpo"),
        ({"strategy": "multi-turn"}, "zero-shot"),
        ({"teach": {"verifier": 1.0, "length": 1.0}}, "verifier's own rewards"),
        ({"credit": "outcome", "credit_samples": 2}, "needs .* prefix-value"),
    ],
)
def test_settings_that_do_not_go_with_it(change: dict[str, Any], said: str) -> None:
    config = with_fields(CREDIT, **change)
    with pytest.raises(SettingError, match=said):
        check_variants(config, ALGORITHMS[config.objective.algorithm])


# Transcripts


def shown(segment: str) -> Any:
    done = finish(on(a_run(CREDIT, Listening(by_lines)), ONE_TIER))
    record = next(iter(done.store.read("rollouts")))
    record["values"]["prefixes"][1]["segment"] = segment

    class Reader:
        name = "run"
        config: ClassVar[dict[str, Any]] = {}

        def read(self, _stream: str) -> Any:
            return iter(())

    reader: Any = Reader()
    return transcripts_of(reader, [StoredAnswer("rollouts", 0, record)])


def test_a_heat_map_as_text_and_as_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gce.app.transcripts.task_of", lambda _run, _given: ONE_TIER)
    monkeypatch.setattr(
        "gce.app.transcripts.stored_settings", lambda _run: with_fields(CREDIT, task="toy_task:ADDITION")
    )
    hostile = "so <b>\x1b[2J\n"
    (found,) = shown(hostile)
    lines = list(transcript_lines(found))
    (head,) = [line for line in lines if line.startswith("[value of the answer so far] 0.25")]
    assert "by 4 rollouts; then by 3 continuations" in head
    (row,) = [line for line in lines if "| so" in line]
    assert row.startswith("  1.00 +0.75 ++++  | so <b>") and "\x1b" not in row
    page = transcripts_html([found], 100_000)
    assert 'class="gain-3" title="1.00' in page and "so &lt;b&gt;" in page and "\x1b" not in page


def test_shades() -> None:
    assert [shade(each) for each in (0.0, 0.1, -0.25, -0.3, 1.0, 2.0)] == [
        *("even", "gain-1", "loss-1", "loss-2", "gain-4", "gain-4")
    ]


# A local model


@pytest.mark.slow
def test_a_greedy_answer_continued_from_its_prefix_ends_the_same() -> None:
    pytest.importorskip("mlx.core")
    from gce.app.loaded_model import load_model

    model: Any = load_model("gce-tiny").model
    from gce.domain.tasks import TASKS, draw_problem

    problem = draw_problem(TASKS["scheduling"], "grounded", "T0", "test", 0)
    (whole,) = model.sample([SampleRequest("a", problem.prompt, 0, 0.0, 200)])
    ids = whole.token_ids
    assert model.text_of(ids) == whole.text
    for place in (1, len(ids) // 2):
        (rest,) = model.continued([SampleRequest("a", problem.prompt, 0, 0.0, 200 - place)], {"a": ids[:place]})
        assert rest.token_ids == ids[place:]
        assert model.text_of(ids[:place]) + rest.text == whole.text


def test_a_run_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("safetensors")
    options = ("--task", "toy_task:ADDITION", "--model", "toy_task:careless", "--iterations", "1", "--problems", "2")
    more = ("--rollouts", "4", "--dev", "0", "--test", "0", "--updates", "1", "--credit", "prefix-value")
    run = ("--algorithm", "dr-grpo", "--run-dir", str(tmp_path / "run"))
    assert cli.main(("train", *options, *more, *run)) == 0, capsys.readouterr().err
    assert cli.main(("train", *options, *more, "--run-dir", str(tmp_path / "other"))) == 2
    error = capsys.readouterr().err
    assert "--credit prefix-value weighs each token" in error and "Traceback" not in error


def test_messages_of_a_continuation_are_the_prompt() -> None:
    """The fake shows its function what has begun as the assistant's last message."""
    seen: list[tuple[Message, ...]] = []

    def noted(request: SampleRequest) -> str:
        seen.append(request.messages)
        return "x"

    model = Listening(noted)
    asked = SampleRequest("a", (Message("user", "hi"),), 0)
    (found,) = model.continued([asked], {"a": tuple(map(ord, "so"))})
    assert (found.text, seen[-1][-1]) == ("x", Message("assistant", "so"))
