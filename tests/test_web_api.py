"""The interface for programs, and the pages that start work: what they take, what they refuse, what they say."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import asdict, evolve
from hypothesis import example, given
from hypothesis import strategies as st

pytest.importorskip("starlette")
pytest.importorskip("jinja2")
pytest.importorskip("python_multipart")
pytest.importorskip("httpx2")

from starlette.testclient import TestClient
from test_web_pages import written
from test_web_safety import HOSTILE, is_plain

from gce.adapters.models.scripted import ScriptedModel
from gce.adapters.runs.run_directory import RunDirectory
from gce.app.loaded_model import LoadedModel
from gce.app.options import NAME
from gce.app.settings.records import TrainSettings, all_settings
from gce.app.settings.values import settings_from
from gce.app.web.api.schemas import NAME_PATTERN, train_settings_schema
from gce.app.web.api.simulations import SIMULATIONS
from gce.app.web.api.table import ENDPOINTS
from gce.app.web.application import application
from gce.app.web.asks import Attack, Consult, Offered, Orchestrate
from gce.app.web.jobs import Jobs
from gce.app.web.served import OWN, run_id
from gce.app.web.settings import WebSettings
from gce.app.web.worker import reply
from gce.app.wiring.installation import lacking
from gce.domain.serialization import to_plain
from gce.errors import SettingError

Client = TestClient
PROBLEM = "scheduling/grounded/dev/T0/3/0"


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    app = application(WebSettings(tmp_path))
    app.state.launcher.jobs._at_once = {"long": 0, "short": 0}  # What is submitted stays in the queue.
    with TestClient(app, base_url="http://localhost", raise_server_exceptions=True) as found:
        yield found


def form_of(client: Client, page: str) -> dict[str, str]:
    token = re.search(r'name="csrf" value="([^"]+)"', client.get(page).text)
    assert token is not None
    return {"csrf": token[1]}


def post(client: Client, path: str, data: Any) -> Any:
    """The client's own JSON takes no lone surrogates."""
    return client.post(path, content=json.dumps(data), headers={"content-type": "application/json"})


def refused(answer: Any, status: int) -> dict[str, Any]:
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json"), answer.text
    found: dict[str, Any] = answer.json()
    assert found["status"] == status and "Traceback" not in answer.text
    return found


@pytest.mark.slow
def test_a_problem_is_drawn_and_answers_to_it_are_judged_as_gce_verify_does(client: Client) -> None:
    drawn = client.get("/api/v1/problems", params={"task": "scheduling", "tier": "T0", "seed": "3"}).json()
    assert drawn["key"] == PROBLEM
    jobs = [job["label"] for job in drawn["instance"]["jobs"]]
    wrong = client.post("/api/v1/judge", json={"problem": PROBLEM, "answer": f"Answer: {jobs[0]} 0"}).json()
    assert (wrong["outcome"], wrong["right"], wrong["reward"]) == ("wrong", False, 0.0)
    assert {each["kind"] for each in wrong["verdicts"][0]["violations"]} == {"missing"}
    unread = post(client, "/api/v1/judge", {"problem": PROBLEM, "answer": "\n".join(HOSTILE[:21])}).json()
    assert not unread["right"]
    refused(client.post("/api/v1/judge", json={"problem": "scheduling/none/dev/T0/3/0", "answer": ""}), 404)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"problem": PROBLEM}, 422),
        ({"problem": PROBLEM, "answer": 3}, 422),
        ({"problem": PROBLEM, "answer": "", "more": 1}, 422),
        ({"problem": PROBLEM, "answer": "x" * 100_001}, 422),
        ({"problem": PROBLEM, "answer": "", "task": "os:path"}, 422),
        ({"problem": PROBLEM, "answer": "", "task": "programs@/etc/passwd"}, 422),
        (b'{"problem": ', 400),
        (b'{"problem": NaN}', 400),
        (b"[" * 100_000, 400),
        (b"[]", 422),
    ],
    ids=range(10),
)
def test_a_request_that_is_not_as_described_is_refused_without_an_exceptions_text(
    client: Client, body: Any, status: int
) -> None:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"content-type": "application/json"}
    refused(client.post("/api/v1/judge", content=content, headers=headers), status)


