"""Pages of `gce serve` in Chromium: nothing of a model runs, a run is watched live, keys move, nothing is cut off."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("jinja2")
pytest.importorskip("playwright")
pytest.importorskip("starlette")
pytest.importorskip("httpx2")

from test_web_pages import record, written
from test_web_safety import HOSTILE
from test_web_safety import record as hostile_record

from gce.adapters.runs.run_directory import RunDirectory
from gce.app.settings.records import TrainSettings
from gce.app.web.served import run_id
from gce.domain.serialization import to_plain

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = [pytest.mark.browser, pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")]
ONE, TWO, LIVE, HOSTILE_RUN = (run_id(Path(name)) for name in ("one", "two", "live", "<svg onload=alert(1)>"))
SETTINGS = {"settings": to_plain(TrainSettings(preset="grounded"))}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("served")
    written(root / "one", 120)
    written(root / "two", 120)
    with RunDirectory.create(root / "<svg onload=alert(1)>", SETTINGS) as run:
        for n, text in enumerate(HOSTILE):
            run.append("rollouts", hostile_record(text, n))
        run.commit(1, None, {})
    return root


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    own = ("--tasks", "imitator:SUMS", "--models", "imitator:imitator")
    command = [sys.executable, "-u", "-m", "gce", "serve", str(folder), "--port", "0", *own]
    places = os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])
    env = {**os.environ, "PYTHONPATH": places}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as server:
        assert server.stdout is not None
        found = re.search(r"http://\S+", server.stdout.readline())
        assert found is not None
        yield found[0]
        server.terminate()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def page(browser: Any, address: str) -> Iterator[Any]:
    with opened(browser, address) as found:
        yield found


@contextmanager
def opened(browser: Any, address: str, **more: Any) -> Iterator[Any]:
    """A page whose dialogs, errors and requests to other places fail the test."""
    context = browser.new_context(base_url=address, **{"viewport": {"width": 1024, "height": 900}, **more})
    found, wrong = context.new_page(), list[str]()

    def asked(dialog: Any) -> None:
        wrong.append(dialog.message)
        dialog.dismiss()

    found.on("dialog", asked)
    found.on("pageerror", lambda error: wrong.append(str(error)))
    found.on("console", lambda said: wrong.append(said.text) if said.type in ("error", "warning") else None)
    found.on("request", lambda request: None if request.url.startswith(address) else wrong.append(request.url))
    yield found
    context.close()
    assert not wrong


def test_nothing_that_a_model_wrote_runs(page: Any) -> None:
    page.goto("/")
    for place in ("", "/answers", *(f"/answers/rollouts/{n}" for n in range(len(HOSTILE)))):
        page.goto(f"/runs/{HOSTILE_RUN}{place}")
    assert page.locator("article pre").first.inner_text()


def test_a_run_is_watched_without_reloading(page: Any, folder: Path) -> None:
    with RunDirectory.create(folder / "live", SETTINGS) as run:
        page.goto(f"/runs/{LIVE}")
        page.locator("#live .running").wait_for()
        page.evaluate("window.same = true")
        run.append("rollouts", record(0))
        tier = dict.fromkeys(("all_right", "all_wrong", "truncated", "unparsed", "distinct"), 0)
        counts = {"rollouts": 1, "correct": 1, "problems": 1, "mean_tokens": 3.0, **tier}
        plain = {"iteration": 1, "tiers": {"T0": counts}, "buffer": {}, "admitted": 0, "updates": 1, "loss": 0.1234}
        run.append("iterations", {**plain, "gradient_norm": None, "entropy": None, "dropped": 0})
        run.commit(1, None, {})
        page.get_by_text("0.1234 nats").wait_for(timeout=10_000)
    page.locator("#live .interrupted").wait_for(timeout=10_000)
    assert page.evaluate("window.same"), "the page was not loaded again"


def test_keys_alone_go_from_the_list_through_answers_and_back(page: Any) -> None:
    page.goto(f"/runs/{ONE}/answers?moment=rollouts")
    for key in ("j", "j", "ArrowDown", "k", "Enter"):
        page.keyboard.press(key)
    page.wait_for_url("**/answers/rollouts/1?*")
    page.keyboard.press("j")
    page.wait_for_url("**/answers/rollouts/2?*")
    page.keyboard.press("ArrowLeft")
    page.wait_for_url("**/answers/rollouts/1?*")
    page.go_back()
    page.wait_for_url("**/answers/rollouts/2?*")


def test_runs_are_ticked_compared_deleted_and_restored(page: Any) -> None:
    page.goto("/?sort=name")
    page.get_by_label("compare one").check()
    page.get_by_label("compare two").check()
    page.get_by_role("button", name="Compare").click()
    page.get_by_role("heading", name="Paired difference").wait_for()
    page.goto(f"/runs/{TWO}/delete")
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("button", name="Undo").click()
    page.wait_for_url(f"**/runs/{TWO}")


PLACES = (
    *(
        "/",
        f"/runs/{ONE}",
        f"/runs/{ONE}/answers",
        f"/runs/{ONE}/answers/rollouts/1?beside={TWO}",
        f"/runs/{ONE}/delete",
    ),
    *(f"/compare?run={ONE}&run={TWO}", f"/runs/{HOSTILE_RUN}/answers/rollouts/28", "/studies", "/new", "/jobs"),
    *("/play?seed=3", "/login"),
)


@pytest.mark.parametrize("width", [1600, 1024, 400])
def test_no_page_is_wider_than_the_screen(page: Any, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    for place in PLACES:
        if place != "/login":  # Its status is an error to Chromium.
            page.goto(place)
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), place


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1600, 400])
def test_axe_finds_nothing_on_any_page(browser: Any, address: str, scheme: str, width: int) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    levels = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}
    # Only without the page's own policy can axe add its script to the page.
    more = {"color_scheme": scheme, "viewport": {"width": width, "height": 900}, "bypass_csp": True}
    context = browser.new_context(base_url=address, **more)
    page = context.new_page()
    found = []
    for place in (*PLACES, "/nothing"):
        page.goto(place)
        if place.startswith("/play"):
            page.get_by_label("Your answer").fill("Step 1: A starts at 0.\nAnswer: A 0")
            page.get_by_role("button", name="Judge").click()
            page.get_by_role("heading", name="Verdict").wait_for()
        page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
        violations = axe.run(page, options=levels).response["violations"]
        found += [(place, each["id"], each["nodes"][0]["html"][:200]) for each in violations]
    context.close()
    assert not found


def launch(page: Any, name: str) -> None:
    """A run of a few seconds, from the form that is open."""
    page.get_by_label("name of the run").fill(name)
    for field, value in (("task", "imitator:SUMS"), ("model.name", "imitator:imitator")):
        page.locator(f'[id="{field}"]').select_option(value)
    for field, value in (("stopping.iterations", "15"), ("rollouts.problems", "6"), ("evaluation.test", "4")):
        page.locator(f'[id="{field}"]').fill(value)
    page.locator("button", has_text="Launch").first.click()
    page.get_by_role("link", name="Open the run").wait_for(timeout=60_000)


def test_lists_and_choices_follow_what_happens_without_reloading(page: Any, folder: Path) -> None:
    page.goto("/")
    with RunDirectory.create(folder / "later", SETTINGS):
        page.get_by_role("link", name="later", exact=True).wait_for(timeout=20_000)
        assert page.locator("td.running").count() == 1 and page.get_by_role("link", name="Delete later").count() == 0
        page.goto(f"/runs/{run_id(Path('later'))}/delete")
        assert page.get_by_role("button", name="Delete").count() == 0
        page.go_back()
    page.evaluate("window.same = true")
    page.get_by_label("compare two").check()
    page.get_by_role("link", name="Delete later").wait_for(timeout=20_000)
    assert page.get_by_label("compare two").is_checked() and page.evaluate("window.same")
    page.goto("/play")
    page.evaluate("window.same = true")
    page.get_by_label("Task").focus()
    page.get_by_label("Task").select_option("beliefs")
    page.locator("select[name=preset] option[value=elections]").wait_for(state="attached")
    assert page.evaluate("window.same && document.activeElement.name") == "task"


def test_a_waiting_job_says_what_it_waits_for_and_a_log_opens_at_its_end(page: Any) -> None:
    for name in ("long", "waiting"):
        page.goto("/new")
        page.get_by_label("name of the run").fill(name)
        for field, value in (("task", "imitator:SUMS"), ("model.name", "imitator:imitator")):
            page.locator(f'[id="{field}"]').select_option(value)
        page.locator('[id="stopping.iterations"]').fill("100000")
        page.locator("button", has_text="Launch").first.click()
        page.get_by_role("heading", name=name).wait_for()
    page.get_by_text("Number 1 in the queue, behind").wait_for()
    page.get_by_role("button", name="Stop").click()
    page.get_by_text("cancelled").wait_for()
    page.goto("/jobs")
    page.get_by_role("link", name="long: imitator:SUMS").click()
    page.get_by_role("button", name="Stop").click()
    page.locator("#state.cancelled").wait_for(timeout=60_000)
    page.get_by_role("button", name=re.compile("Continue|Try again")).click()
    page.locator("#log", has_text="-- attempt 2").wait_for()
    page.get_by_role("button", name="Stop").click()
    page.locator("#state.cancelled").wait_for(timeout=60_000)
    assert page.evaluate("log.scrollTop + log.clientHeight >= log.scrollHeight - 8")


def test_a_run_is_launched_watched_browsed_and_compared_with_a_second_one(page: Any) -> None:
    page.goto("/")
    page.get_by_role("link", name="New run").click()
    launch(page, "first")
    page.get_by_role("link", name="Open the run").click()
    page.locator("#live .finished").wait_for(timeout=90_000)
    page.get_by_role("link", name="Answers").click()
    page.wait_for_load_state()
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="answer", exact=True).wait_for()
    page.go_back()
    page.get_by_role("heading", name="Answers of first").wait_for()
    page.get_by_role("link", name="Jobs").click()
    page.get_by_role("link", name="first: imitator:SUMS").click()
    page.get_by_role("link", name="New run with these settings").click()
    launch(page, "second")
    other = page.context.new_page()
    for tab in (page, other):
        tab.goto(f"/runs/{run_id(Path('second'))}")
        tab.reload()
    for tab in (page, other):
        tab.locator("#live .finished").wait_for(timeout=90_000)
    page.goto("/")
    for name in ("first", "second"):
        page.get_by_label(f"compare {name}", exact=True).check()
    page.get_by_role("button", name="Compare").click()
    page.get_by_role("heading", name="Paired difference").wait_for()
    page.get_by_role("link", name="second", exact=True).click()
    page.get_by_role("heading", name="Result").wait_for()
