"""The plan of a performance run: which agents try which tasks, how often, and within which limits."""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from attrs import evolve, field, frozen, validators

from gce.app.options import nearest
from gce.app.wiring.access import Access, known_prices
from gce.app.wiring.files import parse_toml, read_input
from gce.app.wiring.models import backend_of, price_of
from gce.app.wiring.performance import RunFolder, find_tasks, why_no_program
from gce.app.wiring.sandboxes import UNSAFE
from gce.domain.performance.agents import CONTROLS, PRESETS, AgentCommand
from gce.domain.serialization import from_plain, to_plain
from gce.errors import BadInput, one_line

__all__ = ["Item", "Plan", "PlannedTask", "model_name", "open_plan", "plan", "read_agents"]

_MOST_BYTES = 1 << 20
_MOST_REPEATS = 1000
_MOST_OF_A_NAME = 40


@frozen
class PlannedTask:
    """A task and the directory that it is read from."""

    name: str
    directory: str


@frozen
class Item:
    """One attempt that is planned."""

    task: str
    agent: str
    repeat: int

    @property
    def key(self) -> str:
        """Unique within a run; also a path."""
        return f"{self.task}/{self.agent}/{self.repeat}"


@frozen(kw_only=True)
class Plan:
    """What a run does."""

    tasks: tuple[PlannedTask, ...] = field(validator=validators.min_len(1))
    commands: tuple[AgentCommand, ...] = ()
    models: tuple[str, ...] = ()
    """Models of which each has a loop, as behind `--model`."""
    repeats: int = field(default=1, validator=validators.in_(range(1, _MOST_REPEATS + 1)))
    seed: int = 0
    turns: int = 8
    """Replies of a model in its loop."""
    max_tokens: int = 4096
    """Generated tokens of one reply."""
    temperature: float = 0.7
    max_cost: float | None = None
    """US dollars that all attempts together may cost; none is begun beyond it."""
    instructions: bool = False
    """Whether instructions are counted, too, where that can be done."""
    runner: str

    @property
    def agents(self) -> tuple[str, ...]:
        """Names, controls first."""
        return (*CONTROLS, *(each.name for each in self.commands), *(model_name(each, "loop") for each in self.models))

    @property
    def items(self) -> tuple[Item, ...]:
        """All attempts: every agent tries every task once before any tries one again."""
        return tuple(
            Item(task.name, agent, repeat)
            for repeat in range(self.repeats)
            for task in self.tasks
            for agent in self.agents
        )


def plan(
    out: Path,
    tasks: Sequence[Path],
    *,
    agents: Sequence[str] = (),
    agents_file: Path | None = None,
    models: Sequence[str] = (),
    runner: str,
    **given: Any,
) -> Plan:
    """Write the plan of a new run into a new folder, and return it.

    Args:
        out: folder of the run.
        tasks: directories of tasks, or of such; none for the shipped tasks.
        agents: names in the file of agents, or of presets; none for all in the file.
        agents_file: TOML with a table `agents.NAME` for each agent.
        models: models whose loop is run, as behind `--model`.
        runner: sandbox in which code is measured.
        given: further fields of `Plan`.

    Raises:
        BadInput: no task, an unknown agent, two tasks or agents of one name, a limit on the cost with an agent whose
            cost is not known, an agent whose program is not found, or the folder is not empty.
    """
    directories: Sequence[Path | None] = tasks or (None,)
    found = [each for directory in directories for each in find_tasks(directory)]
    planned = [PlannedTask(task.name, str(place.resolve())) for place, task in found]
    _check_different("tasks", [each.name for each in planned])
    own = read_agents(agents_file) if agents_file else {}
    known = {**PRESETS, **own}
    unknown = [name for name in agents if name not in known]
    if unknown:
        raise BadInput(
            f"unknown agent {unknown[0]!r}: expected one of {', '.join(known)}{nearest(unknown[0], known)}; "
            f"{', '.join(CONTROLS)} always run"
        )
    try:
        made = Plan(
            tasks=tuple(planned),
            commands=tuple(known[name] for name in agents or own),
            models=tuple(models),
            runner=runner,
            **given,
        )
    except ValueError as error:
        raise BadInput(one_line(error)) from error
    _check_different("agents", list(made.agents))
    if made.max_cost is not None:
        _check_costs(made)
    for reason in filter(None, (why_no_program(each, isolated=runner != UNSAFE) for each in made.commands)):
        raise BadInput(reason, hint="install it, or show where it is with visible in {agents_file}")
    RunFolder.create(out, made).note("planned", items=len(made.items))
    return made