def test_a_body_of_another_type_is_refused(client: Client) -> None:
    refused(client.post("/api/v1/judge", content=b"{}", headers={"content-type": "text/plain"}), 415)
    refused(client.post("/api/v1/judge", json={}, headers={"origin": "http://elsewhere"}), 403)


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"lora": {"rank": 0}}, "lora.rank"),
        ({"lora": {"rnk": 1}}, "lora.rnk"),
        ({"task": "os:path"}, "task"),
        ({"model": {"name": "command:rm -rf {prompt_file}"}}, "model.name"),
        ({"model": {"name": "http://169.254.169.254/v1#m"}}, "model.name"),
        ({"model": {"sampler": "llama:/etc/passwd"}}, "model.sampler"),
        ({"model": {"adapter": "/etc"}}, "model.adapter"),
        ({"executor": {"runner": "unsafe-local"}}, "executor.runner"),
        ({"executor": {"kind": "os:system"}}, "executor.kind"),
        ({"executor": {"kind": "ray"}}, "executor.kind"),
        ({"objective": {"algorithm": "os:path"}}, "objective.algorithm"),
        ({"rollouts": {"strategy": "os:path"}}, "rollouts.strategy"),
        ({"rollouts": {"strategy": "orchestrate@graph.toml"}}, "rollouts.strategy"),
        ({"evaluators": {"teach": {"verifier": 1.0, "os:path": 1.0}}}, "evaluators.teach"),
        ({"evaluation": {"also_measure": ["beliefs@/etc/passwd"]}}, "evaluation.also_measure"),
        ({"rollouts": {"problems": 1}}, "rollouts.problems"),
        ({"rollouts": {"samples": 1}, "objective": {"algorithm": "grpo"}}, "rollouts.samples"),
        ({"rollouts": {"temperature": 0.0}, "objective": {"algorithm": "rloo"}}, "rollouts.temperature"),
        ({"lora": {"target_modules": ["../q_proj"]}}, "lora.target_modules"),
    ],
)
def test_settings_of_a_run_are_bounded_and_name_nothing_outside_the_program(
    client: Client, settings: dict[str, Any], field: str
) -> None:
    found = refused(client.post("/api/v1/jobs/train", json={"settings": settings}), 422)
    assert [each["field"] for each in found["errors"]] == [field]
    assert client.get("/api/v1/jobs").json()["total"] == 0


@pytest.mark.parametrize(
    "name", ["../x", "/etc", ".hidden", "a/b", "", " ", "x" * 61, "../../etc/passwd", "'; DROP TABLE runs", *HOSTILE]
)
def test_a_runs_name_is_no_path(client: Client, tmp_path: Path, name: str) -> None:
    answer = post(client, "/api/v1/jobs/train", {"name": name})
    assert answer.status_code == (202 if name == "" else 422)
    assert [path.name for path in tmp_path.iterdir()] == [".gce-serve"]


def test_a_job_is_submitted_listed_cancelled_and_resumed(client: Client) -> None:
    answer = client.post("/api/v1/jobs/train", json={"name": "one", "settings": {"stopping": {"iterations": 1}}})
    assert answer.status_code == 202
    job = answer.json()
    assert client.get(answer.headers["location"]).json()["state"] == "queued"
    refused(client.post("/api/v1/jobs/train", json={"name": "one"}), 409)
    refused(client.post(f"/api/v1/jobs/{job['id']}/resume"), 409)
    assert client.post(f"/api/v1/jobs/{job['id']}/cancel").json()["state"] == "cancelled"
    events = client.get(f"/api/v1/jobs/{job['id']}/events")
    assert events.headers["content-type"].startswith("text/event-stream")
    assert events.text.startswith("event: state\n") and events.text.endswith("event: over\ndata: {}\n\n")
    assert client.post(f"/api/v1/jobs/{job['id']}/resume").json()["attempt"] == 2
    assert client.get("/api/v1/jobs").json()["total"] == 1
    refused(client.get("/api/v1/jobs/..%2f..%2fetc"), 404)
    refused(client.get("/api/v1/jobs/20260101-000000-00000000"), 404)


