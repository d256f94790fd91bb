"""Results of ISOPro 0.3: the JSON files that its training scripts leave behind, read as runs.

    experiment_results.json   a run of rejection sampling or of GRPO, on Ollama, MLX or a hired GPU
    isopro_results.json       a run on MLX
    ablation_results.json     several runs: conditions times seeds

No file holds a prompt, an answer or a verdict, so that nothing can be judged again: what can be had are the settings,
and shares by tier. Tiers of ISOPro (`tier4_pairwise_sequencing_deadlines`) are called as in gce (T4).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import frozen

from gce.adapters.system.input_files import parse_json, read_input
from gce.errors import BadInput

__all__ = ["FILES", "IsoproIteration", "IsoproRun", "read_isopro"]

FILES = ("experiment_results.json", "isopro_results.json", "ablation_results.json")
MOST_BYTES = 2**26
TESTED = 3
"""Test problems per tier by the default of ISOPro's scripts, which most files do not name; in T4 twice as many."""
KINDS_OF_T4 = 3
"""T4 has problems of three pairs of constraints, each as many as another tier has."""
TIERS_OF_TRAINING = 4 + KINDS_OF_T4
_TIER = re.compile(r"tier([0-9])(_|$)")
_COUNTERPARTS = {
    "iterations": "stopping.iterations",
    "n_iterations": "stopping.iterations",
    "k_samples": "rollouts.samples",
    "group_size": "rollouts.samples",
    "lora_rank": "lora.rank",
    "lora_layers": "lora.layers",
    "lr": "optimizer.learning_rate",
    "sft_lr": "optimizer.learning_rate",
    "learning_rate": "optimizer.learning_rate",
    "seed": "seed",
    "hf_model": "model.name",
    "model_id": "model.name",
    "model": "model.name",
}
"""Settings of gce by those of ISOPro."""
_SAID_ELSEWHERE = {"method", "domain", "tasks_per_tier", "steps_per_iteration", "eval_problems_per_tier", "seeds"}
_NO_SETTING = {"timestamp", "hardware", "ollama_model"}
_CONDITIONS: Mapping[str, Mapping[str, Any]] = {
    "Full ISOPro": {},
    "No Buffer Accumulation": {"buffer.accumulate": False},
    "Random Layers": {"lora.targeting": "random"},
}
"""Settings of gce by the ablations of ISOPro; the others have none."""


@frozen(kw_only=True)
class IsoproIteration:
    """One iteration, as far as it is stored; shares by tier are those of its rollouts, or of a test after it."""

    number: int
    accuracy: Mapping[str, float]
    buffer: Mapping[str, int]
    """Traces by tier."""
    loss: float | None = None
    seconds: float | None = None