def open_plan(run: Path) -> tuple[RunFolder, Plan]:
    """Return a run's folder and plan.

    Raises:
        BadInput: there is no run.
        DamagedStore: the plan is not as it was written.
    """
    folder = RunFolder(run)
    found = folder.read(Plan, "plan")
    if found is None:
        raise BadInput(f"{run} is no performance run", hint="make one with gce performance plan")
    return folder, found


def read_agents(path: Path) -> dict[str, AgentCommand]:
    """Return the agents in a TOML file by name; a table with `preset` changes fields of a known agent.

    Raises:
        BadInput: the file cannot be read, or an agent is not as `AgentCommand` says.
    """
    content = parse_toml(read_input(path, _MOST_BYTES), str(path))
    tables = content.get("agents")
    if set(content) != {"agents"} or not isinstance(tables, dict) or not all(map(_is_table, tables.values())):
        raise BadInput(f"expected {path} to have tables [agents.NAME] and nothing else")
    agents = {}
    for name, fields in tables.items():
        preset = fields.pop("preset", None)
        if preset is not None and preset not in PRESETS:
            raise BadInput(f"{path}: agent {name}: expected a preset from {', '.join(PRESETS)}, got {preset!r:.60}")
        before = to_plain(PRESETS[preset]) if preset else {}
        try:
            found = from_plain(AgentCommand, {**before, **fields, "name": name})
        except ValueError as error:
            raise BadInput(f"{path}: agent {name}: {one_line(error)}") from error
        if name in CONTROLS:
            raise BadInput(f"{path}: {name} is a control, which always runs: give the agent another name")
        # Relative to the file, wherever the command is given; presets also name places that a machine lacks.
        visible = {each: str(path.parent.absolute() / Path(each).expanduser()) for each in found.visible}
        missing = [each for each in fields.get("visible", ()) if not Path(visible[each]).exists()]
        if missing:
            raise BadInput(f"{path}: agent {name}: no such path: {missing[0]!r}, which is to be visible")
        agents[name] = evolve(found, visible=tuple(visible.values()))
    return agents


def _is_table(value: object) -> bool:
    return isinstance(value, dict)


def _check_costs(made: Plan) -> None:
    """BadInput if an agent may cost something that is not counted; one without network costs nothing."""
    online = [each for each in made.commands if each.is_online(made.runner != UNSAFE)]
    unknown = [f"agent {each.name}" for each in online if not each.cost]
    access = Access(prices=known_prices()[1])
    for model in made.models:
        backend = backend_of(model)
        if backend.uncounted or (backend.metered and price_of(model, access) is None):
            unknown.append(f"model {model}")
    if unknown:
        raise BadInput(
            f"what {unknown[0]} costs is not known, so the limit on the cost cannot be kept",
            hint="leave out {max_cost}, or say in {agents_file} where the agent reports its cost",
        )


def model_name(model: str, role: str) -> str:
    """Return a name of at most 40 characters for a model in a role, which is different for different models."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", f"{role}-{model}").strip("-")
    return name if len(name) <= _MOST_OF_A_NAME else f"{name[:31]}-{sha256(model.encode()).hexdigest()[:8]}"


def _check_different(what: str, names: list[str]) -> None:
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise BadInput(f"expected {what} of different names, got {twice[0]!r} twice")
