"""Contract checks for models: one check for each sentence of the docstrings in `gce.ports.model`.

    check_model(lambda: ScriptedModel(answer), prompts=[...], too_long=(Message("user", "x" * 10_000),))

Capabilities that the model lacks are skipped. Independent of backends. The first failing check raises AssertionError.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from attrs import evolve, frozen

from gce.domain.completions import Completion, SampleRequest
from gce.domain.learning import ModelState, Normalization, Ratio, Trace, TrainingBatch, single_turn
from gce.domain.problems import Message
from gce.errors import ModelError
from gce.ports.model import Caching, Dealing, Embedder, Learner, Model, Probe, Sampler, Scorer

__all__ = ["assert_same_arrays", "check_model"]

Prompt = tuple[Message, ...]

PORTS = {"sample": Sampler, "score": Scorer, "learn": Learner, "probe": Probe}

TOLERANCE = 1e-3
"""Maximum difference, in nats, between two computations of the same log-probability, which sum in different orders."""


@frozen
class _Case:
    make: Callable[[], Any]
    prompts: tuple[Prompt, ...]
    too_long: Prompt | None
    max_tokens: int
    tolerance: float

    def requests(self, *, temperature: float = 0.8, seed: int = 0) -> tuple[SampleRequest, ...]:
        """Return two requests for each prompt, not adjacent."""
        return tuple(
            SampleRequest(f"{turn}/{place}", prompt, seed + 100 * turn + place, temperature, self.max_tokens)
            for turn in range(2)
            for place, prompt in enumerate(self.prompts)
        )


def check_model(
    make_model: Callable[[], Any],
    *,
    prompts: Sequence[Prompt],
    too_long: Prompt | None = None,
    max_tokens: int = 24,
    tolerance: float = TOLERANCE,
) -> None:
    """Assert that models made by `make_model` satisfy the port; each call must return a new one in the same state.

    A learner must be ready to learn. `prompts` must hold at least two different prompts, which are sampled with at most
    `max_tokens` tokens. `too_long` is a prompt that leaves no room in the model's context; without it, that case is not
    checked. `tolerance`, in nats, is for comparisons of the sampler with learner and scorer, which may compute in
    another precision.
    """
    case = _Case(make_model, tuple(prompts), too_long, max_tokens, tolerance)
    assert len(set(case.prompts)) >= 2, f"expected at least two different prompts, got {prompts!r}"
    model = make_model()
    assert isinstance(model, Model), f"{type(model).__name__} does not say what it is: expected the method info()"
    assert isinstance(model, Sampler | Scorer | Learner | Probe), f"{type(model).__name__} has no capability at all"
    _check_info(case)
    if isinstance(model, Sampler):
        _check_one_completion_for_each_request(case)
        _check_same_call_same_completions(case)
        _check_requests_of_no_use(case)
        _check_tokens(case)
        _check_greedy(case)
        _check_stop_strings(case)
    if isinstance(model, Dealing):
        _check_shares(case)
    if isinstance(model, Learner):
        _check_update_changes_state(case)
        _check_rate(case)
        _check_state_is_a_copy(case)
        _check_restore_continues(case)
        _check_restore_refuses_other_shapes(case)
        _check_too_long_traces(case)
        _check_identity_follows_weights(case)
    if isinstance(model, Sampler) and isinstance(model, Learner):
        _check_sampling_touches_nothing(case)
        _check_loss(case)
        _check_clip_and_divergence(case)
        _check_ratios_and_normalization(case)
    if isinstance(model, Scorer):
        _check_scores(case)
    if isinstance(model, Probe):
        _check_probe(case)
    if isinstance(model, Embedder) and isinstance(model, Scorer):
        _check_hidden_states(case)
    if isinstance(model, Probe) and isinstance(model, Learner):
        _check_attach(case)


def _check_shares(case: _Case) -> None:
    """Assert that shares hold each request once and give what the whole call gives, whatever was sampled before."""
    requests, whole, other = case.requests(), case.make(), case.make()
    shares = other.deal(requests)
    assert sorted(request.key for share in shares for request in share) == sorted(each.key for each in requests)
    assert case.make().deal(requests) == shares, "the same requests were dealt into other shares"
    found = {each.key: each for share in reversed(shares) for each in other.sample_share(share)}
    assert found == _sampled(whole, requests), "a share computed alone gave other completions"


def assert_same_arrays(found: ModelState, expected: ModelState) -> None:
    """Assert that both states hold the same bytes under the same names."""
    assert found.arrays.keys() == expected.arrays.keys(), found.arrays.keys() ^ expected.arrays.keys()
    for name, array in expected.arrays.items():
        assert _bytes(found.arrays[name]) == _bytes(array), f"{name} differs"


def _has(model: Any, capability: Any) -> bool:
    return isinstance(model, capability)


def _bytes(array: Any) -> tuple[Any, ...]:
    return array.shape, array.dtype, array.tobytes()


def _sampled(model: Any, requests: Sequence[SampleRequest]) -> dict[str, Completion]:
    return {completion.key: completion for completion in model.sample(requests)}


def _batch(case: _Case, model: Any, *, seed: int = 0) -> TrainingBatch:
    """Return traces of the model's own completions, or, if it does not sample, of its prompts."""
    requests = case.requests(seed=seed)
    if _has(model, Sampler):
        completions = _sampled(model, requests)
    else:
        completions = {r.key: Completion(r.key, r.messages[-1].content, "stop", "by hand") for r in requests}
    traces = [_trace(request.messages, completions[request.key]) for request in requests]
    return TrainingBatch(tuple(traces), tuple(1.0 if place % 2 else 0.5 for place in range(len(traces))))


