"""Limits of cost, tokens and time hold, whatever servers do and however much is under way at a time."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from gce.adapters.models.ledger import Ledger, Pace, Rates, Sent
from gce.app import cli
from gce.app.evaluation.settings import EvaluateSettings
from gce.app.wiring.access import Access, access_of, known_prices
from gce.domain.completions import Completion, SampleRequest
from gce.domain.problems import Message
from gce.domain.spending import Limits, Price, Used, cost_of, find_price, over
from gce.errors import BadInput, SettingError, Unfinished

PRICE = Price(2.0, 8.0)
PRICES = {"openai:gpt-5": PRICE, "openai:gpt-5-mini": Price(0.25, 2.0)}


class Clock:
    """Time that passes only when told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_what_a_request_costs() -> None:
    """3,000 prompt tokens at $2 and 500 generated at $8 a million: $0.006 and $0.004."""
    used = cost_of(PRICE, 3000, 500)
    assert (used.requests, used.all_tokens, used.unpriced) == (1, 3500, 0)
    assert used.cost == pytest.approx(0.01)
    assert cost_of(None, 3000, 500) == Used(1, 3000, 500, 0.0, 3500)
    assert used + used == Used(2, 6000, 1000, 0.02, 0)


@pytest.mark.parametrize(
    ("limits", "reached"),
    [
        (Limits(), ""),
        (Limits(tokens=3500, cost=0.0101), ""),
        (Limits(tokens=3499), "tokens"),
        (Limits(cost=0.0099), "cost"),
        (Limits(tokens=1, cost=0.001), "tokens"),
    ],
)
def test_a_limit_is_what_may_be_used_and_not_exceeded(limits: Limits, reached: str) -> None:
    assert over(limits, cost_of(PRICE, 3000, 500)) == reached


@pytest.mark.parametrize(
    ("model", "of"),
    [
        ("openai:gpt-5", "openai:gpt-5"),
        ("openai:gpt-5-2025-08-07", None),
        ("openai:gpt-5-20250807", None),
        ("openai:gpt-5-latest", "openai:gpt-5"),
        ("openai:gpt-5-mini-2025-08-07", None),
        ("openai:gpt-5-nano", None),
        ("openai:gpt-5-2025", None),
        ("openai:gpt-5-latest-pro", None),
        ("azure:gpt-5", None),
    ],
)
def test_a_dated_snapshot_has_no_price_but_its_own(model: str, of: str | None) -> None:
    assert find_price(model, PRICES) == (None if of is None else PRICES[of])
    own = Price(7, 70)
    assert find_price(model, {**PRICES, model: own}) == own


@hypothesis_settings(max_examples=50)
@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50), st.booleans()), max_size=60),
    st.integers(1, 300),
    st.floats(0.0001, 0.01),
)
def test_no_order_of_requests_exceeds_a_limit(requests: list[tuple[int, int, bool]], tokens: int, cost: float) -> None:
    """Of what is reserved, any part is used; some requests are settled late."""
    ledger, open_requests = Ledger(Limits(tokens=tokens, cost=cost)), list[tuple[Used, Used]]()
    for most, part, at_once in requests:
        reserved, used = cost_of(PRICE, most, most), cost_of(PRICE, min(part, most), min(part, most))
        try:
            if not ledger.reserve(reserved):
                assert open_requests, "it waits only for others"
                ledger.settle(*open_requests.pop(0))
                continue
        except Unfinished:
            continue
        open_requests.append((reserved, used))
        if at_once:
            ledger.settle(*open_requests.pop())
        assert not over(ledger.limits, ledger.used)
    for each in open_requests:
        ledger.settle(*each)
    assert not over(ledger.limits, ledger.used)
    assert ledger.used.cost == pytest.approx(cost_of(PRICE, ledger.used.prompt_tokens, ledger.used.tokens).cost)


def test_a_request_that_would_exceed_a_limit_alone_ends_the_work() -> None:
    ledger = Ledger(Limits(tokens=100))
    assert ledger.reserve(Used(1, 40, 40))
    assert not ledger.reserve(Used(1, 40, 0)), "the first may yet use less"
    ledger.settle(Used(1, 40, 40), Used(1, 40, 21))
    with pytest.raises(Unfinished, match=r"^max_tokens_total is reached.*: 1 requests with 40 prompt tokens and 21"):
        ledger.reserve(Used(1, 40, 0))


