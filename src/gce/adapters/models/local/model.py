"""A language model in this process: one that samples and scores, or one with all four capabilities.

Works on text, chat templates and domain records. Tokens and weights belong to an `Engine`, one for each backend.
Independent of tasks, verdicts and files.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Protocol

import numpy as np
from attrs import evolve

from gce.adapters.models.local.chat_format import ChatFormat
from gce.adapters.models.local.continuous_batching import Job, Rollout
from gce.adapters.models.local.hidden_state_cache import HiddenStates
from gce.adapters.models.local.token_sampling import Array
from gce.adapters.models.local.token_sequences import (
    Example,
    Scored,
    examples_of,
    normalized,
    step_metrics,
)
from gce.adapters.models.requests import all_different, cut_before, no_room, reply_after
from gce.adapters.system.process import trim_heap
from gce.domain.completions import Completion, SampleRequest
from gce.domain.learning import LayerActivation, ModelState, Objective, TrainingBatch, UpdateReport
from gce.domain.models import CAPABILITIES, Capability, ModelInfo
from gce.domain.problems import Message
from gce.errors import ModelError

__all__ = [
    "AdaptableEngine",
    "AdaptableLocalSampler",
    "Engine",
    "LocalModel",
    "LocalSampler",
    "RollOut",
    "SamplingEngine",
]


class RollOut(Protocol):
    """Samples jobs: all of a call, or with `whole` one share that `SamplingEngine.deal` made of them."""

    def __call__(self, jobs: Sequence[Job], *, whole: bool = False) -> Iterator[Rollout]:
        """Yield each rollout as soon as it is finished."""
        ...


_BASE_SCORES = 1 << 26
"""Maximum bytes of cached log-probabilities under the base."""


class SamplingEngine(Protocol):
    """A backend that samples and scores. Works on tokens, not text."""

    @property
    def blocks(self) -> int:
        """Number of transformer blocks."""
        ...

    @property
    def layers(self) -> tuple[int, ...]:
        """The adapted blocks."""
        ...

    @property
    def modules(self) -> tuple[str, ...]:
        """Full paths of the adapted linears."""
        ...

    @property
    def trainable_parameters(self) -> int:
        """Number of parameters in the adapter."""
        ...

    @property
    def total_parameters(self) -> int:
        """Number of parameters in base and adapter; a packed word of quantized weights counts once."""
        ...

    def digest(self) -> str:
        """Return a hash of base and adapter."""
        ...

    def sampler(self, stop: frozenset[int]) -> RollOut:
        """Return a sampler of the model in its current state; later updates do not affect it."""
        ...

    def deal(self, jobs: Sequence[Job]) -> list[list[int]]:
        """Return the places of jobs that a sampler computes together, independently of all others."""
        ...

    def scores(self, tokens: Sequence[int], start: int, *, adapter: bool) -> tuple[float, ...]:
        """Return the log-probabilities of the tokens from `start` on."""
        ...


class AdaptableEngine(SamplingEngine, Protocol):
    """A backend that samples and scores with a LoRA adapter on a frozen base."""

    def restore(self, state: ModelState) -> None:
        """Continue from `state`; if no block is adapted yet, adapt those of the state."""
        ...


class Engine(AdaptableEngine, Protocol):
    """A backend that learns too."""

    def attach(self, layers: Sequence[int]) -> None:
        """Adapt these blocks only, with a newly initialised adapter and optimizer."""
        ...

    def step(self, examples: Sequence[Example], objective: Objective, *, rate: float) -> tuple[float, float, Scored]:
        """Take one optimizer step at `rate` times the learning rate.

        Returns the loss before the step, the gradient norm before clipping, and the examples, in any order, with their
        log-probabilities before the step.
        """
        ...

    def state(self) -> ModelState:
        """Return a copy of adapter and optimizer."""
        ...

    def block_statistics(self, sequences: Iterable[Sequence[int]]) -> tuple[LayerActivation, ...]:
        """Return activation statistics of each block on token sequences, with the adapter off."""
        ...

    def hidden(self, tokens: Sequence[int], start: int, *, adapter: bool) -> Array:
        """Return (tokens from `start` on, width): what the head reads; logits where the head is no part of its own."""
        ...

    def clear_caches(self) -> None:
        """Free the memory of what can be computed again."""
        ...


class LocalSampler:
    """An engine with a tokenizer. Has `Sampler`, `Scorer` and `Dealing` of `gce.ports.model`."""

    capabilities: ClassVar[frozenset[Capability]] = frozenset({"sample", "score"})

    def __init__(
        self, engine: SamplingEngine, chat: ChatFormat, *, context: int | None, note: str = "", precision: str = ""
    ) -> None:
        """Make a model that converses in the format `chat`.

        `context` is the maximum number of tokens of a prompt and its completion together; None sets no limit. `note`
        describes a change to the model that its user may not expect. `precision` is that of the engine's sampling,
        where it can be chosen.
        """
        self.engine: SamplingEngine = engine
        self._context = context
        self._room = context or sys.maxsize
        self._note = note
        self._precision = precision
        self._chat = chat
        self._tokenizer = chat.tokenizer
        self._template = chat.template
        self._end = chat.end
        self._stop = chat.stop
        self._roll_out: RollOut | None = None

    def info(self) -> ModelInfo:
        """See `gce.ports.model.Model`. The identity is a SHA-256 of base, adapter and a changed chat template."""
        return ModelInfo(
            identity=self._identity(),
            capabilities=self.capabilities,
            parameters=self.engine.total_parameters,
            trainable_parameters=self.engine.trainable_parameters,
            layers=self.engine.blocks,
            adapted_layers=self.engine.layers,
            adapted_modules=self.engine.modules,
            context=self._context,
            note=self._note,
            precision=self._precision,
            template_date=self._template.day,
        )

    def prompt_tokens(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] = ()) -> tuple[int, ...]:
        """Return the conversation through the chat template, with the generation prompt."""
        return self._through_template(messages, tools, add_generation_prompt=True)

    def text_tokens(self, text: str, *, end: bool) -> tuple[int, ...]:
        """Return `text` as the model would generate it, with the end token if `end`."""
        return (*self._chat.tokens(text), *([self._end] if end else []))

    def opening_of(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] = ()) -> str:
        """See `gce.ports.model.Opening`."""
        return self._template.opening(messages, tools)

    def sample(self, requests: Sequence[SampleRequest]) -> Iterator[Completion]:
        """See `gce.ports.model.Sampler`. Updates during the iteration do not affect the completions."""
        return self.continued(requests, {})

    def continued(
        self, requests: Sequence[SampleRequest], begun: Mapping[str, tuple[int, ...]]
    ) -> Iterator[Completion]:
        """See `gce.ports.model.Continuing`."""
        return self._completions(*self._asked(requests, begun), self._sampler(), self._identity())

    def deal(self, requests: Sequence[SampleRequest]) -> list[list[SampleRequest]]:
        """See `gce.ports.model.Dealing`."""
        asked, too_long = self._asked(requests, {})
        shares = [[asked[place][0] for place in share] for share in self.engine.deal([job for _, job, _ in asked])]
        return [*shares, *([request] for request, _ in too_long)]

    def sample_share(self, share: Sequence[SampleRequest]) -> Iterator[Completion]:
        """See `gce.ports.model.Dealing`."""
        return self._completions(*self._asked(share, {}), self._sampler(), self._identity(), whole=True)

    def text_of(self, tokens: Sequence[int]) -> str:
        """See `gce.ports.model.Continuing`. Other special tokens stay visible, so that the text shows everything."""
        written = tokens[:-1] if tokens and tokens[-1] in self._stop else tokens
        return str(self._tokenizer.decode(list(written), skip_special_tokens=False))

    def log_probabilities(
        self, messages: Sequence[Message], continuation: str, *, adapter: bool = True
    ) -> tuple[float, ...]:
        """See `gce.ports.model.Scorer`. ModelError where the text is longer than the model's context."""
        tokens, start = self._conversation(messages, continuation)
        return self.engine.scores(tokens, start, adapter=adapter)

    def _conversation(self, messages: Sequence[Message], continuation: str) -> tuple[tuple[int, ...], int]:
        """Return the tokens of a prompt and its continuation, and the length of the prompt."""
        prompt, written = self.prompt_tokens(messages), self._reply_tokens(messages, continuation)
        length = len(prompt) + len(written)
        if length > self._room:
            raise ModelError(f"expected at most {self._room:,} tokens, the context of the model, got {length:,}")
        return (*prompt, *written), len(prompt)

    def _through_template(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], *, add_generation_prompt: bool
    ) -> tuple[int, ...]:
        text = self._template.render(messages, tools, add_generation_prompt=add_generation_prompt)
        return self._chat.tokens(text)

    def _reply_tokens(self, messages: Sequence[Message], text: str) -> tuple[int, ...]:
        """Return the tokens of a whole reply to the messages, after what their prompt begins of it."""
        return self.text_tokens(reply_after(self.opening_of(messages), text), end=True)

    def _identity(self) -> str:
        weights, changed = self.engine.digest(), self._template.digest
        return hashlib.sha256(f"{weights} asked by {changed}".encode()).hexdigest() if changed else weights

    def _sampler(self) -> RollOut:
        if self._roll_out is None:
            self._roll_out = self.engine.sampler(self._stop)
        return self._roll_out

    def _asked(
        self, requests: Sequence[SampleRequest], begun: Mapping[str, tuple[int, ...]]
    ) -> tuple[list[tuple[SampleRequest, Job, str]], list[tuple[SampleRequest, tuple[int, ...]]]]:
        """Return the requests with their jobs and what their prompts begin of the answers.

        And those whose prompts leave no room, with these prompts.
        """
        prompts: dict[tuple[Message, ...], tuple[tuple[int, ...], str]] = {}
        asked, too_long = [], []
        for request in all_different(requests):
            if request.messages not in prompts:
                prompts[request.messages] = self.prompt_tokens(request.messages), self.opening_of(request.messages)
            tokens, opening = prompts[request.messages]
            prompt = (*tokens, *begun.get(request.key, ()))
            room = self._room - len(prompt)
            if room < 1:
                too_long.append((request, prompt))
            else:
                limit = min(request.max_tokens, room)
                job = Job(prompt, request.seed, request.temperature, limit, self._ends(request))
                asked.append((request, job, "" if request.key in begun else opening))
        return asked, too_long

    def _completions(
        self,
        asked: Sequence[tuple[SampleRequest, Job, str]],
        too_long: Sequence[tuple[SampleRequest, tuple[int, ...]]],
        roll_out: RollOut,
        policy: str,
        *,
        whole: bool = False,
    ) -> Iterator[Completion]:
        for request, prompt in too_long:
            yield no_room(request, prompt, self._room, policy)
        for rollout in roll_out([job for _, job, _ in asked], whole=whole):
            request, job, opening = asked[rollout.job]
            yield self._completion(request, job.prompt, opening, rollout, policy)

    def _ends(self, request: SampleRequest) -> Callable[[Sequence[int]], bool] | None:
        """Return a test for tokens whose text contains one of the request's stop strings near its end."""
        if not request.stop:
            return None
        # A character takes at most four tokens: one for each byte.
        longest = 4 * max(map(len, request.stop)) + 1

        def ended(tokens: Sequence[int]) -> bool:
            tail = self._tokenizer.decode(list(tokens[-longest:]), skip_special_tokens=False)
            return any(stop in tail for stop in request.stop)

        return ended

    def _completion(
        self, request: SampleRequest, prompt: tuple[int, ...], opening: str, rollout: Rollout, policy: str
    ) -> Completion:
        return Completion(
            key=request.key,
            text=opening + cut_before(self.text_of(rollout.tokens), request.stop),
            finish_reason="stop" if rollout.stopped else "length",
            policy=policy,
            prompt_token_ids=prompt,
            token_ids=rollout.tokens,
            log_probabilities=rollout.log_probabilities,
            sampling_log_probabilities=rollout.sampling_log_probabilities,
        )