def _trace(messages: Prompt, completion: Completion) -> Trace:
    return Trace(completion.key, "problem", "tier", 0, single_turn(messages, completion), (), completion.key)


def _check_info(case: _Case) -> None:
    model = case.make()
    info = model.info()
    has = {name for name, port in PORTS.items() if isinstance(model, port)}
    assert info.capabilities == has, f"expected the capabilities {sorted(has)}, got {sorted(info.capabilities)}"
    assert case.make().info() == info, "models in the same state have the same info, their identity included"
    adapted = info.adapted_layers
    assert adapted == tuple(sorted(set(adapted))), f"expected different blocks in ascending order, got {adapted!r}"
    assert all(0 <= layer < info.layers for layer in adapted), f"expected blocks below {info.layers}, got {adapted!r}"
    if isinstance(model, Learner):
        assert info.trainable_parameters > 0, "a learner that is ready to learn has parameters to train"


def _check_identity_follows_weights(case: _Case) -> None:
    model, twin = case.make(), case.make()
    batch, state = _batch(case, model), model.state()
    fresh = model.info()
    model.update(batch)
    learned = model.info()
    assert learned.identity != fresh.identity, "other weights, another identity"
    assert evolve(learned, identity=fresh.identity) == fresh, "an update changes the weights and nothing else"
    if isinstance(model, Scorer):
        model.log_probabilities(case.prompts[0], "other words", adapter=False)
    if isinstance(model, Probe):
        model.activation_statistics(case.prompts)
    _batch(case, model)
    assert model.info() == learned, "sampling, scoring and probing leave the identity"
    twin.update(batch)
    assert twin.info() == learned, "equal weights, equal identity"
    model.restore(state)
    assert model.info() == fresh, "with the weights their identity is restored"


def _check_attach(case: _Case) -> None:
    model, fresh = case.make(), case.make()
    layers = (model.info().layers - 1,)
    model.update(_batch(case, model))
    for each in (model, fresh):
        each.attach(layers)
        assert each.info().adapted_layers == layers, "the blocks that were asked for are adapted, and no others"
    assert_same_arrays(model.state(), fresh.state())
    assert model.info() == fresh.info(), "an adapter starts from fresh values, whatever was learned before"
    before = model.state()
    for wrong in ((model.info().layers,), (-1,), layers * 2):
        try:
            model.attach(wrong)
        except ModelError:
            assert model.info() == fresh.info(), "blocks that are refused change nothing"
            assert_same_arrays(model.state(), before)
        else:
            raise AssertionError(f"blocks {wrong!r}: expected ModelError")


