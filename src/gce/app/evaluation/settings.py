"""What `gce.evaluate` may be told: each value is held to the same bounds as the option of the command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict, get_args

from attrs import Attribute, field, fields_dict, frozen

from gce.app.evaluation.conversations import Environments
from gce.app.evaluation.splits import ALL, MeasuredSplit
from gce.app.loaded_model import LoadedModel, model_of
from gce.app.options import (
    DAY,
    DOLLARS,
    LENGTH_OF_RUN,
    NAME,
    PATH,
    PROBLEMS,
    RATE,
    REQUESTS,
    RUN,
    SAMPLES,
    SECONDS,
    SEED,
    SHOTS,
    SWITCH,
    TEMPERATURE,
    TEMPLATE_ARGUMENTS,
    THREADS,
    TOKENS,
    TOKENS_IN_ALL,
    Choice,
    Kind,
    json_text,
    refusal,
)
from gce.app.settings.fields import unknown
from gce.app.wiring.evaluators import VERIFIER
from gce.app.wiring.sandboxes import AUTO, RUNNERS
from gce.app.wiring.tasks import check_no_function, task_name
from gce.domain.metrics import Metric
from gce.domain.models import BFLOAT16, FLOAT32, Precision
from gce.domain.problems import Split
from gce.domain.statistics import DEFAULT_INTERVAL, INTERVALS
from gce.domain.strategies.requests import Strategy
from gce.domain.tasks import Task
from gce.errors import SettingError
from gce.ports.evaluator import Evaluator
from gce.ports.model import Sampler

__all__ = ["EvaluateKeywords", "EvaluateSettings", "evaluate_settings"]


def _of(kind: Kind, *others: type, several: bool = False) -> Any:
    """A validator: a text of this kind, a value of it, or one of the `others`; None where that is the default."""

    def check(_record: Any, attribute: Attribute[Any], value: Any) -> None:
        for each in value if several else (value,):
            other = isinstance(each, others) and not isinstance(each, str)
            if not (other or kind.takes(each) or (each is None and attribute.default is None)):
                message = f"{{{attribute.name}}} must be {refusal(kind, each)}"
                raise SettingError(attribute.name, kind.expected, each, message)

    return check


def _members(given: Any) -> tuple[Any, ...]:
    """Several, or one that stands alone."""
    return tuple(given) if isinstance(given, (list, tuple, set, frozenset)) else (given,)


def _path(given: Any) -> Any:
    return Path(given) if isinstance(given, str) else given


def _name(given: Any) -> Any:
    return str(given) if isinstance(given, Path) else given


def _models(roles: Mapping[str, Any]) -> Mapping[str, Any]:
    if not isinstance(roles, Mapping):
        raise SettingError("roles", "models by role", roles, f"{{roles}} must be models by role, got {roles!r:.60}")
    return {role: model_of(each) for role, each in roles.items()}


def _several(kind: Kind, *others: type) -> Any:
    return field(default=(), converter=_members, validator=_of(kind, *others, several=True))


def _name_of(given: Any) -> str:
    if isinstance(given, LoadedModel):
        return given.name
    if isinstance(given, str):
        return given
    return str(getattr(given, "__name__", type(given).__name__))  # Of a function, its own name.


@frozen(kw_only=True)
class EvaluateSettings:
    """What is evaluated, and how."""

    task: Task | str = field(default="scheduling", validator=_of(NAME, Task))
    """A task, or the name of one."""
    preset: str | None = field(default=None, validator=_of(NAME))
    """Set of tiers; None takes the task's first."""
    model: Any = field(default=None, validator=_of(NAME, object))
    """A model, or the name of one; None takes the task's default, see `gce.app.wiring.models.default_model`."""
    models: tuple[Any, ...] = _several(NAME, object)
    """Several models on the same problems, compared with the first one; not beside `model`."""
    adapter: str | None = field(default=None, converter=_name, validator=_of(RUN))
    """A run, or its checkpoints/last, for the strategies `trained`, `trained-few-shot` and so on."""
    strategies: tuple[Strategy | str, ...] = _several(NAME, Strategy)
    """Empty: zero-shot, or with an adapter `trained`."""
    shots: int = field(default=3, validator=_of(SHOTS))
    """Examples that few-shot shows."""
    examples: str = field(default="heuristic", validator=_of(Choice(("heuristic", "solver"))))
    """Who worked them out: heuristic or solver."""
    examples_from: str | None = field(default=None, validator=_of(NAME))
    """A run whose best trajectories are the examples, in place of demonstrations."""
    tiers: tuple[str, ...] = _several(NAME)
    """Empty: all."""
    shifts: bool = field(default=False, validator=_of(SWITCH))
    """Whether the distribution shifts that the task declares are measured, too."""
    split: MeasuredSplit = field(default="test", validator=_of(Choice((*get_args(Split), ALL))))
    """all: every question of a list, for a model that was trained on none of them."""
    n: int = field(default=200, validator=_of(PROBLEMS))
    """Problems a tier."""
    samples: int = field(default=1, validator=_of(SAMPLES))
    """Conversations about each problem."""
    temperature: float = field(default=0.0, validator=_of(TEMPERATURE))
    max_tokens: int | None = field(default=None, validator=_of(TOKENS))
    """Of a reply; None takes the task's."""
    seed: int = field(default=0, validator=_of(SEED))
    """Of sampling."""
    problem_seed: int = field(default=0, validator=_of(SEED))
    metrics: tuple[Metric[Any] | str, ...] = _several(NAME, Metric)
    """Shown beside accuracy: metrics, or names of entries of `METRICS`."""
    evaluator: Evaluator | str = field(default=VERIFIER, validator=_of(NAME, object))
    """Who judges, or its name."""
    interval: str = field(default=DEFAULT_INTERVAL, validator=_of(Choice(tuple(INTERVALS))))
    """An entry of `INTERVALS`."""
    roles: Mapping[str, Sampler] = field(factory=dict, converter=_models)
    """Models for the roles that strategies ask besides the model under test."""
    environments: Environments | None = None
    """Makes the environment of a conversation, for strategies that act."""
    answers: Path | None = field(default=None, converter=_path, validator=_of(PATH, Path))
    """A file that keeps conversations; what it has is not asked again."""
    precision: Precision = field(default=FLOAT32, validator=_of(Choice((FLOAT32, BFLOAT16))))
    chat_template: str | None = field(default=None, converter=_name, validator=_of(NAME))
    """Of local models: the path of a Jinja file, or `plain` for base models; None for the model's own."""
    chat_template_kwargs: str | None = field(default=None, converter=json_text, validator=_of(TEMPLATE_ARGUMENTS))
    """Arguments of the chat template, as a mapping or the text of a JSON object."""
    template_date: str | None = field(default=None, validator=_of(DAY))
    """What a chat template that reads the clock is told, as YYYY-MM-DD; None for today, or as `answers` has it."""
    device: str | None = field(default=None, validator=_of(Choice(("cpu",))))
    threads: int | None = field(default=None, validator=_of(THREADS))
    concurrency: int = field(default=8, validator=_of(REQUESTS))
    timeout: float = field(default=300.0, validator=_of(SECONDS))
    """Seconds for a server's answer."""
    requests_per_minute: int | None = field(default=None, validator=_of(RATE))
    """To each provider."""
    tokens_per_minute: int | None = field(default=None, validator=_of(RATE))
    """Of prompts and answers, for each provider."""
    max_tokens_total: int | None = field(default=None, validator=_of(TOKENS_IN_ALL))
    """Of all prompts and answers together."""
    max_cost: float | None = field(default=None, validator=_of(DOLLARS))
    """US dollars that all requests together may cost."""
    max_minutes: float | None = field(default=None, validator=_of(LENGTH_OF_RUN))
    """Time after which nothing more is asked."""
    prices: Path | None = field(default=None, converter=_path, validator=_of(PATH, Path))
    """A file of prices, which stand before those that are known."""
    allow_unknown_cost: bool = field(default=False, validator=_of(SWITCH))
    """Whether models whose price is not known, or whose cost is not counted, are asked although `max_cost` is given."""
    cache: Path | None = field(default=None, converter=_path, validator=_of(PATH, Path))
    """A directory that keeps answers by what was asked, for models that sample only."""
    runner: str = field(default=AUTO, validator=_of(Choice(RUNNERS)))
    """Where programs are run that answers consist of."""

    @property
    def model_name(self) -> str:
        """The name that was given, or the type of the model that was; of several models, all names."""
        return ", ".join(self.model_names) or _name_of(self.model)

    @property
    def model_names(self) -> tuple[str, ...]:
        """The names of several models."""
        return tuple(map(_name_of, self.models))

    @property
    def task_name(self) -> str:
        """The name that was given, or `given:` and that of the task that was."""
        return task_name(self.task)