def test_time_is_up_when_it_is() -> None:
    clock = Clock()
    ledger = Ledger(Limits(minutes=2), clock=clock)
    clock.now = 119.0
    assert ledger.reserve(Used(1))
    clock.now = 120.0
    with pytest.raises(Unfinished, match="max_minutes is reached"):
        ledger.reserve(Used(1))
    with pytest.raises(Unfinished, match="max_minutes is reached"):
        ledger.check()


def test_requests_wait_until_a_minute_has_room() -> None:
    clock = Clock()
    pace = Pace(Rates(requests=2), clock)
    assert pace.admit(Sent(9)) == 0.0
    clock.now = 10.0
    assert pace.admit(Sent(9)) == 0.0
    clock.now = 11.0
    assert pace.admit(Sent(9)) == 49.0
    clock.now = 60.0
    assert pace.admit(Sent(9)) == 0.0
    assert pace.admit(Sent(9)) == 10.0


def test_tokens_count_as_used_once_that_is_known() -> None:
    clock = Clock()
    pace, first = Pace(Rates(tokens=100), clock), Sent(80)
    assert pace.admit(first) == 0.0
    assert pace.admit(Sent(30)) == 60.0
    first.tokens = 70
    assert pace.admit(Sent(30)) == 0.0
    clock.now = 60.0
    assert pace.admit(Sent(1000)) == 0.0, "what is too much for any minute has one for itself"
    assert pace.admit(Sent(1)) == 60.0


@hypothesis_settings(max_examples=50)
@given(
    st.lists(st.tuples(st.floats(0, 30), st.integers(0, 60)), max_size=40),
    st.integers(1, 5),
    st.integers(60, 200),
)
def test_no_minute_has_more_than_its_share(steps: list[tuple[float, int]], requests: int, tokens: int) -> None:
    clock = Clock()
    pace, sent = Pace(Rates(requests, tokens), clock), list[Sent]()
    for pause, size in steps:
        clock.now += pause
        request = Sent(size)
        if not pace.admit(request):
            sent.append(request)
    for each in sent:
        window = [other for other in sent if each.time <= other.time < each.time + 60]
        assert len(window) <= requests and sum(other.tokens for other in window) <= tokens


def test_all_models_of_a_provider_have_one_pace() -> None:
    ledger = Ledger(rates=Rates(requests=1))
    assert ledger.pace("openai") is ledger.pace("openai") is not ledger.pace("google")


# Prices


def test_the_known_prices_are_dated_and_sound() -> None:
    date, prices = known_prices()
    assert time.strptime(date, "%Y-%m-%d")
    assert all(0 < price.prompt <= price.answer for price in prices.values())
    providers = {model.partition(":")[0] for model in prices}
    assert {"openai", "anthropic", "google"} <= providers


def settings(**given: Any) -> EvaluateSettings:
    return EvaluateSettings(task="scheduling", model="gce-tiny", **given)


def test_a_price_that_is_not_known_is_refused_only_where_the_cost_is_limited(tmp_path: Path) -> None:
    assert access_of(settings()).price("openai:no-such") is None
    assert access_of(settings(max_cost=1.0, allow_unknown_cost=True)).price("openai:no-such") is None
    with pytest.raises(SettingError, match=r"^the price of openai:no-such is not known, so max_cost cannot be kept"):
        access_of(settings(max_cost=1.0)).price("openai:no-such")
    file = tmp_path / "prices.json"
    file.write_text('{"prices": {"openai:no-such": [1, 2.5], "openai:gpt-5": [7, 7]}}')
    access = access_of(settings(max_cost=1.0, prices=file))
    assert access.price("openai:no-such") == Price(1.0, 2.5)
    assert access.price("openai:gpt-5") == Price(7.0, 7.0)
    assert access.price("openai:gpt-5-mini") == known_prices()[1]["openai:gpt-5-mini"]


PAIRS = ["3", "[1]", "[1, 2, 3]", '["1", 2]', "[true, 2]", "[-1, 2]", "[NaN, 2]", "[1e999, 2]"]


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"prices": 3}', *(f'{{"prices": {{"a": {pair}}}}}' for pair in PAIRS)]
)
def test_what_is_no_file_of_prices_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "prices.json"
    file.write_text(text)
    with pytest.raises(BadInput):
        access_of(settings(prices=file))


