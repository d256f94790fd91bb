"""Transcripts: the same sample each time, on a page where hostile answers stay text, and in the terminal."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from toy_task import ADDITION

import gce
from gce.adapters.runs.memory_store import MemoryRuns
from gce.app import cli
from gce.app.reports.page import MOST_BYTES, html_page, markdown
from gce.app.reports.section import Section
from gce.app.reports.transcript_html import LONGEST, SCRIPT, transcripts_html
from gce.app.transcripts import Fault, StoredAnswer, Transcript, find_answers, sample_answers, transcripts_of
from gce.app.wiring import runs as wiring
from gce.domain.marks import pieces
from gce.domain.problems import Message
from gce.domain.tasks import Teaching
from gce.domain.text import printable
from gce.domain.verdicts import Step
from gce.errors import BadInput

HOSTILE = (
    '</pre></details><script>document.title = "taken"</script><img src=x onerror=alert(1)>',
    "<!-- \x1b[2J\x1b]0;title\x07 \r\x00 \u202eevil\u2066 \u200b",
    "lone \ud800 surrogate & entity &lt;b&gt; w1",
    'w1\n" onmouseover="alert(1)\nw12',
)
SIZES = ("--problems", "6", "--rollouts", "2", "--iterations", "2", "--updates", "1", "--dev", "1", "--test", "3")

STEPPED = evolve(
    ADDITION,
    name="stepped",
    teaching=Teaching(check_steps=lambda _problem, text: (Step(f"<b>{text}</b>", "false", "<i>"), Step("x", "true"))),
)


def record(problem: str, **changes: Any) -> dict[str, Any]:
    verdict = {
        "status": "wrong",
        "evaluator": "sum",
        "violations": [{"kind": "sum", "message": "off by 1", "about": []}],
    }
    found = {"problem": problem, "tier": problem.split("/")[3], "text": "w1", "finish_reason": "stop", "policy": "p"}
    return {**found, "right": False, "outcome": "wrong", "verdicts": [verdict], "prompt": [], **changes}


def answers(count: int = 40) -> list[StoredAnswer]:
    kinds: tuple[dict[str, Any], ...] = (
        {"right": True, "outcome": "right"},
        {},
        {"outcome": "unreadable"},
        {"finish_reason": "length"},
        {"outcome": "failed"},
    )
    made = (record(f"t/p/test/T{n % 2}/0/{n}", **kinds[n // 2 % len(kinds)]) for n in range(count))
    return [StoredAnswer("after", n, each) for n, each in enumerate(made)]


def test_a_sample_has_some_of_each_outcome_and_counts_what_failed_apart() -> None:
    found = sample_answers(answers(), seed=0, each=2)
    outcomes = ("right", "wrong", "unreadable", "truncated", "failed")
    assert found.counts == {("after", tier): dict.fromkeys(outcomes, 4) for tier in ("T0", "T1")}
    assert [(each.tier, each.outcome) for each in found.chosen[:10]] == [
        (tier, outcome) for outcome in outcomes for tier in ("T0", "T1")
    ]
    assert len(found.chosen) == 20


def test_a_sample_is_the_same_whatever_the_order_and_another_for_another_seed() -> None:
    first = sample_answers(answers(), seed=0, each=2).chosen
    assert set(map(id, first)) and {each.number for each in first} == {
        each.number for each in sample_answers(reversed(answers()), seed=0, each=2).chosen
    }
    assert {each.number for each in first} != {each.number for each in sample_answers(answers(), seed=1, each=2).chosen}


def test_violations_of_a_grammar_and_cut_off_answers_are_told_from_wrong_ones() -> None:
    grammar = [{"status": "wrong", "evaluator": "e", "violations": [{"kind": "grammar", "message": "m"}]}]
    assert StoredAnswer("after", 0, record("t/p/test/T0/0/0", verdicts=grammar)).outcome == "unreadable"
    cut = record("t/p/test/T0/0/0", verdicts=grammar, finish_reason="length")
    assert StoredAnswer("after", 0, cut).outcome == "truncated"
    assert StoredAnswer("after", 0, cut | {"right": True, "outcome": "right"}).outcome == "right"


class Texts(HTMLParser):
    """The tags of a page and the text in its <pre> elements."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.shown: list[str] = []
        self.inside = False

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attributes}
        if tag == "pre":
            self.inside = True
            self.shown.append("")

    def handle_endtag(self, tag: str) -> None:
        self.inside = self.inside and tag != "pre"

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.shown[-1] += data


