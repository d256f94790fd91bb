"""What clients may ask of the server: records of settings, from which forms, JSON schemas and checks are made."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from attrs import NOTHING, frozen

from gce.app.evaluation.splits import ALL
from gce.app.options import (
    NAMES,
    PROBLEMS,
    SAMPLES,
    SEED,
    SWITCH,
    TEMPERATURE,
    TOKENS,
    Choice,
    ChoiceOrOwn,
    ChoiceOrShare,
    Count,
    Listed,
)
from gce.app.settings.fields import setting
from gce.app.settings.records import TrainSettings, all_settings
from gce.app.settings.values import flat_values
from gce.app.wiring.executors import LOCAL
from gce.app.wiring.models import AUTO_SAMPLER
from gce.app.wiring.names import LISTED_BY
from gce.app.wiring.sandboxes import UNSAFE
from gce.domain.attacks import ATTACKS
from gce.domain.strategies import STRATEGIES
from gce.domain.strategies.attack import MOST_EDITS
from gce.domain.strategies.graph import SHIPPED as GRAPHS
from gce.domain.strategies.single_turn import ZERO_SHOT
from gce.domain.tasks import TASKS
from gce.errors import SettingError

__all__ = [
    "PERSONAS",
    "AskModel",
    "Attack",
    "Consult",
    "DrawProblem",
    "EvaluateModel",
    "JudgeAnswer",
    "Offered",
    "Orchestrate",
    "Page",
    "Reason",
    "Text",
    "Train",
]

PERSONAS = {"human": "human_request", "incomplete": "incomplete_info"}
"""ISOPro's names of personas that have another name here."""
MOST_OF_AN_ANSWER = 100_000
MOST_OF_A_PROMPT = 20_000
MOST_OF_A_CONFIG = 100_000
_PLAIN = re.compile(r"[\w.,=+ -]*(@[\w.,=-]+)?", re.ASCII)
"""A value that is neither a path, nor module:ATTR, nor an address."""


@frozen
class Text:
    """Any text that can be stored, of so many characters at most."""

    most: int
    pattern: str = ""
    what: str = "text"

    @property
    def expected(self) -> str:
        """See `gce.app.options.Kind`."""
        return f"{self.what} of at most {self.most:,} characters"

    def __call__(self, text: str) -> str:
        """See `gce.app.options.Kind`; forms send line ends as two characters."""
        return text.replace("\r\n", "\n")

    def takes(self, value: object) -> bool:
        """See `gce.app.options.Kind`."""
        if not isinstance(value, str) or len(value) > self.most:
            return False
        fits = not self.pattern or re.fullmatch(self.pattern, value) is not None
        return fits and not any("\ud800" <= character <= "\udfff" for character in value)


RUN_NAME = Text(60, "[A-Za-z0-9][A-Za-z0-9._-]{0,59}", "a name of letters, digits, dots, hyphens and underscores,")
ID = Text(80, "[a-z0-9-]{0,80}", "an id of letters, digits and hyphens")
WORD = Text(200, r"[^\x00-\x1f\x7f]*", "a name")
KEY = Text(400, r"[^\x00-\x1f\x7f]+", "the key of a problem: task/preset/split/tier/seed/index,")
PROMPT = Text(MOST_OF_A_PROMPT, r"[\s\S]*\S[\s\S]*", "a prompt that is not blank,")
STRATEGY = ChoiceOrOwn(tuple(STRATEGIES), options=True, listed_by=LISTED_BY["strategy"])
MODEL_HELP = "model; GET /api/v1/tasks lists those that are offered (default: the task's)"
TASK = setting("scheduling", WORD, "task")
PRESET = setting("", WORD, "set of tiers (default: the task's first)")
SPLITS = ("train", "dev", "test")
PROBLEM = setting(NOTHING, KEY, "key of the problem, as /api/v1/problems returns it")
MODEL = setting("", WORD, MODEL_HELP)
ADAPTER = setting("", ID, "id of the run whose adapter the model has (default: none)")
SAMPLING = setting(0, SEED, "sampling seed, used if the temperature is not 0")
GREEDY = setting(0.0, TEMPERATURE, "sampling temperature; 0 is greedy")


@frozen(kw_only=True)
class DrawProblem:
    """A problem to draw."""

    section: ClassVar = ""
    task: str = TASK
    preset: str = PRESET
    tier: str = setting("", WORD, "difficulty level (default: the preset's first)")
    split: str = setting("dev", Choice(SPLITS), "split of the problem")
    seed: int = setting(0, SEED, "seed of the problem")
    index: int = setting(0, Count(0, 99), "index of the problem in its tier")


@frozen(kw_only=True)
class JudgeAnswer:
    """An answer to judge."""

    section: ClassVar = ""
    task: str = TASK
    problem: str = PROBLEM
    answer: str = setting(NOTHING, Text(MOST_OF_AN_ANSWER), "all that the model wrote")


@frozen(kw_only=True)
class AskModel:
    """A problem for a model to answer."""

    section: ClassVar = ""
    task: str = TASK
    problem: str = PROBLEM
    model: str = MODEL
    run: str = ADAPTER
    strategy: str = setting(ZERO_SHOT.name, STRATEGY, "prompting strategy")
    temperature: float = GREEDY
    seed: int = SAMPLING


