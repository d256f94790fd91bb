"""The records that cross a boundary: frozen, without behaviour beyond validation.

Knows nothing of models, solvers, files or clocks. Times named `seconds` are wall-clock seconds; log-probabilities
are natural logarithms; token ids are the backend's own integers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

import numpy as np
from attrs import field, frozen, validators

__all__ = [
    "Bar",
    "Chart",
    "Completion",
    "Evidence",
    "Execution",
    "Interval",
    "IterationRecord",
    "LayerActivation",
    "Message",
    "ModelState",
    "Outcome",
    "Problem",
    "SampleRequest",
    "Solution",
    "Step",
    "TierCount",
    "Trace",
    "TrainingBatch",
    "UpdateReport",
    "Verdict",
    "Violation",
]

Role = Literal["system", "user", "assistant"]
Split = Literal["train", "dev", "test"]
FinishReason = Literal["stop", "length", "context", "error"]
Status = Literal["right", "wrong", "unreadable", "failed"]
OutcomeStatus = Literal[
    "returned",
    "raised",
    "unplain",
    "undefined",
    "unloadable",
    "cpu",
    "time",
    "ended",
    "babbled",
    "passed",
    "failed",
    "broken",
    "no-sandbox",
]
SolutionStatus = Literal["optimal", "feasible", "infeasible", "unknown"]

_in_unit_interval = validators.optional(validators.and_(validators.ge(0.0), validators.le(1.0)))


@frozen
class Message:
    """One turn of a conversation."""

    role: Role = field(validator=validators.in_(("system", "user", "assistant")))
    content: str


@frozen
class Problem:
    """One generated problem, complete: its instance, what the model is shown, and where it came from."""

    key: str
    """Unique within a run: `task/preset/split/tier/index`."""
    task: str
    tier: str
    split: Split = field(validator=validators.in_(("train", "dev", "test")))
    instance: Any
    """The task's own frozen record."""
    prompt: tuple[Message, ...]
    digest: str
    """Canonical hash of the instance: labels renamed, wording dropped. Equal digests mean the same problem."""
    facts: Mapping[str, float] = field(factory=dict)
    """Named numbers known of the problem (optimal makespan, ...). Never shown to the model."""


@frozen
class SampleRequest:
    """One rollout asked of a model."""

    key: str
    """Unique within one call of `sample`; its completion carries the same key."""
    messages: tuple[Message, ...]
    seed: int = field(validator=validators.ge(0))
    """Seeds this rollout alone: the same request in the same call gives the same tokens. In [0, 2**63)."""
    temperature: float = field(default=0.8, validator=validators.ge(0.0))
    """0 means greedy."""
    max_tokens: int = field(default=512, validator=validators.ge(1))
    """Generated tokens at most, the end token included."""
    stop: tuple[str, ...] = field(default=(), validator=validators.deep_iterable(validators.min_len(1)))
    """The text ends before the first of these, as if the model had ended it."""


@frozen
class Completion:
    """What a model wrote for one request. What a backend cannot tell is None."""

    key: str
    text: str
    """Decoded, without the end token."""
    finish_reason: FinishReason = field(validator=validators.in_(get_args(FinishReason)))
    """stop: the model ended it. length: the token limit did. context: the prompt leaves no room in the model's context,
    and nothing was written. error: the backend failed to answer."""
    policy: str
    """Names the weights that wrote it: a hash of base and adapter."""
    prompt_token_ids: tuple[int, ...] | None = None
    token_ids: tuple[int, ...] | None = None
    """Generated ids, the end token included where one was sampled."""
    log_probabilities: tuple[float, ...] | None = None
    """Of each generated token under the model at temperature 1."""
    sampling_log_probabilities: tuple[float, ...] | None = None
    """Of each generated token under the distribution sampled from."""
    prompt_tokens: int | None = field()
    """How many were read; by default as many as `prompt_token_ids`."""
    tokens: int | None = field()
    """How many were generated; by default as many as `token_ids`."""
    error: str = ""
    """In one sentence why there is no text, where the finish reason is `context` or `error`."""

    @prompt_tokens.default
    def _prompt_length(self) -> int | None:
        return None if self.prompt_token_ids is None else len(self.prompt_token_ids)

    @tokens.default
    def _length(self) -> int | None:
        return None if self.token_ids is None else len(self.token_ids)


