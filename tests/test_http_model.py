"""A model behind a server keeps to the port whatever the server grants, and a bad server ends in one line."""

from __future__ import annotations

import base64
import json
import logging
import re
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("httpx2")

from chat_server import FAULTS, ChatServer

from gce.adapters.models.servers import connection
from gce.adapters.models.servers.http_model import HttpModel, Usage, load_http_model
from gce.app import cli
from gce.domain.completions import Completion, SampleRequest
from gce.domain.problems import Message
from gce.errors import ModelError
from gce.ports.model import Learner, Sampler, Scorer
from gce.testing.contracts.model import check_model

PROMPTS = [(Message("user", "order the jobs"),), (Message("system", "be brief"), Message("user", "order them"))]
TOO_LONG = (Message("user", "w " * 1001),)
KEY = "sk-secret-0123456789"

WRONG_SHAPES = {
    "a number": 3,
    "no choices": {"choices": []},
    "choices of another type": {"choices": {"message": {"content": "x"}, "finish_reason": "stop"}},
    "a choice of another type": {"choices": ["x"]},
    "a message of another type": {"choices": [{"message": "x", "finish_reason": "stop"}]},
    "no content": {"choices": [{"message": {}, "finish_reason": "stop"}]},
    "content of another type": {"choices": [{"message": {"content": 3}, "finish_reason": "stop"}]},
    "a reason of another type": {"choices": [{"message": {"content": "x"}, "finish_reason": 3}]},
    "an error with status 200": {"error": {"message": "out of memory"}},
}


class Pauses(list[float]):
    """A sleep that only notes how long it was to be."""

    async def __call__(self, seconds: float) -> None:
        self.append(seconds)


def model_of(server: Any, *, name: str = "toy", sleep: Any = None, **options: Any) -> HttpModel:
    return HttpModel(server.url, name, sleep=Pauses() if sleep is None else sleep, **options)


def requests_of(
    count: int = 6, *, temperature: float = 0.8, prompts: Any = PROMPTS, **options: Any
) -> list[SampleRequest]:
    places = range(count)
    return [SampleRequest(f"{i}", prompts[i % len(prompts)], 50 + 10 * i, temperature, 12, **options) for i in places]


def prompts_of(count: Any) -> list[tuple[Message]]:
    return [(Message("user", f"prompt {i}"),) for i in range(count)]


def by_key(completions: Any) -> dict[Any, Any]:
    return {completion.key: completion for completion in completions}


def complaint(model: Any, requests: Any) -> str:
    """The one line that sampling ends in."""
    with pytest.raises(ModelError) as caught:
        list(model.sample(requests))
    assert str(caught.value).isprintable(), str(caught.value)
    assert len(str(caught.value)) < 600
    return str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    "server",
    [
        {},
        {"choices": 1},
        {"choices": 2},
        {"refuses": ["n"]},
        {"refuses": ["logprobs"]},
        {"refuses": ["n", "logprobs", "stop"]},
        {"usage": {"prompt_tokens": "many"}},
        {"faults": [500, "drop", None, "garbage", None, "cut", 429, None, "half"]},
    ],
    ids=str,
)
def test_it_keeps_to_the_port(server: dict[str, Any]) -> None:
    with ChatServer(**server) as chat:
        model = model_of(chat)
        assert isinstance(model, Sampler) and not isinstance(model, Scorer | Learner)
        check_model(lambda: model_of(chat, attempts=8), prompts=PROMPTS, too_long=TOO_LONG, max_tokens=12)


def test_two_requests_with_one_key_are_refused_before_anything_is_asked() -> None:
    with ChatServer() as server, pytest.raises(ValueError, match="got '0' twice"):
        model_of(server).sample(requests_of(2) + requests_of(1))
    assert not server.bodies


def test_requests_that_differ_in_key_and_seed_alone_are_asked_together() -> None:
    with ChatServer() as server:
        model = model_of(server, concurrency=1)
        found = by_key(model.sample(requests_of(6)))
    assert [body["n"] for body in server.bodies] == [3, 3]
    assert [body["seed"] for body in server.bodies] == [50, 60]
    assert len({found[key].text for key in "024"}) == 3
    assert all(found[key].tokens == len(found[key].text.split()) for key in found)
    assert model.usage == Usage(2, 0, sum(found[k].prompt_tokens for k in "01"), sum(c.tokens for c in found.values()))