@frozen(kw_only=True)
class EvaluateModel:
    """An evaluation of a model on problems of every tier."""

    section: ClassVar = ""
    task: str = TASK
    preset: str = PRESET
    model: str = MODEL
    run: str = setting("", ID, "id of the run whose adapter is evaluated (default: none)")
    strategies: tuple[str, ...] = setting(
        (), Listed(STRATEGY), "prompting strategies (default: zero-shot; with a run: trained)"
    )
    tiers: tuple[str, ...] = setting((), NAMES, "tiers to evaluate (default: all)")
    split: str = setting("test", Choice(("test", "dev", ALL)), "split to evaluate on")
    n: int = setting(200, PROBLEMS, "problems per tier", unit="problems")
    samples: int = setting(1, SAMPLES, "answers sampled per problem, for pass@k; needs a temperature", unit="answers")
    temperature: float = GREEDY
    max_tokens: int | None = setting(None, TOKENS, "maximum tokens of a reply (default: the task's)", unit="tokens")
    seed: int = SAMPLING
    problem_seed: int = setting(0, SEED, "seed of the problems")


@frozen(kw_only=True)
class Reason:
    """A prompt for a model to reason about."""

    section: ClassVar = ""
    prompt: str = setting(NOTHING, PROMPT, "the prompt")
    context: str = setting("", Text(MOST_OF_A_PROMPT), "what the model is told before the prompt")
    model: str = setting("", WORD, "model (default: the shipped one)")
    max_tokens: int = setting(256, Count(1, 4096), "maximum tokens of the reply", unit="tokens")


@frozen(kw_only=True)
class Consult:
    """A consultation with a simulated user."""

    section: ClassVar = ""
    task: str = setting("consultation", WORD, "consultation, or one with personas of the server")
    tier: str = setting("", WORD, "difficulty level (default: the first)")
    persona_type: str = setting("", WORD, "name of the user's persona (default: that of the problem at index)")
    num_turns: int = setting(12, Count(1, 200), "messages of the model at most, the answer included", unit="messages")
    index: int = setting(0, Count(0, 99), "index of the first problem that may be taken")
    model: str = MODEL
    run: str = ADAPTER
    temperature: float = GREEDY
    seed: int = SAMPLING


@frozen(kw_only=True)
class Attack:
    """An attack on the prompt of a problem."""

    section: ClassVar = ""
    task: str = TASK
    problem: str = PROBLEM
    attack_type: str = setting("typos", Choice(tuple(ATTACKS)), "attack")
    edits: int = setting(4, Count(0, MOST_EDITS), "edits: words, or lines", unit="edits")
    num_steps: int = setting(1, Count(1, 10), "attacked prompts, each with a seed of its own", unit="prompts")
    model: str = MODEL
    run: str = ADAPTER


@frozen(kw_only=True)
class Orchestrate:
    """A graph of roles on a problem."""

    section: ClassVar = ""
    task: str = TASK
    problem: str = PROBLEM
    mode: str = setting("agent", Choice(("agent", "parallel", "node", *GRAPHS)), "one model, or a graph")
    model: str = MODEL
    run: str = ADAPTER
    temperature: float = GREEDY
    seed: int = SAMPLING


@frozen(kw_only=True)
class Train:
    """A training run."""

    section: ClassVar = ""
    name: str = setting("", RUN_NAME, "name of the run, and of its directory (default: the time)")
    run: str = setting("", ID, "id of the run whose adapter training starts from (default: none)")
    dry_run: bool = setting(False, SWITCH, "whether only to estimate what the run would take")


@frozen(kw_only=True)
class Page:
    """A page of a list."""

    section: ClassVar = ""
    offset: int = setting(0, Count(0, 100_000_000), "entries to skip")
    limit: int = setting(50, Count(1, 200), "entries at most")


@frozen
class Offered:
    """Names that clients may use. Any other name of a task or a model could be a file, a module or an address."""

    tasks: tuple[str, ...] = tuple(TASKS)
    models: tuple[str, ...] = ("gce-tiny", "smollm2")

    def check(self, *, task: str, model: str = "") -> None:
        """SettingError where one of them is not offered."""
        for name, value, offered in (("task", task, self.tasks), ("model", model, ("", *self.models))):
            if value not in offered:
                raise _not_offered(name, value, offered)

    def check_settings(self, settings: TrainSettings) -> None:
        """The same for all settings of a run, none of which may name anything outside the program."""
        self.check(task=settings.task)
        samplers = (*self.models, AUTO_SAMPLER)
        for name, value, offered in (
            ("model.name", settings.model.name, self.models),
            ("model.sampler", settings.model.sampler, samplers),
        ):
            if value not in ("", *offered):
                raise _not_offered(name, value, offered)
        if settings.model.sampler_folder:
            raise _not_offered("model.sampler_folder", settings.model.sampler_folder, ("nothing",))
        if settings.executor.runner == UNSAFE:
            raise _not_offered("executor.runner", UNSAFE, ("a sandbox",))
        if settings.executor.kind != LOCAL:
            raise _not_offered("executor.kind", settings.executor.kind, (LOCAL,))
        for other in settings.evaluation.also_measure:
            name, _, preset = other.partition("@")
            if other not in self.tasks and not (name in TASKS and preset in TASKS[name].presets):
                raise _not_offered("evaluation.also_measure", other, self.tasks)
        known, elsewhere = all_settings(), ("task", "model.name", "model.sampler", "evaluation.also_measure")
        for name, value in flat_values(settings).items():
            if name in elsewhere or isinstance(known[name].kind, ChoiceOrShare):
                continue
            for text in _texts(value):
                if not _PLAIN.fullmatch(text) or text.endswith(".toml"):
                    raise _not_offered(name, text, ("a name without a path, a module or an address",))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (tuple, list, Mapping)):
        for each in value:
            yield from _texts(each)


def _not_offered(name: str, value: str, offered: tuple[str, ...]) -> SettingError:
    expected = f"one of those that this server offers: {', '.join(filter(None, offered))}"
    return SettingError(name, expected, value, f"{{{name}}} must be {expected}")