def test_a_job_that_ends_soon_after_its_run_began_leads_to_the_run(client: Client, tmp_path: Path) -> None:
    job = client.post("/api/v1/jobs/train", json={"name": "one"}).json()["id"]
    written(tmp_path / "other", 1)
    assert "other" in client.get("/").text, "the folder has been listed"
    assert 'id="run"' in client.get(f"/jobs/{job}").text and "hidden>Open the run" in client.get(f"/jobs/{job}").text
    written(tmp_path / "one", 1)
    page = client.get(f"/runs/{run_id(Path('one'))}").text
    assert "data-events" in page and 'id="stale"' in page, "what the script shows and hides while the job goes on"
    client.post(f"/api/v1/jobs/{job}/cancel")
    assert '"has_run": true' in client.get(f"/api/v1/jobs/{job}/events").text
    assert "hidden>Open the run" not in client.get(f"/jobs/{job}").text


def test_the_queue_is_limited(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gce.app.web.jobs.MOST_WAITING", 1)
    assert client.post("/api/v1/jobs/evaluate", json={"n": 2, "tiers": ["T0"]}).status_code == 202
    refused(client.post("/api/v1/jobs/evaluate", json={"n": 2}), 429)


def test_the_interface_of_isopro_has_its_envelope_of_errors(client: Client) -> None:
    found = client.get("/healthcheck").json()
    assert set(found) == {"status", "timestamp"}
    for path, body in (
        ("/simulate", {"type": "qa", "question": "?"}),
        ("/simulate", {"type": "orchestration", "prompt": "x"}),
        ("/simulate", {"type": "workflow"}),
        ("/simulate", {"type": 3}),
        ("/simulate", {"prompt": "x"}),
        ("/simulate/qa", {"task": "consultation@/etc/passwd"}),
        ("/simulate/qa", {"run": "no-such-run"}),
        ("/simulate/qa", {"persona_type": "nobody"}),
        ("/simulate/adversarial", {"problem": PROBLEM, "attack_type": "fgsm"}),
        ("/simulate/adversarial", {"problem": PROBLEM, "num_steps": 11}),
        ("/simulate/orchestration", {"problem": PROBLEM, "mode": "/etc/passwd.toml"}),
        ("/simulate/reason", {"prompt": " "}),
        ("/simulate/reason", {"prompt": "x", "model": "command:id"}),
    ):
        answer = client.post(path, json=body)
        assert answer.status_code == 400 and set(answer.json()) == {"error"}
    said = client.post("/simulate/qa", json={"persona_type": "nobody"}).json()["error"]
    assert said.startswith("persona_type: expected one of plain, upset, ")
    assert client.post("/simulate/workflow", json={}).status_code == 404


def simulated(monkeypatch: pytest.MonkeyPatch, model: Any, kind: str, asked: Any) -> tuple[Any, list[dict[str, Any]]]:
    """The output of a simulation, and what each strategy came to, as the worker replies."""
    loaded = LoadedModel(ScriptedModel(model), "scripted")
    monkeypatch.setattr("gce.app.web.worker.load_model", lambda *_args, **_kwargs: loaded)
    simulation = SIMULATIONS[kind]
    given = {**asdict(asked), "strategies": simulation.strategies(asked), "adapter": "", "do": kind}
    found = reply(json.loads(json.dumps(given)))
    assert "error" not in found, found
    return simulation.output(found), found["held"]


def test_a_simulated_user_is_asked_and_the_history_ends_in_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    said = ["Ask: How long does each job take?", "Answer: A 0"]
    history, (held,) = simulated(
        monkeypatch,
        lambda request: said[len(request.messages) // 2],
        "qa",
        Consult(persona_type="upset", num_turns=2, model="any"),
    )
    assert [each["role"] for each in history] == ["user", "assistant", "user", "assistant"]
    assert "I am tired of it!" in history[0]["content"] and [history[1]["content"], history[3]["content"]] == said
    assert held["outcome"] in ("wrong", "unreadable") and held["calls"] == 2 and held["notes"]["questions"] == 1


def test_a_persona_may_have_its_name_of_isopro(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = (
        simulated(monkeypatch, lambda request: "Answer: A 0", "qa", Consult(persona_type=name, model="any"))
        for name in ("incomplete", "incomplete_info")
    )
    assert ours == theirs


def test_attacked_prompts_stand_beside_the_original_and_none_without_edits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = Attack(problem=PROBLEM, attack_type="typos", num_steps=2)
    pairs, held = simulated(monkeypatch, lambda request: request.messages[-1].content[:300], "adversarial", asked)
    assert len(pairs) == 2 and len(held) == 3
    for pair in pairs:
        assert pair["original_input"] != pair["perturbed_input"] and pair["original_output"] in pair["original_input"]
    (same,), _ = simulated(monkeypatch, lambda request: "no", "adversarial", evolve(asked, edits=0, num_steps=1))
    assert same["original_input"] == same["perturbed_input"]


@pytest.mark.parametrize(("mode", "calls"), [("agent", 1), ("sequence", 2), ("parallel", 3), ("node", 4)])
def test_a_graph_answers_in_one_text(monkeypatch: pytest.MonkeyPatch, mode: str, calls: int) -> None:
    text, (held,) = simulated(
        monkeypatch, lambda request: "Answer: A 0", "orchestration", Orchestrate(problem=PROBLEM, mode=mode)
    )
    assert text == "Answer: A 0" and held["calls"] == calls and not held["right"]


@pytest.mark.slow
def test_an_unknown_persona_or_problem_is_said_in_a_line() -> None:
    asked = {**asdict(Consult(persona_type="nobody")), "strategies": [], "adapter": "", "do": "qa"}
    assert reply(asked)["error"].startswith("expected a persona of consultation (confused, ")
    asked = {**asdict(Attack(problem="scheduling/none/dev/T0/3/0")), "strategies": [], "adapter": "", "do": "qa"}
    assert "error" in reply(asked)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("asked", "kind"),
    [
        ({"type": "qa", "persona_type": "hurried", "model": "gce-tiny"}, list),
        ({"type": "adversarial", "problem": PROBLEM}, list),
        ({"type": "orchestration", "problem": PROBLEM, "mode": "sequence"}, str),
    ],
)
def test_simulations_have_the_envelope_of_isopro(tmp_path: Path, asked: dict[str, Any], kind: type) -> None:
    pytest.importorskip("mlx_lm")
    with TestClient(application(WebSettings(tmp_path)), base_url="http://localhost") as client:
        found = client.post("/simulate", json=asked).json()
        assert set(found) == {"run_id", "output", "metadata"} and isinstance(found["output"], kind)
        metadata = found["metadata"]
        assert metadata["simulation_type"] == asked["type"]
        assert all({"outcome", "right", "reward"} <= each.keys() for each in metadata["verdicts"])
        refused = client.post("/simulate", json={**asked, "problem": "scheduling/none/dev/T0/3/0"})
        assert refused.status_code == 400 and set(refused.json()) == {"error"}


@pytest.mark.slow
def test_a_model_reasons_in_the_envelope_of_isopro(tmp_path: Path) -> None:
    pytest.importorskip("mlx_lm")
    with TestClient(application(WebSettings(tmp_path)), base_url="http://localhost") as client:
        asked = {"type": "reason", "prompt": "Plan.", "context": "Be short.", "max_tokens": 8}
        found = client.post("/simulate", json=asked).json()
        assert set(found) == {"run_id", "output", "metadata"} and isinstance(found["output"], str)
        assert found["metadata"]["simulation_type"] == "reason" and found["metadata"]["context"] == "Be short."


def test_the_document_describes_every_endpoint_and_every_setting(client: Client) -> None:
    found = client.get("/api/v1/openapi.json").json()
    described = {(path, method.upper()) for path, each in found["paths"].items() for method in each}
    assert described == {(each.path, each.method) for each in ENDPOINTS}
    assert found["components"]["schemas"]["TrainSettings"] == json.loads(json.dumps(train_settings_schema(Offered())))
    names = {
        f"{section}.{name}" if "properties" in each else section
        for section, each in train_settings_schema(Offered())["properties"].items()
        for name in each.get("properties", [""])
    }
    assert names == set(all_settings())


@pytest.mark.slow
@pytest.mark.parametrize(
    "operations",
    [
        ("--exclude-path-regex", "events|simulate|jobs/train"),
        # Some settings go only with certain others, which no schema says: 422 then.
        ("--include-path", "/api/v1/jobs/train", "--exclude-checks", "positive_data_acceptance"),
    ],
)
def test_requests_drawn_from_the_document_get_the_answers_that_it_describes(
    tmp_path: Path, operations: tuple[str, ...]
) -> None:
    pytest.importorskip("schemathesis")
    command = [sys.executable, "-u", "-m", "gce", "serve", str(tmp_path), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        address = re.search(r"http://\S+", server.stdout.readline())
        assert address is not None
        options = ["--phases", "coverage,fuzzing", "--max-examples", "20", "--rate-limit", "40/s", "--no-color"]
        options += ["--request-timeout", "30"]  # The first request that is judged starts a worker.
        tested = [str(Path(sys.executable).with_name("schemathesis")), "run", f"{address[0]}/api/v1/openapi.json"]
        done = subprocess.run([*tested, *options, *operations], capture_output=True, text=True, cwd=tmp_path)
        server.terminate()
    jobs = Jobs(tmp_path, tmp_path / OWN / "jobs")
    for job in jobs.each():  # They would outlive the server, and this test.
        jobs.cancel(job.id)
    assert done.returncode == 0, done.stdout


def test_the_default_settings_are_offered() -> None:
    Offered().check_settings(TrainSettings())
    with pytest.raises(SettingError, match="one of those that this server offers"):
        Offered().check(task="scheduling", model="openai:gpt-5")
    Offered(models=("openai:gpt-5",)).check(task="scheduling", model="openai:gpt-5")


def test_the_form_of_a_new_run_has_every_setting_and_reads_what_it_writes(client: Client) -> None:
    page = client.get("/new").text
    elsewhere = {"executor.kind", "executor.workers", "executor.address", "executor.gpus_per_worker"}
    elsewhere |= {"executor.schedule", "executor.staleness"}
    hidden = {"model.adapter", "model.sampler", "model.sampler_folder", "model.sampler_difference_limit", *elsewhere}
    assert {name for name in all_settings() if f'name="{name}"' in page} == set(all_settings()) - hidden
    form = {**form_of(client, "/new"), "lora.rank": "3", "stopping.until": "0.9", "curriculum.ladder": "true"}
    toml = client.post("/new", data={**form, "do": "toml"}).text
    assert "rank = 3\n" in toml and "until = 0.9\n" in toml
    again = client.post("/new", data={**form_of(client, "/new"), "do": "read", "config": toml}).text
    assert re.search(r'name="lora.rank" value="3"', again) and re.search(r'name="stopping.until" value="0.9"', again)
    for template in ("trial", "paper", "isopro", "until", "grpo", "weak", "control"):
        form = form_of(client, f"/new?template={template}")
        assert client.get(f"/new?template={template}").status_code == 200
    assert client.get("/new?template=none").status_code == 404


def test_a_run_is_launched_from_the_form_and_its_settings_are_found_again(client: Client) -> None:
    form = {**form_of(client, "/new"), "name": "one", "lora.rank": "3", "do": "launch"}
    answer = client.post("/new", data=form, follow_redirects=False)
    assert answer.status_code == 303
    job = answer.headers["location"].removeprefix("/jobs/")
    assert "one: scheduling" in client.get(f"/jobs/{job}").text and "one: scheduling" in client.get("/jobs").text
    assert 'name="lora.rank" value="3"' in client.get(f"/new?job={job}").text
    for name, value, words in (
        ("lora.rank", "0", "lora.rank</a>: expected a whole number"),
        ("task", "../x", "must be one of those that this server offers"),
        ("name", "../x", "expected a name of letters"),
        ("name", "one", "there is a run one already"),
    ):
        wrong = client.post("/new", data={**form, name: value})
        assert wrong.status_code == 422 and words in wrong.text
    assert client.post("/new", data={**form, "csrf": "forged"}).status_code == 403
    token = form_of(client, f"/jobs/{job}")
    client.post(f"/jobs/{job}", data={**token, "do": "cancel"})
    assert client.get(f"/api/v1/jobs/{job}").json()["state"] == "cancelled"


def test_all_that_is_wrong_in_the_form_is_said_at_its_fields(client: Client) -> None:
    given = {"lora.rank": "0", "seed": "-3", "rollouts.temperature": "warm", "name": "../x"}
    found = client.post("/new", data={**form_of(client, "/new"), **given, "do": "launch"})
    assert found.status_code == 422 and client.get("/api/v1/jobs").json()["total"] == 0
    for name in given:
        assert f'<a href="#{name}">' in found.text
        assert re.search(
            f'(?s)id="{name}"[^>]*aria-invalid="true">\\s*<div class="help" id="{name}-help">\\s*<p class="wrong">',
            found.text,
        )


def test_a_run_is_begun_again_from_its_settings_with_another_seed(client: Client, tmp_path: Path) -> None:
    written(tmp_path / "mine", 3)
    page = client.get(f"/runs/{run_id(Path('mine'))}").text
    again = re.search(r'href="(/new\?like=[^"]+)"', page)
    assert again is not None and 'name="seed" value="1"' in client.get(again[1]).text


def test_what_a_run_needs_and_lacks_is_said_where_runs_are_begun(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gce.app.wiring.installation._version", lambda name: None if name == "mlx" else "1")
    words = "mlx not installed, but the default run needs them:  pip install 'grounded-eval[train]'"
    assert lacking() == words and words.replace("'", "&#39;") in client.get("/new").text
    monkeypatch.setattr("gce.app.wiring.installation._version", lambda name: "1")
    assert lacking() == "" and "not installed" not in client.get("/new").text


def test_waiting_and_failed_jobs_are_named_on_the_list_of_runs(client: Client) -> None:
    for name in ("one", "two"):
        client.post("/api/v1/jobs/train", json={"name": name})
    jobs: Jobs = client.app.state.launcher.jobs  # type: ignore[attr-defined]
    second, first = (job.id for job in jobs.each())
    assert '<a href="/jobs">Jobs</a>: 2 queued.' in client.get("/").text
    page = client.get(f"/jobs/{second}").text
    assert "Number 1 in the queue, behind" in page and f'href="/jobs/{first}">' in page
    started = jobs.file(jobs.each()[1], "started-1.json")
    started.write_text(json.dumps({"pid": 1, "born": "", "at": 0.0}))
    started.with_name("ended-1.json").write_text(json.dumps({"status": 2, "why": "", "at": 1.0}))
    assert '<a href="/jobs">Jobs</a>: 1 queued, 1 failed.' in client.get("/").text
    assert "A worker takes some seconds" not in client.get(f"/jobs/{first}").text


def test_the_form_keeps_the_name_of_an_estimate_and_the_run_whose_adapter_it_starts_from(
    client: Client, tmp_path: Path
) -> None:
    with RunDirectory.create(tmp_path / "mine", {"settings": to_plain(TrainSettings(preset="grounded"))}):
        (tmp_path / "mine" / "checkpoints" / "last").mkdir(parents=True)
    mine = run_id(Path("mine"))
    form = {**form_of(client, "/new"), "name": "two", "run": mine, "do": "estimate"}
    answer = client.post("/new", data=form, follow_redirects=False)
    page = client.get(answer.headers["location"].replace("/jobs/", "/new?job=")).text
    assert f'<option value="{mine}" selected>' in page and 'name="name" value="two"' in page


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=50))
@example("\x1f")
@example("\n")
@example(" \t")
@example("a b")
def test_the_schema_of_a_name_takes_what_its_option_takes(name: str) -> None:
    assert NAME.takes(name) == (re.fullmatch(NAME_PATTERN, name) is not None and not name.endswith("\n"))


def test_a_run_is_continued_from_its_page_with_what_came_after_an_iteration_discarded(
    client: Client, tmp_path: Path
) -> None:
    for name, settings in (("mine", TrainSettings(preset="grounded")), ("foreign", settings_from({"task": "os:path"}))):
        with RunDirectory.create(tmp_path / name, {"settings": to_plain(settings)}) as run:
            plain = {"iteration": 1, "tiers": {}, "buffer": {}, "admitted": 0, "updates": 0, "dropped": 0}
            run.append("iterations", {**plain, "loss": None, "gradient_norm": None, "entropy": None})
            run.commit(1, None, {})
    page = f"/runs/{run_id(Path('mine'))}"
    form = form_of(client, page)
    wrong = client.post(page, data={**form, "discard": "one"})
    assert wrong.status_code == 409 and "expected the number of an iteration" in wrong.text
    assert client.post(f"/runs/{run_id(Path('foreign'))}", data=form).status_code == 409
    assert client.get("/api/v1/jobs").json()["total"] == 0
    answer = client.post(page, data={**form, "discard": "1"}, follow_redirects=False)
    (job,) = client.app.state.launcher.jobs.each()  # type: ignore[attr-defined]
    assert answer.headers["location"] == f"/jobs/{job.id}"
    assert job.words[-5:] == ("--run-dir", str(tmp_path / "mine"), "--resume", "--discard-after", "1")
    shown = client.get(page).text
    assert f"/jobs/{job.id}" in shown and "Continue the run" not in shown
    assert "continuation queued" in shown and ">Take out of the queue</button>" in shown
    assert "a job of the run is in the queue" in client.post(page, data=form).text


@pytest.mark.slow
def test_the_playground_judges_and_shows_hostile_answers_as_text(client: Client) -> None:
    form = form_of(client, "/play?seed=3")
    chosen = {"task": "scheduling", "preset": "grounded", "tier": "T0", "split": "dev", "seed": "3", "index": "0"}
    for text in HOSTILE:
        said = text.encode("utf-8", "replace").decode()
        found = client.post("/play", data={**form, **chosen, "do": "judge", "answer": said})
        assert found.status_code == 200 and "Verdict" in found.text and is_plain(found.text)
        for field in ("name", "task", "lora.rank", "config"):
            more = {"do": "read" if field == "config" else "launch", field: said}
            found = client.post("/new", data={**form, **more}, follow_redirects=False)
            assert found.status_code == 422 and is_plain(found.text), (field, text)
    asked = {**form, **chosen, "do": "ask", "model": "gce-tiny", "strategy": "zero-shot"}
    answer = client.post("/play", data=asked, follow_redirects=False)
    assert answer.status_code == 303 and "queued" in client.get(answer.headers["location"]).text
    strategies = (("strategy", "os:path"), ("strategy", "orchestrate@x.toml"))
    for name, value in (("model", "command:id"), *strategies, ("run", "../..")):
        assert client.post("/play", data={**asked, name: value}, follow_redirects=False).status_code in (200, 404)
    assert client.get("/api/v1/jobs").json()["total"] == 1
    assert client.get("/play?task=os:path").status_code == 404
    assert client.get("/play?seed=x&index=-1&tier=none&preset=%00").status_code == 200


@pytest.mark.slow
def test_a_worker_that_takes_too_long_is_ended_and_the_next_one_answers(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = client.app.state.desk  # type: ignore[attr-defined]
    asked = {"problem": PROBLEM, "answer": "Answer:"}
    assert client.post("/api/v1/judge", json=asked).status_code == 200
    monkeypatch.setattr(desk, "_seconds", 0.0)
    refused(client.post("/api/v1/judge", json=asked), 503)
    monkeypatch.setattr(desk, "_seconds", 60.0)
    began = time.monotonic()
    assert client.post("/api/v1/judge", json=asked).status_code == 200
    assert time.monotonic() - began < 60.0
