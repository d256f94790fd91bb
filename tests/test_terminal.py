"""What a person sees: cells, tables, a line for each iteration, and bars where the stream is a terminal."""

from __future__ import annotations

import contextlib
import io
import json
import math
import sys
import time
import unicodedata

import pytest
from attrs import evolve
from hypothesis import example, given
from hypothesis import strategies as st

from gce.app.progress import Work
from gce.app.tables.cells import interval_cell, percent, share_cell
from gce.app.tables.layout import table
from gce.app.tables.summary import accuracy_rows, rollout_rows, what_teaches
from gce.app.terminal import Silent, Terminal, put, put_json, put_result, shown_as
from gce.domain.algorithms import ALGORITHMS
from gce.domain.answers import Answer
from gce.domain.completions import Completion
from gce.domain.measurements import Counted, Interval, IterationRecord, TierCount, count_tier
from gce.domain.problems import Problem, ProblemId
from gce.domain.statistics import wilson
from gce.domain.verdicts import Verdict


def counted(rollouts: int, correct: int) -> TierCount:
    return TierCount(rollouts, correct, 1, 0, 0, 0, 0, 0, 1.0)


RECORD = IterationRecord(
    iteration=3,
    tiers={"T0": counted(8, 6), "T1": counted(8, 1)},
    buffer={"T0": 12, "T1": 5},
    admitted=4,
    updates=16,
    loss=0.25,
    gradient_norm=1.0,
    entropy=0.5,
    dropped=0,
    dev={"T0": Interval(40, 20, 0.35, 0.65), "T5": Interval(40, 2, 0.01, 0.17)},
    seconds={"sample": 2.0, "train": 1.5, "evaluate": 0.25},
)


