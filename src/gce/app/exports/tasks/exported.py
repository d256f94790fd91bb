"""What an exporter of tasks is, and what all of them need: rows of problems, and templates of files.

An exported directory names the task and carries its problems; the task's own verifier judges, through `gce.verify`.
Templates are in `gce/data/task_exports`, one directory a framework, with $NAME where a value stands.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import resources
from string import Template
from typing import Any

from attrs import frozen

from gce.app.evaluation.shown_problem import plain_problem
from gce.domain.answers import answered_by
from gce.domain.completions import Completion
from gce.domain.problems import Problem, Split
from gce.domain.serialization import to_plain
from gce.domain.tasks import Task
from gce.domain.tasks.task import nothing_to_run

__all__ = ["Exporter", "TaskExport", "templates"]

JUDGED = """\
The task's own verifier judges, through `gce.verify`, so verdicts are those of `gce`, which is needed without any extra,
from a checkout of its repository (`/path/to/gce`): no package index has it.
The task must be found by its name: a task or a file of your own must be importable where this runs, as from a copy."""
"""For each README."""


@frozen
class TaskExport:
    """A task with the problems that go with it."""

    task: Task
    name: str
    """As `--task` takes it."""
    preset: str
    seed: int
    problems: Mapping[Split, Sequence[Problem]]
    """No split is empty; those without problems are left out."""

    @property
    def identifier(self) -> str:
        """A name for it in Python, YAML and registries: gce_ and the task's in lower-case letters, digits and _."""
        return "gce_" + re.sub(r"\W+", "_", self.name.lower(), flags=re.ASCII).strip("_")

    @property
    def max_tokens(self) -> int:
        """Maximum tokens of a response to any of its problems."""
        return max(self.task.token_budget(problem) for each in self.problems.values() for problem in each)

    @property
    def values(self) -> Mapping[str, str]:
        """What stands in every template, as text in which quotes and backslashes are as Python and JSON write them."""
        name, preset = json.dumps(self.name), json.dumps(self.preset)
        sizes = ", ".join(f"{len(each):,} {split}" for split, each in self.problems.items())
        return {
            "TASK": name,
            "ABOUT": f"Task {name}, preset {preset}, seed {self.seed}: {sizes} problems",
            "JUDGED": JUDGED,
            "IDENTIFIER": self.identifier,
            "MAX_TOKENS": str(self.max_tokens),
            "SPLITS": json.dumps(list(self.problems)),
            "SPLIT_NAMES": ", ".join(self.problems),
            "FIRST_SPLIT": json.dumps(next(iter(self.problems))),
            "ADMIT_AT": str(self.task.admit_at),
        }

    def rows(self, split: Split) -> list[dict[str, Any]]:
        """The problems of a split as rows of plain data.

        `problem` is JSON text for `gce.verify`, `messages` is the prompt, `prompt` the same as one text, `answer` a
        right response where the task knows one, else empty.
        """
        return [self._row(problem) for problem in self.problems.get(split, ())]

    def split_files(self, folder: str = "", *, messages: bool = False) -> dict[str, str]:
        """`SPLIT.jsonl` of each split, one row a line in ASCII; its `prompt` is one text, or a list of messages."""
        return {f"{folder}{split}.jsonl": _lines(self.rows(split), messages=messages) for split in self.problems}

    def _row(self, problem: Problem) -> dict[str, Any]:
        plain = plain_problem(problem)
        del plain["prompt"]
        return {
            "id": problem.key,
            "tier": problem.tier,
            "messages": to_plain(problem.prompt),
            "prompt": "\n\n".join(message.content for message in problem.prompt),
            "answer": self._right_answer(problem),
            "problem": json.dumps(plain),
        }

    def _right_answer(self, problem: Problem) -> str:
        """What the task demonstrates; empty where it calls that wrong, as for a rule of thumb that fails."""
        text = self.task.teaching.demonstration(problem, None) or ""
        if not text or self.task.request is not nothing_to_run:
            return text
        completion = Completion(problem.key, text, "stop", policy="export")
        found = answered_by(self.task, problem, completion, self.task.verify(problem, completion, None))
        return text if found.right or found.failed else ""


Exporter = Callable[[TaskExport], Mapping[str, str]]
"""From a task to the files of its directory: text by relative path."""


def templates(framework: str, values: Mapping[str, str]) -> dict[str, str]:
    """The framework's template files with these values in them, by name; `NAME.txt` becomes `NAME`."""
    return {name.substitute(values): text.substitute(values) for name, text in _templates(framework)}


@cache
def _templates(framework: str) -> list[tuple[Template, Template]]:
    """Names and texts."""
    folder = resources.files("gce") / "data" / "task_exports" / framework
    return [
        (Template(each.name.removesuffix(".txt")), Template(each.read_text(encoding="utf-8")))
        for each in sorted(folder.iterdir(), key=lambda each: each.name)
        if each.name.endswith(".txt")
    ]


def _lines(rows: Sequence[Mapping[str, Any]], *, messages: bool) -> str:
    kept = ("id", "tier", "answer", "problem")
    prompt = "messages" if messages else "prompt"
    return "".join(json.dumps({"prompt": row[prompt], **{name: row[name] for name in kept}}) + "\n" for row in rows)