@frozen(kw_only=True)
class IsoproRun:
    """One run of ISOPro."""

    name: str
    """File name without its end, with condition and seed where the file has several runs."""
    task: str
    """scheduling or mbpp."""
    settings: Mapping[str, Any]
    """Settings of gce, by dotted name."""
    lost: tuple[str, ...]
    """What the file says and no setting of gce has."""
    before: Mapping[str, float]
    """Accuracy by tier, in [0, 1]; empty where it is not stored."""
    after: Mapping[str, float]
    tested: int
    """Test problems per tier; in T4 three times half as many and one, rounded down."""
    tested_is_stored: bool
    """Whether the file says so; else it is the scripts' default."""
    iterations: tuple[IsoproIteration, ...]

    def problems_tested(self, tier: str) -> int:
        """Test problems of a tier."""
        return KINDS_OF_T4 * (self.tested // 2 + 1) if tier == "T4" else self.tested


def read_isopro(path: Path) -> tuple[IsoproRun, ...]:
    """The runs in a file of results, or in the files of that kind in a directory.

    Raises:
        BadInput: there is none, or it is not as ISOPro writes it.
    """
    files = [path / name for name in FILES if (path / name).is_file()] if path.is_dir() else [path]
    if not files:
        raise BadInput(f"expected a directory with {', '.join(FILES[:-1])} or {FILES[-1]}, found none in {path}")
    runs = tuple(run for file in files for run in _runs(file))
    if len({run.name for run in runs}) < len(runs):
        raise BadInput(f"expected one run per condition and seed, found several in {path}")
    if not runs:
        raise BadInput(f"expected a training run, found none in {path}: it has baselines alone, or another form")
    return runs


def _runs(file: Path) -> Iterator[IsoproRun]:
    data = parse_json(read_input(file, MOST_BYTES), str(file))
    try:
        for name, each in _parts(file.stem, data):
            yield _run(name, each)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise BadInput(f"{file} is not as ISOPro writes it: {type(error).__name__}: {error}") from error


def _parts(stem: str, data: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each run with its name, all in the form of one: config, baseline, final, history."""
    said = data.get("experiment")
    config = {**data.get("config", {}), **(said if isinstance(said, Mapping) else {})}
    if "model" in data:
        config["model"] = data["model"]
    if "runs" in data:
        for each in data["runs"]:
            name, seed = re.sub("[^a-z]+", "-", each["ablation"].lower()), int(each["seed"])
            part = {"config": {**config, "seed": seed}, "condition": each["ablation"]}
            part |= {"baseline": each["baseline_accs"], "final": each["final_accs"], "history": _curves(each)}
            yield f"{name}-{seed}", part
        return
    history = data["history"] if "history" in data else data.get("isopro_loop", {}).get("history")
    if history:
        ends = {name: data.get(name, {}) for name in ("baseline", "final")}
        yield stem.removesuffix("_results"), {"config": config, "condition": "", "history": history, **ends}


def _curves(run: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The curves of an ablation as iterations; its buffer is known by tier for the last one alone."""
    losses = run["loss_curve"]
    found: list[dict[str, Any]] = [{"iteration": n, "train_loss": loss} for n, loss in enumerate(losses, 1)]
    if found:
        found[-1]["buffer_composition"] = run["buffer_composition"]
    return found


def _run(name: str, part: Mapping[str, Any]) -> IsoproRun:
    config, history = part["config"], part["history"]
    is_grpo = "grpo" in str(config.get("method", ""))
    task = str(config.get("domain", "scheduling"))
    settings = {to: config[name] for name, to in _COUNTERPARTS.items() if name in config}
    settings |= {"task": "scheduling", "preset": "paper", "recipe": "isopro"} | _problems(config, history, is_grpo)
    settings |= {"objective.algorithm": "grpo"} if is_grpo else {}
    condition = part["condition"]
    settings |= _CONDITIONS.get(condition, {})
    known = {*_COUNTERPARTS, *_SAID_ELSEWHERE, *_NO_SETTING}
    lost = [f"{name} = {value}" for name, value in config.items() if name not in known]
    lost += [f"condition {condition}"] if condition and condition not in _CONDITIONS else []
    iterations = tuple(
        IsoproIteration(
            number=int(each["iteration"]),
            accuracy=_shares(each.get("tier_accuracies", {})),
            buffer={tier: sum(map(int, found)) for tier, found in _by_tier(each.get("buffer_composition", {}))},
            loss=_number(each.get("train_loss")),
            seconds=_number(each.get("wall_clock_s")),
        )
        for each in history
    )
    return IsoproRun(
        name=name,
        task=task,
        settings=settings,
        lost=tuple(lost),
        before=_shares(part["baseline"]),
        after=_shares(part["final"]),
        tested=int(config.get("eval_problems_per_tier", TESTED)),
        tested_is_stored="eval_problems_per_tier" in config,
        iterations=iterations,
    )


def _problems(config: Mapping[str, Any], history: Sequence[Mapping[str, Any]], is_grpo: bool) -> dict[str, Any]:
    """Problems per iteration: what the first iteration sampled says it, for the files mean various things by theirs."""
    samples = config.get("k_samples", config.get("group_size", 1))
    sampled = history[0].get("n_rollouts", 0) // samples if history else 0
    each = sampled // TIERS_OF_TRAINING if sampled % TIERS_OF_TRAINING == 0 else 0
    if is_grpo:
        return {"rollouts.problems": config["steps_per_iteration"]}
    each = each or int(config["tasks_per_tier"])
    return {"rollouts.problems_by_tier": {f"T{n}": each * (KINDS_OF_T4 if n == 4 else 1) for n in range(5)}}


def _shares(values: Mapping[str, Any]) -> dict[str, float]:
    """Shares by the names of gce's tiers; those of the kinds of T4 as their mean."""
    found = {tier: sum(map(float, shares)) / len(shares) for tier, shares in _by_tier(values)}
    if wrong := [share for share in found.values() if not 0 <= share <= 1]:
        raise ValueError(f"expected shares in [0, 1], got {wrong[0]}")
    return found


def _by_tier(values: Mapping[str, Any]) -> Iterator[tuple[str, list[Any]]]:
    """The names of gce's tiers, with the values of each."""
    found: dict[str, list[Any]] = {}
    for name, value in values.items():
        tier = _TIER.match(name)
        if tier is None:
            raise ValueError(f"expected a tier such as tier0_warmup, got {name[:60]!r}")
        found.setdefault(f"T{tier[1]}", []).append(value)
    yield from sorted(found.items())


def _number(value: Any) -> float | None:
    return None if value is None else float(value)