def transcript(text: str, **changes: Any) -> Transcript:
    found = Transcript(
        *("t/p/test/T<0/0/1", "after", "T<0", "wrong", None, 0.0, (Message("user", text),), text),
        *(
            pieces(text, [(text.split()[-1:], text)]),
            ("<e>: wrong",),
            (Fault("<k>", text, ()),),
            (Step(text, "false", text),),
            "stop",
            3,
            "p",
            (text,),
        ),
    )
    return evolve(found, **changes)


@pytest.mark.parametrize("text", HOSTILE)
def test_whatever_a_model_writes_is_text_on_the_page(text: str) -> None:
    page = html_page(text, [Section("x", transcripts=(transcript(text),))], lambda _figure: "")
    seen = Texts()
    seen.feed(page)
    assert seen.tags.count("script") == 1 and page.count(SCRIPT) == 1 and "img" not in seen.tags
    assert not {name for name in seen.attributes if name.startswith("on")}
    assert all(character.isprintable() or character == "\n" for character in page)
    assert page.encode()
    prompt, answer = seen.shown
    assert prompt == "\n".join(map(printable, text.split("\n"))) and answer[:2] == prompt[:2]
    assert "title" in seen.attributes and "mark" in seen.tags, "a message stands in an attribute"


def test_a_browser_runs_no_script_but_the_one_of_the_page() -> None:
    page = html_page("x", [Section("x", transcripts=(transcript("a"),))], lambda _figure: "")
    assert "default-src 'none'" in page and "script-src 'sha256-" in page and "'unsafe-eval'" not in page
    assert 'class="filter" hidden' in page, "without scripts there is no filter, and all transcripts are there"


def test_a_page_holds_at_most_3_megabytes_and_says_how_many_had_no_room() -> None:
    long = transcript("w1 " * 40_000)
    many = [evolve(long, problem=f"t/p/test/T0/0/{n}", tier=f"T{n % 6}") for n in range(60)]
    page = html_page("x", [Section("one", transcripts=tuple(many)), Section("two", transcripts=tuple(many))], str)
    assert MOST_BYTES * 0.9 < len(page.encode()) <= MOST_BYTES == 3_000_000
    assert page.count("more are left out: gce transcript prints them.") == 2
    assert "characters left out" in page and "w1 " * LONGEST not in page


def blocks(text: str) -> list[list[str]]:
    """The lines of each fenced block, read as CommonMark has it; every block is closed."""
    found, fence = list[list[str]](), ""
    for line in text.split("\n"):
        ticks = re.fullmatch(r" {0,3}(`{3,})([^`]*)", line)
        if fence and ticks and len(ticks[1]) >= len(fence) and not ticks[2].strip():
            fence = ""
        elif fence:
            found[-1].append(line)
        elif ticks:
            fence, found = ticks[1], [*found, []]
    assert not fence
    return found


@given(text=st.text(alphabet="`~\n\r \ta#<", max_size=60), prompt=st.text(alphabet="`\n ", max_size=20))
def test_no_answer_ends_the_fence_around_it_in_markdown(text: str, prompt: str) -> None:
    shown = transcript(f"{text} end", prompt=(Message("user", prompt),))
    page = markdown("x", [Section("y", transcripts=(shown, evolve(shown, outcome="right")))])
    right, wrong = blocks(page)
    assert right[0].startswith("t/p/test/T<0/0/1 (after): right, reward 0") and "(after): wrong" in wrong[0]
    assert right[1:] == wrong[1:] and any(line.startswith("note: ") for line in right)
    assert page.split("\n")[:3] == ["# x", "", "## y"] and all(map(str.isprintable, page.split("\n")))


