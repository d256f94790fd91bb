"""A model to talk to without a task: local, behind a server, or a function that asks a command or a person."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from attrs import fields, frozen

from gce.app.evaluation.checkpoints import restore, shape_of
from gce.app.evaluation.scoring import sampled
from gce.app.interruption import saying_if_interrupted
from gce.app.notebook import watch_of
from gce.app.options import json_text
from gce.app.settings.records import LoraSettings, ModelSettings, TrainSettings
from gce.app.wiring.models import SHIPPED_MODEL, find_model, model_of_function
from gce.app.wiring.runs import find_adapter
from gce.app.wiring.tasks import find_task
from gce.domain.completions import Completion, SampleRequest
from gce.domain.models import ModelInfo
from gce.domain.problems import Message, Problem
from gce.domain.randomness import key
from gce.domain.tasks import Task
from gce.errors import BadInput, ModelError
from gce.ports.model import Adaptable, Caching, Model, Sampler, Scorer

__all__ = ["LoadedModel", "Said", "load_model", "messages_of", "model_of", "trained_model"]

Said: TypeAlias = str | Message | Mapping[str, Any] | Sequence[Message | Mapping[str, Any]]
"""What is said to a model: a user's text, or messages as records or as dicts with `role` and `content`."""
MAX_TOKENS = 512
TRAINED = " (trained)"


@frozen(eq=False, repr=False)
class LoadedModel:
    """A model with its name: what `gce.load_model` returns, a run's `result.model`, and what functions of `gce` take.

    `info()` says what it can do; what it cannot is refused in one line.
    """

    model: Sampler
    name: str
    by_name: Mapping[str, Any] | None = None
    """The settings of the section `model` by which it was loaded; None where it was given itself."""
    as_loaded: str = ""
    """Its identity then."""

    def __str__(self) -> str:
        info = self.info()
        size = "" if info.parameters is None else f", {info.parameters:,} parameters"
        return f"{self.name}{size}: can {', '.join(sorted(info.capabilities))}"

    def __repr__(self) -> str:
        return f"<gce model {self}>"

    @property
    def origin(self) -> Mapping[str, Any] | None:
        """Settings that load the same model again; None where it has learned since, or was given itself."""
        return self.by_name if self.info().identity == self.as_loaded else None

    @property
    def has_learned(self) -> bool:
        """Whether it is known to have been trained: in a run, or by an adapter that it was loaded with."""
        loaded = self.by_name is not None and (bool(self.by_name.get("adapter")) or self.origin is None)
        return loaded or self.name.endswith(TRAINED)

    def info(self) -> ModelInfo:
        """See `gce.ports.model.Model`."""
        return self.model.info()

    def chat(
        self,
        said: Said,
        *,
        max_tokens: int = MAX_TOKENS,
        temperature: float = 0.0,
        seed: int = 0,
        stop: Sequence[str] = (),
    ) -> str:
        """The model's reply to a user's text, or to the messages of a conversation.

        Args:
            said: a text, or messages.
            max_tokens: generated tokens at most, the end token included.
            temperature: 0 means greedy.
            seed: of sampling, where the temperature is not 0.
            stop: the reply ends before the first of these.

        Raises:
            BadInput: messages of another shape, or a number out of range.
            ModelError: the messages do not fit the model's context, or it failed to reply.
        """
        (completion,) = self.answer(
            [messages_of(said)], max_tokens=max_tokens, temperature=temperature, seed=seed, stop=stop, progress=False
        )
        if completion.finish_reason in ("context", "error"):
            raise ModelError(f"model {self.name} gave no reply: {completion.error or 'no reason was given'}")
        return completion.text

    def answer(
        self,
        problems: Iterable[Problem | Said],
        *,
        max_tokens: int = MAX_TOKENS,
        temperature: float = 0.0,
        seed: int = 0,
        stop: Sequence[str] = (),
        progress: bool = True,
    ) -> list[Completion]:
        """A completion for each problem, text or conversation, in their order; all are asked together.

        Completions are not judged: `gce.judge(problem, completion)` does, and `gce.evaluate` asks, judges and counts.
        One that failed has the finish reason `error` or `context`, and says why in `error`. The other arguments are as
        in `chat`; `progress` as in `gce.train`.
        """
        asked = [each.prompt if isinstance(each, Problem) else messages_of(each) for each in problems]
        try:
            requests = [
                SampleRequest(str(place), messages, key(seed, "answer", place), temperature, max_tokens, tuple(stop))
                for place, messages in enumerate(asked)
            ]
        except (TypeError, ValueError) as error:
            raise BadInput(f"cannot ask model {self.name}: {error}") from error
        advance = watch_of(progress)(0).stage("answers", len(requests))
        found: dict[str, Completion] = {}
        for completion in sampled(self.model, requests):
            found[completion.key] = completion
            advance()
        return [found[request.key] for request in requests]

    def log_probabilities(self, said: Said, text: str) -> tuple[float, ...]:
        """Natural log-probability of each token of `text`, end token included, as the reply to what was said.

        Raises:
            ModelError: the model cannot score.
        """
        if not isinstance(self.model, Scorer) or "score" not in self.info().capabilities:
            raise ModelError(f"model {self.name} cannot score texts: gce models says which kinds can")
        return self.model.log_probabilities(messages_of(said), text)


