"""Everything that decides what a training run does: nested frozen records, whose defaults are the default run's.

Each setting says in its field's metadata what it decides, what it may be and which option it has; the command line, the
stored configuration, reports and docs/SETTINGS.md are made from that.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import ClassVar, Literal, get_args

from attrs import frozen

from gce.app.evaluation.scoring import COVERAGE_HELP, MIN_COVERAGE
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
    PROBLEMS_BY_TIER,
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
    SWITCH,
    TEMPERATURE,
    THREADS,
    TOKENS,
    UPDATES,
    Choice,
    ChoiceOrOwn,
    ChoiceOrShare,
)
from gce.app.settings.fields import Setting, section_of, setting, settings_in
from gce.app.wiring.evaluators import EVALUATORS, VERIFIER
from gce.app.wiring.executors import EXECUTORS, LOCAL
from gce.app.wiring.sandboxes import AUTO, RUNNER_HELP, RUNNERS
from gce.app.wiring.tasks import TASK_HELP
from gce.domain.algorithms import ALGORITHMS
from gce.domain.buffer import Weighting
from gce.domain.curriculum import Policy
from gce.domain.layer_selection import Strategy
from gce.domain.strategies import STRATEGIES
from gce.domain.strategies.single_turn import ZERO_SHOT
from gce.errors import SettingError

__all__ = [
    "ADMISSION",
    "WARM_UP_PART",
    "BufferSettings",
    "CurriculumSettings",
    "DemonstrationSettings",
    "EvaluationSettings",
    "ExecutorSettings",
    "LoraSettings",
    "ModelSettings",
    "ObjectiveSettings",
    "OptimizerSettings",
    "RolloutSettings",
    "StoppingSettings",
    "TrainSettings",
    "all_settings",
    "parts_of_warm_up",
]

ADMISSION = ChoiceOrShare(("verified", "reasoned", "all", "shuffled"), "top:")
"""What `buffer.admission` may be."""
Bootstrap = Literal["none", "few-shot"]
ExampleMaker = Literal["heuristic", "solver"]

WARM_UP_PART = 60
"""Steps of a warm-up that are lost at most where it is cut off."""


def parts_of_warm_up(steps: int) -> int:
    """The iterations that so many steps take."""
    return ceil(steps / WARM_UP_PART)


@frozen(kw_only=True)
class ModelSettings:
    """Which model is trained, and how it is reached."""

    section: ClassVar = "model"
    name: str = setting(
        "",
        NAME,
        "name, file, directory, URL or module:FACTORY of the model; gce models lists the kinds (default: gce-tiny for "
        "scheduling, the only task that it knows, smollm2 for all others)",
        flag="--model",
        common=True,
    )
    adapter: str = setting(
        "",
        NAME,
        "checkpoint of an earlier run to begin with, its blocks, rank and optimizer included; keep it for --resume",
        flag="--adapter",
    )
    device: str | None = setting(
        None, Choice(("cpu",)), "device of a local model: cpu forces the CPU (default: the backend's)", flag="--device"
    )
    threads: int | None = setting(
        None, THREADS, "threads of CPU work (default: one for each core)", flag="--threads", unit="threads"
    )
    concurrency: int = setting(8, REQUESTS, "requests to a server that are under way at a time", unit="requests")
    timeout: float = setting(300.0, SECONDS, "time that a server may take for one answer", unit="seconds")


@frozen(kw_only=True)
class LoraSettings:
    """The adapter: its shape and place."""

    section: ClassVar = "lora"
    rank: int = setting(16, RANK, "LoRA rank", flag="--rank")
    scale: float = setting(2.0, DECIMAL, "factor of the adapter's output (alpha / rank elsewhere)")
    dropout: float = setting(0.0, SHARE_BELOW_1, "LoRA dropout, in updates only", unit="share")
    layers: int = setting(4, ADAPTED_BLOCKS, "transformer blocks that are adapted", flag="--layers", unit="blocks")
    targeting: Strategy = setting(
        "probe", Choice(get_args(Strategy)), "how the adapted blocks are chosen", flag="--targeting"
    )


@frozen(kw_only=True)
class OptimizerSettings:
    """AdamW, and how many steps it takes on which batches."""

    section: ClassVar = "optimizer"
    learning_rate: float = setting(1e-3, LEARNING_RATE, "AdamW learning rate", flag="--learning-rate", common=True)
    weight_decay: float = setting(0.0, DECIMAL_FROM_0, "AdamW weight decay")
    max_gradient_norm: float = setting(1.0, DECIMAL, "norm to which gradients are clipped")
    batch: int = setting(16, BATCH, "traces in one optimizer step", flag="--batch", unit="traces")
    updates: int = setting(8, UPDATES, "optimizer steps in one iteration", flag="--updates", unit="steps")
    reuse: float = setting(
        2.0, DECIMAL, "passes over the buffer that one iteration may make at most", flag="--reuse", unit="passes"
    )
    epochs: int | None = setting(
        None, ITERATIONS, "passes over the whole buffer in one iteration, in place of `updates` batches", unit="passes"
    )
    restart: bool = setting(
        False,
        SWITCH,
        "learn from the base again in every iteration (as ReST-EM), with `updates` steps for each iteration so far",
        flag="--restart",
    )


@frozen(kw_only=True)
class RolloutSettings:
    """What is sampled in an iteration."""

    section: ClassVar = "rollouts"
    problems: int = setting(
        64, PROBLEMS, "problems in one iteration, over all training tiers", flag="--problems", unit="problems"
    )
    problems_by_tier: Mapping[str, int] | None = setting(
        None, PROBLEMS_BY_TIER, "fixed numbers of problems by tier, in place of a plan", unit="problems"
    )
    samples: int = setting(8, SAMPLES, "rollouts of each problem (K)", flag="--rollouts", common=True, unit="rollouts")
    temperature: float = setting(
        0.8, TEMPERATURE, "sampling temperature of rollouts", flag="--temperature", common=True
    )
    max_tokens: int | None = setting(
        None, TOKENS, "maximum tokens of a completion (default: the task's)", flag="--max-tokens", unit="tokens"
    )
    second_wave: int = setting(
        0,
        SAMPLES_FROM_0,
        "further rollouts in one iteration, for problems with mixed outcomes or none right after the first wave",
        flag="--second-wave",
        unit="rollouts",
    )
    strategy: str = setting(
        ZERO_SHOT.name,
        ChoiceOrOwn(tuple(STRATEGIES)),
        "prompting strategy of rollouts, whose replies are all learned from: zero-shot, few-shot, multi-turn, simulate "
        "or your own as module:ATTR; evaluations during the run stay zero-shot",
        flag="--strategy",
        metavar="NAME",
        omit_default=True,
    )


@frozen(kw_only=True)
class CurriculumSettings:
    """Which training problems are drawn."""

    section: ClassVar = "curriculum"
    sampling: Policy = setting(
        "adaptive", Choice(get_args(Policy)), "how problems are shared among tiers", flag="--sampling"
    )
    floor: float = setting(0.25, SHARE, "share of an even split that every training tier gets at least", unit="share")
    pool: int | None = setting(
        None,
        PROBLEMS,
        "size of a fixed set of problems in each tier that is revisited (default: fresh ones each time)",
        flag="--pool",
        unit="problems",
    )
    ladder: bool = setting(
        False,
        SWITCH,
        "start with the levels below the preset's tiers, and go to the next one once a tenth is right",
        flag="--ladder",
    )


@frozen(kw_only=True)
class BufferSettings:
    """Which traces enter the replay buffer, and how they are drawn from it."""

    section: ClassVar = "buffer"
    admission: str = setting(
        "verified",
        ADMISSION,
        "which rollouts are positives: verified (a reward of at least the task's admit_at), those of them whose "
        "written steps are all true (reasoned), the best share of each problem's rollouts by reward (top:0.25), or, as "
        "controls, all of them, or as many after rewards were permuted within each tier (shuffled)",
        flag="--admission",
        metavar="NAME",
    )
    drop_solved: bool = setting(
        False, SWITCH, "refuse traces of problems whose rollouts were all right", flag="--drop-solved"
    )
    per_problem: int | None = setting(
        4, SAMPLES, "right traces kept of one problem at most", flag="--per-problem", unit="traces", or_none=True
    )
    deduplicate: bool = setting(True, SWITCH, "keep one of several equal traces")
    accumulate: bool = setting(True, SWITCH, "keep traces of earlier iterations")
    weighting: Weighting = setting(
        "uniform-tier", Choice(get_args(Weighting)), "how tiers share a batch", flag="--weighting"
    )


@frozen(kw_only=True)
class ObjectiveSettings:
    """The loss: how rollouts become weights in it."""

    section: ClassVar = "objective"
    algorithm: str = setting(
        "raft",
        ChoiceOrOwn(tuple(ALGORITHMS)),
        f"algorithm that turns rollouts into weights in the loss: {', '.join(ALGORITHMS)}, or your own as module:ATTR",
        flag="--algorithm",
        metavar="NAME",
    )
    clip: float = setting(
        0.2, DECIMAL, "how far importance ratios may go from 1; not in raft and weighted", flag="--clip"
    )
    kl: float = setting(
        0.0,
        DECIMAL_FROM_0,
        "weight of the KL divergence from the base, which is the model without adapter",
        flag="--kl",
    )
    negative: float = setting(
        0.1, SHARE, "in the algorithm weighted: minus this is the weight of a wrong rollout", flag="--negative"
    )


@frozen(kw_only=True)
class DemonstrationSettings:
    """Demonstrations that a weak model begins with: shown as few-shot examples, or learned in an SFT warm-up."""

    section: ClassVar = "demonstrations"
    bootstrap: Bootstrap = setting(
        "none",
        Choice(get_args(Bootstrap)),
        "few-shot: show demonstrations to a tier's rollouts, and learn without them, until it gets on alone",
        flag="--bootstrap",
        common=True,
    )
    shots: int = setting(
        3,
        SHOTS,
        "demonstrations that are shown; up to twice as many in each tier to draw from, or to warm up on",
        flag="--shots",
        unit="demonstrations",
    )
    examples: ExampleMaker = setting(
        "heuristic",
        Choice(get_args(ExampleMaker)),
        "what works out demonstrations; a solver is an oracle, and the result says so",
        flag="--examples",
    )
    warm_up: int = setting(
        0,
        UPDATES,
        f"optimizer steps of an SFT warm-up on demonstrations, before the first rollouts; each {WARM_UP_PART} are an "
        "iteration",
        flag="--warm-up",
        unit="steps",
    )
    warm_up_also: tuple[str, ...] = setting(
        (),
        NAMES,
        "further presets whose demonstrations the warm-up learns",
        flag="--warm-up-also",
        metavar="PRESET,PRESET",
        converter=lambda value: tuple(value) if isinstance(value, list) else value,
    )
    warm_up_rate: float | None = setting(
        None,
        LEARNING_RATE,
        "learning rate at the beginning of the warm-up, from where it goes in a line to that of AdamW (default: that)",
        flag="--warm-up-rate",
    )


@frozen(kw_only=True)
class StoppingSettings:
    """When a run ends; these alone may be others where it is resumed."""

    section: ClassVar = "stopping"
    iterations: int = setting(
        3,
        ITERATIONS,
        "iterations of sampling and learning at most, after any warm-up",
        flag="--iterations",
        common=True,
        unit="iterations",
    )
    until: float | None = setting(
        None,
        SHARE,
        "mean accuracy on dev problems, over all tiers, at which to stop, as 0.9",
        flag="--until",
        unit="share",
    )
    minutes: float | None = setting(
        None,
        LENGTH_OF_RUN,
        "time that the run may take, its final test included",
        flag="--minutes",
        common=True,
        unit="minutes",
    )
    patience: int | None = setting(
        None, ITERATIONS, "evaluations on dev problems without a gain after which to stop", flag="--patience"
    )
    min_coverage: float = setting(MIN_COVERAGE, SHARE, COVERAGE_HELP, flag="--min-coverage", unit="share")


@frozen(kw_only=True)
class EvaluationSettings:
    """Greedy accuracy during the run, before and after."""

    section: ClassVar = "evaluation"
    dev: int = setting(
        40,
        PROBLEMS_FROM_0,
        "dev problems of each tier, evaluated during the run; 0 for none",
        flag="--dev",
        unit="problems",
    )
    dev_every: int = setting(
        1, ITERATIONS, "iterations between two evaluations on dev problems", flag="--dev-every", unit="iterations"
    )
    test: int = setting(
        200,
        PROBLEMS_FROM_0,
        "test problems of each tier, evaluated before and after; 0 for none",
        flag="--test",
        common=True,
        unit="problems",
    )


@frozen(kw_only=True)
class ExecutorSettings:
    """Where work beside the model's is done."""

    section: ClassVar = "executor"
    runner: str = setting(AUTO, Choice(RUNNERS), RUNNER_HELP, flag="--runner")
    judges: int = setting(
        1,
        THREADS,
        "processes that judge answers, for verifiers that take long; 1 is the process of the run",
        flag="--judges",
        unit="processes",
        omit_default=True,
    )
    kind: str = setting(
        LOCAL,
        ChoiceOrOwn(tuple(EXECUTORS)),
        "what judges answers: local, or your own as module:ATTR, which is called with the number of judges",
        flag="--executor",
        metavar="NAME",
        omit_default=True,
    )