def test_a_very_long_answer_is_clipped_in_markdown() -> None:
    page = markdown("x", [Section("y", transcripts=(transcript("w1 " * 40_000),))])
    assert len(page) < LONGEST + 200 and "characters left out" in page


def test_transcripts_stand_by_tier_then_moment_then_outcome() -> None:
    found = [transcript("a", tier="T1"), transcript("b", moment="before"), transcript("c", outcome="right")]
    page = transcripts_html([*found, transcript("d", tier="T1", outcome="right")], 100_000)
    places = [page.index(f"<pre>{text}</pre>") for text in "dacb"]
    assert places == sorted(places)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> MemoryRuns:
    """A run called `memory:hostile` whose model says the worst."""
    folder = tmp_path_factory.mktemp("script")
    script = folder / "answers.jsonl"
    script.write_text(json.dumps({"text": [*HOSTILE, "w40"]}) + "\n", encoding="utf-8")
    stores, found = wiring.STORES, MemoryRuns()
    wiring.STORES = {"memory:": found, **stores}
    try:
        train = ["train", "--task", "test_transcripts:STEPPED", "--model", f"scripted:{script}", *SIZES]
        assert cli.main([*train, "--run-dir", "memory:hostile"]) == 0
    finally:
        wiring.STORES = stores
    return found


@pytest.fixture
def hostile(runs: MemoryRuns, monkeypatch: pytest.MonkeyPatch) -> MemoryRuns:
    monkeypatch.setattr(wiring, "STORES", {"memory:": runs, **wiring.STORES})
    return runs


