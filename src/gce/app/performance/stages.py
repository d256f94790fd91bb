"""The stages of a performance run after its plan. Each goes on where it was stopped; nothing is done twice.

Harness and tests are those that `prepare` has put aside; what an agent does to its copies of them counts for nothing.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path

from attrs import evolve, frozen

from gce.app.loaded_model import load_model
from gce.app.performance.admitting import counting, with_instructions
from gce.app.performance.attempts import Made, Subject, by_command, by_control, by_model
from gce.app.performance.plans import Item, Plan, model_name, open_plan
from gce.app.terminal import note, put
from gce.app.wiring.files import read_input, whole_folder
from gce.app.wiring.performance import (
    Measuring,
    RunFolder,
    check_sources,
    find_measuring,
    find_tasks,
    read_tree,
    tree_writer,
    why_no_sandbox,
    write_files,
)
from gce.app.wiring.sandboxes import UNSAFE
from gce.app.wiring.system import SystemClock
from gce.domain.performance.agents import CONTROLS, Attempt
from gce.domain.performance.decision import LOOKS, Comparison, Decision, Round, Rule, decide
from gce.domain.performance.iso_bench import IsoRecord
from gce.domain.performance.overlap import Quadrant, quadrant
from gce.domain.performance.patches import KeptPatch, Patch, Tree, applied, kept_patch, patch_of, tree_digest
from gce.domain.performance.prompts import task_prompt
from gce.domain.performance.task import PerformanceTask
from gce.domain.randomness import key
from gce.domain.serialization import to_plain
from gce.domain.text import counted
from gce.errors import BadInput, DamagedStore, LowCoverage, ModelError, Unfinished

__all__ = ["MOST_RECORDS", "Row", "kept_patch_of", "prepare", "prepared_subject", "rows_of", "run"]

MOST_RECORDS = 2**28
"""Bytes of a file of records of another benchmark."""


@frozen
class Row:
    """One attempt and what was measured of it."""

    item: Item
    attempt: Attempt
    comparison: Comparison
    quadrant: Quadrant


@frozen
class Prepared:
    """A task that was put aside, with digests of its trees."""

    task: PerformanceTask
    base: str
    human: str


def prepare(run: Path) -> int:
    """Put aside tasks, their trees and their prompts; return how many were not there yet.

    Raises:
        BadInput: no plan, a task that has changed its name, a workload or tests that are no Python, or sources that
            were not fetched.
    """
    folder, plan = open_plan(run)
    with folder.locked():
        missing = [task for task in plan.tasks if not (folder.task(task.name) / "prepared.json").is_file()]
        for planned in missing:
            (_, task), *more = find_tasks(Path(planned.directory))
            if more or task.name != planned.name:
                raise BadInput(f"{planned.directory} no longer holds the task {planned.name}")
            check_sources(task)  # Before any agent is paid for.
            with whole_folder(folder.task(task.name)) as place:
                sources = {"base": task.base, "human": task.human}
                for name, source in sources.items():
                    tree_writer(Path(planned.directory))(source, place / name)
                digests = {name: tree_digest(read_tree(place / name)) for name in sources}
                kept = Path(planned.directory, IsoRecord.FILE)
                if kept.is_file():
                    (place / kept.name).write_bytes(read_input(kept, MOST_RECORDS))
                (place / "prompt.md").write_text(task_prompt(task), encoding="utf-8")
                record = json.dumps(to_plain(Prepared(task, **digests)))
                (place / "prepared.json").write_text(record, encoding="utf-8")
            folder.note("prepared", task=task.name, **digests)
        return len(missing)


def run(run: Path) -> int:
    """Make and measure all attempts that are missing; return how many were measured now.

    Tasks are prepared first where they are not.

    Raises:
        BadInput: no plan, or no sandbox for agents.
        Unfinished: the limit on the cost of all attempts was reached; what costs nothing was done.
        LowCoverage: attempts failed that are no agent's fault; the same call makes them again.
    """
    prepare(run)
    folder, plan = open_plan(run)
    with folder.locked():
        missing = [item for item in plan.items if not _is_measured(folder, item)]
        if not missing:
            return 0
        isolated = plan.runner != UNSAFE
        reason = why_no_sandbox() if isolated and plan.commands else ""
        if reason:
            raise BadInput(f"agents are run in a sandbox, and it does not work here: {reason}")
        if plan.commands and not isolated:
            put(f"warning: runner {UNSAFE}: agents run WITHOUT A SANDBOX, with your rights", error=True)
        tasks = [prepared_subject(run, task.name).task for task in plan.tasks]
        work = _Work(folder, plan, find_measuring(plan.runner, tasks, _Accuracies(folder)), isolated)
        failures = []
        for number, item in enumerate(missing, 1):
            if work.is_over(item):
                continue
            note(f"{number} of {len(missing)}: {item.key}")
            failure = work.do(item)
            if failure:
                failures.append(failure)
                note(f"  failed: {failure}")
        if failures:
            raise LowCoverage(
                f"{len(failures)} of {counted(len(missing), 'attempt')} failed, the first because {failures[0]}; "
                f"the same command makes them again"
            )
        work.check_cost()
        return len(missing)


def rows_of(run: Path) -> tuple[Plan, list[Row]]:
    """Return the plan of a run and the attempts that were measured so far."""
    folder, plan = open_plan(run)
    rows = []
    for item in plan.items:
        tried, found = _attempt(folder, item), _measured(folder, item)
        if tried is not None and found is not None:
            rows.append(Row(item, tried, found, quadrant(tried.overlap, found.verdict)))
    return plan, rows


def kept_patch_of(folder: RunFolder, item: Item, base: Tree) -> Patch:
    """Return the patch of an attempt; DamagedStore where it is not as it was written, or of another base."""
    kept = folder.read(KeptPatch, f"items/{item.key}/patch")
    try:
        return patch_of(kept or KeptPatch(()), base)
    except ValueError as error:
        raise DamagedStore(f"{folder.path}: {item.key}: {error}") from error


def _attempt(folder: RunFolder, item: Item) -> Attempt | None:
    return folder.read(Attempt, f"items/{item.key}/attempt")


def _measured(folder: RunFolder, item: Item) -> Comparison | None:
    return folder.read(Comparison, f"measured/{item.key}")


def _is_measured(folder: RunFolder, item: Item) -> bool:
    found = _measured(folder, item)
    return found is not None and not found.failed


def prepared_subject(run: Path, name: str) -> Subject:
    """Return a task of a run as it was put aside.

    Raises:
        BadInput: it is not prepared yet.
        DamagedStore: it is not as it was then.
    """
    folder = RunFolder(run)
    kept = folder.read(Prepared, f"tasks/{name}/prepared")
    if kept is None:
        raise BadInput(f"task {name} of {run} is not prepared", hint=f"gce performance prepare {run}")
    base, human = (read_tree(folder.task(name) / each) for each in ("base", "human"))
    for each, tree, digest in (("base", base, kept.base), ("human", human, kept.human)):
        if tree_digest(tree) != digest:
            raise DamagedStore(f"{folder.task(name) / each} is not as it was prepared")
    return Subject(kept.task, base, human)


class _Accuracies(dict[str, float]):
    """What `accuracy_command` printed, by digest; each number is written as it comes."""

    def __init__(self, folder: RunFolder) -> None:
        names = [file.stem for file in folder.path.glob("accuracy/*.json")]
        super().__init__((name, folder.read(float, f"accuracy/{name}") or 0.0) for name in names)
        self._folder = folder

    def __setitem__(self, digest: str, accuracy: float) -> None:
        super().__setitem__(digest, accuracy)
        self._folder.write(f"accuracy/{digest}", accuracy)


class _Work:
    """Makes and measures attempts of one run."""

    def __init__(self, folder: RunFolder, plan: Plan, measures: Measuring, isolated: bool) -> None:
        self._folder = folder
        self._plan = plan
        self._measures = measures
        self._isolated = isolated
        count = counting(plan.instructions)
        self._count = count and cache(count)  # Prepared trees are counted once.
        self._commands = {each.name: each for each in plan.commands}
        self._models = {model_name(each, "loop"): cache(partial(load_model, each)) for each in plan.models}
        self._spent = folder.spent()
        self._left_out = 0
        self._unknown: set[str] = set()
        self._subject = cache(partial(prepared_subject, folder.path))

    def is_over(self, item: Item) -> bool:
        """Whether an attempt would have to be made, and the limit on the cost is reached."""
        limit = self._plan.max_cost
        costs = item.agent not in CONTROLS and _attempt(self._folder, item) is None
        over = costs and limit is not None and self._spent >= limit
        self._left_out += over
        return over

    def check_cost(self) -> None:
        """Raise Unfinished if attempts were left out because of the limit on the cost."""
        if self._left_out:
            raise Unfinished(
                f"attempts have cost {self._spent:.2f} US dollars, and {self._plan.max_cost:g} was the limit: "
                f"{self._left_out} were not made"
            )

    def do(self, item: Item) -> str:
        """Do what is missing of an attempt; return why it failed, if it did."""
        subject = self._subject(item.task)
        if _attempt(self._folder, item) is None:
            made = self._make(item, subject)
            tried, cost = made.attempt, self._cost(item, made.attempt)
            self._spent += cost
            self._folder.note("attempted", item=item.key, ending=tried.ending, reason=tried.reason, cost=cost)
            if tried.ending == "failed":
                return tried.reason
            self._folder.keep_attempt(item.key, tried, kept_patch(made.patch), made.texts)
        patch = kept_patch_of(self._folder, item, subject.base)
        try:
            seed = key(self._plan.seed, "measure", item.task, item.agent, item.repeat)
            found = self._compare(item, subject, applied(subject.base, patch), seed, rule=decide, human=True)
        except BadInput as error:
            self._folder.note("failed", item=item.key, reason=str(error))
            return str(error)
        self._folder.write(f"measured/{item.key}", found)
        self._folder.note("measured", item=item.key, verdict=found.verdict, reward=found.reward)
        return found.fault if found.failed else ""

    def _cost(self, item: Item, tried: Attempt) -> float:
        """Return what an attempt counts towards the limit: where it reports no cost, what it may cost."""
        agent = self._commands.get(item.agent)
        if tried.usage.cost is not None or agent is None or tried.ending == "failed":
            return tried.usage.cost or 0.0
        unknown = agent.max_cost is None and self._plan.max_cost is not None and agent.is_online(self._isolated)
        if unknown and agent.name not in self._unknown:
            self._unknown.add(agent.name)
            note(f"warning: agent {agent.name} reported no cost and has no max_cost: the limit does not count it")
        return agent.max_cost or 0.0

    def _make(self, item: Item, subject: Subject) -> Made:
        plan, seed = self._plan, key(self._plan.seed, "attempt", item.task, item.agent, item.repeat)
        if item.agent in CONTROLS:
            return by_control(item.agent, subject)
        if item.agent in self._commands:
            return by_command(self._commands[item.agent], subject, item.key, isolated=self._isolated)

        def quick(tree: Tree, drawn: int) -> Comparison:
            found = self._compare(item, subject, tree, drawn, rule=_at_first_look, human=False)
            if found.failed:  # The model is told nothing that is not so.
                raise BadInput(found.fault)
            return found

        try:
            model = self._models[item.agent]()
        except ModelError as error:
            return Made(Attempt("failed", str(error)), Patch(), {})
        return by_model(
            model,
            subject,
            item.key,
            quick,
            turns=plan.turns,
            max_tokens=plan.max_tokens,
            temperature=plan.temperature,
            seed=seed,
            clock=SystemClock().now,
        )

    def _compare(self, item: Item, subject: Subject, tree: Tree, seed: int, *, rule: Rule, human: bool) -> Comparison:
        place = self._folder.task(subject.task.name)
        with tempfile.TemporaryDirectory(prefix="gce-candidate-") as home:
            code = Path(home, "code")
            write_files(tree, code)
            of_human = place / "human" if human else None
            found = self._measures.compare(
                subject.task,
                place / "base",
                code,
                human=of_human,
                seed=seed,
                rule=rule,
                on_retry=lambda reason: self._folder.note("retried", item=item.key, reason=reason),
            )
            if self._count is None or not human:
                return found
            drawn = key(self._plan.seed, "instructions")
            return with_instructions(
                found, subject.task, place / "base", code, human=of_human, count=self._count, seed=drawn
            )


def _at_first_look(rounds: Sequence[Round]) -> Decision:
    """Decide as early as may be: for what is told to a model."""
    return evolve(decide(rounds), settled=len(rounds) in LOOKS)