def test_an_answer_has_no_more_choices_than_its_size_allows() -> None:
    with ChatServer() as server:
        requests = [SampleRequest(f"{i}", PROMPTS[0], i, 0.8, 30_000) for i in range(5)]
        assert len(list(model_of(server, concurrency=1).sample(requests))) == 5
    assert [body.get("n") for body in server.bodies] == [2, 2, None]


def test_greedy_requests_are_asked_one_by_one_at_temperature_0() -> None:
    with ChatServer() as server:
        list(model_of(server).sample(requests_of(4, temperature=0.0)))
    assert [(body["temperature"], body.get("n")) for body in server.bodies] == [(0.0, None)] * 4


@pytest.mark.parametrize("refusal", [{"choices": 1}, {"choices": 2}, {"refuses": ["n"]}], ids=str)
def test_a_server_without_choices_is_asked_for_them_once(refusal: dict[str, Any]) -> None:
    """Every request then has its own seed, and the first call gives what later ones give."""
    with ChatServer(**refusal) as server:
        model = model_of(server, concurrency=1)
        first = by_key(model.sample(requests_of(6)))
        assert [body.get("n") for body in server.bodies].count(3) == 1
        assert {body["seed"] for body in server.bodies} == {50, 60, 70, 80, 90, 100}
        assert by_key(model.sample(requests_of(6))) == first
        assert [body.get("n") for body in server.bodies].count(3) == 1


@pytest.mark.parametrize("refused", [["seed"], ["logprobs"], ["stop", "n"], ["logprobs", "n", "seed", "stop"]], ids=str)
def test_of_what_a_server_refuses_nothing_else_is_left_out(refused: list[str]) -> None:
    optional = {"logprobs", "n", "seed", "stop"}
    with ChatServer(refuses=refused) as server:
        model = model_of(server, concurrency=1)
        list(model.sample(requests_of(4, stop=("!",))))
        first = len(server.bodies)
        list(model.sample(requests_of(4, stop=("!",))))
    later = server.bodies[first:]
    assert later, "the second call asks too"
    assert all(not body.keys() & set(refused) for body in later)
    kept = optional - set(refused) - ({"logprobs"} if "n" in refused else set())  # Alone, nothing has to be counted.
    assert all(body.keys() & optional == kept for body in later)


def test_a_seed_is_cut_to_31_bits() -> None:
    with ChatServer() as server:
        list(model_of(server).sample([SampleRequest("k", PROMPTS[0], 2**62 + 2**31 + 5)]))
    assert server.bodies[0]["seed"] == 5