# Servers


def many(count: int, **options: Any) -> list[SampleRequest]:
    given = {"temperature": 0.0, "max_tokens": 20, **options}
    return [SampleRequest(f"{i}", (Message("user", f"prompt {i}"),), i, **given) for i in range(count)]


def server_model(server: Any, ledger: Ledger, **options: Any) -> Any:
    pytest.importorskip("httpx2")
    from gce.adapters.models.servers.http_model import HttpModel

    async def no_pause(_seconds: float) -> None:
        """Wait for nothing."""

    return HttpModel(server.url, "toy", ledger=ledger, price=PRICE, sleep=no_pause, **options)


def drained(model: Any, requests: list[SampleRequest]) -> tuple[list[Completion], str]:
    """What came, and what it ended in."""
    found: list[Completion] = []
    try:
        for completion in model.sample(requests):
            found.append(completion)
    except Unfinished as error:
        return found, str(error)
    return found, ""


@pytest.mark.parametrize("concurrency", [1, 8])
@pytest.mark.parametrize("faults", [[], [500, "drop", None, "half", 429, None, "cut"]], ids=str)
@pytest.mark.parametrize("limits", [Limits(tokens=300), Limits(cost=0.001)], ids=str)
def test_a_server_is_not_asked_beyond_a_limit(limits: Limits, faults: list[Any], concurrency: int) -> None:
    pytest.importorskip("httpx2")
    from chat_server import ChatServer

    with ChatServer(faults=faults) as server:
        ledger = Ledger(limits)
        found, ended = drained(server_model(server, ledger, concurrency=concurrency), many(40))
    assert "is reached" in ended
    assert 0 < len(found) < 40
    assert not over(limits, ledger.used)
    assert ledger.used.requests == len(server.bodies)
    assert ledger.used.tokens >= sum(completion.tokens or 0 for completion in found)


def test_what_is_under_way_at_a_limit_is_still_taken() -> None:
    """It is paid for."""
    pytest.importorskip("httpx2")
    from chat_server import ChatServer

    with ChatServer() as server:
        found, ended = drained(server_model(server, Ledger(Limits(tokens=300)), concurrency=8), many(40))
    assert ended and len(found) == len(server.bodies)


def test_a_broken_answer_counts_at_its_most_and_an_error_at_nothing() -> None:
    pytest.importorskip("httpx2")
    from chat_server import ChatServer

    with ChatServer(faults=["drop", 500]) as server:
        ledger = Ledger()
        (completion,) = server_model(server, ledger).sample(many(1))
    assert completion.tokens is not None and completion.prompt_tokens is not None
    bound = len("prompt 0") + 32
    assert ledger.used == evolve(cost_of(PRICE, bound + completion.prompt_tokens, 20 + completion.tokens), requests=3)


@pytest.mark.parametrize("status", [502, 504, 524])
def test_what_a_gateway_gave_up_counts_at_its_most(status: int) -> None:
    """The model behind it may have answered."""
    pytest.importorskip("httpx2")
    from chat_server import ChatServer

    with ChatServer(faults=[status]) as server:
        ledger = Ledger()
        (completion,) = server_model(server, ledger).sample(many(1))
    assert completion.tokens is not None
    assert ledger.used.tokens == 20 + completion.tokens


def test_several_choices_that_are_too_much_are_asked_one_by_one() -> None:
    pytest.importorskip("httpx2")
    from chat_server import ChatServer

    requests = [SampleRequest(f"{i}", (Message("user", "x"),), i, 0.8, 20) for i in range(30)]
    with ChatServer() as server:
        ledger = Ledger(Limits(tokens=400))
        found, ended = drained(server_model(server, ledger, concurrency=1), requests)
    assert ended and len(found) > 5
    assert not over(ledger.limits, ledger.used)


def test_requests_keep_to_the_rate_of_their_provider() -> None:
    """In a window of a tenth of a second that stands for a minute."""
    pytest.importorskip("httpx2")
    from chat_server import ChatServer

    with ChatServer() as server:
        ledger = Ledger(rates=Rates(requests=2), clock=lambda: 600 * time.monotonic())
        began = time.monotonic()
        found, ended = drained(server_model(server, ledger), many(7))
        seconds = time.monotonic() - began
    assert len(found) == 7 and not ended
    assert seconds >= 0.3, "four windows"