@frozen
class Execution:
    """A program that is to be run apart from all else: what to call, or the tests that call it, and its limits."""

    source: str
    """Python, not trusted."""
    entry_point: str
    """The function that it has to define."""
    calls: tuple[str, ...] = ()
    """The arguments of each call as `plain_values.to_text` writes them: a list, or a tuple of it and of a dictionary of
    those that are passed by name."""
    tests: str = ""
    """In place of calls: Python that calls the entry point, also by the name `candidate`, and raises where it is wrong;
    where it defines `check`, that is called with it. Runs apart from the program, and sees plain values of it only."""
    preamble: str = ""
    """Python that is run before the program, and before the tests, in their modules."""
    seconds: int = field(default=2, validator=validators.ge(1))
    """Of processor time of one process. Of wall-clock time it may take ten times as long, on a busy machine."""
    memory: int = field(default=512 * 2**20, validator=validators.ge(2**26))
    """Bytes of address space of one process."""


@frozen
class Outcome:
    """What came of one call, or of the tests."""

    status: OutcomeStatus
    """returned: `text` is its value. raised: it is the exception. unplain: what was returned is no plain data.
    undefined: there is no such function. unloadable: the program is no Python, or raised as it was loaded. cpu, time: a
    limit was reached. ended: the process of the program came to an end. babbled: that process did not speak as it has
    to. passed, failed: so did the tests. broken: the tests themselves are at fault. no-sandbox: nothing was run."""
    text: str = ""


@frozen
class Evidence:
    """What came of an `Execution`."""

    outcomes: tuple[Outcome, ...]
    """One for each call, in order, up to the first that was the program's end; or one of the tests."""


@frozen
class Violation:
    """One reason why an answer is wrong, with the numbers that prove it."""

    kind: str
    """precedence, capacity, deadline, horizon, missing, unknown, duplicate, grammar, ... (the task lists its own)."""
    message: str
    """One sentence in plain English that says what is wrong, never what would be right."""
    jobs: tuple[str, ...] = ()
    """What the violation is about, by label."""
    found: float | None = None
    bound: float | None = None


@frozen
class Verdict:
    """One evaluator's judgement of one completion."""

    status: Status = field(validator=validators.in_(get_args(Status)))
    """right or wrong. unreadable: there is no one answer to be judged, which is the model's fault. failed: the
    evaluator, or what it needs, could not judge; see `gce.domain.outcomes`."""
    score: float | None = field(validator=_in_unit_interval)
    """In [0, 1]; None where judging failed."""
    evaluator: str
    version: str
    measures: Mapping[str, float] = field(factory=dict)
    violations: tuple[Violation, ...] = ()

    @property
    def right(self) -> bool:
        """Whether the answer was judged right."""
        return self.status == "right"


@frozen
class Step:
    """One step of written reasoning and what checking it found."""

    text: str
    status: Literal["true", "false", "unreadable"]
    reason: str = ""


@frozen
class Trace:
    """One rollout with its verdicts: what the replay buffer holds and the learner trains on."""

    key: str
    """The rollout's key, unique in a run."""
    problem: str
    """The problem's key."""
    tier: str
    iteration: int = field(validator=validators.ge(0))
    messages: tuple[Message, ...]
    """The conversation shown to the model, without its completion. Only the completion is trained on."""
    completion: Completion
    verdicts: tuple[Verdict, ...]
    digest: str
    """Equal for traces that teach the same: same problem, same reasoning up to whitespace."""


@frozen
class TrainingBatch:
    """Traces for one optimizer step, the weight of each in the loss, and what else the loss has.

    The loss is the mean over all trained tokens of -weight * log-probability. With `clip` it is that of PPO instead,
    -min(ratio * weight, ratio cut to [1 - clip, 1 + clip] * weight), where the ratio is the token's probability now
    over that at which it was sampled, both at temperature 1. `kl` times the KL divergence of the base from the policy
    is added, estimated at each trained token as exp(d) - d - 1 with d = log base - log policy; an estimate of the
    divergence where the tokens are the policy's own, and of how far it is on these tokens where they are older.

    Source: Schulman et al. (2017), Proximal Policy Optimization, equation 7; Schulman (2020), Approximating KL
    Divergence, estimator k3.
    """

    traces: tuple[Trace, ...] = field(validator=validators.min_len(1))
    weights: tuple[float, ...] = field()
    clip: float | None = field(default=None, validator=validators.optional(validators.gt(0.0)))
    """Needs traces with log-probabilities of every generated token."""
    kl: float = field(default=0.0, validator=validators.ge(0.0))
    rate: float = field(default=1.0, validator=validators.gt(0.0))
    """Factor on the learning rate in this step."""

    @weights.validator
    def _one_for_each(self, _attribute: Any, value: tuple[float, ...]) -> None:
        if len(value) != len(self.traces):
            raise ValueError(f"expected one weight for each of {len(self.traces)} traces, got {len(value)}")