def _check_one_completion_for_each_request(case: _Case) -> None:
    model = case.make()
    assert list(model.sample([])) == [], "an empty sequence of requests yields nothing"
    requests = case.requests()
    found = list(model.sample(requests))
    assert sorted(c.key for c in found) == sorted(r.key for r in requests), "exactly one completion for each request"
    assert all(c.finish_reason in ("stop", "length") for c in found), "there was room, so nothing ends in error"
    assert {c.policy for c in found} == {model.info().identity}, "completions name the weights that wrote them"


def _check_same_call_same_completions(case: _Case) -> None:
    model = case.make()
    requests = case.requests()
    first = _sampled(model, requests)
    other = _sampled(model, case.requests(seed=7_000))
    assert _sampled(model, requests) == first, "the same call gives the same completions, whatever came between"
    assert _sampled(case.make(), requests) == first, "and so does another model in the same state"
    if isinstance(model, Caching):
        model.clear_caches()
        assert _sampled(model, requests) == first, "and the model without its caches"
    assert len(other) == len(first)


def _check_requests_of_no_use(case: _Case) -> None:
    model = case.make()
    one, two = case.requests()[:2]
    try:
        list(model.sample([one, evolve(two, key=one.key)]))
    except ValueError:
        pass
    else:
        raise AssertionError("two requests with one key: expected ValueError")
    if case.too_long is None:
        return
    alone = _sampled(model, [one, two])
    found = _sampled(model, [one, evolve(one, key="too long", messages=case.too_long), two])
    refused = found.pop("too long")
    assert refused.finish_reason == "context", f"no room: expected finish reason context, got {refused!r}"
    assert refused.error, "no room in the context: expected the completion to say so"
    assert refused.text == "" and not refused.token_ids, f"no room in the context: expected no text, got {refused!r}"
    assert found == alone, "the other requests go on as if it were not there"


def _check_tokens(case: _Case) -> None:
    model = case.make()
    requests = [evolve(r, max_tokens=m, temperature=1.0) for r in case.requests() for m in (1, case.max_tokens)]
    requests = [evolve(request, key=f"{place}") for place, request in enumerate(requests)]
    found = _sampled(model, requests)
    for request in requests:
        completion = found[request.key]
        tokens, own = completion.token_ids, completion.log_probabilities
        sampling = completion.sampling_log_probabilities
        if tokens is None:
            continue
        assert 1 <= len(tokens) <= request.max_tokens, f"expected 1 to {request.max_tokens} tokens, got {len(tokens)}"
        if completion.finish_reason == "length":
            assert len(tokens) == request.max_tokens, "cut for its length, so as long as allowed"
        assert completion.prompt_token_ids, "generated ids without those of the prompt"
        for values in (own, sampling):
            assert values is None or len(values) == len(tokens), "one log-probability for each generated token"
            assert values is None or all(math.isfinite(v) and v <= TOLERANCE for v in values), values
        if own is not None and sampling is not None:
            assert np.allclose(own, sampling, atol=TOLERANCE), "at temperature 1 the model itself is sampled from"


def _check_greedy(case: _Case) -> None:
    model = case.make()
    first = _sampled(model, case.requests(temperature=0.0))
    other = _sampled(model, case.requests(temperature=0.0, seed=9))
    assert {k: c.text for k, c in first.items()} == {k: c.text for k, c in other.items()}, "greedy uses no seed"


def _check_stop_strings(case: _Case) -> None:
    model = case.make()
    request = case.requests(temperature=0.0)[0]
    (free,) = model.sample([request])
    middle = len(free.text) // 2
    stop = free.text[middle : middle + 2]
    if not stop:
        return
    (cut,) = model.sample([evolve(request, stop=(stop, "\0never"))])
    assert cut.text == free.text[: free.text.find(stop)], f"expected the text before {stop!r}, got {cut.text!r}"
    assert cut.finish_reason == "stop", "a stop string ends the text as an end token does"


