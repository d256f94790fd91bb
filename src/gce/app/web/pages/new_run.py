"""A new run: a form made from the settings, a configuration in and out, an estimate, and the queue."""

from __future__ import annotations

import asyncio
from argparse import ArgumentTypeError
from collections.abc import Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

from attrs import evolve, frozen
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from gce.app.options import Choice, ChoiceOrOwn, Count, Number
from gce.app.settings.command_line import about
from gce.app.settings.config_file import ASSIGNMENT, NONE, parsed_config, settings_toml
from gce.app.settings.fields import Setting
from gce.app.settings.records import TrainSettings, all_settings
from gce.app.settings.values import RECIPES, flat_values, settings_from
from gce.app.web.api.jobs import adapter_of, jobs_of, launcher_of
from gce.app.web.api.problems import offered_of
from gce.app.web.asks import MOST_OF_A_CONFIG, RUN_NAME, Offered, Train
from gce.app.web.jobs import TooManyJobs
from gce.app.web.overview import overview_of
from gce.app.web.rendering import page
from gce.app.web.served import find_run, served_of
from gce.app.wiring.files import read_input
from gce.app.wiring.installation import lacking
from gce.domain.tasks import TASKS
from gce.errors import BadInput, SettingError

__all__ = ["ROUTES"]

TEMPLATES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "default": ("the default run: gce-tiny learns scheduling, about 5 minutes on 2 cores", {}),
    "trial": (
        "a quick trial, about a minute",
        {"stopping.iterations": 1, "rollouts.problems": 16, "evaluation.test": 20, "evaluation.dev": 0},
    ),
    "paper": ("the problems of ISOPro 0.3", {"preset": "paper", "seed": 42}),
    "isopro": ("the settings of ISOPro 0.3", {"recipe": "isopro"}),
    "until": ("stop at 90 % dev accuracy, or after 20 minutes", {"stopping.until": 0.9, "stopping.minutes": 20.0}),
    "grpo": ("GRPO: group-relative advantages, KL penalty", {"objective.algorithm": "grpo", "objective.kl": 0.01}),
    "weak": (
        "a weak model: few-shot examples, and easier levels first",
        {
            **{"model.name": "smollm2", "demonstrations.bootstrap": "few-shot", "demonstrations.shots": 6},
            **{"rollouts.temperature": 0.4, "curriculum.ladder": True},
        },
    ),
    "control": ("control: verdicts permuted within each tier", {"buffer.admission": "shuffled"}),
}
FIRST = (
    *("task", "preset", "model.name", "seed", "stopping.iterations", "stopping.minutes", "rollouts.problems"),
    *("rollouts.samples", "optimizer.learning_rate", "evaluation.test"),
)
"""Settings that stand before the groups."""
LABELS = {
    "model.name": ("model", "gce-tiny knows scheduling alone (default: gce-tiny for scheduling, else smollm2)"),
    "task": ("task", "what the model is asked; further ones are offered with gce serve --tasks"),
    "preset": ("preset", "set of tiers (default: the task's first)"),
    "stopping.minutes": ("time limit", "the run ends early enough for the tests at the end, which are taken whole"),
    "rollouts.samples": ("rollouts per problem", ""),
    "rollouts.problems": ("problems per iteration", ""),
    "evaluation.test": ("test problems per tier", ""),
}
"""Words of a form in place of a setting's own name and help, which is made for the command line."""
HIDDEN = (
    *("model.adapter", "model.sampler", "model.sampler_folder", "model.sampler_difference_limit"),
    *("executor.kind", "executor.workers", "executor.address", "executor.gpus_per_worker"),
    *("executor.schedule", "executor.staleness"),
)
"""They name files, code or other machines; a run's adapter has a field of its own."""


@frozen
class Field:
    """A setting as a field of the form; empty text is the default."""

    setting: Setting
    value: str
    label: str
    help: str
    default: str
    choices: tuple[str, ...]
    is_number: bool
    error: str