@frozen(kw_only=True)
class TrainSettings:
    """One training run.

    Raises:
        SettingError: a value out of range, which names the setting.
    """

    section: ClassVar = ""
    task: str = setting("scheduling", NAME, TASK_HELP, flag="--task", common=True, metavar="NAME")
    preset: str = setting(
        "",
        NAME,
        "set of tiers (default: the task's first); of scheduling: grounded, paper, larger, paper-larger",
        flag="--preset",
        common=True,
    )
    recipe: str = setting(
        "gce", NAME, "recipe that the other settings' defaults come from: gce or isopro", flag="--recipe"
    )
    seed: int = setting(0, SEED, "seed of problems, rollouts, batches and adapter", flag="--seed", common=True)
    evaluator: str = setting(
        VERIFIER,
        ChoiceOrOwn(tuple(EVALUATORS)),
        f"who judges answers: {', '.join(EVALUATORS)}, or your own as module:ATTR",
        flag="--evaluator",
        metavar="NAME",
        omit_default=True,
    )
    model: ModelSettings = section_of(ModelSettings)
    lora: LoraSettings = section_of(LoraSettings)
    optimizer: OptimizerSettings = section_of(OptimizerSettings)
    rollouts: RolloutSettings = section_of(RolloutSettings)
    curriculum: CurriculumSettings = section_of(CurriculumSettings)
    buffer: BufferSettings = section_of(BufferSettings)
    objective: ObjectiveSettings = section_of(ObjectiveSettings)
    demonstrations: DemonstrationSettings = section_of(DemonstrationSettings)
    stopping: StoppingSettings = section_of(StoppingSettings)
    evaluation: EvaluationSettings = section_of(EvaluationSettings)
    executor: ExecutorSettings = section_of(ExecutorSettings)

    def __attrs_post_init__(self) -> None:
        rollouts = self.rollouts
        asked = sum((rollouts.problems_by_tier or {"": rollouts.problems}).values()) * rollouts.samples
        if asked > MOST_ANSWERS:
            expected = f"at most {MOST_ANSWERS:,} answers an iteration"
            message = f"{{rollouts.problems}} times {{rollouts.samples}} must be {expected}, got {asked:,}"
            raise SettingError("rollouts.problems", expected, asked, message)

    @property
    def last_iteration(self) -> int:
        """The number of the last iteration of a new run, those of the warm-up counted."""
        return parts_of_warm_up(self.demonstrations.warm_up) + self.stopping.iterations


def all_settings() -> dict[str, Setting]:
    """Every setting by its dotted name."""
    return {each.name: each for each in settings_in(TrainSettings)}
