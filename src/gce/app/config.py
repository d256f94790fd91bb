"""Everything that decides what a run does, in one frozen record with the defaults of the default run."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Any, Literal, get_args

from attrs import evolve, field, fields, fields_dict, frozen

from gce.app.evaluation import MIN_COVERAGE
from gce.app.options import (
    ADAPTED_BLOCKS,
    BATCH,
    DECIMAL,
    DECIMAL_FROM_0,
    ITERATIONS,
    LEARNING_RATE,
    LENGTH_OF_RUN,
    MOST_ANSWERS,
    NAME,
    NAMES,
    PROBLEMS,
    PROBLEMS_FROM_0,
    RANK,
    REQUESTS,
    SAMPLES,
    SAMPLES_FROM_0,
    SECONDS,
    SEED,
    SHARE,
    SHARE_BELOW_1,
    SHOTS,
    TEMPERATURE,
    THREADS,
    TOKENS,
    UPDATES,
    Choice,
    Kind,
    refusal,
)
from gce.app.runners import AUTO, RUNNERS
from gce.domain.advantages import ALGORITHMS
from gce.domain.buffer import Weighting
from gce.domain.sampling import Policy
from gce.domain.targeting import Strategy
from gce.errors import BadInput

__all__ = [
    "RECIPES",
    "WARM_UP_PART",
    "Admission",
    "RunConfig",
    "from_plain",
    "kind_of",
    "parts_of_warm_up",
    "with_recipe",
]

Admission = Literal["verified", "reasoned", "all", "shuffled"]
Bootstrap = Literal["none", "few-shot"]
ExampleMaker = Literal["heuristic", "solver"]

WARM_UP_PART = 60
"""Steps of a warm-up that are lost at most where it is cut off."""


def parts_of_warm_up(steps: int) -> int:
    """The iterations that so many steps take."""
    return ceil(steps / WARM_UP_PART)


@frozen
class _Of:
    """A validator: values are of a kind, but for a default, which may be something else and stand for none."""

    kind: Kind
    or_none: bool = False

    def __call__(self, _config: Any, attribute: Any, value: Any) -> None:
        is_default = type(value) is type(attribute.default) and value == attribute.default
        if not (is_default or self.kind.takes(value) or (self.or_none and value is None)):
            raise ValueError(f"'{attribute.name}' must be {refusal(self.kind, value)}")


def kind_of(setting: str) -> Kind:
    """What values a setting may have; an option for it takes the same."""
    validator = fields_dict(RunConfig)[setting].validator
    assert isinstance(validator, _Of)
    return validator.kind


def _names(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _switch(_config: Any, attribute: Any, value: Any) -> None:
    if not isinstance(value, bool):
        raise ValueError(f"'{attribute.name}' must be true or false, got {value!r}")


def _by_tier(_config: Any, attribute: Any, value: Any) -> None:
    if value is None:
        return
    if not isinstance(value, Mapping) or not value:
        raise ValueError(f"'{attribute.name}' must be numbers of problems by tier, got {value!r}")
    for tier, count in value.items():
        if not NAME.takes(tier) or not PROBLEMS.takes(count):
            raise ValueError(f"'{attribute.name}' must have for each tier {refusal(PROBLEMS, count)} for {tier!r}")


@frozen(kw_only=True)
class RunConfig:
    """One training run."""

    task: str = field(default="scheduling", validator=_Of(NAME))
    preset: str = field(default="", validator=_Of(NAME))
    """Empty: the task's first preset."""
    model: str = field(default="gce-tiny", validator=_Of(NAME))
    recipe: str = field(default="gce", validator=_Of(NAME))
    seed: int = field(default=0, validator=_Of(SEED))
    device: str | None = field(default=None, validator=_Of(Choice(("cpu",))))
    """`cpu` forces the CPU; None takes the backend's default."""
    threads: int | None = field(default=None, validator=_Of(THREADS))
    """Threads of CPU work; None for one on each core."""

    runner: str = field(default=AUTO, validator=_Of(Choice(RUNNERS)))
    """Where programs are run that answers consist of: see `gce.app.runners`."""
    concurrency: int = field(default=8, validator=_Of(REQUESTS))
    """Requests to a server under way at a time."""
    timeout: float = field(default=300.0, validator=_Of(SECONDS))
    """Seconds that a server may take for one answer."""

    iterations: int = field(default=3, validator=_Of(ITERATIONS))
    """At most, after any warm-up; the three that follow may stop a run earlier."""
    until: float | None = field(default=None, validator=_Of(SHARE))
    """Stop once the mean accuracy on dev problems, over all tiers, reaches this."""
    minutes: float | None = field(default=None, validator=_Of(LENGTH_OF_RUN))
    """Begin no iteration that would, going by the last one, let the run with its final test exceed this."""
    patience: int | None = field(default=None, validator=_Of(ITERATIONS))
    """Stop after this many looks at dev problems in a row that found no better mean."""
    min_coverage: float = field(default=MIN_COVERAGE, validator=_Of(SHARE))
    """Share of an iteration's rollouts, and of evaluated answers, that must not fail; below it the run ends, and can be
    resumed."""
    problems: int = field(default=64, validator=_Of(PROBLEMS))
    """Problems sampled in an iteration, over all training tiers."""
    problems_by_tier: Mapping[str, int] | None = field(default=None, validator=_by_tier)
    """Fixed numbers by tier instead of a plan."""
    rollouts: int = field(default=8, validator=_Of(SAMPLES))
    """Samples of each problem (K)."""
    temperature: float = field(default=0.8, validator=_Of(TEMPERATURE))
    max_tokens: int | None = field(default=None, validator=_Of(TOKENS))
    """Generated tokens at most; None takes the task's."""
    pool: int | None = field(default=None, validator=_Of(PROBLEMS))
    """Revisit this many problems a tier in turn; None draws fresh ones each iteration."""
    sampling: Policy = field(default="adaptive", validator=_Of(Choice(get_args(Policy))))
    floor: float = field(default=0.25, validator=_Of(SHARE))
    """Share of an even split that every training tier gets at least."""
    second_wave: int = field(default=0, validator=_Of(SAMPLES_FROM_0))
    """Further rollouts an iteration for problems that are undecided, or unsolved, after the first wave."""

    admission: Admission = field(default="verified", validator=_Of(Choice(get_args(Admission))))
    """Which rollouts learning takes for right, when it admits traces and plans: those judged right; those of them whose
    written steps are all true; or, as controls, all, without deduplication and caps, or as many as were right after the
    verdicts were shuffled within each tier."""
    drop_solved: bool = field(default=False, validator=_switch)
    """Refuse traces of problems whose rollouts were all right."""
    per_problem: int | None = field(default=4, validator=_Of(SAMPLES, or_none=True))
    """Correct traces kept of one problem."""
    deduplicate: bool = field(default=True, validator=_switch)
    accumulate: bool = field(default=True, validator=_switch)
    """Whether traces of earlier iterations stay in the buffer."""
    weighting: Weighting = field(default="uniform-tier", validator=_Of(Choice(get_args(Weighting))))
    """How tiers share a batch."""

    updates: int = field(default=8, validator=_Of(UPDATES))
    """Optimizer steps an iteration."""
    reuse: float = field(default=2.0, validator=_Of(DECIMAL))
    """Passes over the buffer that one iteration may make at most: few traces are not learned by heart."""
    algorithm: str = field(default="raft", validator=_Of(Choice(tuple(ALGORITHMS))))
    """How rollouts become weights in the loss: see `gce.domain.advantages.ALGORITHMS`."""
    clip: float = field(default=0.2, validator=_Of(DECIMAL))
    """How far an importance ratio may go from 1, in the algorithms that have one."""
    kl: float = field(default=0.0, validator=_Of(DECIMAL_FROM_0))
    """Weight of the divergence from the base, which is the model with its adapter off."""
    negative: float = field(default=0.1, validator=_Of(SHARE))
    """In `weighted`: minus this is the weight of a wrong rollout."""
    restart: bool = field(default=False, validator=_switch)
    """Whether every iteration learns from the base again, as ReST-EM does, instead of going on; it then takes
    `updates` steps for each iteration so far."""
    epochs: int | None = field(default=None, validator=_Of(ITERATIONS))
    """Passes over the whole buffer an iteration, instead of `updates` drawn batches."""
    batch: int = field(default=16, validator=_Of(BATCH))
    """Traces in one optimizer step."""
    learning_rate: float = field(default=1e-3, validator=_Of(LEARNING_RATE))
    weight_decay: float = field(default=0.0, validator=_Of(DECIMAL_FROM_0))
    max_gradient_norm: float = field(default=1.0, validator=_Of(DECIMAL))
    rank: int = field(default=16, validator=_Of(RANK))
    scale: float = field(default=2.0, validator=_Of(DECIMAL))
    """Factor of the adapter's output (alpha / rank elsewhere)."""
    dropout: float = field(default=0.0, validator=_Of(SHARE_BELOW_1))
    """In updates only."""
    bootstrap: Bootstrap = field(default="none", validator=_Of(Choice(get_args(Bootstrap))))
    """few-shot: show worked examples to a tier's rollouts, and learn without them, until it gets on alone."""
    adapter: str = field(default="", validator=_Of(NAME))
    """A checkpoint of an earlier run, which this one begins with, blocks and optimizer included; empty for none."""
    warm_up: int = field(default=0, validator=_Of(UPDATES))
    """Optimizer steps on worked examples, of all tiers alike, before the first rollouts; 0 for none. They come in
    iterations of their own, of `WARM_UP_PART` steps at most, and end with a look at dev problems."""
    warm_up_also: tuple[str, ...] = field(default=(), validator=_Of(NAMES), converter=_names)
    """Further presets whose worked examples it learns, of their training tiers; a tier has its share of the steps,
    in which each of its examples is as likely as another, whatever its preset."""
    warm_up_rate: float | None = field(default=None, validator=_Of(LEARNING_RATE))
    """Learning rate at its beginning, from where it goes in a line to `learning_rate`; None stays there all along."""
    shots: int = field(default=3, validator=_Of(SHOTS))
    """Worked examples that are shown; up to twice as many a tier are worked out, to draw from or to warm up on."""
    examples: ExampleMaker = field(default="heuristic", validator=_Of(Choice(get_args(ExampleMaker))))
    """Who worked them out; a solver is an oracle, and a run that used it says so."""
    ladder: bool = field(default=False, validator=_switch)
    """Whether the rungs below the preset's tiers are sampled too, and each tier only once the one below it holds."""
    layers: int = field(default=4, validator=_Of(ADAPTED_BLOCKS))
    """Blocks that are adapted."""
    targeting: Strategy = field(default="probe", validator=_Of(Choice(get_args(Strategy))))
    """probe, last, random or all."""

    dev: int = field(default=40, validator=_Of(PROBLEMS_FROM_0))
    """Dev problems a tier, answered greedily during the run; 0 for none."""
    dev_every: int = field(default=1, validator=_Of(ITERATIONS))
    """Iterations between two looks at dev problems."""
    test: int = field(default=200, validator=_Of(PROBLEMS_FROM_0))
    """Test problems a tier, answered greedily before and after; 0 for none."""

    def __attrs_post_init__(self) -> None:
        asked = sum((self.problems_by_tier or {"": self.problems}).values()) * self.rollouts
        if asked > MOST_ANSWERS:
            raise ValueError(
                f"'problems' times 'rollouts' must be at most {MOST_ANSWERS:,} answers an iteration, got {asked:,}"
            )

    @property
    def last_iteration(self) -> int:
        """The number of the last iteration of a new run, those of the warm-up counted."""
        return parts_of_warm_up(self.warm_up) + self.iterations


