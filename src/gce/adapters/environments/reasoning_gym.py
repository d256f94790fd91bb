"""`reasoning-gym:NAME`: a generator of reasoning-gym, with its own scorer.

Preset `default` has one tier, the generator's own configuration with the options given; preset `curriculum` has the
levels of its difficulty curriculum that the generator accepts. A problem is drawn by an index or a seed of its own, so
that it does not depend on others. Splits follow from the digest of question and answer. The option `module` names a
module that registers a generator of one's own when it is imported, and `files` what else that module may import or
read; `curriculum=false` leaves out the levels, since a problem is drawn from each at first; all others are those of the
configuration.

Format: https://github.com/open-thought/reasoning-gym, 0.1.25: `create_dataset`, entries of question, answer and
metadata, `score_answer(answer, entry)` in [0, 1].
"""

from __future__ import annotations

import importlib
import random
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from gce.adapters.environments.foreign import LIMITS, Given, Open, described, drawn_task, limits_of, text_digest
from gce.adapters.environments.places import named_files, place_of
from gce.adapters.environments.reproductions import Script, scripts_worker
from gce.adapters.environments.scorers import Scorers
from gce.domain.plain_values import NotPlain, from_text, to_text
from gce.domain.tasks.task import Task
from gce.errors import BadInput, MissingExtra

__all__ = ["INSTRUCTIONS", "load", "names", "open_task", "reproductions"]

INSTRUCTIONS = (
    "Give the final answer between <answer> and </answer>. Do not explain your reasoning inside the tags. When an "
    "example is provided, follow the format of its answer."
)
"""After each question; reasoning-gym's own evaluations say the same in a system prompt."""
OWN = ("module", "files", "curriculum")
"""Options that are not the generator's."""
MOST_ENTRY = 2**14
"""Maximum characters of an entry that is kept with its problem; a longer one is drawn again to be scored."""


def open_task(given: Given, open_scorers: Open) -> Task:
    """The task of one generator.

    Raises:
        MissingExtra: reasoning-gym is not installed.
        BadInput: there is no such generator, or it does not take these options.
    """
    if find_spec("reasoning_gym") is None:
        raise MissingExtra("reasoning-gym", "reasoning-gym")
    config = {name: value for name, value in given.options.items() if name not in (*LIMITS, *OWN)}
    module = str(given.options.get("module", ""))
    if reserved := sorted(config.keys() & {"seed", "size"}):
        raise BadInput(f"{given.text}: problems are drawn one by one: leave out {reserved[0]}")
    files, path = place_of(module, given.text) if module else ([], [])
    files = [*files, *named_files(str(given.options.get("files", "")), Path.cwd(), given.text)]
    arguments = {"name": given.name, "config": config, "module": module}
    arguments["curriculum"] = given.options.get("curriculum", True)
    scorers = open_scorers(__name__, arguments, files=files, path=path, limits=limits_of(given))
    facts = described(given, scorers)
    presets = {"default": ["default"]}
    if facts["levels"]:
        presets["curriculum"] = facts["levels"]
    return drawn_task(
        given,
        scorers,
        f"reasoning-gym {given.name}",
        presets,
        extract=("tag", "answer"),
        max_tokens=1024,
        unread=("prompt", "answer"),
    )


def names(open_scorers: Open) -> list[str]:
    """All generators, by name; BadInput where the package cannot be loaded."""
    return [*described(_BARE, open_scorers(__name__, {"name": ""}))["names"]]


_BARE = Given("reasoning-gym", "", {}, "reasoning-gym")


def reproductions(name: str, open_scorers: Open) -> tuple[Script, Scorers]:
    """What writes a row and an answer as a script of five lines, and a worker that runs it."""
    given = Given("reasoning-gym", name, {}, f"reasoning-gym:{name}")
    own = {"adapter": __name__, "name": name, "config": {}, "curriculum": False}
    scripts = scripts_worker(open_scorers, "reasoning_gym", **own)
    facts = described(given, scripts)

    def script(row: Mapping[str, Any], answer: str) -> str:
        seed = int(row["seed"])
        made = f"dataset = reasoning_gym.create_dataset({name!a}, seed={{}}, size=1)"
        drawn = [f"random.seed({seed})"]
        drawn = [made.format(0), *drawn] if facts["by_index"] else [*drawn, made.format(seed)]
        drawn.append(f"entry = dataset[{seed if facts['by_index'] else 0}]")
        return "\n".join(["import random, reasoning_gym", *drawn, f"print(dataset.score_answer({answer!a}, entry))"])

    return script, scripts