def _text(value: Any) -> str:
    """A value as its option is written."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return ",".join(f"{name}={each}" for name, each in value.items())
    return ",".join(map(str, value)) if isinstance(value, (tuple, list)) else "" if value is None else str(value)


def _field(each: Setting, values: Mapping[str, str], errors: Mapping[str, str], offered: Offered) -> Field:
    value, kind, choices = values.get(each.name, ""), each.kind, tuple[str, ...]()
    if each.name in ("task", "model.name", "recipe"):
        choices = {"task": offered.tasks, "model.name": offered.models, "recipe": tuple(RECIPES)}[each.name]
    elif each.is_switch:
        choices = ("true", "false")
    elif isinstance(kind, (Choice, ChoiceOrOwn)):
        choices = tuple(kind.names)
    choices = (*choices, value) if value and choices and value not in choices else choices
    label, words = LABELS.get(each.name, (each.name.rpartition(".")[2].replace("_", " "), ""))
    default = _text(each.default) or ("no limit" if each.name.startswith("stopping.") else "automatic")
    number, error = isinstance(kind, (Count, Number)), errors.get(each.name, "")
    return Field(each, value, label, words or each.help, default, choices, number, error)


def _form(
    request: Request,
    values: Mapping[str, str],
    own: Mapping[str, str] | None = None,
    *,
    errors: Mapping[str, str] | None = None,
    wrong: str = "",
    template: str = "",
) -> Response:
    shown = [each for each in all_settings().values() if each.name not in HIDDEN]
    errors, offered = errors or {}, offered_of(request)
    fields = {each.name: _field(each, values, errors, offered) for each in shown}
    rest = [each for name, each in fields.items() if name not in FIRST]
    sections = groupby(rest, lambda each: each.setting.name.rpartition(".")[0])
    groups = [(name or "run", about(name) if name else "", list(members)) for name, members in sections]
    return page(
        request,
        "new_run.html",
        422 if errors or wrong else 200,
        first=[fields[name] for name in FIRST],
        groups=groups,
        own={"name": "", "run": "", "config": "", **(own or {})},
        runs=served_of(request).runs(),
        lacks=lacking(),
        presets=tuple(dict.fromkeys(preset for task in TASKS.values() for preset in task.presets)),
        templates={name: words for name, (words, _) in TEMPLATES.items()},
        begun_from=template,
        errors=errors,
        wrong=wrong,
    )


async def new_run(request: Request) -> Response:
    """The form, and what is to be done with it."""
    if request.method == "GET":
        return await _begun(request)
    form = await request.form()
    own = {name: _given(form, name) for name in ("name", "run", "config")}
    values = {name: text for name in all_settings() if (text := _given(form, name))}
    do = _given(form, "do")
    try:
        if do == "read":
            if len(own["config"]) > MOST_OF_A_CONFIG:
                raise BadInput("the configuration is too long")
            read = _differing(settings_from(parsed_config(own["config"].encode(), "the configuration")))
            return _form(request, read, own={**own, "config": ""})
        settings, errors = _read(values)
        if own["name"] and not RUN_NAME.takes(own["name"]):
            errors["name"] = f"expected {RUN_NAME.expected}, got {own['name'][:60]!r}"
        if errors:
            return _form(request, values, own=own, errors=errors)
        offered_of(request).check_settings(settings)
        if do == "toml":
            named = {"content-disposition": 'attachment; filename="run.toml"'}
            return PlainTextResponse("\n".join(settings_toml(settings)) + "\n", headers=named)
        asked = Train(name=own["name"], run=own["run"], dry_run=do == "estimate")
        adapter = adapter_of(request, own["run"])
        job = await asyncio.to_thread(launcher_of(request).train, asked, settings, adapter)
    except SettingError as error:
        return _form(request, values, own=own, errors={error.setting: str(error)})
    except TooManyJobs:
        return _form(request, values, own=own, wrong="The queue is full: wait until a job has ended.")
    except BadInput as error:
        return _form(request, values, own=own, wrong=str(error))
    return RedirectResponse(f"/jobs/{job.id}", 303)


async def _begun(request: Request) -> Response:
    """The form with what a template, or an earlier job, sets."""
    name, job = request.query_params.get("template", ""), request.query_params.get("job", "")
    if like := request.query_params.get("like", ""):
        settings = await asyncio.to_thread(lambda: overview_of(served_of(request), find_run(request, like)).settings)
        if settings is None:
            raise HTTPException(404)
        return _form(request, *_again(request, evolve(settings, seed=settings.seed + 1)))
    if job:
        found = jobs_of(request).find(job)
        if found is None:
            raise HTTPException(404)
        try:
            content = read_input(jobs_of(request).file(found, "run.toml"), MOST_OF_A_CONFIG)
        except BadInput as error:
            raise HTTPException(404) from error
        return _form(request, *_again(request, settings_from(parsed_config(content, "the job")), found.planned))
    if name and name not in TEMPLATES:
        raise HTTPException(404)
    name = name or "default"
    return _form(request, {key: _text(value) for key, value in TEMPLATES[name][1].items()}, template=name)


def _again(request: Request, settings: TrainSettings, name: str = "") -> tuple[dict[str, str], dict[str, str]]:
    """What the form has for these settings: an adapter is the run that it is of."""
    values = _differing(settings)
    checkpoint = Path(values.pop("model.adapter", ""))  # RUN/checkpoints/last
    runs = served_of(request).runs().items()
    return values, {"name": name, "run": next((id_ for id_, path in runs if path == checkpoint.parent.parent), "")}


def _given(form: FormData, name: str) -> str:
    """What a field says, blanks around it apart; nothing where it is a file."""
    found = form.get(name, "")
    return found.strip() if isinstance(found, str) else ""


def _read(values: Mapping[str, str]) -> tuple[TrainSettings, dict[str, str]]:
    """The settings that fields say, and by name what is wrong with those that cannot be used, which are left out."""
    read, errors = dict[str, Any](), dict[str, str]()
    for name, text in values.items():
        try:
            read[name] = ASSIGNMENT(f"{name}={text}")[1]
        except ArgumentTypeError as error:
            errors[name] = str(error)
    while True:
        try:
            return settings_from(read), errors
        except SettingError as error:
            errors[error.setting] = str(error)
            if read.pop(error.setting, None) is None:
                return TrainSettings(), errors


def _differing(settings: TrainSettings) -> dict[str, str]:
    """What differs from the defaults, as text."""
    default = flat_values(TrainSettings())
    return {
        name: NONE if value is None else _text(value)
        for name, value in flat_values(settings).items()
        if value != default[name]
    }


ROUTES = (Route("/new", new_run, methods=["GET", "POST"]),)