@frozen
class UpdateReport:
    """What one optimizer step did."""

    loss: float
    """The batch's loss before the step: the weighted mean negative log-likelihood, in nats a token, where the batch has
    neither `clip` nor `kl`."""
    tokens: int
    """Trained tokens: generated ones only."""
    gradient_norm: float
    """Before clipping."""
    dropped: int = 0
    """Traces left out because they exceed the model's context."""


@frozen(eq=False)
class ModelState:
    """Adapter and optimizer as arrays by name, enough to continue a run to the same bytes."""

    arrays: Mapping[str, np.ndarray]
    """Names start with `adapter.` or `optimizer.`; full module paths follow."""
    settings: Mapping[str, Any] = field(factory=dict)
    """Plain data: layers adapted, rank, scale, keys ..."""


@frozen
class LayerActivation:
    """Activation statistics of one block over a set of prompts."""

    layer: int
    """Block index from the input, 0-based."""
    mean_square: float
    """Mean square of the block's output, over positions and channels."""
    update_mean_square: float
    """Mean square of (output - input): what the block itself adds to the residual stream."""


@frozen
class Solution:
    """What a solver found. Times in the instance's units."""

    status: SolutionStatus
    """`unknown` where time ran out without a schedule: never read as infeasible."""
    starts: Mapping[str, int] | None
    makespan: int | None
    lower_bound: int
    """Proven: no schedule ends earlier."""
    seconds: float = 0.0


@frozen
class Interval:
    """A share with its confidence interval."""

    n: int
    """Those that were judged, whatever was found; what failed is not among them."""
    correct: int
    low: float
    high: float
    unreadable: int = 0
    """Of `n`, those in which no answer could be read."""
    failed: int = 0
    """Further ones, which the sandbox, the server or the verifier failed to judge or to answer."""

    @property
    def coverage(self) -> float:
        """The share of all that were asked which did not fail; 1 where none was asked."""
        return self.n / (self.n + self.failed) if self.n + self.failed else 1.0

    @property
    def share(self) -> float:
        """The point estimate, 0 where n is 0."""
        return self.correct / self.n if self.n else 0.0


@frozen
class Bar:
    """One thing that takes time."""

    label: str
    start: float
    end: float
    limit: float | None = None
    """By when it has to end."""
    faulty: bool = False
    """Whether a violation names it."""


@frozen
class Chart:
    """An answer as bars over time, with what is wrong with it."""

    bars: tuple[Bar, ...]
    limit: float | None
    """By when all have to end."""
    faults: tuple[str, ...]
    """A sentence for each violation."""


@frozen
class TierCount:
    """Training rollouts of one tier in one iteration."""

    rollouts: int
    correct: int
    problems: int
    all_right: int
    """Problems whose rollouts were all right: nothing to learn."""
    all_wrong: int
    truncated: int
    """Rollouts that hit the token limit."""
    unparsed: int
    """Rollouts without one readable answer."""
    distinct: int
    """Distinct correct traces."""
    mean_tokens: float
    shown: int = 0
    """Rollouts whose prompt began with worked examples."""
    shown_correct: int = 0


@frozen
class IterationRecord:
    """One iteration of a run as it is printed and stored."""

    iteration: int
    tiers: Mapping[str, TierCount]
    buffer: Mapping[str, int]
    """Traces held, by tier, after admission."""
    admitted: int
    updates: int
    loss: float | None
    """Mean over the iteration's updates; None where there was none."""
    gradient_norm: float | None
    entropy: float | None
    """Mean negative log-probability of sampled tokens, nats a token."""
    dropped: int
    dev: Mapping[str, Interval] = field(factory=dict)
    """Greedy accuracy on dev problems by tier; empty where it was not evaluated."""
    seconds: Mapping[str, float] = field(factory=dict)
    """By stage: sample, verify, train, evaluate. Excluded from what must repeat."""
    failed: Mapping[str, int] = field(factory=dict)
    """By tier, rollouts that failed; they are not among those of `tiers`."""