@pytest.mark.parametrize("fault", [*FAULTS, 408, 429, 500, 503, *WRONG_SHAPES], ids=str)
def test_after_a_fault_the_same_is_asked_again_to_the_same_end(fault: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_MOST_BYTES", 1 << 20)
    fault = json.dumps(WRONG_SHAPES[fault]).encode() if fault in WRONG_SHAPES else fault
    requests = requests_of(2)
    with ChatServer() as sound, ChatServer(faults=[fault, fault]) as server:
        expected = by_key(HttpModel(sound.url, "toy").sample(requests))
        pauses = Pauses()
        model = model_of(server, sleep=pauses, concurrency=1, timeout=0.15 if fault in ("drip", "stall") else 5)
        found = by_key(model.sample(requests))
        assert {k: (c.text, c.tokens) for k, c in found.items()} == {k: (c.text, c.tokens) for k, c in expected.items()}
    assert (model.usage.requests, model.usage.retries, len(pauses)) == (4, 2, 2)
    assert server.bodies[0] == server.bodies[1] == server.bodies[2]


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("stall", "no whole answer within 0.1 seconds"),
        ("drip", "no whole answer within 0.1 seconds"),
        ("endless", "more than 1048576 bytes"),
        ("drop", "RemoteProtocolError|ReadError"),
        ("cut", "RemoteProtocolError|ReadError"),
        ("half", "no JSON"),
        ("garbage", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b'{"choices": []}', "without choices"),
        (500, "status 500: not now"),
        (429, "status 429: not now"),
    ],
)
def test_a_fault_that_lasts_ends_in_one_line(fault: Any, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_MOST_BYTES", 1 << 20)
    with ChatServer(always=fault) as server:
        model = model_of(server, attempts=3, timeout=0.1 if fault in ("drip", "stall") else 5, concurrency=1)
        began = time.monotonic()
        told = complaint(model, requests_of(2))
        assert time.monotonic() - began < 4
    assert re.search(words, told), told
    assert f"{server.url} gave no answer in 3 tries" in told
    assert told.endswith("does the server run?")
    assert model.usage.requests == 3


def test_a_server_that_is_not_there_ends_in_one_line() -> None:
    with ChatServer() as server:
        model = model_of(server, attempts=2)
    assert "gave no answer in 2 tries, at last ConnectError" in complaint(model, requests_of(1))


def test_what_came_before_a_failure_is_yielded() -> None:
    with ChatServer(faults=[None, None], always=500) as server:
        found: list[Completion] = []
        completions = model_of(server, concurrency=1).sample(requests_of(4, prompts=prompts_of(4)))
        with pytest.raises(ModelError):
            found.extend(completions)
    assert [completion.key for completion in found] == ["0", "1"]


@pytest.mark.parametrize("status", [401, 403, 404, 301])
def test_a_refusal_is_final(status: int) -> None:
    with ChatServer(always=status) as server:
        told = complaint(model_of(server, concurrency=1), requests_of(2))
    assert told == f"{server.url} refuses a request of 'toy': status {status}: not now"
    assert len(server.bodies) == 1


@pytest.mark.parametrize("status", [400, 422])
def test_a_refusal_that_no_field_explains_is_final(status: int) -> None:
    with ChatServer(always=status) as server:
        told = complaint(model_of(server, concurrency=1), requests_of(1))
    assert told == f"{server.url} refuses a request of 'toy': status {status}: not now"
    assert [body.keys() & {"seed"} for body in server.bodies] == [{"seed"}, set()]


def test_a_prompt_that_a_filter_blocks_fails_at_once_and_the_rest_goes_on() -> None:
    blocked = json.dumps({"error": {"code": "content_filter", "message": "not with us"}}).encode()
    with ChatServer(faults=[None, (400, blocked)]) as server:
        model = model_of(server, concurrency=1)
        found = by_key(model.sample(requests_of(3, prompts=prompts_of(3), temperature=0.0)))
    assert (found["1"].finish_reason, found["1"].text) == ("error", "")
    assert found["1"].error == "the provider blocked it: not with us"
    assert {found[key].finish_reason for key in "02"} <= {"stop", "length"}
    assert model.usage.requests == 3


@pytest.mark.parametrize(
    ("error", "reason", "told"),
    [
        ({"message": "out of memory"}, "", "gave no answer in 2 tries, at last status 200: out of memory"),
        ({"message": "be slow", "code": 429}, "", "gave no answer in 2 tries, at last status 200: be slow"),
        ("no", "", "gave no answer in 2 tries, at last status 200: no"),
        ({"message": "key?", "code": 401}, "", "refuses a request of 'toy': status 200: key?"),
        ({"message": "your input was flagged", "code": 403}, "error", "the provider blocked it: your input was"),
        ({"message": "the prompt is too long", "code": 400}, "context", "no room in the context: the prompt is too"),
    ],
    ids=str,
)
def test_an_error_with_status_200_is_what_it_says(error: Any, reason: str, told: str) -> None:
    with ChatServer(always=json.dumps({"error": error}).encode()) as server:
        model = model_of(server, attempts=2)
        if reason:
            (completion,) = model.sample(requests_of(1))
            assert completion.finish_reason == reason and told in completion.error
        else:
            assert told in complaint(model, requests_of(1))


def test_a_path_that_is_none_is_named() -> None:
    with ChatServer() as server:
        told = complaint(HttpModel(server.url.removesuffix("/v1"), "toy"), requests_of(1))
    assert "refuses a request of 'toy': status 404: no such path" in told


def test_the_key_is_in_the_header_and_nowhere_else(caplog: Any) -> None:
    """Not even where the server repeats it."""
    caplog.set_level(logging.DEBUG)
    with ChatServer(key=KEY) as server:
        model = load_http_model(f"{server.url}#toy", environment={"OPENAI_API_KEY": f"{KEY}\n"})
        assert len(list(model.sample(requests_of(2)))) == 2
        wrong = load_http_model(f"{server.url}#toy", key_variable="OTHER", environment={"OTHER": KEY[:-1]})
        with pytest.raises(ModelError) as caught:
            list(wrong.sample(requests_of(2)))
    assert "status 401: incorrect key: Bearer [key]" in str(caught.value)
    shown = [*traceback.format_exception(caught.value), repr(model), repr(vars(wrong)), str(vars(wrong)), caplog.text]
    assert not [text for text in shown if KEY[:-1] in text]
    assert model.info() == HttpModel(server.url, "toy").info()


@pytest.mark.parametrize("key", ["two words", "sk-\x07", "sk-\nsecret", "schlüssel"])
def test_a_key_that_no_header_carries_is_refused_unseen(key: str) -> None:
    with pytest.raises(ModelError, match="expected a key of printable ASCII characters without spaces") as caught:
        load_http_model("http://localhost:1/v1#toy", environment={"OPENAI_API_KEY": key})
    assert key not in str(caught.value)


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "This model's maximum context length is 2048 tokens. However, you requested 2600 tokens" + "!" * 400),
        (400, "the request exceeds the available context size, try increasing it"),
        (400, "Trying to keep the first 9 tokens when context the overflows: context length of only 4"),
        (400, "The decoder prompt (length 9) is longer than the maximum model length of 4."),
        (413, "prompt is too long"),
        (500, "Context size has been exceeded."),
    ],
)
def test_a_prompt_that_does_not_fit_is_an_error_of_its_own(status: int, message: str) -> None:
    answer = json.dumps({"error": {"message": message, "type": "invalid_request_error"}}).encode()
    with ChatServer(always=(status, answer)) as server:
        (completion,) = model_of(server).sample(requests_of(1))
    assert completion.finish_reason == "context"
    assert completion.error == f"no room in the context: {message[:300]}"
    with ChatServer(context=10) as server:
        fits, long = (Message("user", "x"),), (Message("user", "x " * 9),)
        model = model_of(server)
        one, two = model.sample([SampleRequest("long", long, 1), SampleRequest("fits", fits, 2)])
    completions = by_key([one, two])
    assert completions["fits"].finish_reason == "stop"
    refused = completions["long"]
    assert (refused.text, refused.finish_reason, refused.tokens) == ("", "context", None)
    assert refused.error == "no room in the context: the request exceeds the available context size (10 tokens)"
    assert all("seed" in body for body in server.bodies), "the context is no reason to leave anything out"


