"""`reasoning-gym:NAME`: a generator of reasoning-gym, with its own scorer.

Preset `default` has one tier, the generator's own configuration with the options given; preset `curriculum` has the
levels of its difficulty curriculum, where it has one. A problem is drawn by its own seed, so that it does not depend on
others. Splits follow from the digest of question and answer.

Format: https://github.com/open-thought/reasoning-gym, 0.1.25: `create_dataset`, entries of question, answer and
metadata, `score_answer(answer, entry)` in [0, 1].
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from hashlib import blake2b
from importlib.util import find_spec
from typing import Any

from gce.adapters.environments.foreign import LIMITS, Given, Open, described, drawn_task, limits_of
from gce.domain.plain_values import NotPlain, from_text, to_text
from gce.domain.tasks.task import Task
from gce.errors import BadInput, MissingExtra

__all__ = ["INSTRUCTIONS", "load", "open_task"]

INSTRUCTIONS = (
    "Give the final answer between <answer> and </answer>. Do not explain your reasoning inside the tags. When an "
    "example is provided, follow the format of its answer."
)
"""After each question; reasoning-gym's own evaluations say the same in a system prompt."""
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
    config = {name: value for name, value in given.options.items() if name not in LIMITS}
    if reserved := sorted(config.keys() & {"seed", "size"}):
        raise BadInput(f"{given.text}: problems are drawn one by one: leave out {reserved[0]}")
    scorers = open_scorers(__name__, {"name": given.name, "config": config}, limits=limits_of(given))
    facts = described(given, scorers)
    presets = {"default": ["default"]}
    if facts["levels"]:
        presets["curriculum"] = [f"level-{level}" for level in range(facts["levels"])]
    return drawn_task(
        given,
        scorers,
        f"reasoning-gym {given.name}",
        presets,
        extract=("tag", "answer"),
        max_tokens=1024,
        unread=("prompt", "answer"),
    )


def load(arguments: Mapping[str, Any]) -> Mapping[str, Callable[..., Any]]:
    """The generator's functions, in the worker; ValueError where there is no such generator."""
    from reasoning_gym.factory import CURRICULA, DATASETS, create_curriculum

    name, options = arguments["name"], arguments["config"]
    if name not in DATASETS:
        close = [each for each in sorted(DATASETS) if name[:4] in each] or sorted(DATASETS)[:8]
        raise ValueError(f"no generator {name!r}; there are {len(DATASETS)}, as {', '.join(close)}")
    dataset_of, config_of = DATASETS[name]

    def config(tier: str, seed: int) -> Any:
        given = {**options, "seed": seed, "size": 1}
        if tier == "default":
            return config_of(**given)
        curriculum = create_curriculum(name)
        curriculum.set_global_level(int(tier.removeprefix("level-")))
        return curriculum.generate_configuration(given)

    def dataset(tier: str, seed: int) -> Any:
        found = config(tier, seed)
        found.validate()
        return dataset_of(config=found)

    @lru_cache(maxsize=256)
    def drawn(tier: str, seed: int) -> tuple[Any, Any]:
        generator = dataset(tier, seed)
        return generator, generator[0]

    scoring = lru_cache(maxsize=32)(lambda tier: dataset(tier, 0))

    @lru_cache(maxsize=256)
    def kept(text: str) -> Any:
        return from_text(text)

    def draw(tier: str, seed: int) -> dict[str, Any]:
        _, entry = drawn(tier, seed)
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
        if row["entry"]:
            return float(scoring(row["level"]).score_answer(answer, kept(row["entry"])))
        generator, entry = drawn(row["level"], row["seed"])
        if digest_of(entry["question"], entry["answer"]) != row["digest"]:
            raise ValueError("the generator makes another problem from the same seed")
        return float(generator.score_answer(answer, entry))

    levels = 0
    if name in CURRICULA:
        levels = max((len(each.levels) for each in create_curriculum(name).attributes.values()), default=0)
    dataset("default", 0)
    return {"describe": lambda: {"levels": levels}, "draw": draw, "score": score}


def digest_of(question: str, answer: Any) -> str:
    """Of question and answer, 32 hexadecimal digits."""
    return blake2b(f"{question}\0{answer}".encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _entry_text(entry: Any) -> str:
    """The entry as text; empty where it is not plain data, or too long."""
    try:
        text = to_text(entry)
        return text if len(text) <= MOST_ENTRY and from_text(text) == entry else ""
    except (NotPlain, ValueError):
        return ""
