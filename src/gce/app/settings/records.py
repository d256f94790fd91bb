"""Everything that decides what a training run does: nested frozen records, whose defaults are the default run's.

Each setting says in its field's metadata what it decides, what it may be and which option it has; the command line, the
stored configuration, reports and docs/SETTINGS.md are made from that.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from math import ceil
from typing import Any, ClassVar, Literal, get_args

from attrs import frozen

from gce.app.evaluation.scoring import COVERAGE_HELP, MIN_COVERAGE
from gce.app.options import (
    ADAPTED_BLOCKS,
    BATCH,
    DAY,
    DECIMAL,
    DECIMAL_FROM_0,
    ITERATIONS,
    ITERATIONS_FROM_0,
    LEARNERS,
    LEARNING_RATE,
    LENGTH_OF_RUN,
    MOST_ANSWERS,
    NAME,
    NAMES,
    PROBLEMS,
    PROBLEMS_BY_TIER,
    RANK,
    REQUESTS,
    SAMPLES,
    SAMPLES_FROM_0,
    SECONDS,
    SEED,
    SHARE,
    SHARE_BELOW_1,
    SHARES_BY_TIER,
    SHOTS,
    SWITCH,
    TEMPERATURE,
    TEMPLATE_ARGUMENTS,
    TEMPLATE_ARGUMENTS_HELP,
    TEMPLATE_DATE_HELP,
    TEMPLATE_HELP,
    THREADS,
    TOKENS,
    UPDATES,
    WEIGHTS,
    Choice,
    ChoiceOrOwn,
    ChoiceOrShare,
    json_text,
)
from gce.app.settings.evaluation import EvaluationSettings
from gce.app.settings.fields import Setting, section_of, setting, settings_in
from gce.app.wiring.evaluators import EVALUATORS, VERIFIER
from gce.app.wiring.executors import EXECUTORS, LOCAL
from gce.app.wiring.names import LISTED_BY
from gce.app.wiring.sandboxes import AUTO, RUNNER_HELP, RUNNERS
from gce.app.wiring.tasks import TASK_HELP
from gce.domain.algorithms import ALGORITHMS
from gce.domain.buffer import Weighting
from gce.domain.curriculum import Allocation, Policy
from gce.domain.evaluators.combination import RULES, Combination, Rule
from gce.domain.evaluators.judges import JUDGE
from gce.domain.evaluators.scores import SCORES
from gce.domain.governor import Governor
from gce.domain.layer_selection import ALL_LINEAR, Strategy
from gce.domain.models import FLOAT32, Precision
from gce.domain.prefix_values import Credit
from gce.domain.strategies import STRATEGIES
from gce.domain.strategies.single_turn import ZERO_SHOT
from gce.errors import SettingError

__all__ = [
    "ADMISSION",
    "ASYNC",
    "WARM_UP_PART",
    "BufferSettings",
    "CurriculumSettings",
    "DemonstrationSettings",
    "EvaluationSettings",
    "EvaluatorSettings",
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

CHANGES_REWARDS = ("reasoned", "all", "shuffled", "format", "random")
"""Admissions that do not take rewards as they were judged."""
ADMISSION = ChoiceOrShare(("verified", *CHANGES_REWARDS), "top:")
"""What `buffer.admission` may be."""
Bootstrap = Literal["none", "few-shot"]
ExampleMaker = Literal["heuristic", "solver"]

SYNC, ASYNC = "sync", "async"
"""Of `executor.schedule`."""
WARM_UP_PART = 60
"""Steps of a warm-up that are lost at most where it is cut off."""


def parts_of_warm_up(steps: int) -> int:
    """The iterations that so many steps take."""
    return ceil(steps / WARM_UP_PART)


def _as_tuple(value: Any) -> Any:
    """A list, as files and stored runs have it, as the tuple that settings hold; anything else as it is."""
    return tuple(value) if isinstance(value, list) else value


def _as_names(value: Any) -> Any:
    """The same of names, which a text may hold with commas between them."""
    names = value.split(",") if isinstance(value, str) else value
    stripped = isinstance(names, (list, tuple)) and all(isinstance(name, str) for name in names)
    return tuple(name.strip() for name in names) if stripped else names


@frozen(kw_only=True)
class ModelSettings:
    """The model to train, and how to reach it."""

    section: ClassVar = "model"
    name: str = setting(
        "",
        NAME,
        "name, file, directory, URL or module:FACTORY of the model; gce models lists the backends (default: gce-tiny "
        "for "
        "scheduling, the only task it was pretrained for; smollm2 for all others)",
        flag="--model",
        common=True,
    )
    adapter: str = setting(
        "",
        NAME,
        "checkpoint of an earlier run to start from, with its blocks, rank, scale, target modules and optimizer state, "
        "or the directory of a LoRA adapter that PEFT or TRL saved; keep it for --resume",
        flag="--adapter",
    )
    sampler: str = setting(
        "",
        NAME,
        "model of the same base that generates the rollouts with the adapter being trained, such as llama:FILE.gguf, "
        "or the URL of gce serve-policy, vLLM or SGLang, as http://HOST:PORT/v1; auto takes llama.cpp, if it is "
        "installed, for smollm2 and GGUF files in float32 and fewer than 8 rollouts per iteration, and else the model "
        "itself (default: the model itself)",
        flag="--sampler",
    )
    sampler_folder: str = setting(
        "",
        NAME,
        "folder in which --sampler http://... writes adapters for vLLM and SGLang; it must have the same path there",
        flag="--sampler-folder",
        omit_default=True,
    )
    sampler_difference_limit: float | None = setting(
        None,
        DECIMAL,
        "stop the run if log-probabilities of the same tokens in learner and --sampler differ by more on average, nats "
        "per token (default: no limit; they differ by about 0.01 in bfloat16)",
        flag="--sampler-difference-limit",
        unit="nats",
        omit_default=True,
    )
    precision: Precision = setting(
        FLOAT32,
        Choice(get_args(Precision)),
        "precision of matrix products in rollouts and tests on a CPU; training stays float32; auto takes bfloat16 if "
        "that decodes this model 1.2 times as fast or more, and the run keeps the choice (bfloat16 needs the extra hf)",
        flag="--precision",
        omit_default=True,
    )
    chat_template: str = setting("", NAME, TEMPLATE_HELP, flag="--chat-template", omit_default=True)
    chat_template_kwargs: str = setting(
        "",
        TEMPLATE_ARGUMENTS,
        TEMPLATE_ARGUMENTS_HELP,
        flag="--chat-template-kwargs",
        metavar="JSON",
        converter=json_text,
        omit_default=True,
    )
    template_date: str = setting(
        "", DAY, TEMPLATE_DATE_HELP, flag="--template-date", metavar="YYYY-MM-DD", omit_default=True
    )
    load_in_4bit: bool = setting(
        False,
        SWITCH,
        "quantize the base model's linears to 4 bits (NF4, QLoRA) with bitsandbytes; for hf: models",
        flag="--load-in-4bit",
        omit_default=True,
    )
    device: str | None = setting(
        None, Choice(("cpu",)), "device of a local model: cpu forces the CPU (default: the backend's)", flag="--device"
    )
    threads: int | None = setting(
        None, THREADS, "CPU threads (default: one per core)", flag="--threads", unit="threads"
    )
    concurrency: int = setting(8, REQUESTS, "concurrent requests to a server", unit="requests")
    timeout: float = setting(300.0, SECONDS, "maximum time to wait for one answer of a server", unit="seconds")


@frozen(kw_only=True)
class LoraSettings:
    """The LoRA adapter: its shape, and the blocks that it adapts."""

    section: ClassVar = "lora"
    rank: int = setting(16, RANK, "LoRA rank", flag="--rank")
    scale: float = setting(2.0, DECIMAL, "LoRA scale, the factor of the adapter's output (alpha / rank in PEFT)")
    dropout: float = setting(0.0, SHARE_BELOW_1, "LoRA dropout, applied only in optimizer steps", unit="share")
    layers: int = setting(4, ADAPTED_BLOCKS, "number of adapted transformer blocks", flag="--layers", unit="blocks")
    targeting: Strategy = setting(
        "probe", Choice(get_args(Strategy)), "how the adapted blocks are chosen", flag="--targeting"
    )
    target_modules: tuple[str, ...] = setting(
        (ALL_LINEAR,),
        NAMES,
        "linears that LoRA adapts in these blocks, as PEFT's target_modules: module names or the dotted ends of their "
        "paths, such as q_proj,v_proj or self_attn.q_proj; all-linear: all of them",
        flag="--target-modules",
        metavar="NAME,...",
        converter=_as_names,
        omit_default=True,
    )


@frozen(kw_only=True)
class OptimizerSettings:
    """AdamW, and the number and size of its steps."""

    section: ClassVar = "optimizer"
    learning_rate: float = setting(1e-3, LEARNING_RATE, "AdamW learning rate", flag="--learning-rate", common=True)
    weight_decay: float = setting(0.0, DECIMAL_FROM_0, "AdamW weight decay")
    max_gradient_norm: float = setting(1.0, DECIMAL, "maximum norm of gradients (gradient clipping)")
    batch: int = setting(16, BATCH, "batch size: traces per optimizer step", flag="--batch", unit="traces")
    updates: int = setting(8, UPDATES, "optimizer steps per iteration", flag="--updates", unit="steps")
    reuse: float = setting(
        2.0, DECIMAL, "maximum passes over the replay buffer per iteration", flag="--reuse", unit="passes"
    )
    epochs: int | None = setting(
        None,
        ITERATIONS,
        "passes over the whole replay buffer per iteration, instead of `updates` batches",
        unit="passes",
    )
    tokens_per_pass: int = setting(
        512,
        TOKENS,
        "maximum tokens, with padding, of a forward and backward pass; a batch takes as many passes as it needs "
        "(gradient accumulation)",
        flag="--tokens-per-pass",
        unit="tokens",
        omit_default=True,
    )
    gradient_checkpointing: bool = setting(
        False,
        SWITCH,
        "gradient checkpointing: compute activations again in the backward pass, which saves memory; for hf: models",
        flag="--gradient-checkpointing",
        omit_default=True,
    )
    bf16: bool = setting(
        False,
        SWITCH,
        "bfloat16 autocast (mixed precision) in optimizer steps; adapter and optimizer stay float32; for hf: models",
        flag="--bf16",
        omit_default=True,
    )
    learner_processes: int = setting(
        1,
        LEARNERS,
        "data-parallel processes of the learner (torch.distributed): one per GPU, or on a CPU with a share of the "
        "threads; for hf: models",
        flag="--learner-processes",
        unit="processes",
        omit_default=True,
    )
    restart: bool = setting(
        False,
        SWITCH,
        "train from the base model again in every iteration (as ReST-EM), with `updates` steps per iteration so far",
        flag="--restart",
    )


@frozen(kw_only=True)
class RolloutSettings:
    """What each iteration samples."""

    section: ClassVar = "rollouts"
    problems: int = setting(
        64,
        PROBLEMS,
        "problems per iteration, over all training tiers",
        flag="--problems",
        common=True,
        unit="problems",
    )
    problems_by_tier: Mapping[str, int] | None = setting(
        None, PROBLEMS_BY_TIER, "fixed number of problems by tier, instead of a sampling policy", unit="problems"
    )
    samples: int = setting(8, SAMPLES, "rollouts per problem (K)", flag="--rollouts", common=True, unit="rollouts")
    temperature: float = setting(
        0.8, TEMPERATURE, "sampling temperature of rollouts", flag="--temperature", common=True
    )
    max_tokens: int | None = setting(
        None,
        TOKENS,
        "maximum tokens of a completion (default: the task's)",
        flag="--max-tokens",
        common=True,
        unit="tokens",
    )
    second_wave: int = setting(
        0,
        SAMPLES_FROM_0,
        "additional rollouts per iteration, for problems with mixed outcomes or none right after the first wave",
        flag="--second-wave",
        unit="rollouts",
    )
    second_wave_by: Allocation = setting(
        "rewards",
        Choice(get_args(Allocation)),
        "how --second-wave is allocated: rewards (problems with mixed outcomes first), critic (in proportion to the "
        "variance p(1 - p) of the reward that a critic predicts from the answers to other problems)",
        flag="--second-wave-by",
        omit_default=True,
    )
    governor: Governor = setting(
        "fixed",
        Choice(get_args(Governor)),
        "fixed: the same number of rollouts for each problem; adaptive: no further rollouts of a problem once they can "
        "teach nothing, because the buffer has all right answers that it keeps of it or each was seen again, or, with "
        "group-based algorithms, because the first half of its rollouts has equal rewards",
        flag="--governor",
        omit_default=True,
    )
    early_stop: float = setting(
        0.0,
        SHARE,
        "stop rollouts that are half as long as the median of their tier and have a predicted reward below this; a "
        "critic predicts it, fitted to the first half of the iteration's rollouts of each problem (default: never)",
        flag="--early-stop",
        unit="reward",
        omit_default=True,
    )
    strategy: str = setting(
        ZERO_SHOT.name,
        ChoiceOrOwn(tuple(STRATEGIES), options=True, listed_by=LISTED_BY["strategy"]),
        "prompting strategy of rollouts; all replies in the conversation that ends with the answer are trained on, and "
        "evaluations during the run stay zero-shot",
        flag="--strategy",
        metavar="NAME",
        omit_default=True,
    )

    @property
    def first_wave(self) -> int:
        """Rollouts per iteration without those of a second wave."""
        return sum((self.problems_by_tier or {"": self.problems}).values()) * self.samples


@frozen(kw_only=True)
class CurriculumSettings:
    """Which training problems are drawn from which tier."""

    section: ClassVar = "curriculum"
    sampling: Policy = setting(
        "adaptive", Choice(get_args(Policy)), "curriculum: how problems are distributed over tiers", flag="--sampling"
    )
    floor: float = setting(0.25, SHARE, "minimum share of each training tier, relative to an even split", unit="share")
    pool: int | None = setting(
        None,
        PROBLEMS,
        "number of fixed problems per tier that are revisited (default: fresh problems every time)",
        flag="--pool",
        unit="problems",
    )
    ladder: bool = setting(
        False,
        SWITCH,
        "start with the easier curriculum levels below the preset's tiers; advance at a solve rate of 0.1",
        flag="--ladder",
    )


@frozen(kw_only=True)
class BufferSettings:
    """Which traces are admitted to the replay buffer, and how batches are drawn from it."""

    section: ClassVar = "buffer"
    admission: str = setting(
        "verified",
        ADMISSION,
        "which rollouts are admitted to the buffer: verified (a reward of at least the task's admit_at), reasoned "
        "(verified, and all written steps are true), top:0.25 (the best quarter by reward of each problem's rollouts, "
        "with --algorithm sft-top of all rollouts together), or a control: "
        "all (every rollout), shuffled (verified, after permuting rewards within each tier), format (every rollout "
        "whose answer can be read), random (rewards 0 or 1 by chance, as often as rollouts of the tier are right)",
        flag="--admission",
        metavar="NAME",
    )
    random_rates: Mapping[str, float] | None = setting(
        None,
        SHARES_BY_TIER,
        "share of rollouts that --admission random rewards, by tier (default: the pass rate of each wave)",
        unit="share",
        omit_default=True,
    )
    drop_solved: bool = setting(
        False, SWITCH, "do not admit traces of problems whose rollouts were all right", flag="--drop-solved"
    )
    per_problem: int | None = setting(
        4, SAMPLES, "maximum right traces kept per problem", flag="--per-problem", unit="traces", or_none=True
    )
    deduplicate: bool = setting(True, SWITCH, "keep only one of several equal traces")
    accumulate: bool = setting(True, SWITCH, "keep traces of earlier iterations")
    weighting: Weighting = setting(
        "uniform-tier",
        Choice(get_args(Weighting)),
        "how traces are weighted in a batch: tiers equally (uniform-tier), traces equally (equal), tiers by their "
        "failure rate (failure-rate), or traces by how far their reward was from a critic's prediction (surprise)",
        flag="--weighting",
    )


@frozen(kw_only=True)
class EvaluatorSettings:
    """Additional evaluators besides the one that judges answers."""

    section: ClassVar = "evaluators"
    teach: Mapping[str, float] | None = setting(
        None,
        WEIGHTS,
        f"evaluators whose scores make the reward, with their weights, such as verifier,steps=0.5: {VERIFIER}, "
        f"{', '.join(SCORES)}, the task's own (gce tasks TASK lists them), judge:MODEL for a model that grades "
        "answers, or module:ATTR; an answer that is not right has reward 0 (default: only the verifier)",
        flag="--evaluators",
        metavar="NAME[=WEIGHT],...",
        omit_default=True,
    )
    combine: Rule = setting(
        "sum",
        Choice(RULES),
        "how scores become a reward: sum (their weighted mean), lexicographic (1 for the best of a problem's answers, "
        "by the first evaluator, ties by the next), pareto (1 for answers that no other answer to the problem "
        "dominates)",
        flag="--combine",
        omit_default=True,
    )
    hold_out: tuple[str, ...] = setting(
        (),
        NAMES,
        "held-out evaluators, which score but are never part of the reward: the report shows whether gains carry over "
        "to them",
        flag="--hold-out-evaluators",
        metavar="NAME,...",
        converter=_as_tuple,
        omit_default=True,
    )
    judge_repeats: int = setting(
        1,
        SAMPLES,
        "grades that each judge:MODEL gives an answer: one, greedily, or several at temperature 0.8, whose mean is the "
        "score and whose agreement is its reliability",
        flag="--judge-repeats",
        unit="grades",
        omit_default=True,
    )

    def __attrs_post_init__(self) -> None:
        if self.teach is not None and VERIFIER not in self.teach:
            expected = f"{VERIFIER} among them, since correctness gates everything"
            message = f"{{evaluators.teach}} must have {expected}, got {', '.join(self.teach)}"
            raise SettingError("evaluators.teach", expected, dict(self.teach), message)
        if both := [name for name in self.hold_out if name in self.weights]:
            message = f"{both[0]} is held out, and {{evaluators.teach}} has it too: name it once"
            raise SettingError("evaluators.hold_out", "evaluators that do not teach", self.hold_out, message)

    @property
    def weights(self) -> Mapping[str, float]:
        """Of those that teach, by name: the verifier alone where no others are given."""
        return {VERIFIER: 1.0} if self.teach is None else self.teach

    @property
    def combination(self) -> Combination | None:
        """How rewards are made; None where the verifier alone makes them."""
        return None if self.teach is None else Combination(self.teach, self.combine)

    @property
    def beside(self) -> tuple[str, ...]:
        """All evaluators beside the verifier, those that teach first."""
        return (*(name for name in self.weights if name != VERIFIER), *self.hold_out)

    @property
    def judges(self) -> tuple[str, ...]:
        """Those of them that are judge models."""
        return tuple(name for name in self.beside if name.startswith(JUDGE))


@frozen(kw_only=True)
class ObjectiveSettings:
    """The training algorithm: how rewards become weights in the loss."""

    section: ClassVar = "objective"
    algorithm: str = setting(
        "raft",
        ChoiceOrOwn(tuple(ALGORITHMS)),
        f"training algorithm: {', '.join(ALGORITHMS)}, or your own as module:ATTR",
        flag="--algorithm",
        common=True,
        metavar="NAME",
    )
    clip: float | None = setting(
        None,
        DECIMAL,
        "clipping range of importance ratios around 1; not used by raft and weighted (default: the algorithm's: 0.0003 "
        "to 0.0004 above for gspo, 0.2 to 0.28 above for dapo, 0.2 for others)",
        flag="--clip",
    )
    clip_high: float | None = setting(
        None,
        DECIMAL,
        "clipping range of importance ratios above 1 (default: --clip, or the algorithm's)",
        flag="--clip-high",
    )
    importance_cap: float | None = setting(
        None,
        DECIMAL,
        "truncated importance sampling: multiply the weight of each token by its probability under the model over that "
        "under the sampling distribution, at most this (default: no correction)",
        flag="--importance-cap",
        omit_default=True,
    )
    kl: float = setting(
        0.0,
        DECIMAL_FROM_0,
        "weight of the KL divergence from the base model (the model without adapter)",
        flag="--kl",
    )
    credit: Credit = setting(
        "outcome",
        Choice(get_args(Credit)),
        "outcome: each token of a rollout has its weight in the group; prefix-value: each token is weighed by what its "
        "segment (lines) adds to the value of the answer so far, the mean reward of sampled continuations; rollouts of "
        "problems without a mixed outcome are left out",
        flag="--credit",
        omit_default=True,
    )
    credit_samples: int = setting(
        4,
        SAMPLES,
        "continuations of each prefix with --credit prefix-value",
        flag="--credit-samples",
        unit="rollouts",
        omit_default=True,
    )
    negative: float = setting(
        0.1, SHARE, "weight of wrong rollouts in --algorithm weighted, with a minus sign", flag="--negative"
    )


@frozen(kw_only=True)
class DemonstrationSettings:
    """Demonstrations for a weak model: few-shot examples, or an SFT warm-up."""

    section: ClassVar = "demonstrations"
    bootstrap: Bootstrap = setting(
        "none",
        Choice(get_args(Bootstrap)),
        "few-shot: sample a tier's rollouts with few-shot examples, and train without them, until the model solves the "
        "tier without them",
        flag="--bootstrap",
    )
    shots: int = setting(
        3,
        SHOTS,
        "few-shot examples per prompt, drawn from up to twice as many demonstrations per tier; a warm-up trains on all",
        flag="--shots",
        unit="demonstrations",
    )
    examples: ExampleMaker = setting(
        "heuristic",
        Choice(get_args(ExampleMaker)),
        "source of the demonstrations; solver is an oracle, and the result says so",
        flag="--examples",
    )
    warm_up: int = setting(
        0,
        UPDATES,
        f"optimizer steps of an SFT warm-up on demonstrations, before the first rollouts; {WARM_UP_PART} steps per "
        "iteration",
        flag="--warm-up",
        common=True,
        unit="steps",
    )
    warm_up_also: tuple[str, ...] = setting(
        (),
        NAMES,
        "additional presets whose demonstrations the SFT warm-up trains on",
        flag="--warm-up-also",
        metavar="PRESET,PRESET",
        converter=_as_tuple,
    )
    warm_up_rate: float | None = setting(
        None,
        LEARNING_RATE,
        "initial learning rate of the SFT warm-up; it changes linearly to --learning-rate (default: --learning-rate)",
        flag="--warm-up-rate",
    )


@frozen(kw_only=True)
class StoppingSettings:
    """When a run ends; a resumed run may change only these settings."""

    section: ClassVar = "stopping"
    iterations: int = setting(
        3,
        ITERATIONS_FROM_0,
        "maximum iterations of sampling and training, after any warm-up; 0 for an SFT warm-up alone",
        flag="--iterations",
        common=True,
        unit="iterations",
    )
    until: float | None = setting(
        None,
        SHARE,
        "stop at this mean accuracy over all tiers on dev, for example 0.9",
        flag="--until",
        unit="share",
    )
    minutes: float | None = setting(
        None,
        LENGTH_OF_RUN,
        "time limit, counted from when the model is loaded: every phase ends at the next finished answer or optimizer "
        "step, early enough for the final tests, which always run in full; a run may exceed the limit by that answer "
        "or step, and by the extra time of the final tests over the first ones; --resume --minutes N repeats the "
        "unfinished iteration",
        flag="--minutes",
        common=True,
        unit="minutes",
    )
    patience: int | None = setting(
        None, ITERATIONS, "stop after this many evaluations on dev without improvement", flag="--patience"
    )
    min_coverage: float = setting(MIN_COVERAGE, SHARE, COVERAGE_HELP, flag="--min-coverage", unit="share")


@frozen(kw_only=True)
class ExecutorSettings:
    """Where rollouts are sampled and answers are judged."""

    section: ClassVar = "executor"
    runner: str = setting(AUTO, Choice(RUNNERS), RUNNER_HELP, flag="--runner")
    judges: int = setting(
        1,
        THREADS,
        "processes that judge answers, for slow verifiers; 1 is the main process",
        flag="--judges",
        unit="processes",
        omit_default=True,
    )
    kind: str = setting(
        LOCAL,
        ChoiceOrOwn(tuple(EXECUTORS)),
        "where the work is done: local; ray, whose workers sample rollouts and judge answers (extra ray); or your own "
        "as module:ATTR, called with the number of judges, which judges answers",
        flag="--executor",
        metavar="NAME",
        omit_default=True,
    )
    workers: int = setting(
        1,
        THREADS,
        "workers of Ray, each one process with the model; --threads are those of each worker (default there 1)",
        flag="--workers",
        unit="processes",
        omit_default=True,
    )
    address: str = setting(
        "",
        NAME,
        "address of a running Ray cluster, as HOST:6379 or auto (default: one on this machine, as long as the run)",
        flag="--address",
        metavar="HOST:PORT",
        omit_default=True,
    )
    gpus_per_worker: float = setting(
        0.0,
        DECIMAL_FROM_0,
        "GPUs of a worker of Ray; below 1, several workers share one",
        flag="--gpus-per-worker",
        unit="GPUs",
        omit_default=True,
    )
    schedule: str = setting(
        SYNC,
        Choice((SYNC, ASYNC)),
        "sync: rollouts are written with the weights of the iteration before; async: workers of Ray sample rollouts of "
        "the next iterations while the learner works",
        flag="--schedule",
        omit_default=True,
    )
    staleness: int = setting(
        1,
        ITERATIONS,
        "with --schedule async: how many iterations the weights that write rollouts are behind",
        flag="--staleness",
        unit="iterations",
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
        "gce", NAME, "recipe that sets the defaults of all other settings: gce or isopro", flag="--recipe"
    )
    seed: int = setting(
        0, SEED, "seed of problems, rollouts, batches and adapter initialization", flag="--seed", common=True
    )
    evaluator: str = setting(
        VERIFIER,
        ChoiceOrOwn(tuple(EVALUATORS)),
        f"evaluator that judges answers: {', '.join(EVALUATORS)}, or your own as module:ATTR",
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
    evaluators: EvaluatorSettings = section_of(EvaluatorSettings, omit_default=True)
    objective: ObjectiveSettings = section_of(ObjectiveSettings)
    demonstrations: DemonstrationSettings = section_of(DemonstrationSettings)
    stopping: StoppingSettings = section_of(StoppingSettings)
    evaluation: EvaluationSettings = section_of(EvaluationSettings)
    executor: ExecutorSettings = section_of(ExecutorSettings)

    def __attrs_post_init__(self) -> None:
        asked = self.rollouts.first_wave
        if asked > MOST_ANSWERS:
            expected = f"at most {MOST_ANSWERS:,} answers per iteration"
            message = f"{{rollouts.problems}} times {{rollouts.samples}} must be {expected}, got {asked:,}"
            raise SettingError("rollouts.problems", expected, asked, message)
        if not self.last_iteration:
            expected = "at least 1 without a warm-up ({demonstrations.warm_up})"
            message = f"{{stopping.iterations}} must be {expected}, got 0"
            raise SettingError("stopping.iterations", expected, 0, message)
        admission = self.buffer.admission
        if self.evaluators.teach is not None and admission in CHANGES_REWARDS:
            expected = "verified or top:SHARE where {evaluators.teach} makes the rewards"
            message = f"{{buffer.admission}} must be {expected}, got {admission}"
            raise SettingError("buffer.admission", expected, admission, message)

    @property
    def last_iteration(self) -> int:
        """The number of the last iteration of a new run, those of the warm-up counted."""
        return parts_of_warm_up(self.demonstrations.warm_up) + self.stopping.iterations


@cache
def all_settings() -> Mapping[str, Setting]:
    """Every setting by its dotted name."""
    return {each.name: each for each in settings_in(TrainSettings)}