def _check_sampling_touches_nothing(case: _Case) -> None:
    model = case.make()
    batch = _batch(case, model)
    model.update(batch)
    before = model.state()
    list(model.sample(case.requests(seed=5)))
    unfinished = model.sample(case.requests(seed=6))
    next(unfinished)
    assert_same_arrays(model.state(), before)
    model.update(batch)
    rest = [*unfinished]
    quiet = case.make()
    quiet.update(batch)
    quiet.update(batch)
    assert_same_arrays(model.state(), quiet.state())
    assert len(rest) == len(case.requests()) - 1, "an update in between does not end the sampling"


def _check_update_changes_state(case: _Case) -> None:
    model, twin = case.make(), case.make()
    before = model.state()
    batch = _batch(case, model)
    report = model.update(batch)
    assert report.tokens > 0 and report.dropped == 0, f"expected tokens to be trained, got {report!r}"
    assert math.isfinite(report.loss) and report.gradient_norm > 0, f"expected a loss and a gradient, got {report!r}"
    after = model.state()
    assert any(_bytes(after.arrays[name]) != _bytes(array) for name, array in before.arrays.items()), (
        "an update changes the state"
    )
    assert all(name.startswith(("adapter.", "optimizer.")) for name in after.arrays), sorted(after.arrays)
    assert twin.update(batch) == report, "the same update, the same report"
    assert_same_arrays(twin.state(), after)


def _check_state_is_a_copy(case: _Case) -> None:
    model = case.make()
    batch = _batch(case, model)
    state = model.state()
    kept = {name: _bytes(array) for name, array in state.arrays.items()}
    model.update(batch)
    assert {name: _bytes(array) for name, array in state.arrays.items()} == kept, "later updates do not change a state"
    after = {name: _bytes(array) for name, array in model.state().arrays.items()}
    for array in model.state().arrays.values():
        if array.flags.writeable:
            array[...] = 0
    assert {name: _bytes(array) for name, array in model.state().arrays.items()} == after, "nor does a state the model"


def _check_restore_continues(case: _Case) -> None:
    model, other = case.make(), case.make()
    first, second = _batch(case, model), _batch(case, model, seed=40)
    model.update(first)
    middle = model.state()
    report = model.update(second)
    end = model.state()
    for restored in (model, other):
        restored.restore(middle)
        assert_same_arrays(restored.state(), middle)
        assert restored.update(second) == report, "from a restored state, the same step"
        assert_same_arrays(restored.state(), end)
    if _has(model, Sampler):
        assert _sampled(model, case.requests()) == _sampled(other, case.requests()), "the same policy"


def _check_restore_refuses_other_shapes(case: _Case) -> None:
    model = case.make()
    model.update(_batch(case, model))
    good = model.state()
    name = max(good.arrays, key=lambda name: good.arrays[name].size)
    longer = np.concatenate([good.arrays[name].reshape(-1)] * 2)
    others = {n: array for n, array in good.arrays.items() if n != name}
    zeros = {n: np.zeros_like(array) for n, array in others.items()}
    for what, arrays in (
        ("an array of another shape", {**zeros, name: longer}),
        ("an array missing", zeros),
        ("an array too many", {**zeros, name: good.arrays[name], "adapter.nobody.asked": longer}),
    ):
        try:
            model.restore(evolve(good, arrays=arrays))
        except ValueError:
            assert_same_arrays(model.state(), good)
        else:
            raise AssertionError(f"a state with {what}: expected ValueError")


def _check_rate(case: _Case) -> None:
    """Check that a step at 1 / 1000 of the learning rate moves parameters 1 / 1000 as far, in this step only."""
    model = case.make()
    batch, before = _batch(case, model), model.state()
    steps = []
    for rate in (0.001, 1.0):
        model.restore(before)
        model.update(evolve(batch, rate=rate))
        after = model.state().arrays
        moved = [after[name] - array for name, array in before.arrays.items() if not name.startswith("optimizer.")]
        steps.append(float(np.sqrt(sum(np.square(change, dtype=np.float64).sum() for change in moved))))
    part, whole = steps
    assert abs(part / whole - 0.001) < 2e-4, f"expected a step of {whole / 1000} at a thousandth of it, got {part}"