class AdaptableLocalSampler(LocalSampler):
    """One whose engine takes adapters. Has `Adaptable` of `gce.ports.model` too."""

    engine: AdaptableEngine

    def restore(self, state: ModelState) -> None:
        """See `gce.ports.model.Adaptable`."""
        self.engine.restore(state)
        self._roll_out = None


class LocalModel(AdaptableLocalSampler):
    """One whose engine learns. Has `Learner` and `Probe` of `gce.ports.model` too."""

    capabilities = CAPABILITIES
    engine: Engine

    def __init__(
        self, engine: Engine, chat: ChatFormat, *, context: int | None, note: str = "", precision: str = ""
    ) -> None:
        """See `LocalSampler`."""
        super().__init__(engine, chat, context=context, note=note, precision=precision)
        self._base_scores = HiddenStates(most_bytes=_BASE_SCORES)

    def attach(self, layers: Sequence[int]) -> None:
        """See `gce.ports.model.Probe`."""
        self.engine.attach(layers)
        self._roll_out = None

    def turn_tokens(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] = ()) -> tuple[int, ...]:
        """Return the last message as the chat template writes it after the prompt, up to its end token.

        Raises:
            ValueError: with that message, the template writes another prompt.
        """
        prompt = self.prompt_tokens(messages[:-1], tools)
        whole = self._through_template(messages, tools, add_generation_prompt=False)
        if whole[: len(prompt)] != prompt or self._end not in whole[len(prompt) :]:
            raise ValueError("the chat template does not tell the tokens of a turn that calls tools from its prompt")
        last = len(whole) - 1 - whole[::-1].index(self._end)
        return whole[len(prompt) : last + 1]

    def update(self, batch: TrainingBatch) -> UpdateReport:
        """See `gce.ports.model.Learner`."""
        self._roll_out = None  # Its merged weights are outdated.
        if not self.engine.layers:
            raise ModelError("expected an adapter before the first update: call attach(layers)")
        examples = [
            example
            for trace, weight in zip(batch.traces, batch.weights, strict=True)
            for example in examples_of(trace, weight, self, clip=batch.clip is not None)
        ]
        fitting = [example for example in examples if len(example.tokens) <= self._room]
        trained = sum(example.trained for example in fitting)
        dropped = len(examples) - len(fitting)
        if not trained:
            return UpdateReport(loss=0.0, tokens=0, gradient_norm=0.0, dropped=dropped, rate=batch.rate)
        examples = normalized([example for example in fitting if example.trained], batch)
        loss, norm, scores = self.engine.step(self._with_base(examples, batch), batch, rate=batch.rate)
        return UpdateReport(loss, trained, norm, dropped, batch.rate, **step_metrics(batch, scores))

    def state(self) -> ModelState:
        """See `gce.ports.model.Learner`."""
        return self.engine.state()

    def activation_statistics(self, prompts: Iterable[Sequence[Message]]) -> tuple[LayerActivation, ...]:
        """See `gce.ports.model.Probe`."""
        return self.engine.block_statistics(self.prompt_tokens(messages)[: self._room] for messages in prompts)

    def hidden_states(self, messages: Sequence[Message], continuation: str, *, adapter: bool = True) -> Array:
        """See `gce.ports.model.Embedder`."""
        tokens, start = self._conversation(messages, continuation)
        return self.engine.hidden(tokens, start, adapter=adapter)

    def clear_caches(self) -> None:
        """See `gce.ports.model.Caching`."""
        self._roll_out = None
        self._base_scores = HiddenStates(most_bytes=_BASE_SCORES)
        self.engine.clear_caches()
        trim_heap()

    def _with_base(self, examples: Sequence[Example], objective: Objective) -> list[Example]:
        """Return the examples with log-probabilities under the base, if the objective needs them."""
        if not objective.kl:
            return list(examples)
        found = []
        for example in examples:
            place = (example.start, *example.tokens)
            scores = self._base_scores.get(place)
            if scores is None:
                scores = np.array(self.engine.scores(example.tokens, example.start, adapter=False))
                self._base_scores.put(place, scores)
            found.append(evolve(example, base=tuple(scores.tolist())))
        return found
