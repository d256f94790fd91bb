"""`gce serve-policy`: OpenAI's chat format, adapters by name, and requests of hostile clients."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import evolve

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("safetensors")
from policy_servers import Served, files_of, own, policy_app, post
from safetensors.numpy import save
from starlette.testclient import TestClient

from gce.adapters.models.scripted import ScriptedModel
from gce.app.web.address import Address
from gce.app.web.policy import batches
from gce.app.web.policy.adapters import MOST_ADAPTERS, OtherWeights, Policy, UnknownModel
from gce.domain.completions import SampleRequest
from gce.domain.learning import ModelState
from gce.domain.problems import Message
from gce.errors import BadInput

HOST = "http://localhost:8200"
ASK: dict[str, Any] = {"messages": [{"role": "user", "content": "w1 w2"}], "max_tokens": 40}
TOKEN = "0123456789abcdef-secret"


def learned(value: float) -> ModelState:
    state = own().state()
    counts = value * np.arange(len(state.arrays["adapter.counts"]))
    return evolve(state, arrays={**state.arrays, "adapter.counts": counts})


@pytest.fixture
def client() -> Iterator[TestClient]:
    with TestClient(policy_app(), base_url=HOST) as found:
        yield found


def test_an_answer_is_in_openais_format_and_names_the_weights(client: TestClient) -> None:
    body = client.post("/v1/chat/completions", json={**ASK, "seed": 7, "n": 2, "logprobs": True}).json()
    assert body["model"] == "tiny" and body["system_fingerprint"] == own().info().identity
    assert body["choices"][0]["message"]["content"] == "w1 w2 7"
    assert len({choice["message"]["content"] for choice in body["choices"]}) == 2, "choices have seeds of their own"
    first = body["choices"][0]
    assert first["finish_reason"] == "stop" and "token_ids" not in first
    assert [entry["token"] for entry in first["logprobs"]["content"]] == [*"w1 w2 7", ""]
    written = sum(len(choice["message"]["content"]) + 1 for choice in body["choices"])
    assert body["usage"]["completion_tokens"] == written
    again = client.post("/v1/chat/completions", json={**ASK, "seed": 7, "n": 2, "logprobs": True}).json()
    assert again == body, "the same request, the same answer"


def test_token_ids_come_if_they_are_asked_for(client: TestClient) -> None:
    body = client.post("/v1/chat/completions", json={**ASK, "return_token_ids": True, "stop": " 0"}).json()
    assert bytes(body["choices"][0]["token_ids"][:-1]).decode() == "w1 w2" and body["prompt_token_ids"]


def test_a_prompt_without_room_is_refused_in_the_words_that_clients_know() -> None:
    with TestClient(policy_app(own(context=12)), base_url=HOST) as client:
        found = client.post("/v1/chat/completions", json=ASK)
        assert found.status_code == 400 and "maximum context length exceeded" in found.json()["error"]["message"]


def test_an_adapter_is_loaded_used_and_unloaded(client: TestClient) -> None:
    model = own()
    for name, value in (("one", 1.0), ("two", 2.0)):
        model.restore(learned(value))
        body: dict[str, Any] = {"lora_name": name, "lora_files": files_of(learned(value))}
        found = client.post("/v1/load_lora_adapter", json=body)
        assert found.status_code == 200 and found.json()["fingerprint"] == model.info().identity
        assert client.post("/v1/load_lora_adapter", json=body).json() == found.json(), "twice is no change"
    listed = {each["id"]: each for each in client.get("/v1/models").json()["data"]}
    assert list(listed) == ["tiny", "one", "two"] and listed["one"]["parent"] == "tiny"
    for name in ("two", "one", "tiny", "one"):
        said = client.post("/v1/chat/completions", json={**ASK, "model": name}).json()
        assert (said["model"], said["system_fingerprint"]) == (name, listed[name]["fingerprint"])
    other = client.post("/v1/load_lora_adapter", json={"lora_name": "one", "lora_files": files_of(learned(3.0))})
    assert other.status_code == 409, "a name is one set of weights"
    assert client.post("/v1/unload_lora_adapter", json={"lora_name": "one"}).status_code == 200
    for path, body in (("unload_lora_adapter", {"lora_name": "one"}), ("chat/completions", {**ASK, "model": "one"})):
        found = client.post(f"/v1/{path}", json=body)
        assert found.status_code == 404 and "'one' does not exist" in found.json()["error"]["message"]


def test_the_base_is_as_it_was_after_an_adapter() -> None:
    policy = Policy(own(), "tiny")
    request = SampleRequest("0", (Message("user", "w1"),), 1, 1.0, 20)
    (before,) = policy.sample("tiny", [request])
    policy.load("one", learned(5.0))
    (changed,) = policy.sample("one", [request])
    (after,) = policy.sample("tiny", [request])
    assert before == after and before.log_probabilities != changed.log_probabilities


def test_few_adapters_are_held_at_a_time() -> None:
    policy = Policy(own(), "tiny")
    for number in range(MOST_ADAPTERS + 1):
        policy.load(f"{number}", learned(float(number)))
    with pytest.raises(UnknownModel):
        policy.sample("0", [])
    assert len(policy.models()) == MOST_ADAPTERS + 1, "the base too"
    with pytest.raises(OtherWeights):
        policy.load("tiny", learned(1.0))


def test_an_adapter_that_does_not_fit_is_refused_and_the_others_still_work() -> None:
    policy = Policy(own(), "tiny")
    identity = policy.load("good", learned(1.0))
    state = learned(1.0)
    for wrong in (
        evolve(state, arrays={"adapter.counts": np.zeros(3)}),
        evolve(state, arrays={**state.arrays, "adapter.more": np.zeros(3)}),
        evolve(state, settings={"layers": [99]}),
        evolve(state, settings={"adapter_config": {"lora_parameters": {"rank": 3}}}),
    ):
        with pytest.raises(BadInput):
            policy.load("bad", wrong)
        (found,) = policy.sample("good", [SampleRequest("0", (Message("user", "w1"),), 1)])
        assert found.policy == identity


@pytest.mark.slow
def test_requests_at_the_same_time_share_a_call_and_a_named_batch_is_one_call_in_its_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[list[int]] = []

    class Noting(ScriptedModel):
        def sample(self, requests: Any) -> Any:
            calls.append([request.seed for request in requests])
            return super().sample(requests)

    model = Noting(lambda request: f"{request.seed}")
    with Served(policy_app(model)) as server, ThreadPoolExecutor(8) as threads:

        def ask(place: int) -> Any:
            batch = {"id": "b", "size": 8, "places": [place, place + 4]}
            seeds = [place, place + 4]
            return post(f"{server.url}/chat/completions", {**ASK, "n": 2, "seeds": seeds, "batch": batch})

        found = list(threads.map(ask, (3, 1, 0, 2)))
        assert [[c["message"]["content"] for c in body["choices"]] for _, body in found] == [
            ["3", "7"],
            ["1", "5"],
            ["0", "4"],
            ["2", "6"],
        ]
        assert calls == [list(range(8))]
        alone = {**ASK, "seeds": [9], "batch": {"id": "c", "size": 2, "places": [0]}}
        monkeypatch.setattr(batches, "MISSING", 0.2)
        status, body = post(f"{server.url}/chat/completions", alone)
        assert status == 503 and "ask for the whole batch again" in body["error"]["message"]
        assert len(calls) == 1, "a part of a batch is not sampled"
        monkeypatch.setattr(batches, "MISSING", 10.0)

        def ask_of_two(place: int) -> Any:
            batch = {"id": "d", "size": 2, "places": [place]}
            return post(f"{server.url}/chat/completions", {**ASK, "seeds": [place], "batch": batch})

        first = threads.submit(ask_of_two, 0)
        time.sleep(0.2)
        again = threads.submit(ask_of_two, 0)
        assert first.result()[0] == 503, "its client lost the connection, and asked again"
        assert (ask_of_two(1)[0], again.result()[0], calls[1:]) == (200, 200, [[0, 1]])


HOSTILE: list[tuple[str, Any, str]] = [
    ("chat/completions", b"\xff\x00", "not JSON"),
    ("chat/completions", b"[" * 100_000, "not JSON"),
    ("chat/completions", [], "object"),
    ("chat/completions", {}, "messages"),
    ("chat/completions", {**ASK, "messages": []}, "messages"),
    ("chat/completions", {**ASK, "messages": [{"role": "king", "content": "x"}]}, "role"),
    ("chat/completions", {**ASK, "messages": [{"role": "user", "content": ["x"]}]}, "text"),
    ("chat/completions", {**ASK, "messages": [{"role": "user", "content": "\ud800"}]}, "surrogate"),
    ("chat/completions", {**ASK, "n": 10**9}, "n from 1"),
    ("chat/completions", {**ASK, "n": True}, "n from 1"),
    ("chat/completions", {**ASK, "max_tokens": -1}, "max_tokens"),
    ("chat/completions", {**ASK, "temperature": "hot"}, "temperature"),
    ("chat/completions", b'{"messages": [], "temperature": NaN}', "finite"),
    ("chat/completions", {**ASK, "seed": 2**70}, "seed"),
    ("chat/completions", {**ASK, "seeds": [1, 2]}, "seeds"),
    ("chat/completions", {**ASK, "stop": [""]}, "stop"),
    ("chat/completions", {**ASK, "stream": True}, "stream"),
    ("chat/completions", {**ASK, "top_p": 0.5}, "top_p"),
    ("chat/completions", {**ASK, "model": 3}, "model"),
    ("chat/completions", {**ASK, "batch": {"id": "x", "size": 10**9, "places": [0]}}, "size"),
    ("load_lora_adapter", {"lora_name": "../x", "lora_files": {}}, "lora_name"),
    ("load_lora_adapter", {"lora_name": "x"}, "lora_files"),
    ("load_lora_adapter", {"lora_name": "x", "lora_path": "/etc"}, "no paths"),
    ("load_lora_adapter", {"lora_name": "x", "lora_files": {"state.json": "e30="}}, "adapters.safetensors"),
    ("load_lora_adapter", {"lora_name": "x", "lora_files": dict.fromkeys(files_of(learned(1.0)), "%%%")}, "damaged"),
    ("load_lora_adapter", {"lora_name": "x", "lora_files": dict.fromkeys(files_of(learned(1.0)), "e30=")}, "damaged"),
    ("load_lora_adapter", {"lora_name": "x", "lora_files": files_of(learned(float("nan")))}, "cannot be used"),
    (
        "load_lora_adapter",
        {
            "lora_name": "x",
            "lora_files": {
                **files_of(learned(1.0)),
                "adapters.safetensors": base64.b64encode(save({"counts": np.zeros(3)})).decode(),
            },
        },
        "does not fit",
    ),
    (
        "load_lora_adapter",
        {
            "lora_name": "x",
            "lora_files": {
                **files_of(learned(1.0)),
                "state.json": base64.b64encode(b'{"settings": {"layers": [{}]}}').decode(),
            },
        },
        "cannot be used",
    ),
    ("unload_lora_adapter", {"lora_name": 3}, "lora_name"),
]


@pytest.mark.parametrize(("path", "body", "said"), HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_body_gets_one_clear_error(path: str, body: Any, said: str, client: TestClient) -> None:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    found = client.post(f"/v1/{path}", content=content)
    message = found.json()["error"]["message"]
    assert found.status_code == 400 and said in message and len(message) < 400 and "\n" not in message, found.text
    assert "Traceback" not in found.text
    assert client.post("/v1/chat/completions", json=ASK).status_code == 200


def test_a_path_of_a_client_stays_in_the_folder_of_adapters(tmp_path: Path) -> None:
    folder = tmp_path / "adapters"
    for place, value in ((folder / "good", 1.0), (tmp_path / "secret", 2.0)):
        place.mkdir(parents=True)
        for name, content in files_of(learned(value)).items():
            (place / name).write_bytes(base64.b64decode(content))
    (folder / "link").symlink_to(tmp_path / "secret")
    with TestClient(policy_app(adapters=folder), base_url=HOST) as client:
        for path in ("../secret", str(tmp_path / "secret"), "link", "good/../../secret", "nothing", "\0", "."):
            found = client.post("/v1/load_lora_adapter", json={"lora_name": "x", "lora_path": path})
            assert found.status_code == 400 and str(tmp_path) not in found.text, (path, found.text)
        found = client.post("/v1/load_lora_adapter", json={"lora_name": "x", "lora_path": "good"})
        assert found.status_code == 200, found.text


def test_bodies_are_limited() -> None:
    with TestClient(policy_app(most=10_000_000), base_url=HOST) as client:
        long = {**ASK, "messages": [{"role": "user", "content": "x" * 3_000_000}]}
        assert client.post("/v1/chat/completions", json=long).status_code == 413
        body = {"lora_name": "x", "lora_files": {"state.json": "x" * 10_000_000}}
        found = client.post("/v1/load_lora_adapter", json=body)
        assert found.status_code == 413 and found.json()["error"]["code"] == 413


def test_a_token_is_asked_for(client: TestClient) -> None:
    app = policy_app(address=Address("0.0.0.0", 0, TOKEN))
    with TestClient(app, base_url=HOST) as guarded:
        for path in ("chat/completions", "load_lora_adapter", "unload_lora_adapter"):
            for headers in ({}, {"authorization": "Bearer wrong"}):
                found = guarded.post(f"/v1/{path}", json=ASK, headers=headers)
                assert found.status_code == 401 and found.json()["error"]["message"] == "Unauthorized"
        assert guarded.get("/v1/models").status_code == 401 and guarded.get("/health").status_code == 200
        right = {"authorization": f"Bearer {TOKEN}"}
        assert guarded.post("/v1/chat/completions", json=ASK, headers=right).status_code == 200
    assert client.get("/v1/models", headers={"host": "evil.example"}).status_code == 421
    assert client.post("/v1/chat/completions", json=ASK, headers={"origin": "http://evil.example"}).status_code == 403


def test_a_model_that_fails_says_so_and_the_server_goes_on() -> None:
    class Failing(ScriptedModel):
        def sample(self, requests: Any) -> Any:
            if requests[0].seed == 13:
                raise RuntimeError("secret words")
            return super().sample(requests)

    app = policy_app(Failing(lambda _: "w1"))
    with TestClient(app, base_url=HOST, raise_server_exceptions=False) as client:
        found = client.post("/v1/chat/completions", json={**ASK, "seed": 13})
        assert found.status_code == 500 and "secret" not in found.text
        assert client.post("/v1/chat/completions", json=ASK).status_code == 200