RECIPES: Mapping[str, Mapping[str, Any]] = {
    "gce": {},
    "isopro": {
        "iterations": 6,
        "problems_by_tier": {"T0": 3, "T1": 3, "T2": 3, "T3": 3, "T4": 9},
        "rollouts": 4,
        "sampling": "uniform",
        "per_problem": None,
        "deduplicate": False,
        "weighting": "equal",
        "epochs": 1,
        "batch": 1,
        "learning_rate": 2e-4,
        "rank": 16,
        "layers": 8,
        "targeting": "last",
    },
}
"""Settings by name; `isopro` is the reference's: 84 rollouts an iteration, the whole buffer, the last 8 blocks."""
_IN_PLACE_OF = {"problems": "problems_by_tier", "updates": "epochs"}
"""Who gives the one does not want the recipe's other."""


def with_recipe(recipe: str, given: Mapping[str, Any]) -> RunConfig:
    """The recipe's settings, with those that were given in their place.

    Raises:
        BadInput: no such recipe, or a value out of range.
    """
    if recipe not in RECIPES:
        raise BadInput(f"no recipe {recipe!r}: choose one of {', '.join(RECIPES)}")
    try:
        settings = {**RECIPES[recipe], **{_IN_PLACE_OF[name]: None for name in given if name in _IN_PLACE_OF}, **given}
        return evolve(RunConfig(recipe=recipe), **settings)
    except (ValueError, TypeError) as error:
        raise BadInput(str(error.args[0] if error.args else error)) from error


def from_plain(data: Mapping[str, Any]) -> RunConfig:
    """A stored configuration; a setting that this version does not know is refused by name."""
    known = {attribute.name for attribute in fields(RunConfig)}
    unknown = sorted(set(data) - known)
    if unknown:
        raise BadInput(f"the run was made by another version: unknown settings {', '.join(unknown)}")
    try:
        return RunConfig(**data)
    except (ValueError, TypeError) as error:
        raise BadInput(f"the run's settings cannot be used: {error.args[0]}") from error
