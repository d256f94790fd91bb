"""The loss of a batch, and its gradient for a LoRA adapter on a Llama, with numpy alone.

The same loss as in `backends.mlx.learner`. Sequences are concatenated without padding. Sequences of a batch with the
same prompt share its computation, up to the blocks' keys and values, and their gradients are summed. Below the lowest
adapted block, hidden states are computed once per sequence and cached. Works on token ids, weights and arrays;
independent of traces and optimizers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from attrs import define, field, frozen

from gce.adapters.models.backends.mlx.blas import one_numpy_blas_thread
from gce.adapters.models.backends.numpy.llama import (
    Attend,
    LlamaWeights,
    LowRank,
    causal_attention,
    causal_attention_gradients,
    gate_opening,
    merge,
    normed,
    normed_gradient,
    rotary_waves,
    rotated,
    run_blocks,
    turned_back,
)
from gce.adapters.models.local.hidden_state_cache import HiddenStates
from gce.adapters.models.local.token_sampling import Array
from gce.adapters.models.local.token_sequences import Example, Scored, scored, token_arrays, token_losses
from gce.domain.learning import Objective

__all__ = ["NumpyLearner"]

_LOGIT_ROWS = 512
"""Maximum number of trained tokens whose logits are held at once."""

Gradients = dict[str, tuple[Array, Array]]
"""Gradients of `a` and `b`, by the name of each `LowRank`."""


class NumpyLearner:
    """Losses and gradients over one frozen base."""

    def __init__(self, weights: LlamaWeights, *, tokens_per_pass: int, threads: int) -> None:
        """Passes of less than `2 * tokens_per_pass` tokens run in parallel; the number of threads changes no result."""
        self._base = weights
        self._tokens = tokens_per_pass
        self._threads = threads
        self._kept = HiddenStates()
        self._kept_at = 0

    def loss_and_gradients(
        self, adapter: Sequence[LowRank], examples: Sequence[Example], objective: Objective
    ) -> tuple[float, Gradients, Scored]:
        """Return the loss, its gradient, and the log-probabilities; every example must train at least one token."""
        trained = sum(example.trained for example in examples)
        lowest = min(part.block for part in adapter)
        weights = merge(self._base, adapter)
        with one_numpy_blas_thread(), ThreadPoolExecutor(self._threads) as pool:
            entering = self._entering(examples, lowest, pool)
            passes = [
                _Pass(weights, adapter, lowest, _layout(group), trained, entering, objective)
                for group in _passes(_families(examples), self._tokens)
            ]
            total = 0.0
            gradients: Gradients = {}
            scores: Scored = []
            for loss, parts, found in pool.map(_Pass.run, passes):
                total += loss
                scores += found
                for name, (a, b) in parts.items():
                    gradients[name] = (gradients[name][0] + a, gradients[name][1] + b) if name in gradients else (a, b)
        return total, gradients, scores

    def _entering(
        self, examples: Sequence[Example], lowest: int, pool: ThreadPoolExecutor
    ) -> Mapping[tuple[int, ...], Array]:
        """Return the input of the lowest adapted block for the tokens of each example."""
        if lowest != self._kept_at:
            self._kept, self._kept_at = HiddenStates(), lowest
        if not lowest:
            return {_inputs(example): self._base.embedding[list(example.tokens[:-1])] for example in examples}
        read = {_inputs(example): example for example in examples}
        found = {inputs: kept for inputs in read if (kept := self._kept.get(inputs)) is not None}
        missing = [example for inputs, example in read.items() if inputs not in found]
        for states in pool.map(self._frozen_part, _families(missing)):
            for inputs, hidden in states.items():
                self._kept.put(inputs, hidden)
                found[inputs] = hidden
        return found

    def _frozen_part(self, family: _Family) -> dict[tuple[int, ...], Array]:
        """Return what enters the lowest adapted block, for each example of a family.

        The prompt is computed once. Each continuation is computed alone, so that its states do not depend on the rest
        of the batch.
        """
        before: list[tuple[Array, Array]] = []  # Keys and values of the prompt, by block.

        def in_prompt(_: int, queries: Array, keys: Array, values: Array) -> Array:
            before.append((keys, values))
            return causal_attention(queries, keys, values)[0]

        def after_it(block: int, queries: Array, keys: Array, values: Array) -> Array:
            prompt_keys, prompt_values = before[block]
            return causal_attention(
                queries, np.concatenate([prompt_keys, keys]), np.concatenate([prompt_values, values])
            )[0]

        start = family.examples[0].start
        prompt = self._frozen_blocks(family.examples[0].tokens[:start], 0, in_prompt)
        found = {}
        for example in family.examples:
            following = example.tokens[start:-1]
            parts = [prompt, self._frozen_blocks(following, start, after_it)] if following else [prompt]
            found[_inputs(example)] = np.concatenate(parts)
        return found

    def _frozen_blocks(self, tokens: Sequence[int], position: int, attend: Attend) -> Array:
        positions = position + np.arange(len(tokens))
        hidden = run_blocks(self._base, self._base.embedding[list(tokens)], positions, attend, stop=self._kept_at)
        assert hidden is not None
        return hidden


@frozen
class _Family:
    """Examples with the same prompt; a single example forms a family too."""

    examples: tuple[Example, ...]

    @property
    def size(self) -> int:
        """Number of input tokens, counting the prompt once."""
        prompt = self.examples[0].start
        return prompt + sum(len(example.tokens) - 1 - prompt for example in self.examples)


@frozen
class _Segment:
    """Consecutive rows of one sequence."""

    before: slice
    """Rows of the prompt before them; empty at a sequence's beginning."""
    own: slice
    last: int
    """Number of last rows that predict a token that may be trained."""


