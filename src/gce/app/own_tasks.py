"""`gce.task`: a task from a list of questions, or a function that draws them, and a function that scores an answer."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from inspect import signature
from pathlib import Path
from typing import Any, TypedDict, Unpack, overload

from gce.app.settings.fields import unknown
from gce.app.terminal import as_called, put
from gce.app.wiring.names import misfit
from gce.app.wiring.tasks import read_questions
from gce.domain.answers import answered_by
from gce.domain.completions import Completion
from gce.domain.tasks import draw_problems
from gce.domain.tasks.extraction import Extract
from gce.domain.tasks.own import DrawRow, RewardFunction, Rows, own_task, why_refused
from gce.domain.tasks.questions import shown
from gce.domain.tasks.task import Task
from gce.errors import BadInput

__all__ = ["task"]

LOOKED_AT = 3
"""Questions of each tier whose own answers are judged at once."""


Problems = str | os.PathLike[str] | Rows | DrawRow


class _Options(TypedDict, total=False):
    """The further arguments of `task`; their defaults are those of `own_task`."""

    name: str
    extract: Extract
    shares: Sequence[float]
    tiers: Sequence[str]
    held_out: Sequence[str]
    reward_range: tuple[float, float]
    admit_at: float | None
    deterministic: bool
    max_tokens: int


@overload
def task(problems: Problems, reward: RewardFunction, **options: Unpack[_Options]) -> Task: ...
@overload
def task(problems: Problems, reward: None = None, **options: Unpack[_Options]) -> Callable[[RewardFunction], Task]: ...
@overload
def task(
    problems: None = None, *, reward: RewardFunction, **options: Unpack[_Options]
) -> Callable[[DrawRow], Task]: ...
def task(problems: Problems | None = None, reward: RewardFunction | None = None, **options: Unpack[_Options]) -> Any:
    r"""A `Task` of your own questions and your own reward.

        TASK = gce.task("questions.jsonl", lambda answer, problem: answer == problem["answer"], name="capitals")

    With one of `problems` and `reward` left out, it is a decorator of the other, whose name is the task's:

        @gce.task("questions.jsonl", extract=r"Answer: (.+)")
        def capitals(answer, problem):
            return answer == problem["answer"]

        @gce.task(reward=score, tiers=("short", "long"))
        def sums(rng, tier): ...

    A row is a mapping: `prompt` (text, or messages with `role` and `content`, the user's last) and any further columns
    of plain data. Four have a meaning: `answer` (text or a number) is what few-shot demonstrations, prompt-blind
    baselines and the attacks of `gce check` use; `tier` names the level (default `all`); `digest` is any text that is
    the same for equal questions (default: a hash of the prompt); `split` is train, dev or test, in all rows or none.

    Args:
        problems: rows (a list, a `datasets.Dataset`, any iterable of mappings), the path of a .jsonl, .jsonl.gz, .json,
            .csv, .tsv or .parquet file, or a function `draw(rng, tier)` that returns a row and draws from `rng` alone.
        reward: `reward(answer, problem)` of the extracted answer, text, and the row, a read-only mapping. Returns true
            or false, a number in `reward_range`, a `Verdict` or a list of them, of which the lowest score counts. An
            exception fails the answer: it is counted and shown, and in no rate.

    Keyword Args:
        name (str): of the task; the function's or the file's by default.
        extract (Extract): where the answer is in a response: 'last line' (that is not blank; the default), 'text' (all
            of it), 'boxed' (LaTeX), ('json', FIELD), ('tag', NAME), or a regular expression with one group. No answer,
            or several that differ, are unreadable and get reward 0; the reward is not asked.
        shares (Sequence[float]): of train, dev and test questions in each tier of a list, in any unit (default (60, 15,
            25)). Which question is in which split follows from the digests alone. A function's problems are split by
            quarters: two, one, one.
        tiers (Sequence[str]): names of all tiers, the easiest first; of a list, sorted by default.
        held_out (Sequence[str]): tiers that are evaluated and never trained on (default: none).
        reward_range (tuple[float, float]): the lowest and the highest number that the reward returns (default (0, 1)).
        admit_at (float): the number from which on an answer counts as right (default: the highest).
        deterministic (bool): whether the same answer always has the same reward (default True).
        max_tokens (int): of a response (default 512).

    Raises:
        BadInput: in one line, what was expected, what came, and in which row.
    """
    if problems is None and reward is None:
        raise BadInput("gce.task needs problems, a reward, or both: expected gce.task(problems, reward)")
    if unknown_ones := sorted(options.keys() - _Options.__annotations__):
        raise BadInput(unknown(unknown_ones[0], _Options.__annotations__, "argument of gce.task"))
    if problems is None:
        return lambda draw: _made(draw, reward, _name_of(draw), options)
    if reward is None:
        return lambda scored: _made(problems, scored, _name_of(scored), options)
    of_file = Path(problems).name.partition(".")[0] if isinstance(problems, (str, os.PathLike)) else ""
    return _made(problems, reward, of_file or _name_of(problems if callable(problems) else reward), options)


def _name_of(function: Any) -> str:
    found = getattr(function, "__name__", "")
    return found if isinstance(found, str) and found.isidentifier() else "questions"


def _check_arguments(name: str, function: Any, what: str, arguments: str) -> None:
    if not callable(function):
        raise BadInput(f"task {name}: expected the {what} to be a function ({arguments}), got {shown(function)}")
    if misfit(function, len(arguments.split(", "))):
        raise BadInput(
            f"task {name}: expected the {what} to be a function ({arguments}), got one of {signature(function)}"
        )


def _made(problems: Any, reward: Any, name: str, options: _Options) -> Task:
    name, where = options.get("name") or name, ""
    if isinstance(problems, (str, os.PathLike)):
        where, problems = f"{os.fspath(problems)}: ", read_questions(Path(problems))
    _check_arguments(name, reward, "reward", "answer, problem")
    if callable(problems):
        _check_arguments(name, problems, "draw", "rng, tier")
    try:
        made = own_task(problems, reward, **(options | {"name": name}))
    except ValueError as error:
        raise BadInput(f"task {name}: {where}{error}") from error
    _warn_of_refused_answers(made)
    return made


def _warn_of_refused_answers(made: Task) -> None:
    """Say where the reward refuses answers of the column `answer`, as one that compares text with a number does."""
    if made.audit.varies:
        return
    preset = next(iter(made.presets))
    problems = [
        problem for tier in made.tiers(preset) for problem in draw_problems(made, preset, tier.name, "test", LOOKED_AT)
    ]
    known = [(problem, made.teaching.demonstration(problem, None)) for problem in problems]
    answers = [(problem, Completion("answer", text, "stop", policy="")) for problem, text in known if text is not None]
    judged = [answered_by(made, problem, each, made.judge(problem, each)) for problem, each in answers]
    refused = [answer for answer in judged if not answer.right]
    if refused:
        text, where = refused[0].completion.text, made.audit.where(refused[0].problem.instance)
        why = why_refused([(each.problem.instance, each.reward) for each in refused], made.admit_at)
        put(
            f"warning: task {made.name}: the reward refuses the row's own answer in {len(refused)} of {len(judged)} "
            f"rows looked at, as {text!r:.60}{f' of {where}' if where else ''}{why and f'; {why}'}; "
            f"{as_called('gce check', 'gce.check(task)')} looks at all rows",
            error=True,
        )
