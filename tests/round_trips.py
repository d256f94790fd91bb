"""A task goes out to another framework and comes in again: the verdicts have to be the same."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from gce.app.exports.tasks.exported import TaskExport
from gce.app.exports.tasks.table import EXPORTS
from gce.domain.answers import answered_by
from gce.domain.completions import Completion
from gce.domain.problems import Problem, Split
from gce.domain.tasks import TASKS, Task, draw_problems

NAMES = ("beliefs", "scheduling-answer-only")
"""A graded task, and one whose answers are right or wrong; the worker finds both by name."""
SIZE = 10


def exported(name: str, framework: str, place: Path) -> TaskExport:
    """Export `SIZE` test problems of a shipped task to a directory, and return what was exported."""
    task = TASKS[name]
    preset = next(iter(task.presets))
    tier = task.tiers(preset)[0].name
    problems: dict[Split, tuple[Problem, ...]] = {"test": draw_problems(task, preset, tier, "test", SIZE)}
    found = TaskExport(task, name, preset, 0, problems)
    for path, text in EXPORTS[framework](found).items():
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_text(text, encoding="utf-8")
    for written in (place, *place.rglob("*")):
        written.chmod(0o755 if written.is_dir() else 0o644)
    return found


def check_round_trip(sent: TaskExport, back: Task, twin: Callable[[int], Problem], count: int) -> None:
    """Assert that `count` answers get the same rewards; `twin` gives the problem of this number as it came back."""
    problems = sent.problems["test"]
    asked = _answers(sent.task, problems, count)
    returned = [(twin(place), said) for place, said in asked]
    theirs = list(back.judge_all(returned))
    rewards = set()
    for (place, said), verdicts, answer in zip(asked, theirs, returned, strict=True):
        own = answered_by(sent.task, problems[place], said, sent.task.judge(problems[place], said))
        other = answered_by(back, *answer, verdicts)
        assert (own.reward, own.right) == (other.reward, other.right), f"{said.text!r:.200}: {own}, {other}"
        rewards.add(own.reward)
    assert len(rewards) > 1


def _answers(task: Task, problems: Sequence[Problem], count: int) -> list[tuple[int, Completion]]:
    """Right answers, the same with numbers that are off by one, those of other problems, pieces, and nonsense."""
    rng = random.Random(0)
    known = [task.teaching.demonstration(problem, None) or "" for problem in problems]

    def shifted(text: str) -> str:
        return re.sub(r"\d+", lambda found: str(int(found[0]) + rng.choice((0, 0, 0, 1))), text)

    makers: list[Callable[[int], str]] = [
        lambda place: known[place],
        lambda place: shifted(known[place]),
        lambda place: known[(place + 1) % len(known)],
        lambda place: known[place][: rng.randrange(len(known[place]) + 1)],
        lambda place: rng.choice(("", "no idea", "0", "\ud83d\ude00 \u0000", "Answer: 0.5", known[place] * 2)),
    ]
    asked = []
    for number in range(count):
        place = number // len(makers) % len(problems)
        text = makers[number % len(makers)](place)
        asked.append((place, Completion(f"answer {number}", text, "stop", policy="")))
    return asked