def test_retry_after_is_waited_for_within_bounds() -> None:
    pauses = Pauses()
    after = [(429, {"Retry-After": value}) for value in ("7", "1.25", "9999999", "Wed, 21 Oct 2026 07:28:00 GMT")]
    with ChatServer(faults=after) as server:
        list(model_of(server, sleep=pauses).sample(requests_of(1)))
    assert pauses[:3] == [7.0, 1.25, 60.0]
    assert 30.0 <= pauses[3] <= 60.0


@pytest.mark.parametrize("status", [429, 529])
def test_a_limit_without_a_time_is_waited_for_longer_than_a_fault(status: int) -> None:
    pauses = Pauses()
    with ChatServer(faults=[status] * 4) as server:
        list(model_of(server, sleep=pauses, concurrency=1).sample(requests_of(1)))
    assert len(pauses) == 4 and all(15.0 <= pause <= 60.0 for pause in pauses)
    assert sum(pauses) > 60.0, "longer than the minute in which rates are counted"


def test_pauses_double_with_a_jitter_that_the_request_decides() -> None:
    def pauses(seed: int) -> Any:
        noted = Pauses()
        with ChatServer(always=503) as server:
            complaint(model_of(server, sleep=noted), [SampleRequest("k", PROMPTS[0], seed)])
        return noted

    assert pauses(1) == pauses(1) != pauses(2)
    assert all(0.25 * 2**i <= pause <= 0.5 * 2**i for i, pause in enumerate(pauses(1))), pauses(1)
    assert len(pauses(1)) == 4


@pytest.mark.parametrize("choices", [None, 1])
def test_as_many_requests_as_allowed_are_under_way_and_no_more(choices: int | None) -> None:
    """The server answers only once four are there."""
    requests = requests_of(12, prompts=prompts_of(12), temperature=0.0)
    with ChatServer(at_once=4, choices=choices) as server:
        assert len(list(model_of(server, concurrency=4).sample(requests))) == 12
    assert server.most_at_once == 4


def test_results_do_not_depend_on_the_order_of_arrival() -> None:
    requests = requests_of(24, prompts=prompts_of(8), temperature=1.0)
    faults = [None, 500, "drop", None, None, "half"]
    with ChatServer() as sound, ChatServer(faults=faults) as shaky:
        expected = by_key(model_of(sound, concurrency=1).sample(requests))
        found = by_key(model_of(shaky, concurrency=8).sample(requests))
    assert {k: (c.text, c.log_probabilities) for k, c in found.items()} == {
        k: (c.text, c.log_probabilities) for k, c in expected.items()
    }


def test_a_closed_iterator_ends_what_is_under_way() -> None:
    with ChatServer(faults=[None], always="stall") as server:
        completions = model_of(server).sample(requests_of(6, prompts=prompts_of(6)))
        next(completions)
        began = time.monotonic()
        assert isinstance(completions, Generator)
        completions.close()
        assert time.monotonic() - began < 1
        assert not [thread for thread in threading.enumerate() if thread.name == "gce-http"]