def _check_too_long_traces(case: _Case) -> None:
    if case.too_long is None:
        return
    model = case.make()
    good = _batch(case, model)
    before = model.state()
    long = _trace(case.too_long, Completion("long", case.prompts[0][-1].content, "stop", "by hand"))
    report = model.update(TrainingBatch((long, long), (1.0, 1.0)))
    assert (report.tokens, report.dropped) == (0, 2), f"expected nothing trained and 2 dropped, got {report!r}"
    assert_same_arrays(model.state(), before)
    mixed = model.update(TrainingBatch((*good.traces, long), (*good.weights, 1.0)))
    clean = case.make().update(good)
    assert mixed == evolve(clean, dropped=1), f"expected {clean!r} and 1 dropped, got {mixed!r}"


def _check_loss(case: _Case) -> None:
    model = case.make()
    batch = _batch(case, model)
    known = [(t.completion.log_probabilities, w) for t, w in zip(batch.traces, batch.weights, strict=True)]
    report = model.update(batch)
    if any(values is None for values, _ in known):
        return
    expected = -sum(weight * sum(values or ()) for values, weight in known) / report.tokens
    assert abs(report.loss - expected) < case.tolerance, (
        f"expected the weighted mean negative log-likelihood of the generated tokens, {expected}, got {report.loss}"
    )
    assert report.tokens == sum(len(values or ()) for values, _ in known), "generated tokens are trained, no others"


def _check_clip_and_divergence(case: _Case) -> None:
    batch = _batch(case, case.make())
    if any(trace.completion.log_probabilities is None for trace in batch.traces):
        return
    tokens = [len(trace.completion.log_probabilities or ()) for trace in batch.traces]
    expected = -sum(weight * count for weight, count in zip(batch.weights, tokens, strict=True)) / sum(tokens)
    found = case.make().update(evolve(batch, clip=0.2)).loss
    assert abs(found - expected) < case.tolerance, (
        f"as sampled every ratio is 1: expected a loss of {expected}, got {found}"
    )
    model = case.make()
    plain = case.make().update(batch).loss
    start = model.update(evolve(batch, kl=10.0)).loss
    assert abs(start - plain) < 10 * TOLERANCE, f"the base does not diverge from itself: {start} is not {plain}"
    model.update(batch)
    state = model.state()
    plain = model.update(batch).loss
    model.restore(state)
    apart = model.update(evolve(batch, kl=10.0)).loss
    assert apart > plain, f"once it has learned it diverges: expected a loss above {plain}, got {apart}"
    bare = [_trace(trace.messages, evolve(trace.completion, log_probabilities=None)) for trace in batch.traces]
    model.restore(state)
    try:
        model.update(evolve(batch, traces=tuple(bare), clip=0.2))
    except ValueError:
        assert_same_arrays(model.state(), state)
    else:
        raise AssertionError("ratios of traces without log-probabilities: expected ValueError")


def _check_ratios_and_normalization(case: _Case) -> None:
    """Check losses against the definitions of `Objective`: with ratios of 1, and in a second step with others."""
    first = case.make()
    batch = evolve(_batch(case, first), clip=1e-4, clip_high=10.0)
    if any(trace.completion.log_probabilities is None for trace in batch.traces):
        return
    weights, counts = batch.weights, [len(trace.completion.token_ids or ()) for trace in batch.traces]
    sums: dict[Normalization, float] = {
        "token": sum(weight * count for weight, count in zip(weights, counts, strict=True)) / sum(counts),
        "sequence": sum(weights) / len(weights),
        "constant": sum(weight * count for weight, count in zip(weights, counts, strict=True)) / (7 * len(weights)),
    }
    for name, expected in sums.items():
        report = case.make().update(evolve(batch, normalization=name, length=7))
        assert abs(report.loss + expected) < case.tolerance * max(1, abs(expected)), (
            f"normalization {name}: expected a loss of {-expected} where every ratio is 1, got {report.loss}"
        )
    first.update(batch)
    middle = first.state()
    losses: dict[Ratio, float] = {}
    ratios: tuple[Ratio, ...] = ("token", "sequence", "product")
    for ratio in ratios:
        first.restore(middle)
        report = first.update(evolve(batch, ratio=ratio, normalization="sequence"))
        losses[ratio] = report.loss
        assert report.approx_kl is not None and report.approx_kl > 0.0, "a policy that has learned has moved"
    # The geometric mean of ratios is at most their arithmetic mean, and equal where one token was sampled.
    assert losses["sequence"] >= losses["token"] - TOLERANCE, f"expected ratios of sequences, got {losses}"
    if max(counts) > 1:
        assert losses["product"] != losses["sequence"], "the product of several ratios is not their mean"
    batch = evolve(batch, ratio="product", normalization="sequence", clip_high=1e-4)
    first.restore(middle)
    assert first.update(batch).loss >= losses["product"] - TOLERANCE, "clipped closer above, no lower a loss"