class Screen(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds, which a test moves by hand."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_shares_are_percentages() -> None:
    assert percent(0.074) == "7%"
    assert share_cell(0.075, 0.0412, 0.1229) == "7.5 (4.1-12.3)"
    assert interval_cell(Interval(200, 15, 0.0412, 0.1229), digits=0) == "8 (4-12)"


def test_a_table_is_as_wide_as_its_widest_cells() -> None:
    assert table(["", "T0", "mean"], [["before", "5", "10.5"], ["a", "100", "-"]]).splitlines() == [
        "         T0  mean",
        "------  ---  ----",
        "before    5  10.5",
        "a       100     -",
    ]


def test_the_accuracy_table_has_intervals_a_mean_and_a_dash_where_nothing_was_measured() -> None:
    """Mean of 50 % and 100 %: 75; without T1 there is no mean."""
    rows = {
        "after": {"T0": wilson(5, 10), "T1": wilson(10, 10)},
        "ignores all": {"T0": wilson(0, 10)},
    }
    head, _, after, blind = table(*accuracy_rows(rows, ["T0", "T1"], ["T1"])).splitlines()
    assert "T1, held out" in head and "T0, held out" not in head and head.split()[-2:] == ["mean", "coverage"]
    assert after.split()[:5] == ["after", "50", "(24-76)", "100", "(72-100)"]
    assert after.split()[5] == "75.0"
    assert blind.split() == ["ignores", "all", "0", "(0-28)", "-", "-", "100", "%"]


ANYTHING = st.text(st.characters(exclude_categories=()), max_size=30)
HOSTILE = "\x1b[2J\x1b]0;title\x07\r\x9b1A\u202eright\u2069\u200b\u2028\n  1: right\ud800\ue000\x7f\x85"


def unseen(text: str) -> set[str]:
    """Categories of what moves a cursor, begins a line or hides a character."""
    return {unicodedata.category(each) for each in text} & {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


@given(st.lists(ANYTHING, max_size=4))
@example([HOSTILE, HOSTILE])
def test_whatever_is_put_is_a_line_each_without_what_is_not_seen(lines: list[str]) -> None:
    for encoding in ("utf-8", "ascii", "latin-1"):
        stream = io.TextIOWrapper(io.BytesIO(), encoding, newline="\n")
        put(*lines, stream=stream)
        shown = stream.buffer.getvalue().decode(encoding)
        assert shown.count("\n") == len(lines)
        assert not unseen(shown.replace("\n", ""))


@given(ANYTHING)
def test_what_can_be_seen_is_put_as_it_is(text: str) -> None:
    seen = "".join(each for each in text if not unseen(each))
    stream = io.StringIO()
    put(seen, stream=stream)
    assert stream.getvalue() == seen + "\n"


def test_an_escape_names_the_character() -> None:
    stream = io.StringIO()
    put("a\tb\x1b[31m\u202e\ud800\U000e0041 c\u00a0d \\n", stream=stream)
    assert stream.getvalue() == "a\\tb\\x1b[31m\\u202e\\ud800\\U000e0041 c\u00a0d \\n\n"


@given(st.lists(st.lists(ANYTHING, min_size=3, max_size=3), max_size=4), st.booleans())
def test_a_row_of_a_table_is_a_line_whatever_its_cells_hold(rows: list[list[str]], words: bool) -> None:
    lines = table(["", HOSTILE, "x"], rows, words=words, width=10_000).split("\n")
    assert len(lines) == len(rows) + 2
    assert not unseen("".join(lines))


@given(ANYTHING)
@example(HOSTILE)
def test_what_a_terminal_says_and_paints_holds_no_escape_but_its_own(text: str) -> None:
    stream, screen = io.StringIO(), Screen()
    Terminal(stream=stream).say(text)
    assert stream.getvalue().count("\n") == 1 and not unseen(stream.getvalue()[:-1])
    with shown_as(color=False):
        terminal = Terminal(stream=screen)
        terminal._painted = -1.0
        terminal.stage(text, 2)()
        terminal.say(text)
    assert not unseen(screen.getvalue().replace("\r\x1b[K", "").replace("\n", ""))


@given(st.dictionaries(ANYTHING, ANYTHING | st.integers()), st.sampled_from([None, 1]))
def test_json_is_ascii_and_reads_back(data: dict[str, object], indent: int | None) -> None:
    with contextlib.redirect_stdout(io.StringIO()) as stream:
        put_json(data, indent=indent)
    shown = stream.getvalue()
    assert shown.isascii() and not unseen(shown.replace("\n", ""))
    assert json.loads(shown) == data


def test_an_iteration_is_one_line_and_the_head_comes_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    stream = io.StringIO()
    terminal = Terminal(12, stream)
    terminal.iteration(RECORD)
    terminal.iteration(evolve(RECORD, iteration=4, loss=None, dev={}))
    explained, head, third, fourth = stream.getvalue().splitlines()
    assert "in brackets: greedy accuracy on dev" in explained
    assert head.split() == ["iter", "T0", "T1", "buffer", "updates", "loss", "entropy", "seconds"]
    assert third.split() == ["3/12", "75%", "[50%]", "12%", "17", "16", "0.250", "0.500", "3.8", "T5", "[5%]"]
    assert fourth.split() == ["4/12", "75%", "12%", "17", "16", "-", "0.500", "3.8"]
    # Columns stand under their heads.
    for name, shown in (("T0", "75% [50%]"), ("T1", "12%"), ("buffer", "17"), ("loss", "0.250")):
        assert head.index(name) + len(name) == third.index(shown) + len(shown)


def test_nothing_but_whole_lines_is_written_where_no_terminal_is() -> None:
    stream = io.StringIO()
    terminal = Terminal(1, stream)
    advance = terminal.stage("sample", 2)
    advance()
    advance()
    assert stream.getvalue() == ""
    terminal.say("done")
    assert stream.getvalue() == "done\n"


def test_a_long_stage_says_where_it_is_every_half_minute_where_no_terminal_is(clock: list[float]) -> None:
    """Of 8 steps, 20 s each, the second, fourth and sixth, and not the last, which another line follows."""
    stream = io.StringIO()
    advance = Terminal(1, stream).stage("train", 8)
    for _ in range(8):
        clock[0] += 20.0
        advance()
    assert stream.getvalue() == (
        "train 2/8  20 s each  2 min left\ntrain 4/8  20 s each  80 s left\ntrain 6/8  20 s each  40 s left\n"
    )


@pytest.mark.parametrize("rich", [True, False])
def test_a_bar_shows_how_many_how_fast_and_how_long_still(
    clock: list[float], monkeypatch: pytest.MonkeyPatch, rich: bool
) -> None:
    """1 of 4 after 4 seconds: a step in 4 seconds, 12 seconds left, a quarter of the bar."""
    full = "━" if rich else "#"
    if rich:
        pytest.importorskip("rich")
    else:
        monkeypatch.setitem(sys.modules, "rich.progress_bar", None)
    screen = Screen()
    with shown_as(color=False):
        advance = Terminal(1, screen).stage("sample", 4)
        clock[0] += 4.0
        advance()
        painted = screen.getvalue()
        assert "   sample " in painted and painted.count(full) in (4, 16) and "1/4  0.2/s  12 s left" in painted
        clock[0] += 0.01
        advance()
        assert screen.getvalue() == painted, "painted again after a hundredth of a second"
        advance()
        advance()
    assert screen.getvalue().endswith("\r\x1b[K"), "the bar is wiped"


def test_the_bar_of_a_whole_run_stands_below_and_goes_with_it(clock: list[float]) -> None:
    """One iteration of 10 rollouts at 1 s and 5 steps at 2 s: after the first step 8 seconds are left."""
    pytest.importorskip("rich")
    screen = Screen()
    with shown_as(color=False):
        terminal = Terminal(1, screen, work=Work(1, each={"sample": 10, "train": 5}))
        for stage, steps, seconds in (("sample", 10, 1.0), ("train", 2, 2.0)):
            advance = terminal.stage(stage, 10 if stage == "sample" else 5)
            for _ in range(steps):
                clock[0] += seconds
                advance()
        assert "iteration 1/1  14 s elapsed, about 6 s left" in screen.getvalue()
        assert screen.getvalue().count("about") == 1, "not before a step was timed for long enough"
        terminal.say("done")
    assert screen.getvalue().endswith("\r\x1b[K\x1b[1A\x1b[Kdone\n")


def test_quiet_leaves_warnings_and_verbose_says_how_long_a_stage_took(clock: list[float]) -> None:
    quiet, verbose = io.StringIO(), io.StringIO()
    for stream, is_quiet in ((quiet, True), (verbose, False)):
        with shown_as(quiet=is_quiet, verbose=not is_quiet):
            terminal = Terminal(1, stream)
            terminal.say("hello", "warning: mind")
            advance = terminal.stage("train", 1)
            clock[0] += 100.0
            advance()
            terminal.iteration(RECORD)
    assert quiet.getvalue() == "warning: mind\n"
    assert verbose.getvalue().startswith("hello\nwarning: mind\ntrain: 1 in 2 min\n")


def test_the_heads_of_tables_stand_out_on_a_terminal_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rich")
    monkeypatch.delenv("NO_COLOR", raising=False)
    lines = ["a  b", "-  -", "[red]1[/]  2", HOSTILE]
    for screen, colored in ((Screen(), True), (io.StringIO(), False)):
        with contextlib.redirect_stdout(screen):
            put_result(*lines)
        assert ("\x1b[1ma  b\x1b[0m" in screen.getvalue()) is colored
        assert "[red]1[/]  2\n" in screen.getvalue(), "nothing is read as markup"
        assert screen.getvalue().count("\n") == 4 and "\x1b[2J" not in screen.getvalue()
    with contextlib.redirect_stdout(Screen()) as screen, shown_as(color=False):
        put_result(*lines)
    assert "\x1b" not in screen.getvalue()
    monkeypatch.setenv("NO_COLOR", "1")
    with contextlib.redirect_stdout(Screen()) as screen:
        put_result(*lines)
    assert "\x1b" not in screen.getvalue()


@pytest.mark.slow
@given(st.lists(st.integers(1, 60), min_size=2, max_size=9), st.integers(40, 200))
def test_a_table_fits_the_screen_and_loses_nothing(widths: list[int], screen: int) -> None:
    """Unless one column beside the first is too wide alone."""
    head = [f"{column}" + "x" * (width - 1) for column, width in enumerate(widths)]
    shown = table(head, [head, head], width=screen)
    assert all(cell in shown for cell in head)
    widest = max(widths[0] + 2 + width for width in widths[1:])
    assert max(map(len, shown.splitlines())) <= max(screen, widest)


def test_an_iteration_s_line_fits_a_narrow_screen_and_says_what_it_leaves_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    stream = io.StringIO()
    record = evolve(RECORD, tiers={f"T{tier}": counted(8, 6) for tier in range(5)})
    Terminal(12, stream).iteration(record)
    lines = stream.getvalue().splitlines()
    assert lines[1] == "columns omitted on this narrow terminal: buffer, updates, loss, entropy, seconds"
    assert lines[2].split() == ["iter", "T0", "T1", "T2", "T3", "T4"]
    assert lines[3].split()[-2:] == ["T5", "[5%]"]
    assert max(map(len, lines[2:])) <= 80


def test_a_line_does_not_run_into_a_bar() -> None:
    screen = Screen()
    Terminal(1, screen).say("hello")
    assert screen.getvalue() == "\r\x1b[Khello\n"


def test_a_stage_of_nothing_shows_nothing_and_breaks_nothing() -> None:
    screen = Screen()
    Terminal(1, screen).stage("train", 0)
    assert screen.getvalue() == ""


def test_silent_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    silent = Silent()
    silent.stage("sample", 3)()
    silent.iteration(RECORD)
    assert capsys.readouterr() == ("", "")


def test_a_warning_is_said_once_while_it_holds() -> None:
    """Nothing right three times, and a fourth; then something; then nothing three times again."""
    stream = io.StringIO()
    terminal = Terminal(12, stream)
    nothing = evolve(RECORD, tiers={"T0": counted(8, 0)})
    for record in [*[nothing] * 4, RECORD, *[nothing] * 3]:
        terminal.iteration(record)
    warnings = [line for line in stream.getvalue().splitlines() if line.startswith("warning:")]
    assert len(warnings) == 2 and warnings[0].startswith("warning: 0 of 24 rollouts right in 3 iterations")


def test_the_rollouts_of_a_run_are_a_row_a_tier() -> None:
    count = TierCount(8, 2, 4, 1, 2, 1, 3, 2, 10.0)
    record = evolve(RECORD, tiers={"T0": count, "T1": counted(8, 8)})
    head, _, first, second = table(*rollout_rows([record, record]), width=100).splitlines()
    assert " ".join(head.split()) == "rollouts right problems all wrong all right cut off unreadable distinct"
    assert first.split() == ["T0", "16", "25%", "8", "50%", "25%", "12%", "38%", "4"]
    assert second.split()[:4] == ["T1", "16", "100%", "2"]


def judged(problem: str, reward: float) -> Counted:
    """A rollout with that reward, right from 0.5 on."""
    verdicts = (Verdict("right" if reward >= 0.5 else "wrong", reward, "v", "1"),)
    drawn = Problem(ProblemId("sum", "tiny", "train", "T0", 0, ord(problem)), None, (), problem)
    answer = Answer(drawn, Completion(problem, "", "stop", policy="m"), verdicts, reward, right=reward >= 0.5)
    return Counted(answer, f"{problem} {reward}", 1)


def test_graded_rollouts_count_problems_of_equal_rewards_in_one_column() -> None:
    """None of `a` is right, and its rewards differ; `b` and `c` have equal ones, a wrong and a right one: 2 of 4."""
    rewards = {"a": (0.0, 0.25), "b": (0.25, 0.25), "c": (0.75, 0.75), "d": (0.0, 1.0)}
    count = count_tier([judged(each, reward) for each in rewards for reward in rewards[each]], admit_at=0.5)
    assert (count.all_wrong, count.all_right, count.equal_rewards) == (1, 1, 2)
    record = evolve(RECORD, tiers={"T0": count, "T1": counted(8, 8)})
    head, (first, second) = rollout_rows([record])
    assert head[:6] == ("", "rollouts", "right", "mean reward", "problems", "equal rewards") and head[6:] == (
        "distinct",
    ), "nothing was cut off"
    assert first[:6] == ("T0", "8", "38%", "0.406", "4", "50%") and second[5] == "0%"


@pytest.mark.parametrize(
    ("algorithm", "said"),
    [
        ("grpo", "Problems whose rollouts all have the same reward (equal rewards) teach nothing"),
        ("reinforce-rej", "Problems whose rollouts all have the same reward (equal rewards) teach nothing"),
        ("raft", "raft learns from admitted rollouts, by default the right ones, whatever the others' rewards"),
        ("raft++", "raft++ learns from admitted rollouts, by default the right ones, whatever the others' rewards"),
    ],
)
def test_what_teaches_depends_on_rewards_and_algorithm(algorithm: str, said: str) -> None:
    graded = evolve(RECORD, tiers={"T0": evolve(counted(8, 2), reward=2.5)})
    assert what_teaches([RECORD, graded], ALGORITHMS[algorithm]) == said
    assert what_teaches([RECORD], ALGORITHMS[algorithm]) == "Only problems with mixed outcomes teach anything"


def test_json_has_no_number_without_limit(capsys: pytest.CaptureFixture[str]) -> None:
    """JSON knows neither Infinity nor NaN, which Python would write."""
    put_json({"low": -math.inf, "found": [math.nan, 1.5, (math.inf,)], "n": 1, "ok": True})
    assert json.loads(capsys.readouterr().out) == {"low": None, "found": [None, 1.5, [None]], "n": 1, "ok": True}