def test_time_is_up_also_for_what_waits_for_its_minute() -> None:
    """The second request would wait for a minute, and there is half a second."""
    pytest.importorskip("httpx2")
    from chat_server import ChatServer

    with ChatServer() as server:
        ledger = Ledger(Limits(minutes=0.01), Rates(requests=1))
        model, began = server_model(server, ledger, concurrency=2), time.monotonic()
        list(model.sample(many(1)))
        _, ended = drained(model, many(3))
    assert "max_minutes is reached" in ended
    assert time.monotonic() - began < 20
    assert ledger.used.requests == len(server.bodies) == 1


def test_what_a_limit_stops_takes_no_place_in_the_minute() -> None:
    pytest.importorskip("httpx2")
    from chat_server import ChatServer

    with ChatServer() as server:
        ledger = Ledger(Limits(tokens=1), Rates(requests=1))
        _, ended = drained(server_model(server, ledger), many(3))
        assert ended and not server.bodies
        assert ledger.pace(server.url).admit(Sent(1)) == 0 != ledger.pace(server.url).admit(Sent(1))


def test_a_ledger_is_safe_between_threads() -> None:
    ledger = Ledger(Limits(tokens=10_000))

    def work() -> None:
        for _ in range(500):
            if ledger.reserve(Used(1, 1, 1)):
                ledger.settle(Used(1, 1, 1), Used(1, 1, 0))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ledger.used == Used(4000, 4000, 0)


@given(
    st.lists(st.tuples(st.integers(1, 40), st.floats(0, 1)), min_size=1, max_size=60),
    st.integers(40, 400),
)
@hypothesis_settings(max_examples=40, deadline=None)
def test_eight_threads_never_overspend_never_wait_forever_and_give_back_what_is_left(
    requests: list[tuple[int, float]], limit: int
) -> None:
    """Each request reserves its most and uses a share of it. All threads end; the limit holds at each moment, as it
    does for what is reserved; what was reserved and not used can be reserved again."""
    ledger = Ledger(Limits(tokens=limit))
    left, lock, room = list(requests), threading.Lock(), threading.Condition()
    held, highest, refused = [0], [0], [0]

    def work() -> None:
        while True:
            with lock:
                if not left:
                    return
                most, share = left.pop()
            reserved = Used(1, 0, most)
            try:
                with room:
                    # Whoever has to wait does so for others to settle: there is always one that can.
                    while not ledger.reserve(reserved):
                        assert room.wait(timeout=10.0), "nobody settles"
                    held[0] += most
                    highest[0] = max(highest[0], held[0] + ledger.used.all_tokens)
            except Unfinished:
                refused[0] += 1
                continue
            used = int(share * most)
            with room:
                ledger.settle(reserved, Used(1, 0, used))
                held[0] -= most
                room.notify_all()

    threads = [threading.Thread(target=work, daemon=True) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30.0)
    assert not any(thread.is_alive() for thread in threads), "no deadlock"
    assert ledger.used.all_tokens <= limit and highest[0] <= limit, "never overspent"
    assert ledger.used.requests + refused[0] == len(requests)
    unused = limit - ledger.used.all_tokens
    assert ledger.reserve(Used(1, 0, unused)), "all that was not used is there again"
    with pytest.raises(Unfinished):
        ledger.reserve(Used(1, 0, unused + 1))


# The command


def evaluate(*options: str) -> int:
    return cli.main(["evaluate", "--task", "toy_task:ADDITION", "--tiers", "T0", *options])


def test_a_limit_ends_the_command_with_status_3_and_the_next_one_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("httpx2")
    from chat_server import ChatServer

    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-0123456789")
    kept = str(tmp_path / "answers.jsonl")
    with ChatServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        given = ("--model", "openai:gpt-4.1", "--n", "12", "--answers", kept, "--max-tokens", "20")
        assert evaluate(*given, "--max-cost", "0.0008") == 3
        said = capsys.readouterr().err
        assert "--max-cost is reached, or the next request could exceed it" in said
        first = len(server.bodies)
        assert 0 < first < 12
        assert evaluate(*given) == 0
        assert len(server.bodies) == 12, "nothing was asked twice"
        assert "used: " in capsys.readouterr().err