def load_model(
    model: Any = SHIPPED_MODEL,
    *,
    adapter: str | Path = "",
    device: str | None = None,
    threads: int | None = None,
    concurrency: int = 8,
    timeout: float = 300.0,
    seed: int = 0,
    task: str | Task = "scheduling",
    chat_template: str | Path = "",
    chat_template_kwargs: str | Mapping[str, Any] = "",
    template_date: str = "",
) -> LoadedModel:
    """A model to talk to, to measure and to train.

    Args:
        model: a name, as behind `--model`; a model of one's own (a Sampler of `gce.ports.model`); or a function
            from messages, each a dict with `role` and `content`, to the reply's text, which may ask a command or a
            person.
        adapter: a run's directory, or a checkpoint of one, with what it learned.
        device: `cpu` forces the CPU.
        threads: of CPU work; None for one for each core.
        concurrency: requests to a server at a time.
        timeout: seconds for a server's answer.
        seed: of an adapter's first values.
        task: what a model given as module:FACTORY is made for.
        chat_template: of a local model: the path of a Jinja file, or `plain` for a base model; empty for its own.
        chat_template_kwargs: arguments of the chat template, as a mapping or the text of a JSON object.
        template_date: what a chat template that reads the clock is told, as YYYY-MM-DD; empty for today.

    Raises:
        KeyboardInterrupt: loading was interrupted; the message says so.
        SettingError: a value out of range.
        GceError: the model or its adapter cannot be used.
    """
    if isinstance(model, LoadedModel):
        return model
    if not isinstance(model, str):
        found = model_of(model)
        if not isinstance(found, Sampler):
            raise BadInput(
                f"expected a model's name, a model that samples, or a function of messages, got {model!r:.60}"
            )
        given: Any = model
        return LoadedModel(found, getattr(given, "__name__", type(given).__qualname__))
    given = ModelSettings(
        name=model,
        adapter=str(adapter),
        device=device,
        threads=threads,
        concurrency=concurrency,
        timeout=timeout,
        chat_template=str(chat_template),
        chat_template_kwargs=json_text(chat_template_kwargs),
        template_date=template_date,
    )
    learned = find_adapter(adapter) if adapter else None
    settings = TrainSettings(model=given, lora=LoraSettings(**shape_of(learned)), seed=seed)
    with saying_if_interrupted(f"interrupted while the model {model} was being loaded"):
        found = find_model(settings, find_task(task) if isinstance(task, str) else task)
    if learned is not None:
        if not isinstance(found, Adaptable):
            raise BadInput(f"model {model} takes no adapter: leave out adapter")
        restore(found, learned, adapter, model)
    if not isinstance(found, Sampler):
        raise BadInput(f"model {model} cannot be asked: it does not sample")
    kept = {each.name: value for each in fields(ModelSettings) if (value := getattr(given, each.name)) != each.default}
    return LoadedModel(found, model, {"name": model, **kept}, found.info().identity)


def trained_model(model: Sampler, name: str) -> LoadedModel:
    """A run's model when the run has ended, without what it kept to learn faster; `name` is what it was before."""
    if isinstance(model, Caching):
        model.clear_caches()
    return LoadedModel(model, f"{name.removesuffix(TRAINED)}{TRAINED}")


def model_of(model: Any) -> Any:
    """The model itself of what `gce.load_model` returned, or of a function; anything else as it is."""
    if isinstance(model, LoadedModel):
        return model.model
    if callable(model) and not isinstance(model, type) and not isinstance(model, Model):
        return model_of_function(model)
    return model


def messages_of(said: Said) -> tuple[Message, ...]:
    """Messages, from a user's text or from what chat templates take; BadInput where it is something else."""
    if isinstance(said, str):
        return (Message("user", said),)
    several = [said] if isinstance(said, (Message, Mapping)) else said
    if not isinstance(several, Sequence) or not several:
        raise BadInput(f"expected a text or messages with role and content, got {said!r:.60}")
    return tuple(each if isinstance(each, Message) else _message(each) for each in several)


def _message(given: Any) -> Message:
    known = {"role", "content", "tool_call_id"}
    if not isinstance(given, Mapping) or not {"role", "content"} <= set(given) <= known:
        raise BadInput(f"expected a message as a dict with role and content, got {given!r:.60}")
    if not all(isinstance(value, str) for value in given.values()):
        raise BadInput(f"expected role and content of a message as text, got {given!r:.60}")
    try:
        return Message(**given)
    except ValueError as error:
        roles = "system, user, assistant or tool"
        raise BadInput(f"expected a message of role {roles}, got {given!r:.60}") from error