def load(arguments: Mapping[str, Any]) -> Mapping[str, Callable[..., Any]]:
    """The generator's functions, in the worker; ValueError where there is no such generator."""
    from reasoning_gym.factory import CURRICULA, DATASETS, create_curriculum

    if arguments.get("module"):
        importlib.import_module(arguments["module"])
    if not arguments["name"]:
        return {"describe": lambda: {"names": sorted(DATASETS)}}
    name, options = arguments["name"], arguments["config"]
    if name not in DATASETS:
        close = [each for each in sorted(DATASETS) if name[:4] in each] or sorted(DATASETS)[:8]
        raise ValueError(f"no generator {name!r}; there are {len(DATASETS)}, as {', '.join(close)}")
    dataset_of, config_of = DATASETS[name]

    def dataset(tier: str, seed: int) -> Any:
        given = {**options, "seed": seed, "size": 1}
        if tier == "default":
            found = config_of(**given)
        else:
            curriculum = create_curriculum(name)
            curriculum.set_global_level(int(tier.removeprefix("level-")))
            found = curriculum.generate_configuration(given)
        if hasattr(found, "validate"):  # Two configurations have none.
            found.validate()
        return dataset_of(config=found)

    def levels() -> dict[str, Any]:
        """Data sets of the curriculum's levels whose configuration the generator accepts and draws a problem from."""
        found: dict[str, Any] = {}
        has_levels = name in CURRICULA and arguments.get("curriculum", True)
        attributes = create_curriculum(name).attributes.values() if has_levels else ()
        for level in range(max((len(each.levels) for each in attributes), default=0)):
            with suppress(Exception):  # What `validate` raises is an AssertionError in most.
                of_level = dataset(f"level-{level}", 0)
                _ = of_level[0]
                found[f"level-{level}"] = of_level
        return found

    # Made once, in the process that all scorers are forked from.
    made = {"default": dataset("default", 0), **levels()}
    by_index = _by_index(made["default"])

    @lru_cache(maxsize=256)
    def drawn(tier: str, seed: int) -> Any:
        random.seed(seed)  # Some generators draw from the global one.
        return made[tier][seed] if by_index else dataset(tier, seed)[0]

    @lru_cache(maxsize=256)
    def kept(text: str) -> Any:
        return from_text(text)

    def draw(tier: str, seed: int) -> dict[str, Any]:
        entry = drawn(tier, seed)
        question, answer = entry["question"], entry["answer"]
        if not isinstance(question, str):
            raise TypeError(f"expected a question as text, got {type(question).__name__}")
        row = {
            "prompt": f"{question}\n\n{INSTRUCTIONS}",
            "digest": digest_of(question, answer),
            "level": tier,
            "seed": seed,
            "entry": _entry_text(entry),
        }
        return row if answer is None else {**row, "answer": str(answer)}

    def score(answer: str, row: Mapping[str, Any]) -> float:
        entry = kept(row["entry"]) if row["entry"] else drawn(row["level"], row["seed"])
        if digest_of(entry["question"], entry["answer"]) != row["digest"]:
            raise ValueError("the generator makes another problem from the same seed")
        return float(made[row["level"]].score_answer(answer, entry))

    tiers = [tier for tier in made if tier != "default"]
    return {"describe": lambda: {"levels": tiers, "by_index": by_index}, "draw": draw, "score": score}


def _by_index(dataset: Any) -> bool:
    """Whether a data set gives different problems by any index: making a new one for each is slow in some."""
    try:
        random.seed(0)
        return bool(dataset[10**6]["question"] != dataset[10**6 + 1]["question"])
    except Exception:  # Of one that makes all its problems at first.
        return False


def digest_of(question: str, answer: Any) -> str:
    """Of question and answer, 32 hexadecimal digits."""
    return text_digest(f"{question}\0{answer}")


def _entry_text(entry: Any) -> str:
    """The entry as text; empty where it is not plain data, or too long."""
    try:
        text = to_text(entry)
        return text if len(text) <= MOST_ENTRY and from_text(text) == entry else ""
    except (NotPlain, ValueError):
        return ""
