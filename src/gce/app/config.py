"""Everything that decides what a run does, in one frozen record with the defaults of the default run."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Any, Literal, get_args

from attrs import evolve, field, fields, frozen, validators

from gce.app.evaluation import MIN_COVERAGE
from gce.app.runners import AUTO, RUNNERS
from gce.domain.advantages import ALGORITHMS
from gce.domain.buffer import Weighting
from gce.domain.sampling import Policy
from gce.domain.targeting import Strategy
from gce.errors import BadInput

__all__ = ["RECIPES", "WARM_UP_PART", "Admission", "RunConfig", "from_plain", "parts_of_warm_up", "with_recipe"]

Admission = Literal["verified", "reasoned", "all", "shuffled"]
Bootstrap = Literal["none", "few-shot"]
ExampleMaker = Literal["heuristic", "solver"]

WARM_UP_PART = 60
"""Steps of a warm-up that are lost at most where it is cut off."""


def parts_of_warm_up(steps: int) -> int:
    """The iterations that so many steps take."""
    return ceil(steps / WARM_UP_PART)


_positive = validators.ge(1)
_positive_or_none: Any = validators.optional(_positive)
_unit = validators.and_(validators.ge(0.0), validators.le(1.0))


_rate = validators.and_(validators.gt(1e-12), validators.le(1e6))


def _different(_config: Any, attribute: Any, names: tuple[str, ...]) -> None:
    if len(set(names)) < len(names) or "" in names:
        raise ValueError(f"'{attribute.name}' must be different names: {', '.join(names)}")


def _one_of(names: Any) -> Any:
    return validators.in_(get_args(names))


@frozen(kw_only=True)
class RunConfig:
    """One training run."""

    task: str = "scheduling"
    preset: str = ""
    """Empty: the task's first preset."""
    model: str = "gce-tiny"
    recipe: str = "gce"
    seed: int = field(default=0, validator=validators.ge(0))
    device: str | None = field(default=None, validator=validators.in_((None, "cpu")))
    """`cpu` forces the CPU; None takes the backend's default."""
    threads: int | None = field(default=None, validator=_positive_or_none)
    """Threads of CPU work; None for one on each core."""

    runner: str = field(default=AUTO, validator=validators.in_(RUNNERS))
    """Where programs are run that answers consist of: see `gce.app.runners`."""
    concurrency: int = field(default=8, validator=_positive)
    """Requests to a server under way at a time."""
    timeout: float = field(default=300.0, validator=validators.gt(0.0))
    """Seconds that a server may take for one answer."""

    iterations: int = field(default=3, validator=_positive)
    """At most, after any warm-up; the three that follow may stop a run earlier."""
    until: float | None = field(default=None, validator=validators.optional(_unit))
    """Stop once the mean accuracy on dev problems, over all tiers, reaches this."""
    minutes: float | None = field(default=None, validator=validators.optional(validators.gt(0.0)))
    """Begin no iteration that would, going by the last one, let the run with its final test exceed this."""
    patience: int | None = field(default=None, validator=_positive_or_none)
    """Stop after this many looks at dev problems in a row that found no better mean."""
    min_coverage: float = field(default=MIN_COVERAGE, validator=_unit)
    """Share of an iteration's rollouts, and of evaluated answers, that must not fail; below it the run ends, and can be
    resumed."""
    problems: int = field(default=64, validator=_positive)
    """Problems sampled in an iteration, over all training tiers."""
    problems_by_tier: Mapping[str, int] | None = None
    """Fixed numbers by tier instead of a plan."""
    rollouts: int = field(default=8, validator=_positive)
    """Samples of each problem (K)."""
    temperature: float = field(default=0.8, validator=validators.ge(0.0))
    max_tokens: int | None = field(default=None, validator=_positive_or_none)
    """Generated tokens at most; None takes the task's."""
    pool: int | None = field(default=None, validator=_positive_or_none)
    """Revisit this many problems a tier in turn; None draws fresh ones each iteration."""
    sampling: Policy = field(default="adaptive", validator=_one_of(Policy))
    floor: float = field(default=0.25, validator=_unit)
    """Share of an even split that every training tier gets at least."""
    second_wave: int = field(default=0, validator=validators.ge(0))
    """Further rollouts an iteration for problems that are undecided, or unsolved, after the first wave."""

    admission: Admission = field(default="verified", validator=_one_of(Admission))
    """Which rollouts learning takes for right, when it admits traces and plans: those judged right; those of them whose
    written steps are all true; or, as controls, all, without deduplication and caps, or as many as were right after the
    verdicts were shuffled within each tier."""
    drop_solved: bool = False
    """Refuse traces of problems whose rollouts were all right."""
    per_problem: int | None = field(default=4, validator=_positive_or_none)
    """Correct traces kept of one problem."""
    deduplicate: bool = True
    accumulate: bool = True
    """Whether traces of earlier iterations stay in the buffer."""
    weighting: Weighting = field(default="uniform-tier", validator=_one_of(Weighting))
    """How tiers share a batch."""

    updates: int = field(default=8, validator=validators.ge(0))
    """Optimizer steps an iteration."""
    reuse: float = field(default=2.0, validator=validators.gt(0.0))
    """Passes over the buffer that one iteration may make at most: few traces are not learned by heart."""
    algorithm: str = field(default="raft", validator=validators.in_(tuple(ALGORITHMS)))
    """How rollouts become weights in the loss: see `gce.domain.advantages.ALGORITHMS`."""
    clip: float = field(default=0.2, validator=validators.gt(0.0))
    """How far an importance ratio may go from 1, in the algorithms that have one."""
    kl: float = field(default=0.0, validator=validators.ge(0.0))
    """Weight of the divergence from the base, which is the model with its adapter off."""
    negative: float = field(default=0.1, validator=_unit)
    """In `weighted`: minus this is the weight of a wrong rollout."""
    restart: bool = False
    """Whether every iteration learns from the base again, as ReST-EM does, instead of going on; it then takes
    `updates` steps for each iteration so far."""
    epochs: int | None = field(default=None, validator=_positive_or_none)
    """Passes over the whole buffer an iteration, instead of `updates` drawn batches."""
    batch: int = field(default=16, validator=_positive)
    """Traces in one optimizer step."""
    learning_rate: float = field(default=1e-3, validator=_rate)
    weight_decay: float = field(default=0.0, validator=validators.ge(0.0))
    max_gradient_norm: float = field(default=1.0, validator=validators.gt(0.0))
    rank: int = field(default=16, validator=_positive)
    scale: float = field(default=2.0, validator=validators.gt(0.0))
    """Factor of the adapter's output (alpha / rank elsewhere)."""
    dropout: float = field(default=0.0, validator=validators.and_(validators.ge(0.0), validators.lt(1.0)))
    """In updates only."""
    bootstrap: Bootstrap = field(default="none", validator=_one_of(Bootstrap))
    """few-shot: show worked examples to a tier's rollouts, and learn without them, until it gets on alone."""
    adapter: str = ""
    """A checkpoint of an earlier run, which this one begins with, blocks and optimizer included; empty for none."""
    warm_up: int = field(default=0, validator=validators.ge(0))
    """Optimizer steps on worked examples, of all tiers alike, before the first rollouts; 0 for none. They come in
    iterations of their own, of `WARM_UP_PART` steps at most, and end with a look at dev problems."""
    warm_up_also: tuple[str, ...] = field(default=(), converter=tuple, validator=_different)
    """Further presets whose worked examples it learns, of their training tiers; a tier has its share of the steps,
    in which each of its examples is as likely as another, whatever its preset."""
    warm_up_rate: float | None = field(default=None, validator=validators.optional(_rate))
    """Learning rate at its beginning, from where it goes in a line to `learning_rate`; None stays there all along."""
    shots: int = field(default=3, validator=_positive)
    """Worked examples that are shown; up to twice as many a tier are worked out, to draw from or to warm up on."""
    examples: ExampleMaker = field(default="heuristic", validator=_one_of(ExampleMaker))
    """Who worked them out; a solver is an oracle, and a run that used it says so."""
    ladder: bool = False
    """Whether the rungs below the preset's tiers are sampled too, and each tier only once the one below it holds."""
    layers: int = field(default=4, validator=_positive)
    """Blocks that are adapted."""
    targeting: Strategy = field(default="probe", validator=_one_of(Strategy))
    """probe, last, random or all."""

    dev: int = field(default=40, validator=validators.ge(0))
    """Dev problems a tier, answered greedily during the run; 0 for none."""
    dev_every: int = field(default=1, validator=_positive)
    """Iterations between two looks at dev problems."""
    test: int = field(default=200, validator=validators.ge(0))
    """Test problems a tier, answered greedily before and after; 0 for none."""

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
