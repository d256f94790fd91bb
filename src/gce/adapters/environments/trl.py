"""`trl:MODULE:FUNCTION@DATA`: a reward function as TRL's trainers take it, and a file of its data set.

The function is called with the lists `prompts` and `completions`, of one item each, and a list for each further column,
and returns a list of one number; it may be async. Where prompts are lists of messages, completions are, too. Any file
that `gce.task` reads is a data set; TRL itself is not needed.

Options: `low` and `high`, between which rewards are (0 and 1); `admit_at`, from which on an answer is right (`high`);
`answer`, the column with the known answer; `files`, what else the function may import or read, from here on, separated
by commas; `varies=true` for rewards that differ from call to call.

Format: https://huggingface.co/docs/trl/grpo_trainer, "Using a custom reward function", TRL 1.16.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gce.adapters.datasets.question_files import read_rows
from gce.adapters.environments.foreign import (
    LIMITS,
    REWARDS,
    Given,
    Open,
    described,
    limits_of,
    listed_task,
    number,
    settled,
)
from gce.adapters.environments.places import named_files, place_of
from gce.domain.tasks.task import Task
from gce.errors import BadInput

__all__ = ["load", "open_task"]

OPTIONS = (*LIMITS, *REWARDS, "files", "answer")


def open_task(given: Given, open_scorers: Open) -> Task:
    """The task of one reward function over one file.

    Raises:
        BadInput: there is no such module, function, file or option, or the function does not take these columns.
    """
    options = given.held_to(OPTIONS)
    function, _, data = given.name.partition("@")
    module, _, attribute = function.partition(":")
    if not (module and attribute and data):
        raise BadInput(f"expected trl:MODULE:FUNCTION@DATA, got {given.text!r}")
    rows = [_with_answer(row, options.get("answer", "answer")) for row in read_rows(Path(data))]
    files, path = place_of(module, given.text)
    files = [*files, *named_files(str(options.get("files", "")), Path.cwd(), given.text)]
    arguments = {"module": module, "function": attribute}
    scorers = open_scorers(__name__, arguments, files=files, path=path, limits=limits_of(given))
    described(given, scorers)
    return listed_task(
        given,
        scorers,
        rows,
        f"trl {attribute}",
        extract="text",
        **given.rewards(),
    )


def _with_answer(row: Any, column: str) -> Any:
    """The row with its known answer in the column `answer`."""
    if column == "answer" or not isinstance(row, Mapping) or column not in row:
        return row
    return {**row, "answer": row[column]}


def load(arguments: Mapping[str, Any]) -> Mapping[str, Callable[..., Any]]:
    """The reward function, in the worker."""
    function = getattr(importlib.import_module(arguments["module"]), arguments["function"])
    if not callable(function):
        raise TypeError(f"{arguments['function']} is {type(function).__name__}, expected a reward function")

    def score(answer: str, row: Mapping[str, Any]) -> Any:
        prompt = row["prompt"]
        chat = not isinstance(prompt, str)
        completion: Any = [{"role": "assistant", "content": answer}] if chat else answer
        columns = {name: [value] for name, value in row.items() if name != "prompt"}
        found = settled(function(prompts=[prompt], completions=[completion], **columns))
        if not isinstance(found, (list, tuple)) or len(found) != 1:
            raise ValueError(f"expected a list of one reward, got {type(found).__name__}")
        return number(found[0])

    return {"describe": lambda: {}, "score": score}