def _check_scores(case: _Case) -> None:
    model, fresh = case.make(), case.make()
    texts = [prompt[-1].content for prompt in case.prompts]
    base = [fresh.log_probabilities(case.prompts[0], text, adapter=False) for text in texts]
    for text, values in zip(texts, base, strict=True):
        assert values and all(math.isfinite(value) and value <= TOLERANCE for value in values), (text, values)
    if _has(model, Sampler):
        compared = 0
        for request in case.requests():
            (completion,) = model.sample([request])
            own = completion.log_probabilities
            scores = model.log_probabilities(request.messages, completion.text)
            if own is not None and completion.finish_reason == "stop" and len(scores) == len(own):
                compared += 1
                assert abs(sum(scores) - sum(own)) < case.tolerance, f"scored {sum(scores)}, sampled at {sum(own)}"
        assert compared, "no completion ended and reads back as its own tokens: give other prompts or more tokens"
    if _has(model, Learner):
        before = [model.log_probabilities(case.prompts[0], text) for text in texts]
        model.update(_batch(case, model))
        state = model.state()
        after = [model.log_probabilities(case.prompts[0], text) for text in texts]
        assert after != before, "an update changes what the model finds likely"
        found = [model.log_probabilities(case.prompts[0], text, adapter=False) for text in texts]
        assert found == base, "without the adapter, the base as it was"
        assert [model.log_probabilities(case.prompts[0], text) for text in texts] == after, "and the adapter is back"
        assert_same_arrays(model.state(), state)


def _check_probe(case: _Case) -> None:
    model = case.make()
    found = model.activation_statistics(case.prompts)
    assert len(found) == model.info().layers, "as many records as the model says it has blocks"
    assert found and [each.layer for each in found] == list(range(len(found))), "one record for each block, in order"
    assert all(r.mean_square >= 0 and r.update_mean_square >= 0 for r in found), found
    twice = model.activation_statistics([*case.prompts, *case.prompts])
    for once, again in zip(found, twice, strict=True):
        assert np.isclose(once.mean_square, again.mean_square), "a mean over positions: prompts twice, the same mean"
        assert np.isclose(once.update_mean_square, again.update_mean_square)
    if _has(model, Learner):
        model.update(_batch(case, model))
        assert model.activation_statistics(case.prompts) == found, "the adapter is off while the blocks are probed"


def _check_hidden_states(case: _Case) -> None:
    model = case.make()
    prompt, text = case.prompts[0], "some words"
    base = model.hidden_states(prompt, text, adapter=False)
    assert base.ndim == 2 and base.dtype == np.float32 and np.isfinite(base).all(), "one finite state for each token"
    assert len(base) == len(model.log_probabilities(prompt, text)), "as many states as tokens are scored"
    assert np.array_equal(model.hidden_states(prompt, text, adapter=False), base), "the same call, the same states"
    if _has(model, Learner):
        model.update(_batch(case, model))
        assert not np.array_equal(model.hidden_states(prompt, text), base), "an update changes hidden states"
        assert np.array_equal(model.hidden_states(prompt, text, adapter=False), base), "but not those of the base"