def test_an_unknown_price_is_refused_before_anything_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("httpx2")
    from chat_server import ChatServer

    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-0123456789")
    prices = tmp_path / "prices.json"
    prices.write_text(json.dumps({"prices": {"openai:toy": [1, 1]}}))
    with ChatServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        given = ("--model", "openai:toy", "--n", "2", "--max-cost", "1")
        assert evaluate(*given) == 2
        said = capsys.readouterr().err
        assert "the price of openai:toy is not known, so --max-cost cannot be kept" in said
        assert "with --prices, or ask all the same with --allow-unknown-cost" in said
        assert not server.bodies
        assert evaluate(*given, "--prices", str(prices)) == 0
        assert "$0.0" in capsys.readouterr().err
        assert evaluate(*given, "--allow-unknown-cost") == 0
        assert "tokens at a price that is not known" in capsys.readouterr().err


def test_limits_hold_for_models_in_this_process_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answers = tmp_path / "answers.jsonl"
    answers.write_text('{"text": "w1 w2 w3 w4"}\n')
    assert evaluate("--model", f"scripted:{answers}", "--n", "9", "--max-tokens-total", "10") == 3
    assert "--max-tokens-total is reached" in capsys.readouterr().err


def test_a_limit_that_the_last_answer_exceeds_ends_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All answers are there; a second strategy would have to ask again."""
    answers = tmp_path / "answers.jsonl"
    answers.write_text('{"text": "w1 w2 w3 w4"}\n')
    given = ("--model", f"scripted:{answers}", "--n", "1", "--max-tokens-total", "1")
    assert evaluate(*given) == 0
    capsys.readouterr()
    assert evaluate(*given, "--strategies", "zero-shot,direct") == 3
    assert "--max-tokens-total is reached" in capsys.readouterr().err


def test_what_was_spent_is_said_after_an_error_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("httpx2")
    from chat_server import ChatServer

    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-0123456789")
    with ChatServer(faults=[None, None], always=401) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        assert evaluate("--model", "openai:gpt-4.1", "--n", "5", "--concurrency", "1") == 2
    said = capsys.readouterr().err
    assert "used: 3 requests" in said and "status 401" in said


def test_the_cost_of_a_model_that_is_given_itself_cannot_be_limited() -> None:
    import toy_task

    import gce

    with pytest.raises(SettingError, match="max_cost needs a model that is given by name"):
        gce.evaluate(toy_task.ADDITION, lambda _messages: "0", max_cost=1.0, n=1, progress=False)


@pytest.mark.parametrize("name", ["command:cat {prompt_file}", "toy_task:no_such_model"])
@pytest.mark.parametrize("more", [(), ("--dry-run",)], ids=["asked", "dry"])
def test_the_cost_of_what_no_ledger_sees_cannot_be_limited(
    name: str,
    more: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert evaluate("--model", name, "--n", "2", "--max-cost", "1", *more) == 2
    said = capsys.readouterr().err
    kind = {"command": "command:WORDS"}.get(name.partition(":")[0], "module:FACTORY")
    assert f"what a model {kind} costs is not known, so --max-cost cannot be kept" in said
    assert "ask all the same with --allow-unknown-cost" in said
    assert not list(tmp_path.iterdir())


def test_one_of_several_models_whose_cost_is_not_counted_is_refused_before_another_is_asked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert evaluate("--models", "gce-tiny,command:cat {prompt_file}", "--n", "2", "--max-cost", "1") == 2
    said = capsys.readouterr().err
    assert "what a model command:WORDS costs is not known" in said and "model gce-tiny" not in said


def test_a_command_is_asked_at_an_unknown_cost_if_that_is_allowed(capsys: pytest.CaptureFixture[str]) -> None:
    limits = ("--max-cost", "1", "--allow-unknown-cost")
    assert evaluate("--model", "command:cat {prompt_file}", "--n", "2", *limits) == 0


def test_a_dry_run_says_what_answers_cost_at_most(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """100 answers of up to 1,000 tokens at $8 a million: 80 cents."""
    assert evaluate("--model", "openai:gpt-4.1", "--n", "100", "--max-tokens", "1000", "--dry-run") == 0
    shown = capsys.readouterr().out
    assert "cost: at most $0.80 for generated tokens, prompts excluded, at prices of " in shown
    assert "not measured, as the provider charges for answers" in shown


def test_access_without_anything_has_no_limits() -> None:
    assert Access().ledger.reserve(Used(10**9, 10**9, 10**9, 1e9))