@define
class _Layout:
    """The rows of a pass: their input tokens, their order in sequences, and the tokens that they predict."""

    positions: list[Array] = field(factory=list)
    sources: list[tuple[tuple[int, ...], slice]] = field(factory=list)
    """For each segment, the inputs of one of its examples, and the slice of their tokens that belongs to it."""
    segments: list[_Segment] = field(factory=list)
    places: list[Array] = field(factory=list)
    """For each trained token, the index of the predicting row."""
    trained: list[Example] = field(factory=list)
    """The examples of those tokens, in order."""
    rows: int = 0
    predicting: int = 0

    def add(self, example: Example, start: int, stop: int, last: int, before: slice = slice(0, 0)) -> slice:
        """Add a segment with the example's tokens from `start` to `stop`; return its rows."""
        own = slice(self.rows, self.rows + stop - start)
        self.sources.append((_inputs(example), slice(start, stop)))
        self.positions.append(np.arange(start, stop))
        self.segments.append(_Segment(before, own, last))
        self.rows = own.stop
        self.predicting += last
        return own

    def train(self, example: Example, places: Array) -> None:
        """Train the example's tokens at these predicting rows."""
        self.places.append(places)
        self.trained.append(example)


def _inputs(example: Example) -> tuple[int, ...]:
    """Return what the states of an example's tokens depend on: the length of its prompt, and the tokens."""
    return (example.start, *example.tokens[:-1])


def _families(examples: Sequence[Example]) -> list[_Family]:
    """Group examples by prompt, long families first."""
    by_prompt: dict[tuple[int, ...], list[Example]] = defaultdict(list)
    for example in examples:
        by_prompt[example.tokens[: example.start]].append(example)
    return sorted((_Family(tuple(group)) for group in by_prompt.values()), key=lambda family: -family.size)