def said(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> str:
    capsys.readouterr()
    assert cli.main(["transcript", "memory:hostile", *arguments]) == status
    found = capsys.readouterr()
    return found.err if status else found.out


def test_a_problem_is_printed_with_its_answers_after_and_before(
    hostile: MemoryRuns, capsys: pytest.CaptureFixture[str]
) -> None:
    text = said(capsys, "T1/2")
    assert text.startswith("stepped/small/test/T1/0/2 (after): ") and "stepped/small/test/T1/0/2 (before): " in text
    assert "[user]\n  w" in text and "[answer]\n" in text and "[verdict] sum: " in text
    assert "[reasoning steps] 1 of 2 true\n  NO <b>" in text
    assert all(character.isprintable() or character == "\n" for character in text)
    assert said(capsys, "stepped/small/test/T1/0/2") == said(capsys, "small/test/T1/0/2") == text
    assert "before" not in said(capsys, "T1/2", "--moment", "after").split("\n")[0]


def test_rollouts_are_printed_with_their_iteration(hostile: MemoryRuns, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(said(capsys, "T0/0", "--moment", "rollouts", "--json"))
    assert [each["iteration"] for each in found] == [1, 1]
    assert found[0]["prompt"][0]["content"].startswith("w") and found[0]["steps"][0]["status"] == "false"
    assert "".join(piece["text"] for piece in found[0]["answer"]) == found[0]["text"]
    assert found == json.loads(said(capsys, "train/T0/0/0", "--json")), "no test problem fits, so rollouts are found"


def test_a_name_that_fits_several_problems_or_none_is_one_line(
    hostile: MemoryRuns, capsys: pytest.CaptureFixture[str]
) -> None:
    several = said(capsys, "T2", status=2)
    assert "'T2' fits small/test/T2/0/0, small/test/T2/0/1, small/test/T2/0/2: give one of these" in several
    assert several.count("\n") == 1
    assert "and 1 more" in said(capsys, "test", status=2)
    assert "has no answer to a problem 'T9/0'" in said(capsys, "T9/0", status=2)
    assert "at the moment before" in said(capsys, "train/T0/0/0", "--moment", "before", status=2)


def test_without_a_problem_some_of_each_outcome_are_listed(
    hostile: MemoryRuns, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = said(capsys)
    (head,) = [line for line in text.split("\n") if line.startswith("problem ")]
    assert head.split() == ["problem", "answers", "outcome", "reward", "text"], "one table on 80 columns"
    assert all(len(line) <= 80 for line in text.split("\n\n")[0].split("\n"))
    monkeypatch.setenv("COLUMNS", "160")
    assert said(capsys).split("\n")[0].endswith("  first violation")
    monkeypatch.delenv("COLUMNS")
    assert "small/test/" in text and " rollouts " in text and "gce transcript memory:hostile " in text
    assert text == said(capsys)
    after = said(capsys, "--moment", "after")
    assert " rollouts " not in after and after.split("\n")[0].split()[1] == "outcome", "one moment needs no column"


def test_the_list_says_how_many_answers_there_are_and_what_lists_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"prompt": f"What is {a} + 1?", "answer": a + 1} for a in range(64)]
    task = gce.task(rows, lambda answer, problem: answer == str(problem["answer"]), name="sums", shares=(0, 0, 1))
    file = str(tmp_path / "answers.jsonl")
    gce.evaluate(task, lambda messages: "8", answers=file, progress=False)
    assert cli.main(["transcript", file]) == 0
    *_, how_many, all_of_them, one = capsys.readouterr().out.splitlines()
    assert how_many == "2 of 64 answers, 1 right and 1 wrong: at most one of each outcome by tier and moment"
    assert all_of_them == f"all as a table: gce answers {file}" and one.startswith("to print one in full: ")


@pytest.mark.slow
def test_a_report_shows_the_sample_and_says_what_failed(
    hostile: MemoryRuns, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["report", "memory:hostile", "--format", "md"]) == 0
    shown = blocks(capsys.readouterr().out)
    assert {block[0].split(": ")[1].split(",")[0] for block in shown} == {"right", "wrong", "unreadable"}
    assert cli.main(["report", "memory:hostile", "--json"]) == 0
    section = next(each for each in json.loads(capsys.readouterr().out) if each["title"] == "Transcripts")
    assert [table["head"][0] for table in section["tables"]] == ["after", "before", "rollouts"]
    assert len(section["transcripts"]) == len(shown) > 6
    pytest.importorskip("matplotlib")
    out = tmp_path / "page.html"
    assert cli.main(["report", "memory:hostile", "--out", str(out)]) == 0
    page = out.read_text(encoding="utf-8")
    seen = Texts()
    seen.feed(page)
    assert seen.tags.count("script") == 1 and "img" not in seen.tags and "alert(1)" in page
    assert all(character.isprintable() or character == "\n" for character in page)


def test_where_the_task_is_gone_a_transcript_says_so(hostile: MemoryRuns, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gce.app.transcripts.find_task", lambda name: (_ for _ in ()).throw(BadInput(f"no {name}")))
    with wiring.open_run("memory:hostile") as run:
        (test, *_), (rollout, *_) = (find_answers(run, "T0/0", moment) for moment in ("after", "rollouts"))
        bare = evolve(rollout, record={name: each for name, each in rollout.record.items() if name != "prompt"})
        *both, lost = transcripts_of(run, [test, rollout, bare])
    for kept in both:
        assert kept.prompt and not kept.steps and "no test_transcripts:STEPPED" in kept.notes[0]
    assert not lost.prompt and lost.text, "earlier versions did not keep the prompts of rollouts"


def test_steps_that_cannot_be_judged_are_a_note(hostile: MemoryRuns, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = evolve(STEPPED, teaching=Teaching(check_steps=lambda *_: 1 / 0))  # type: ignore[arg-type]
    monkeypatch.setattr("gce.app.transcripts.find_task", lambda _name: broken)
    with wiring.open_run("memory:hostile") as run:
        (found,) = transcripts_of(run, find_answers(run, "T0/0", "after"))
    assert found.steps == () and found.notes == ("The reasoning steps could not be judged: division by zero.",)