class EvaluateKeywords(TypedDict, total=False):
    """The keywords of `gce.evaluate` besides task and model, where one member may stand for several."""

    models: Sequence[Any]
    preset: str | None
    adapter: Path | str | None
    strategies: Strategy | str | Sequence[Strategy | str]
    shots: int
    examples: str
    examples_from: str | None
    tiers: str | Sequence[str]
    shifts: bool
    split: MeasuredSplit
    n: int
    samples: int
    temperature: float
    max_tokens: int | None
    seed: int
    problem_seed: int
    metrics: Metric[Any] | str | Sequence[Metric[Any] | str]
    evaluator: Evaluator | str
    interval: str
    roles: Mapping[str, Any]
    environments: Environments | None
    answers: Path | str | None
    precision: Precision
    chat_template: Path | str | None
    chat_template_kwargs: Mapping[str, Any] | str | None
    template_date: str | None
    device: str | None
    threads: int | None
    concurrency: int
    timeout: float
    requests_per_minute: int | None
    tokens_per_minute: int | None
    max_tokens_total: int | None
    max_cost: float | None
    max_minutes: float | None
    prices: Path | str | None
    allow_unknown_cost: bool
    cache: Path | str | None
    runner: str


def evaluate_settings(given: Mapping[str, Any]) -> EvaluateSettings:
    """The settings that keywords give.

    Raises:
        BadInput: the task is a plain function.
        SettingError: no such keyword, or a value out of range.
    """
    check_no_function(given.get("task"))
    known = fields_dict(EvaluateSettings)
    for name, value in given.items():
        if name not in known:
            message = unknown(name, known, "setting of gce.evaluate")
            raise SettingError(name, "the name of a setting", value, message)
    return EvaluateSettings(**given)
