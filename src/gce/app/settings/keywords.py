"""The keywords of `gce.train` and `gce.resume`, with types, for editors and type checkers.

A setting's keyword is its name without its section. A test holds this file to the records of settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

from gce.app.settings.records import (
    Bootstrap,
    BufferSettings,
    CurriculumSettings,
    DemonstrationSettings,
    EvaluationSettings,
    EvaluatorSettings,
    ExampleMaker,
    ExecutorSettings,
    LoraSettings,
    ObjectiveSettings,
    OptimizerSettings,
    RolloutSettings,
    StoppingSettings,
)
from gce.domain.buffer import Weighting
from gce.domain.curriculum import Allocation, Policy
from gce.domain.evaluators.combination import Rule
from gce.domain.governor import Governor
from gce.domain.layer_selection import Strategy as LayerStrategy
from gce.domain.models import Precision
from gce.domain.prefix_values import Credit

__all__ = ["StoppingKeywords", "TrainKeywords"]


class StoppingKeywords(TypedDict, total=False):
    """Settings that a resumed run may change."""

    iterations: int
    until: float | None
    minutes: float | None
    patience: int | None
    min_coverage: float


class TrainKeywords(StoppingKeywords, total=False):
    """Settings of a run, by their own names or by section; docs/SETTINGS.md says what each decides."""

    preset: str
    recipe: str
    seed: int

    adapter: str
    sampler: str
    sampler_folder: str
    sampler_difference_limit: float | None
    precision: Precision
    chat_template: str
    chat_template_kwargs: str
    template_date: str
    load_in_4bit: bool
    device: str | None
    threads: int | None
    concurrency: int
    timeout: float

    lora: LoraSettings | Mapping[str, Any]
    rank: int
    scale: float
    dropout: float
    layers: int
    targeting: LayerStrategy
    target_modules: tuple[str, ...]

    optimizer: OptimizerSettings | Mapping[str, Any]
    learning_rate: float
    weight_decay: float
    max_gradient_norm: float
    batch: int
    updates: int
    reuse: float
    epochs: int | None
    tokens_per_pass: int
    gradient_checkpointing: bool
    bf16: bool
    learner_processes: int
    restart: bool

    rollouts: RolloutSettings | Mapping[str, Any]
    problems: int
    problems_by_tier: Mapping[str, int] | None
    samples: int
    temperature: float
    max_tokens: int | None
    second_wave: int
    second_wave_by: Allocation
    governor: Governor
    early_stop: float
    strategy: str

    curriculum: CurriculumSettings | Mapping[str, Any]
    sampling: Policy
    floor: float
    pool: int | None
    ladder: bool

    buffer: BufferSettings | Mapping[str, Any]
    admission: str
    random_rates: Mapping[str, float] | None
    drop_solved: bool
    per_problem: int | None
    deduplicate: bool
    accumulate: bool
    weighting: Weighting

    evaluators: EvaluatorSettings | Mapping[str, Any]
    teach: Mapping[str, float] | None
    combine: Rule
    hold_out: tuple[str, ...]
    judge_repeats: int

    objective: ObjectiveSettings | Mapping[str, Any]
    clip: float | None
    clip_high: float | None
    importance_cap: float | None
    kl: float
    credit: Credit
    credit_samples: int
    negative: float

    demonstrations: DemonstrationSettings | Mapping[str, Any]
    bootstrap: Bootstrap
    shots: int
    examples: ExampleMaker
    warm_up: int
    warm_up_also: tuple[str, ...]
    warm_up_rate: float | None

    stopping: StoppingSettings | Mapping[str, Any]

    evaluation: EvaluationSettings | Mapping[str, Any]
    dev: int
    dev_every: int
    test: int
    shifts: int | None
    also_measure: tuple[str, ...]
    keep_every: int | None

    executor: ExecutorSettings | Mapping[str, Any]
    runner: str
    judges: int
    kind: str
    workers: int
    address: str
    gpus_per_worker: float
    schedule: str
    staleness: int
