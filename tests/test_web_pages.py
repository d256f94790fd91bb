"""The pages of `gce serve`: what they say is what is stored, and the list of answers is exact and quick to page."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("starlette")
pytest.importorskip("jinja2")
pytest.importorskip("httpx2")
from starlette.testclient import TestClient

from gce.adapters.runs.answer_index import AnswerIndex, AnswerQuery
from gce.adapters.runs.kept_open import KeptOpen
from gce.adapters.runs.run_directory import RunDirectory, writer_of
from gce.app.settings.records import TrainSettings
from gce.app.settings.values import settings_from
from gce.app.settings.written import call_of, command_of
from gce.app.web.answer_list import NAMES, describe
from gce.app.web.application import application
from gce.app.web.overview import spark
from gce.app.web.pages.answers import SIZE, filters_of, number, query_of
from gce.app.web.served import run_id
from gce.app.web.settings import WebSettings
from gce.domain.serialization import to_plain

HOST = "http://localhost:8800"
OUTCOMES = ("right", "wrong", "unreadable", "failed")


def record(n: int, iteration: int = 1, **more: Any) -> dict[str, Any]:
    """The n-th rollout: tiers and outcomes in turn, and one word in ten answers."""
    outcome = OUTCOMES[n % 4]
    scores = (1.0, 0.0 if n % 5 == 0 else 1.0)
    return {
        "key": f"k{n}",
        "problem": f"scheduling/grounded/train/T{n % 3}/0/{n // 2}",
        "digest": f"d{n // 2}",
        "tier": f"T{n % 3}",
        "prompt": [{"role": "user", "content": "plan these jobs"}],
        "text": f"thinking\nAnswer: {n}" + (" kingfisher" if n % 10 == 0 else ""),
        "tokens": 3,
        "finish_reason": "stop",
        "policy": "p",
        "right": outcome == "right",
        "outcome": outcome,
        "verdicts": [
            {"status": outcome, "score": score, "evaluator": f"e{place}", "version": "1", "violations": []}
            for place, score in enumerate(scores)
        ],
        "iteration": iteration,
        "admitted": False,
        "shown": False,
        **more,
    }


def written(path: Path, rollouts: int, each: int = 60, tested: bool = True) -> None:
    with RunDirectory.create(path, {"settings": to_plain(TrainSettings(preset="grounded"))}) as run:
        for iteration in range(1, -(-rollouts // each) + 1):
            for n in range((iteration - 1) * each, min(iteration * each, rollouts)):
                run.append("rollouts", record(n, iteration))
            plain = {"iteration": iteration, "tiers": {}, "buffer": {}, "admitted": 0, "updates": 1, "loss": 0.1}
            run.append("iterations", {**plain, "gradient_norm": None, "entropy": None, "dropped": 0})
            run.commit(iteration, None, {})
        if tested:
            run.write_answers("test-before", [record(n, right=False, outcome="wrong") for n in range(8)])
            run.write_answers("test-after", [record(n, right=True, outcome="right") for n in range(8)])


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    written(tmp_path / "one", 240)
    written(tmp_path / "two", 240)
    with TestClient(application(WebSettings(tmp_path)), base_url=HOST) as found:
        yield found


def test_paging_forwards_and_back_shows_every_answer_once(client: TestClient, tmp_path: Path) -> None:
    address: str | None = f"/runs/{run_id(Path('one'))}/answers?moment=rollouts"
    forwards, places = [], []
    while address:
        places.append(address)
        page = client.get(address).text
        forwards += re.findall(r"/answers/rollouts/(\d+)\?", page)
        later = re.search(r'rel="next" href="([^"]+)"', page)
        address = later and f"/runs/{run_id(Path('one'))}/answers{later[1].replace('&amp;', '&')}"
    assert forwards == [str(n) for n in range(240)] and len(places) == -(-240 // SIZE)
    earlier = re.search(r'rel="prev" href="([^"]+)"', client.get(places[-1]).text)
    assert earlier is not None
    page = client.get(f"/runs/{run_id(Path('one'))}/answers{earlier[1].replace('&amp;', '&')}").text
    assert re.findall(r"/answers/rollouts/(\d+)\?", page) == [str(n) for n in range(150, 200)]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> AnswerIndex:
    root = tmp_path_factory.mktemp("index")
    written(root / "run", 300)
    found = AnswerIndex(root / "index.sqlite", root / "run", NAMES)
    assert found.grow(describe, 60.0)
    return found


class Closable:
    def __init__(self) -> None:
        self.is_open = True

    def close(self) -> None:
        self.is_open = False


def test_connections_stay_open_up_to_a_number_and_are_lent_to_one_at_a_time() -> None:
    kept, made = KeptOpen(2), list[Closable]()

    def connect() -> Closable:
        made.append(Closable())
        return made[-1]

    with kept.lent("a", connect) as one, kept.lent("a", connect) as other:
        assert one is not other
    with kept.lent("a", connect) as again, kept.lent("b", connect):
        assert again in (one, other)
    assert [each.is_open for each in made].count(True) == 2 and len(made) == 3
    with pytest.raises(ZeroDivisionError), kept.lent("b", connect):
        raise ZeroDivisionError
    kept.close()
    assert not any(each.is_open for each in made) and len(made) == 3


def test_a_kept_index_sees_what_is_written_to_its_run_and_holds_nothing_open_meanwhile(tmp_path: Path) -> None:
    written(tmp_path / "run", 3)
    kept = KeptOpen(4)
    index = AnswerIndex(tmp_path / "index.sqlite", tmp_path / "run", NAMES, kept)
    assert index.grow(describe, 60.0)
    assert index.record("rollouts", 2) is not None and index.record("rollouts", 3) is None
    with RunDirectory.open(tmp_path / "run") as run:
        run.append("rollouts", record(3))
        run.commit(2, None, {})
        assert index.record("rollouts", 3) is not None
    assert not (tmp_path / "run" / "run.sqlite-wal").exists()
    assert index.grow(describe, 60.0) and index.at("rollouts", 3) is not None
    kept.close()


@pytest.mark.slow
@given(
    query=st.builds(
        AnswerQuery,
        moment=st.sampled_from(["", "rollouts", "after", "before"]),
        tier=st.sampled_from(["", "T0", "T1", "T7"]),
        outcome=st.sampled_from(["", *OUTCOMES]),
        first=st.none() | st.integers(0, 7),
        last=st.none() | st.integers(0, 7),
        disagree=st.booleans(),
        words=st.sampled_from(["", "kingfisher", "KING*", "KING", "plan* 12", '"OR" NEAR(', "* -plan", "nothing"]),
    ),
    size=st.integers(1, 400),
)
def test_a_query_finds_what_a_plain_filter_finds(index: AnswerIndex, query: AnswerQuery, size: int) -> None:
    everything = index.page(AnswerQuery(), size=1000)
    assert len(everything) == 316

    def fits(place: int) -> bool:
        each = everything[place]
        text = f"plan these jobs thinking answer {each.beginning}".lower()
        wanted = re.findall(r"\w+\*?", query.words.lower())
        there = re.findall(r"\w+", text)
        return (
            query.moment in ("", each.moment)
            and query.tier in ("", each.tier)
            and query.outcome in ("", each.outcome)
            and (query.first is None or (each.iteration is not None and each.iteration >= query.first))
            and (query.last is None or (each.iteration is not None and each.iteration <= query.last))
            and (not query.disagree or each.disagree)
            and all(any(w in (word, f"{word[: len(w) - 1]}*") for word in there) for w in wanted)
        )

    expected = [everything[place] for place in range(len(everything)) if fits(place)]
    assert index.page(query, size=size) == expected[:size]
    assert index.page(query, size=size, before=2**53) == expected[-size:]


def test_an_index_grows_with_its_run_and_begins_again_where_the_run_was_taken_back(tmp_path: Path) -> None:
    written(tmp_path / "run", 60, tested=False)
    index = AnswerIndex(tmp_path / "index.sqlite", tmp_path / "run", NAMES)
    assert index.grow(describe, 60.0) and sum(index.counts().values()) == 60
    with RunDirectory.open(tmp_path / "run") as run:
        run.append("rollouts", record(60, 2))
        run.commit(2, None, {})
    assert index.grow(describe, 60.0) and sum(index.counts().values()) == 61
    with RunDirectory.open(tmp_path / "run") as run:
        run.write_answers("test-after", [record(0)])
    assert index.grow(describe, 60.0) and sum(index.counts().values()) == 62
    with RunDirectory.open(tmp_path / "run") as run:
        run.write_answers("test-after", [record(1), record(2)])
    assert index.grow(describe, 60.0)
    assert [each.problem for each in index.page(AnswerQuery(moment="after"), size=9)] == [
        record(1)["problem"],
        record(2)["problem"],
    ]
    assert index.record("rollouts", 60) == record(60, 2) and index.record("rollouts", 61) is None
    assert index.record("passwd", 0) is None


def test_two_that_add_to_an_index_at_once_add_each_answer_once(tmp_path: Path) -> None:
    written(tmp_path / "run", 60, tested=False)
    one, other = (AnswerIndex(tmp_path / "index.sqlite", tmp_path / "run", NAMES) for _ in range(2))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda index: index.grow(describe, 60.0), [one, other, one, other]))
    assert one.grow(describe, 60.0)
    assert [each.sequence for each in one.page(AnswerQuery(), size=99)] == list(range(60))


def test_a_permanent_link_opens_before_anything_is_indexed(client: TestClient) -> None:
    page = client.get(f"/runs/{run_id(Path('one'))}/answers/rollouts/237")
    assert page.status_code == 200 and "Answer: 237" in page.text
    for missing in ("rollouts/240", "rollouts/-1", "rollouts/x", "elsewhere/0", "rollouts/" + "9" * 400):
        assert client.get(f"/runs/{run_id(Path('one'))}/answers/{missing}").status_code == 404


def test_an_answer_with_values_shows_them_as_a_heat_map(client: TestClient, tmp_path: Path) -> None:
    """Hostile text in a segment stays text."""
    prefixes = [
        {"tokens": 0, "segment": "", "value": 0.25, "low": 0.1, "high": 0.6, "n": 8},
        {"tokens": 2, "segment": "<b>so\n", "value": 1.0, "low": 0.5, "high": 1.0, "n": 4},
        {"tokens": 3, "segment": "w1", "value": 0.5, "low": 0.5, "high": 0.5, "n": 1},
    ]
    with RunDirectory.create(tmp_path / "valued", {"settings": to_plain(TrainSettings(preset="grounded"))}) as run:
        run.append("rollouts", record(0, values={"prefixes": prefixes, "cost": 99}))
        run.commit(1, None, {})
    page = client.get(f"/runs/{run_id(Path('valued'))}/answers/rollouts/0").text
    assert "0.25 (0.10 to 0.60) before the first token, by 8 rollouts; then by 4 continuations of 99 tokens" in page
    assert '<span class="gain-3" title="1.00 (0.50 to 1.00), +0.75">&lt;b&gt;so' in page
    assert '<span class="loss-2" title="0.50 (0.50 to 0.50), -0.50">w1</span>' in page


def test_two_runs_stand_side_by_side_and_are_compared(client: TestClient) -> None:
    one, two = run_id(Path("one")), run_id(Path("two"))
    page = client.get(f"/runs/{one}/answers/rollouts/6?beside={two}").text
    assert page.count("<article") == 2
    assert page.count(f'value="{two}" selected>') == 1 and f'value="{one}"' not in page
    page = client.get(f"/runs/{one}").text
    assert page.count(f'value="{two}">') == 1 and " selected" not in page
    page = client.get(f"/compare?run={one}&run={two}").text
    assert "Paired difference" in page and "+0.0 (" in page
    assert client.get(f"/compare?run={one}").status_code == 400


def test_a_test_that_an_interrupted_run_has_taken_is_shown_everywhere(client: TestClient) -> None:
    one, two = run_id(Path("one")), run_id(Path("two"))
    assert re.search(r'<th scope="row">after</th>(<td>100 [^<]*</td>){3}', client.get(f"/runs/{one}").text)
    page = client.get(f"/compare?run={one}&run={two}").text
    assert re.search(r'<th scope="row">two \(interrupted\), after</th>(<td>100 [^<]*</td>){3}', page)
    assert "Accuracy on test problems, n = 3 a tier (all there are), 2 in T2" in page
    assert re.search(r'<th scope="row">two \(interrupted\)</th><td>\+0.0 \([^<]*</td><td>8</td><td>0</td>', page)


def test_neighbours_of_an_answer_keep_the_run_beside_it(client: TestClient) -> None:
    one, two = run_id(Path("one")), run_id(Path("two"))
    page = client.get(f"/runs/{one}/answers/after/1?beside={two}").text
    for name, place in (("prev", 0), ("next", 2)):
        assert f'rel="{name}" href="/runs/{one}/answers/after/{place}?beside={two}"' in page
    assert f'href="/compare?run={one}&amp;run={two}"' in page


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ("first=3&last=1", "Iterations from 3 to 1 are none"),
        ("first=x", "whole numbers, and x is none"),
        ("q=%22((+NEAR", "all else in them is passed over"),
    ],
)
def test_filters_that_cannot_be_meant_are_named(client: TestClient, asked: str, words: str) -> None:
    place = f"/runs/{run_id(Path('one'))}/answers"
    assert words in client.get(f"{place}?{asked}").text
    assert 'role="alert"' not in client.get(f"{place}?first=1&last=3&q=king*+12").text


def test_without_matplotlib_figures_are_folded_tables(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("run", "comparison"):
        monkeypatch.setattr(f"gce.app.web.pages.{module}.can_draw", lambda: False)
    one, two = run_id(Path("one")), run_id(Path("two"))
    for place in (f"/runs/{one}", f"/compare?run={one}&run={two}"):
        page = client.get(place).text
        assert page.count("Figures need  pip install") == 1 and "<img" not in page
        assert page.count("</figcaption>") == len(re.findall(r"</figcaption>\s*<details>", page)) > 0


@pytest.mark.slow
def test_a_report_is_downloaded_as_one_page_without_the_servers_paths(client: TestClient, tmp_path: Path) -> None:
    found = client.get(f"/runs/{run_id(Path('one'))}/report.html")
    assert found.status_code == 200 and found.headers["content-disposition"].startswith("attachment")
    assert found.text.startswith("<!doctype html>") and str(tmp_path) not in found.text


def test_the_list_is_filtered_and_sorted(client: TestClient) -> None:
    names = r'<th scope="row"><a href="/runs/[^"]+">([^<]+)<'
    assert re.findall(names, client.get("/").text) == ["one", "two"]
    assert re.findall(names, client.get("/?sort=name&order=down").text) == ["two", "one"]
    assert re.findall(names, client.get("/?q=tw").text) == ["two"]
    assert "No run fits" in client.get("/?state=finished").text
    assert client.get("/?sort=__class__").status_code == 200


def test_a_page_of_a_run_says_how_to_make_it_and_shows_what_changed(client: TestClient) -> None:
    page = client.get(f"/runs/{run_id(Path('one'))}").text
    assert '<pre tabindex="0">gce train --preset grounded</pre>' in page and "gce.train(preset=" in page
    assert "interrupted" in page and "data-events" not in page
    figures = re.findall(r'href="(/runs/[^"]+\.csv)"', page)
    assert all(client.get(each).headers["content-type"].startswith("text/csv") for each in figures)


def test_a_page_of_a_run_that_goes_on_says_what_it_has_seen(client: TestClient, tmp_path: Path) -> None:
    """So that what changes before the first event is not taken for what the page shows."""
    with RunDirectory.create(tmp_path / "live", {"settings": to_plain(TrainSettings(preset="grounded"))}) as going_on:
        page = f"/runs/{run_id(Path('live'))}"
        found = [re.search('data-seen="([0-9a-f]{16})"', client.get(page).text) for _ in range(2)]
        going_on.append("rollouts", record(0))
        going_on.commit(1, None, {})
        found.append(re.search('data-seen="([0-9a-f]{16})"', client.get(page).text))
    first, same, other = (each[1] for each in found if each is not None)
    assert first == same != other and "data-seen" not in client.get(page).text


def test_figures_are_csv_in_which_nothing_is_a_formula(tmp_path: Path) -> None:
    from gce.app.web.reading import data
    from gce.domain.figures import Stacks

    figure = Stacks("f", "title", {"=cmd|' /C calc'!A0": {"@x": 1.0}, "plain": {"-y": 2.0}}, unit="-1", across="+x")
    rows = list(csv.reader(io.StringIO(bytes(data(figure).body).decode())))
    assert rows[0] == ["'+x", "part", "-1"]
    assert [row[0] for row in rows[1:]] == ["'=cmd|' /C calc'!A0"] * 2 + ["plain"] * 2
    assert {row[1] for row in rows[1:]} == {"'@x", "'-y"} and rows[1][2] == "1"


@pytest.mark.slow
@pytest.mark.parametrize(
    "given",
    [
        {},
        {"task": "programs", "iterations": 2, "learning_rate": 1e-5, "seed": 7},
        {"recipe": "isopro", "rank": 4},
        {"deduplicate": False, "ladder": True},
        {"problems_by_tier": {"T0": 3, "T1": 1}},
        {"also_measure": ("beliefs", "programs")},
    ],
)
def test_the_command_and_the_call_make_the_same_settings(given: dict[str, Any]) -> None:
    import ast
    import shlex

    from gce.app.cli import command_parser
    from gce.app.settings.config_file import settings_of

    settings = settings_from(given)
    command, call = command_of(settings), call_of(settings)
    assert command is not None and call is not None
    parsed = command_parser("train").parse_args(shlex.split(command)[2:])
    assert settings_of(parsed)[0] == settings
    node = ast.parse(call, mode="eval").body
    assert isinstance(node, ast.Call)
    assert settings_from({str(each.arg): ast.literal_eval(each.value) for each in node.keywords}) == settings


def test_a_run_made_with_an_object_of_its_own_has_no_command() -> None:
    settings = settings_from({"task": "given:mine"})
    assert command_of(settings) is None and call_of(settings) is None


def test_the_writer_of_a_run_is_the_process_that_holds_its_lock(tmp_path: Path) -> None:
    import os

    assert writer_of(tmp_path) is None
    with RunDirectory.create(tmp_path / "run", {"settings": {}}):
        assert writer_of(tmp_path / "run") == os.getpid()
    for stale in ("", "x", "-5", "0", "999999999999999999999", "1"):
        (tmp_path / "run" / "lock").write_text(stale)
        assert writer_of(tmp_path / "run") is None or stale in ("-5", "0", "1")


@given(st.text(), st.text())
def test_ids_of_runs_are_plain_and_tell_names_apart(one: str, other: str) -> None:
    paths = [Path(each.replace("/", "_").replace("\0", "_")) for each in (one, other)]
    assert re.fullmatch("[a-z0-9-]{8,60}", run_id(paths[0]))
    assert (run_id(paths[0]) == run_id(paths[1])) == (paths[0] == paths[1])


@given(st.dictionaries(st.sampled_from(["moment", "tier", "outcome", "first", "last", "disagree", "q"]), st.text()))
def test_filters_of_any_address_are_read_and_written_back(asked: dict[str, str]) -> None:
    query = query_of(asked)
    assert query_of(filters_of(query)) == query


def test_numbers_and_sparklines_by_hand() -> None:
    assert [number(each) for each in ("7", "-1", "", "1e3", "\u0663", "9" * 16)] == [7, None, None, None, None, None]
    assert spark([0.0, 1.0]) == "2.0,18.0 94.0,2.0" and spark([]) == "" and spark([0.5]) == "2.0,10.0 94.0,10.0"
