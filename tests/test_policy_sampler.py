"""Rollouts from a server that takes the adapter of each update: gce serve-policy, and imitations of vLLM and SGLang."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("httpx2")
pytest.importorskip("safetensors")
from policy_servers import Imitation, PolicyProcess, Served, Shifted, files_of, own, policy_app, post
from tcp_proxy import Proxy
from toy_task import ADDITION, careless

import gce
from gce.adapters.models.local.lora import LoraSettings, adapter_config
from gce.adapters.models.scripted import ScriptedModel
from gce.adapters.models.servers import policy_sampler
from gce.adapters.models.servers.policy_sampler import PolicySampler, load_policy_sampler
from gce.adapters.models.wrappers.other_sampler import WithSampler
from gce.app.web.policy import batches
from gce.domain.completions import Completion, SampleRequest
from gce.domain.learning import ModelState
from gce.domain.problems import Message
from gce.errors import GceError, ModelError
from gce.testing.contracts.model import check_model

PROMPTS = [(Message("user", "w1 w2 w3"),), (Message("user", "w4 w5 w6"),)]


def sampler_at(url: str, **options: Any) -> PolicySampler:
    return PolicySampler(url, sleep=lambda _: asyncio.sleep(0), **options)


def requests(count: int = 6) -> list[SampleRequest]:
    return [SampleRequest(f"{place}", PROMPTS[place % 2], place + 2**40, 0.8, 40) for place in range(count)]


def by_key(found: Any) -> dict[str, Completion]:
    return {each.key: each for each in found}


def learned(value: float) -> ModelState:
    state = own().state()
    counts = state.arrays["adapter.counts"]
    counts[::2] = value
    return state


def low_rank(value: float) -> ModelState:
    """An adapter as local models have it."""
    import numpy as np

    path = "model.layers.2.mlp.up_proj"
    arrays = {f"adapter.{path}.lora_a": np.full((4, 2), value), f"adapter.{path}.lora_b": np.full((2, 3), value)}
    return ModelState(arrays, {"layers": [2], "adapter_config": adapter_config(LoraSettings(rank=2), [2], [path])})


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with Served(policy_app(own(context=60))) as found:
        yield found


def test_the_sampler_keeps_to_the_port(server: Served) -> None:
    too_long = (Message("user", "w" * 70),)
    check_model(lambda: load_policy_sampler(server.url), prompts=PROMPTS, too_long=too_long)


@pytest.mark.slow
def test_so_does_a_learner_whose_rollouts_it_writes(server: Served) -> None:
    def both() -> WithSampler:
        return WithSampler(own(context=60), load_policy_sampler(server.url))

    check_model(both, prompts=PROMPTS)


def test_completions_are_those_of_the_same_call_in_this_process_to_the_last_bit(server: Served) -> None:
    sampler, model = load_policy_sampler(server.url), own(context=60)
    for value in (1.0, 2.0):
        sampler.restore(learned(value))
        model.restore(learned(value))
        found = by_key(sampler.sample(requests()))
        assert {completion.policy for completion in found.values()} == {sampler.info().identity}
        expected = by_key(model.sample(requests()))
        assert {k: evolve(c, policy="") for k, c in found.items()} == {
            k: evolve(c, policy="") for k, c in expected.items()
        }
    assert len(sampler.loaded) == 1, "the adapter before is unloaded"


def test_an_adapter_that_the_server_lost_is_loaded_again(server: Served) -> None:
    sampler = sampler_at(server.url)
    sampler.restore(learned(3.0))
    before = by_key(sampler.sample(requests()))
    (name,) = sampler.loaded
    assert post(f"{server.url}/unload_lora_adapter", {"lora_name": name})[0] == 200
    assert by_key(sampler.sample(requests())) == before


class Noting(ScriptedModel):
    """A model that takes its time, and notes the seeds of each call."""

    def __init__(self) -> None:
        super().__init__(lambda request: f"{request.messages[0].content} {request.seed}")
        self.calls: list[list[int]] = []

    def sample(self, requests: Any) -> Iterator[Completion]:
        self.calls.append([request.seed for request in requests])
        for completion in super().sample(requests):
            time.sleep(0.02)
            yield completion


def test_where_one_answer_is_lost_the_whole_batch_is_computed_again() -> None:
    """Else log-probabilities could have other last bits, as those of a smaller batch."""
    model = Noting()
    asked = [SampleRequest(f"{place}", (Message("user", f"w{place}"),), place) for place in range(8)]
    with Served(policy_app(model)) as server, closing(Proxy(server.port)) as proxy:
        sampler = sampler_at(f"http://127.0.0.1:{proxy.port}/v1")
        sampler.info()
        cut = proxy.meanwhile(4, proxy.cut, in_reply=True)
        found = list(sampler.sample(asked))
    assert cut.is_set() and model.calls == [[*range(8)]] * 2
    assert sorted((each.key, each.text) for each in found) == [(f"{n}", f"w{n} {n}") for n in range(8)]


def test_an_answer_that_came_in_no_attempt_is_asked_for_again_with_its_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_sampler, "_GROUPS", 4)
    model = Noting()
    asked = [SampleRequest(f"{place}", (Message("user", f"w{place}"),), place) for place in range(12)]
    with Served(policy_app(model)) as server, closing(Proxy(server.port)) as proxy:
        sampler = sampler_at(f"http://127.0.0.1:{proxy.port}/v1", attempts=1)
        sampler.info()
        proxy.meanwhile(6, proxy.cut, in_reply=True)
        found = list(sampler.sample(asked))
        missing = [each for each in asked if each.key in {one.key for one in found if one.finish_reason == "error"}]
        assert 4 < len(missing) < 8, "a part of the second batch, and all of the third, which was not tried"
        found = [one for one in found if one.finish_reason != "error"] + list(sampler.sample(missing))
        assert model.calls == [[0, 1, 2, 3], [4, 5, 6, 7], [4, 5, 6, 7], [8, 9, 10, 11]]
        assert sorted((int(each.key), each.text) for each in found) == [(n, f"w{n} {n}") for n in range(12)]
        list(sampler.sample(asked[5:]))
        assert model.calls[4:] == [[5, 6, 7, 8], [9, 10, 11]], "nothing is missing any more"


def test_a_batch_whose_requests_come_late_is_never_computed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "MISSING", 0.3)
    model = Noting()
    asked = [SampleRequest(f"{place}", (Message("user", f"w{place}"),), place) for place in range(8)]
    with Served(policy_app(model)) as server, closing(Proxy(server.port)) as proxy:
        sampler = sampler_at(f"http://127.0.0.1:{proxy.port}/v1")
        sampler.info()
        held = proxy.meanwhile(3, proxy.hold, in_reply=False)

        def release() -> None:
            held.wait()
            time.sleep(0.6)
            proxy.release()

        threading.Thread(target=release).start()
        found = list(sampler.sample(asked))
    assert held.is_set() and model.calls == [[*range(8)]]
    assert sorted((each.key, each.text) for each in found) == [(f"{n}", f"w{n} {n}") for n in range(8)]


def test_a_server_whose_connection_is_lost_at_first_is_asked_again() -> None:
    with Served(policy_app()) as server, closing(Proxy(server.port)) as proxy:
        sampler = sampler_at(f"http://127.0.0.1:{proxy.port}/v1")
        proxy.hold()

        def lose() -> None:
            time.sleep(0.3)
            proxy.cut()
            proxy.release()

        threading.Thread(target=lose).start()
        assert sampler.info().identity == sampler_at(server.url).info().identity


def test_answers_by_other_weights_are_an_error(server: Served) -> None:
    """Another client unloads the adapter, and loads other weights under its name."""
    sampler = sampler_at(server.url)
    sampler.restore(learned(4.0))
    list(sampler.sample(requests()))
    (name,) = sampler.loaded
    post(f"{server.url}/unload_lora_adapter", {"lora_name": name})
    post(f"{server.url}/load_lora_adapter", {"lora_name": name, "lora_files": files_of(learned(5.0))})
    with pytest.raises(ModelError, match="expected an answer by the weights"):
        list(sampler.sample(requests()))


@pytest.mark.parametrize("kind", ["vllm", "sglang"])
def test_vllm_and_sglang_read_adapters_from_a_folder(kind: str, tmp_path: Path) -> None:
    imitation = Imitation(kind, ids=kind == "vllm")
    with Served(imitation.app) as server:
        sampler = sampler_at(server.url, folder=tmp_path)
        sampler.restore(low_rank(1.0))
        found = by_key(sampler.sample([evolve(each, temperature=1.0) for each in requests()]))
        (name,) = imitation.loaded
        assert {body["model"] for body in imitation.asked} == {f"base:{name}" if kind == "sglang" else name}
        config = imitation.loaded[name]
        assert config["r"] == 2 and config["base_model_name_or_path"] == "base"
        if kind == "sglang":
            assert config["target_modules"] == ["up_proj"] and config["layers_to_transform"] == [2]
        completion = found["0"]
        assert completion.log_probabilities == (-1.5,) * len(completion.text + ".")
        assert completion.token_ids == ((*map(ord, completion.text), 0x110000) if kind == "vllm" else None)
        imitation.loaded.clear()
        assert len(list(sampler.sample(requests()))) == 6 and list(imitation.loaded) == [name], "it was started again"
        sampler.restore(low_rank(2.0))
        list(sampler.sample(requests()))
        assert imitation.unloaded == [name] and len(list(tmp_path.iterdir())) == 1


@pytest.mark.slow
def test_what_a_server_cannot_do_is_one_error(tmp_path: Path) -> None:
    cases = [
        (Imitation("vllm"), None, "reads adapters from a folder"),
        (Imitation("vllm", refuses="no"), tmp_path, "VLLM_ALLOW_RUNTIME_LORA_UPDATING"),
        (Imitation("vllm", answers_as="base"), tmp_path, "expected an answer by the weights"),
        (Imitation("ollama"), tmp_path, "no server whose adapter can be exchanged"),
    ]
    for imitation, folder, said in cases:
        with Served(imitation.app) as server:
            sampler = sampler_at(server.url, folder=folder)
            sampler.restore(low_rank(1.0))
            with pytest.raises(ModelError, match=said):
                list(sampler.sample(requests()))
    with pytest.raises(ModelError, match="does the server run"):
        load_policy_sampler("http://127.0.0.1:9/v1").info()


def test_when_the_server_is_gone_for_good_completions_say_so() -> None:
    with Served(policy_app()) as server:
        sampler = sampler_at(server.url, attempts=2)
        sampler.restore(learned(1.0))
        list(sampler.sample(requests()))
    found = list(sampler.sample(requests()))
    assert len(found) == 6 and {each.finish_reason for each in found} == {"error"}
    assert all("gave no answer in 2 tries" in each.error for each in found)


SMALL: dict[str, Any] = {"problems": 6, "samples": 3, "iterations": 2, "test": 0, "dev": 0}


def run_with(url: str, **more: Any) -> Any:
    return gce.train(task=ADDITION, model=careless(None, None), progress=False, sampler=url, **SMALL, **more)


@pytest.mark.slow
def test_a_limit_stops_a_run_whose_sampler_differs() -> None:
    model = careless(None, None)
    with Served(policy_app(Shifted(model._answer))) as server:
        run_with(server.url)
        with pytest.raises(GceError, match=r"differ by 0\.5000 nats per token on average, at most 0\.1 are allowed"):
            run_with(server.url, sampler_difference_limit=0.1)
    with Served(policy_app(model)) as server:
        run_with(server.url, sampler_difference_limit=0.1)


TRAIN = ["--model", "gce-tiny", "--threads", "1", "--iterations", "2", "--problems", "6", "--rollouts", "4"]
TRAIN += ["--test", "0", "--dev", "0", "--algorithm", "grpo"]


def train(sampler: str, run: Path) -> dict[str, bytes]:
    """The files of the last checkpoint of a run."""
    command = [sys.executable, "-m", "gce", "train", *TRAIN, "--sampler", sampler, "--run-dir", str(run)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    assert "learner and sampler differ by 0.0000 nats per token" in done.stdout + done.stderr
    return {path.name: path.read_bytes() for path in (run / "checkpoints" / "last").iterdir()}


@pytest.mark.slow
def test_a_run_through_a_server_ends_with_the_bytes_of_one_without(tmp_path: Path) -> None:
    pytest.importorskip("mlx.core")
    server = PolicyProcess("--threads", "1")
    try:
        first, second = (train(server.url, tmp_path / name) for name in ("one", "two"))
    finally:
        server.kill()
    assert first == second == train("gce-tiny", tmp_path / "here")