def test_an_abandoned_iterator_does_not_hold_up_the_interpreter(tmp_path: Path) -> None:
    code = (
        "import atexit, sys, threading\natexit.register(lambda: print(threading.active_count()))\n"
        "from gce.adapters.models.servers.http_model import load_http_model\n"
        "from gce.domain.completions import SampleRequest\nfrom gce.domain.problems import Message\n"
        "model = load_http_model(sys.argv[1])\n"
        "requests = [SampleRequest(f'{i}', (Message('user', f'{i}'),), i) for i in range(8)]\n"
        "kept = model.sample(requests)\nprint(next(kept).finish_reason)\n"
    )
    with ChatServer(faults=[None], always="stall") as server:
        began = time.monotonic()
        command = [sys.executable, "-W", "error", "-c", code, f"{server.url}#toy"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=20, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, "stop\n1\n", "")
        assert time.monotonic() - began < 15, "the timeout is 120 seconds"


def test_a_proxy_of_the_environment_does_not_serve_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    with ChatServer() as server:
        assert len(list(model_of(server, attempts=1).sample(requests_of(1)))) == 1


@pytest.mark.parametrize(
    ("name", "value"), [("HTTPS_PROXY", "foo://x"), ("ALL_PROXY", "socks5://x:1"), ("SSL_CERT_FILE", "no/such/file")]
)
def test_a_proxy_or_certificates_that_cannot_be_used_are_said_in_one_line(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    connection._tls.cache_clear()
    try:
        with ChatServer() as server:
            assert len(list(model_of(server, attempts=1).sample(requests_of(1)))) == 1, "loopback needs neither"
        far = load_http_model("https://gce.invalid/v1#m", concurrency=1, timeout=5)
        told = complaint(far, requests_of(1))
    finally:
        connection._tls.cache_clear()
    assert "cannot connect with the proxies and certificates of the environment" in told


def test_two_calls_may_be_under_way_at_a_time() -> None:
    with ChatServer() as server:
        model = model_of(server)
        one, two = model.sample(requests_of(6)), model.sample(requests_of(6))
        pairs = list(zip(one, two, strict=True))
        assert len(pairs) == 6
    assert model.usage.requests == 4


def test_log_probabilities_are_the_models_own_or_none() -> None:
    with ChatServer() as server:
        found = list(model_of(server).sample(requests_of(6, temperature=1.0)))
        found += model_of(server).sample(requests_of(1, temperature=1.0))
        warmer = list(model_of(server).sample(requests_of(6, temperature=0.8)))
    for completion in found:
        assert completion.log_probabilities == tuple(-len(word) / 8 for word in completion.text.split())
        assert completion.sampling_log_probabilities is completion.token_ids is completion.prompt_token_ids is None
    assert all(completion.log_probabilities is None for completion in warmer)


@pytest.mark.parametrize(
    "entries",
    [
        [],
        [{"logprob": -1.0}],
        [{"logprob": -1.0}] * 2 + [{"logprob": 0.5}],
        [{"logprob": -1.0}] * 2 + [{"logprob": float("nan")}],
        [{"logprob": -1.0}] * 2 + [{"logprob": float("-inf")}],
        [{"logprob": -1.0}] * 2 + [{"logprob": True}],
        [{"logprob": -1.0}] * 2 + [{"logprob": -(10**400)}],
        [{"logprob": -1.0}] * 2 + [{"token": "x"}],
        [{"logprob": -1.0}] * 2 + ["x"],
        "none",
        None,
    ],
    ids=str,
)
def test_log_probabilities_that_cannot_be_are_left_out(entries: Any) -> None:
    usage = {"prompt_tokens": 4, "completion_tokens": 3}
    with ChatServer(choice={"logprobs": {"content": entries}}, usage=usage) as server:
        (completion,) = model_of(server).sample(requests_of(1, temperature=1.0))
    assert completion.log_probabilities is None
    assert (completion.prompt_tokens, completion.tokens) == (4, 3)


@pytest.mark.parametrize(
    "usage", [{"prompt_tokens": -1, "completion_tokens": "3"}, {"completion_tokens": 1 << 40}, [3]]
)
def test_a_usage_that_cannot_be_is_none(usage: Any) -> None:
    with ChatServer(usage=usage) as server:
        model = model_of(server)
        (completion,) = model.sample(requests_of(1))
    assert completion.prompt_tokens is completion.tokens is None
    assert model.usage == Usage(requests=1)


OTHER_REASONS = ["content_filter", "tool_calls", "function_call", "error", "abort", "", "STOP ", "\x1b[2J", None]


@pytest.mark.parametrize("reason", OTHER_REASONS)
def test_what_a_server_ends_for_other_reasons_is_asked_again_and_then_an_error_that_says_so(reason: str | None) -> None:
    with ChatServer(choice={"finish_reason": reason}) as server:
        pauses = Pauses()
        model = model_of(server, attempts=3, sleep=pauses)
        found = by_key(model.sample(requests_of(4)))
    assert len(found) == 4
    for completion in found.values():
        assert (completion.finish_reason, completion.text, completion.log_probabilities) == ("error", "", None)
        assert completion.error == f"the server ended it for the reason {str(reason)!r}"
    assert [body.get("n") for body in server.bodies].count(2) == 2, "together first, then each by itself"
    assert model.usage.requests == len(server.bodies) == 2 + 4 * 3
    assert len(pauses) == 4 * 2


@pytest.mark.parametrize("reason", OTHER_REASONS)
def test_a_reason_that_passes_costs_a_try_and_no_answer(reason: str | None) -> None:
    cut = json.dumps({"choices": [{"message": {"content": "ha"}, "finish_reason": reason}]}).encode()
    with ChatServer() as sound, ChatServer(faults=[cut, cut]) as server:
        expected = by_key(HttpModel(sound.url, "toy").sample(requests_of(1)))
        model = model_of(server)
        found = by_key(model.sample(requests_of(1)))
    assert {k: (c.text, c.finish_reason) for k, c in found.items()} == {
        k: (c.text, c.finish_reason) for k, c in expected.items()
    }
    assert (model.usage.requests, model.usage.retries) == (3, 2)


def test_of_several_choices_those_are_kept_that_ended_well() -> None:
    def choices(*reasons: Any) -> list[dict[str, Any]]:
        return [
            {"index": i, "message": {"content": f"c{i}"}, "finish_reason": reason} for i, reason in enumerate(reasons)
        ]

    requests = [request for request in requests_of(6) if request.messages == PROMPTS[0]]
    answer = json.dumps({"choices": choices("stop", None, "length")}).encode()
    with ChatServer(faults=[answer]) as server:
        found = by_key(model_of(server, concurrency=1).sample(requests))
    assert [body.get("n", 1) for body in server.bodies] == [3, 1]
    assert server.bodies[1]["seed"] == requests[1].seed
    assert [(found[key].text, found[key].finish_reason) for key in "04"] == [("c0", "stop"), ("c2", "length")]
    assert found["2"].finish_reason in ("stop", "length") and found["2"].text != "c1"


@pytest.mark.parametrize(
    ("reason", "ends"),
    [("eos_token", "stop"), ("end_turn", "stop"), ("max_tokens", "length"), ("model_length", "length")],
)
def test_other_words_for_an_end_and_a_limit_are_understood(reason: str, ends: str) -> None:
    with ChatServer(choice={"finish_reason": reason}) as server:
        (completion,) = model_of(server).sample(requests_of(1))
    assert completion.finish_reason == ends and completion.text


@pytest.mark.parametrize("status", [400, 402, 403, 409, 413, 422, 429, 500, 503, 529])
@pytest.mark.parametrize(
    "message", ["Request too large for your quota", "The input queue is too long", "Rate limit reached", "at capacity"]
)
def test_quotas_queues_and_rates_are_asked_again(status: int, message: str) -> None:
    answer = json.dumps({"error": {"message": message}}).encode()
    with ChatServer(faults=[(status, answer)] * 2) as server:
        model = model_of(server)
        (completion,) = model.sample(requests_of(1))
    assert completion.finish_reason in ("stop", "length")
    assert (model.usage.requests, model.usage.retries) == (3, 2)
    assert server.bodies[0] == server.bodies[2], "nothing is left out for it"
    with ChatServer(always=(status, answer)) as server:
        told = complaint(model_of(server, attempts=2), requests_of(1))
    assert f"in 2 tries, at last status {status}: {message}" in told


def spoken(*lines: Any, body: bytes = b"{}") -> Any:
    """A whole answer, byte by byte."""
    return bytearray("\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode() + body)


LEAKS = {
    "the status line": spoken(f"HTTP/1.1 {KEY}"),
    "the reason phrase": spoken(f"HTTP/1.1 401 {KEY}"),
    "no status line": spoken(KEY),
    "a header that is none": spoken("HTTP/1.1 200 OK", f"Bearer {KEY}"),
    "a header's name": spoken("HTTP/1.1 200 OK", f"{KEY} : x"),
    "a header's value": spoken("HTTP/1.1 500 No", f"X-Echo: {KEY}", f"Retry-After: {KEY}"),
    "a length": bytearray(f"HTTP/1.1 200 OK\r\nContent-Length: {KEY}\r\n\r\n".encode()),
    "a redirection": spoken("HTTP/1.1 302 Found", f"Location: http://[{KEY}/"),
    "an encoding": spoken("HTTP/1.1 200 OK", f"Transfer-Encoding: {KEY}"),
    "a chunk": bytearray(f"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{KEY}\r\n".encode()),
    "a message": (400, json.dumps({"error": {"message": f"no {KEY}"}}).encode()),
    "a message in other case": (403, json.dumps({"detail": f"authorization: bearer {KEY.upper()}"}).encode()),
    "a message in base64": (403, json.dumps({"error": base64.b64encode(f"Bearer {KEY}".encode()).decode()}).encode()),
    "a message in percent": (403, json.dumps({"error": "".join(f"%{ord(each):02x}" for each in KEY)}).encode()),
    "a message in escapes": (403, b'{"error": "' + "".join(f"\\u{ord(each):04x}" for each in KEY).encode() + b'"}'),
    "a field's name": (403, json.dumps({KEY: "no"}).encode()),
    "an error's code": (403, json.dumps({"error": {"code": KEY}}).encode()),
    "text that is no JSON": (403, f"<html>{KEY}</html>".encode()),
    "text over two lines": (403, f"{KEY[:9]}\n{KEY[9:]}".encode()),
    "a cut message": (403, json.dumps({"error": f"key {KEY[:13]}*****"}).encode()),
    "a reason to finish": json.dumps({"choices": [{"message": {"content": "x"}, "finish_reason": KEY}]}).encode(),
    "a text": json.dumps({"choices": [{"message": {"content": f"a {KEY} b"}, "finish_reason": "stop"}]}).encode(),
    "the reasoning": json.dumps(
        {"choices": [{"message": {"content": "", "reasoning": KEY}, "finish_reason": "stop"}]}
    ).encode(),
    "context": (400, json.dumps({"error": {"message": f"prompt is too long for {KEY}"}}).encode()),
}


@pytest.mark.parametrize("fault", LEAKS.values(), ids=LEAKS)
def test_wherever_a_server_repeats_the_key_it_is_taken_out(fault: Any, caplog: Any) -> None:
    caplog.set_level(logging.WARNING)
    said = []
    with ChatServer(always=fault) as server:
        model = load_http_model(f"{server.url}#toy", attempts=1, environment={"OPENAI_API_KEY": KEY})
        try:
            said += [f"{completion!r}" for completion in model.sample(requests_of(2, prompts=PROMPTS[:1]))]
        except ModelError as error:
            said += [str(error), *traceback.format_exception(error)]
            cause: BaseException | None = error
            while cause is not None:
                said.append(repr(cause))
                cause = cause.__cause__ or cause.__context__
    shown = "".join([*said, caplog.text])
    for secret in (KEY, KEY[:10], KEY[-10:]):
        assert secret.lower() not in shown.lower(), shown
        assert base64.b64encode(secret.encode()).decode()[:10] not in shown
    assert said


@pytest.mark.parametrize(
    "fault", [LEAKS[name] for name in ("the status line", "a text", "a reason to finish", "context")]
)
def test_neither_the_table_nor_standard_error_nor_the_answers_file_holds_the_key(
    fault: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setattr(connection, "_FIRST_PAUSE", 0.0)
    kept = tmp_path / "answers.jsonl"
    with ChatServer(always=fault) as server:
        sizes = ("--n", "1", "--tiers", "T0", "--answers", str(kept))
        cli.main(["evaluate", "--task", "toy_task:ADDITION", "--model", f"{server.url}#toy", *sizes])
    shown = "".join(capsys.readouterr()) + kept.read_text()
    assert len(shown) > 100
    assert KEY not in shown and KEY[:10] not in shown, shown


def test_models_that_a_server_offers_are_listed_without_the_key() -> None:
    with ChatServer(models=("toy", f"x{KEY}", KEY.upper())) as server, pytest.raises(ModelError) as caught:
        load_http_model(server.url, environment={"OPENAI_API_KEY": KEY})
    assert str(caught.value).endswith("it offers toy, x[key], [key]")


@pytest.mark.parametrize(
    "message",
    [
        {"reasoning": "first a", "content": "a, b"},
        {"reasoning_content": "first a", "content": "a, b"},
        {"content": "<think>\nfirst a\n</think>\n\na, b"},
    ],
)
def test_reasoning_is_kept_apart_from_the_answer(message: dict[str, str]) -> None:
    """A stop string that reasoning holds does not cut the answer."""
    with ChatServer(message=message) as server:
        (completion,) = model_of(server).sample(requests_of(1, stop=("first",)))
    assert (completion.text, completion.reasoning) == ("a, b", "first a")


def test_reasoning_that_does_not_end_leaves_no_answer() -> None:
    with ChatServer(message={"content": "<think>first a, or"}) as server:
        (completion,) = model_of(server).sample(requests_of(1))
    assert (completion.text, completion.reasoning) == ("", "first a, or")


@pytest.mark.parametrize("text", ["a </think> b", "a <think> b", " <thinking> a"])
def test_what_is_no_block_of_reasoning_stays_in_the_answer(text: str) -> None:
    with ChatServer(message={"content": text}) as server:
        (completion,) = model_of(server).sample(requests_of(1))
    assert (completion.text, completion.reasoning) == (text, "")


def test_text_can_be_written_to_a_file() -> None:
    with ChatServer(message={"content": "half \ud83d of a pair"}) as server:
        (completion,) = model_of(server).sample(requests_of(1))
    assert completion.text == "half ? of a pair"


@pytest.mark.parametrize("stops", [True, False])
def test_the_text_ends_before_the_first_stop_string_wherever_the_server_stops(stops: bool) -> None:
    requests = requests_of(6, stop=(" job", "after"), temperature=1.0)
    with ChatServer(stops=stops) as server, ChatServer() as plain:
        found = by_key(model_of(server).sample(requests))
        whole = by_key(model_of(plain).sample(requests_of(6, temperature=1.0)))
    assert any(" job" in c.text or "after" in c.text for c in whole.values())
    for key, completion in found.items():
        text = re.split(" job|after", whole[key].text)[0]
        assert completion.text == text
        assert completion.finish_reason == ("stop" if text != whole[key].text else whole[key].finish_reason) or stops
    if not stops:
        cut = [c for c in found.values() if c.text != whole[c.key].text]
        assert all(completion.log_probabilities is None for completion in cut)


def test_the_policy_names_server_and_model() -> None:
    models = [HttpModel(f"http://{host}/v1", name) for host in ("a", "b") for name in ("x", "y")]
    assert len({model.info().identity for model in models}) == 4
    assert repr(models[0]) == "HttpModel('http://a/v1', 'x')"
    assert load_http_model("http://a/v1/#x", environment={}).info() == models[0].info()


@pytest.mark.parametrize(
    "url", ["", "localhost:8080", "ftp://a/v1#x", "http://#x", "http:///v1#x", "http://a:b/v1#x", "http://[::1/v1#x"]
)
def test_a_url_of_another_form_is_refused(url: str) -> None:
    with pytest.raises(ModelError, match=r"expected a URL of the form http://HOST:PORT/v1#MODEL.*, got '"):
        load_http_model(url)


@pytest.mark.parametrize("url", [f"http://me:{KEY}@a/v1#x", f"http://{KEY}@a/v1#x", f"https://a/v1?key={KEY}#x"])
def test_a_url_with_credentials_is_refused_unseen(url: str) -> None:
    with pytest.raises(ModelError, match=r"without user, password and query$"):
        load_http_model(url)


def test_a_url_without_model_lists_what_the_server_offers() -> None:
    with ChatServer() as server:
        with pytest.raises(ModelError) as caught:
            load_http_model(server.url, environment={})
        expected = f"expected a model's name after the server, http://HOST:PORT/v1#MODEL, got {server.url!r}"
        assert str(caught.value) == f"{expected}; it offers toy, other"
        with pytest.raises(ModelError) as elsewhere:
            load_http_model(server.url.removesuffix("/v1"), environment={})
        assert "offers" not in str(elsewhere.value)
    with pytest.raises(ModelError) as caught:
        load_http_model(server.url, environment={})
    assert str(caught.value) == expected


@pytest.mark.parametrize("options", [{"concurrency": 0}, {"attempts": 0}, {"timeout": 0.0}, {"timeout": float("nan")}])
def test_too_few_of_anything_is_refused(options: dict[str, int] | dict[str, float]) -> None:
    with pytest.raises(ValueError, match="expected"):
        load_http_model("http://a/v1#x", environment={}, **options)