def _passes(families: Sequence[_Family], tokens: int) -> Iterator[list[_Family]]:
    """Divide into passes of `tokens` on average, each less than twice as many; split families that are larger alone."""
    parts = [part for family in families for part in _divided(family, tokens)]
    count = max(1, -(-sum(part.size for part in parts) // tokens))
    passes: list[list[_Family]] = [[] for _ in range(count)]
    sizes = [0] * count
    for part in parts:
        place = sizes.index(min(sizes))
        passes[place].append(part)
        sizes[place] += part.size
    return (group for group in passes if group)


def _divided(family: _Family, tokens: int) -> Iterator[_Family]:
    part: list[Example] = []
    for example in family.examples:
        if part and _Family((*part, example)).size > tokens:
            yield _Family(tuple(part))
            part = []
        part.append(example)
    yield _Family(tuple(part))


def _layout(families: Sequence[_Family]) -> _Layout:
    layout = _Layout()
    for family in families:
        example, *others = family.examples
        if not others:
            places = layout.predicting + example.offsets
            layout.add(example, 0, len(example.tokens) - 1, len(example.tokens) - example.start)
            layout.train(example, places)
            continue
        prompt, end = layout.add(example, 0, example.start, 1), np.array([layout.predicting - 1])
        for example in family.examples:
            following = len(example.tokens) - 1 - example.start
            places = np.concatenate([end, layout.predicting + np.arange(following)])
            if following:
                layout.add(example, example.start, len(example.tokens) - 1, following, before=prompt)
            layout.train(example, places[example.offsets])
    return layout


@frozen(eq=False)
class _Saved:
    """What a block's backward pass needs from its forward pass."""

    entered: tuple[Array, Array]
    queries: Array
    keys: Array
    values: Array
    attended: Array
    normalizers: list[Array]
    middle: tuple[Array, Array]
    gate_up: Array


@frozen(eq=False)
class _Pass:
    """One forward and backward pass."""

    weights: LlamaWeights
    adapter: Sequence[LowRank]
    lowest: int
    layout: _Layout
    trained: int
    """Number of trained tokens in the whole batch."""
    entering: Mapping[tuple[int, ...], Array]
    objective: Objective

    def run(self) -> tuple[float, Gradients, Scored]:
        """Return this pass's share of the loss and the gradients, and the log-probabilities."""
        layout, weights = self.layout, self.weights
        hidden = np.concatenate([self.entering[inputs][part] for inputs, part in layout.sources])
        waves = rotary_waves(weights, np.concatenate(layout.positions))
        top = len(weights.blocks) - 1
        saved = []
        for index in range(self.lowest, top + 1):
            hidden, kept = self._block(index, hidden, waves, only_last=index == top)
            saved.append(kept)
        loss, slope, found = self._loss(hidden)
        gradients: Gradients = {}
        for index in range(top, self.lowest - 1, -1):
            slope = self._block_gradients(index, slope, saved.pop(), waves, gradients, only_last=index == top)
        return loss, gradients, scored(layout.trained, found)

    def _block(self, index: int, hidden: Array, waves: tuple[Array, Array], *, only_last: bool) -> tuple[Array, _Saved]:
        """Run one block; with `only_last`, all but the last rows of each segment compute only keys and values."""
        weights, block = self.weights, self.weights.blocks[index]
        entered = normed(hidden, weights.epsilon)
        queries, keys, values = rotated(weights, entered[0] @ block.queries_keys_values, waves)
        attended, normalizers = [], []
        for segment in self.layout.segments:
            gathered, normalizer = causal_attention(
                queries[_asking(segment, only_last=only_last)], _read(keys, segment), _read(values, segment)
            )
            attended.append(gathered)
            normalizers.append(normalizer)
        together = np.concatenate(attended)
        hidden = (hidden[self._predicting()] if only_last else hidden) + together @ block.output
        middle = normed(hidden, weights.epsilon)
        gate_up = middle[0] @ block.gate_up
        gate, up = np.split(gate_up, 2, axis=1)
        opening = gate_opening(gate)
        opening *= gate
        opening *= up
        hidden += opening @ block.down
        return hidden, _Saved(entered, queries, keys, values, together, normalizers, middle, gate_up)

    def _predicting(self) -> Array:
        """Return the rows that predict trained tokens."""
        return np.concatenate([np.arange(s.own.stop - s.last, s.own.stop) for s in self.layout.segments])

    def _loss(self, hidden: Array) -> tuple[float, Array, Array]:
        """Return the pass's share of the loss, its gradient by the predicting rows, and the log-probabilities."""
        weights, examples = self.weights, self.layout.trained
        places = np.concatenate(self.layout.places)
        targets = np.concatenate([example.targets for example in examples])
        of_tokens = token_arrays(examples)
        states, scales = normed(hidden, weights.epsilon)
        slope, found = np.zeros_like(states), np.zeros(len(places), np.float32)
        loss = 0.0
        for part in self._parts(len(places)):
            logits = states[places[part]] @ weights.head
            logits -= logits.max(axis=1, keepdims=True)
            own = np.arange(len(logits)), targets[part]
            chosen = logits[own]
            np.exp(logits, out=logits)
            total = logits.sum(axis=1)
            found[part] = chosen - np.log(total)
            losses, pushes = token_losses(self.objective, found[part], *(array[part] for array in of_tokens))
            loss += float(np.sum(losses, dtype=np.float64)) / self.trained
            pushes = pushes / np.float32(self.trained)
            logits *= (pushes / total)[:, None]
            logits[own] -= pushes
            # One row may predict several tokens: the last row of a shared prompt.
            np.add.at(slope, places[part], logits @ weights.head.T)
        return loss, normed_gradient(slope, states, scales), found

    def _parts(self, tokens: int) -> Iterator[slice]:
        """Yield parts of the trained tokens of at most `_LOGIT_ROWS`; where ratios are of sequences, of whole ones."""
        whole = self.objective.clip is not None and self.objective.ratio != "token"
        sizes = [example.trained for example in self.layout.trained] if whole else [1] * tokens
        start = stop = 0
        for size in sizes:
            if stop > start and stop + size - start > _LOGIT_ROWS:
                yield slice(start, stop)
                start = stop
            stop += size
        yield slice(start, stop)

    def _block_gradients(
        self,
        index: int,
        slope: Array,
        saved: _Saved,
        waves: tuple[Array, Array],
        gradients: Gradients,
        *,
        only_last: bool,
    ) -> Array:
        """Return the gradient of the block's input, given that of its output; add the adapter's gradients."""
        block = self.weights.blocks[index]
        gate, up = np.split(saved.gate_up, 2, axis=1)
        opening = gate_opening(gate)
        activated = opening * gate
        self._adapter_gradients(index, "down", activated * up, slope, gradients)
        inner = slope @ block.down.T
        sides = np.empty_like(saved.gate_up)
        np.multiply(inner, activated, out=sides[:, up.shape[1] :])
        # The derivative of gate * opening is opening + gate * opening * (1 - opening).
        activated -= activated * opening
        activated += opening
        inner *= up
        np.multiply(inner, activated, out=sides[:, : up.shape[1]])
        self._adapter_gradients(index, "gate_up", saved.middle[0], sides, gradients)
        slope = slope + normed_gradient(sides @ block.gate_up.T, *saved.middle)

        self._adapter_gradients(index, "output", saved.attended, slope, gradients)
        mixed = self._attention_gradients(slope @ block.output.T, saved, waves, only_last=only_last)
        self._adapter_gradients(index, "queries_keys_values", saved.entered[0], mixed, gradients)
        if index == self.lowest:
            return slope  # No adapter below.
        below = normed_gradient(mixed @ block.queries_keys_values.T, *saved.entered)
        below[self._predicting() if only_last else slice(None)] += slope
        return below

    def _attention_gradients(
        self, slope: Array, saved: _Saved, waves: tuple[Array, Array], *, only_last: bool
    ) -> Array:
        """Return the gradients of queries, keys and values before RoPE, side by side."""
        queries, keys, values = (np.zeros(part.shape, np.float32) for part in (saved.queries, saved.keys, saved.values))
        done = 0
        for segment, normalizer in zip(self.layout.segments, saved.normalizers, strict=True):
            asking = _asking(segment, only_last=only_last)
            part = slice(done, done + asking.stop - asking.start)
            done = part.stop
            to_queries, to_keys, to_values = causal_attention_gradients(
                slope[part],
                saved.queries[asking],
                _read(saved.keys, segment),
                _read(saved.values, segment),
                saved.attended[part],
                normalizer,
            )
            queries[asking] = to_queries
            shared = segment.before.stop - segment.before.start
            for whole, found in ((keys, to_keys), (values, to_values)):
                whole[segment.before] += found[:shared]
                whole[segment.own] += found[shared:]
        turned = np.concatenate([queries, keys], axis=1).reshape(len(queries), -1)
        back = turned_back(turned, waves, self.weights.head_size)
        return np.concatenate([back, values.reshape(len(values), -1)], axis=1)

    def _adapter_gradients(self, index: int, matrix: str, inputs: Array, slope: Array, gradients: Gradients) -> None:
        """Add the gradients of the adapter on one matrix, given the matrix's input and the gradient of its output."""
        for part in self.adapter:
            if (part.block, part.matrix) == (index, matrix):
                own, scale = slope[:, part.columns], np.float32(part.scale)
                a = scale * (inputs.T @ (own @ part.b.T))
                b = scale * ((inputs @ part.first).T @ own)
                gradients[part.name] = (a if part.inputs is None else part.inputs[:, None] * a, b)


def _asking(segment: _Segment, *, only_last: bool) -> slice:
    return slice(segment.own.stop - segment.last, segment.own.stop) if only_last else segment.own


def _read(rows: Array, segment: _Segment) -> Array:
    """Return the rows that a segment attends to."""
    own = rows[segment.own]
    return own if segment.before.start == segment.before.stop else np.concatenate([rows[segment.before], own])
