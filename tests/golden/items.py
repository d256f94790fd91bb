"""What is compared: each item makes named outputs, in an empty folder, with the `gce` that Python imports.

`gce` is imported inside functions, since this module is read with no `gce` on the path, too. Items that are not
`portable` depend on the processor and on versions: two commits are compared on one machine. The
digests of the portable ones are committed.
"""

from __future__ import annotations

import gzip
import importlib
import json
import pkgutil
import re
import shutil
import sqlite3
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import attrs

from .canonical import canonical, file_hash, repeatable
from .program import Program

HERE = Path(__file__).parent
Outputs = dict[str, Any]
"""Plain data by name; what comes before the first slash is a part of the item."""
NOT_IMPORTED = "not imported/"
"""Begins the name of a module that could not be imported, in the item `fields`."""

TWO_ITERATIONS = ("--iterations", "2", "--problems", "5", "--updates", "2", "--batch", "4")
TRAINED = (*TWO_ITERATIONS, "--rollouts", "2", "--layers", "2")
SCRIPTED = ("--model", "scripted:script-scheduling.jsonl", *TWO_ITERATIONS, "--rollouts", "4", "--pool", "2")
SCRIPTED_RUN = (*SCRIPTED, "--dev", "1", "--test", "2")
SCRIPTED_PROGRAMS = (
    *("--task", "programs", "--model", "scripted:script-programs.jsonl", *TWO_ITERATIONS, "--rollouts", "4"),
    *("--pool", "1", "--dev", "1", "--test", "1"),
)
SCHEDULING = (
    *(("grounded", tier, "train") for tier in ("L2", "T0", "T1", "T2", "T3", "T4")),
    ("grounded", "T5", "test"),
    *(("paper", tier, "train") for tier in ("T2", "T4")),
    ("paper", "T5", "test"),
)
PROGRAMS = (
    *(("pipelines", tier, "train") for tier in ("P1", "P2", "P3", "P4")),
    *(("pipelines", tier, "test") for tier in ("P1", "P2", "P3", "P4", "P5")),
    ("pipelines", "P4", "dev"),
)
PROBLEMS = {
    "scheduling": SCHEDULING,
    "scheduling-answer-only": SCHEDULING,
    "scheduling-brief": SCHEDULING,
    "scheduling-reworded": SCHEDULING,
    "scheduling-relabelled": SCHEDULING,
    "programs": PROGRAMS,
}
"""(preset, tier, split) of which ten problems are drawn, ten of them a task."""
AT_ONCE = 10


@dataclass(frozen=True)
class Item:
    """Outputs that are made together."""

    name: str
    what: str
    make: Callable[[Program], Outputs]
    portable: bool = False
    """Whether the outputs depend on no processor."""
    needs: tuple[str, ...] = ()
    """Modules beside the core."""
    sandbox: bool = False
    """Whether programs are run in a sandbox."""


def sandbox_holds(program: Program) -> bool:
    """Whether programs can be run here."""
    problem = _first_line(program.must("generate", "--task", "programs", "--tiers", "P1", "--n", "1", "--json"))
    Path("problem.json").write_text(json.dumps(problem), encoding="utf-8")
    Path("answer.txt").write_text("def f(x):\n    return x", encoding="utf-8")
    return bool(program("verify", "--task", "programs", "problem.json", "answer.txt")["status"] in (0, 1))


# Training runs


def run_outputs(run: Path) -> Outputs:
    """Every record of a run, its adapter, its test answers and its summary."""
    found: Outputs = {"adapter": file_hash(run / "checkpoints" / "last" / "adapters.safetensors")}
    with closing(sqlite3.connect(f"{(run / 'run.sqlite').absolute().as_uri()}?mode=ro", uri=True)) as database:
        for name, value in database.execute("SELECT name, value FROM config ORDER BY rowid"):
            found[f"config/{name}"] = json.loads(value)
        for stream, sequence, body in database.execute(
            "SELECT stream, sequence, body FROM records ORDER BY stream, sequence"
        ):
            found[f"{stream}/{sequence}"] = json.loads(body)
        for iteration, loop in database.execute("SELECT iteration, loop FROM commits ORDER BY iteration"):
            found[f"loop/{iteration}"] = json.loads(loop)
    for path in sorted(run.glob("test-*.jsonl")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines()):
            found[f"{path.stem}/{number}"] = json.loads(line)
    found |= {
        f"summary/{name}": value for name, value in repeatable(json.loads((run / "summary.json").read_text())).items()
    }
    return {name: repeatable(value) for name, value in found.items()}


def _train(*arguments: str) -> Callable[[Program], Outputs]:
    def make(program: Program) -> Outputs:
        program.must("train", *arguments, "--run-dir", "run")
        return run_outputs(Path("run"))

    return make


def _train_and_export(program: Program) -> Outputs:
    found = _train(*TRAINED, "--dev", "1", "--test", "1", "--warm-up", "2", "--shots", "2")(program)
    for form in ("mlx", "peft", "merged"):
        found[f"export/{form}"] = program.must("export", "run", "--to", form, "--json")
        for path in sorted(Path("run", "export", form).rglob("*")):
            if path.is_file():
                found[f"export/{form}/{path.name}"] = _content(path)
    # Where the base lies is told in several places, and is another folder in each tree.
    shipped = json.dumps(str(_shipped_model(program)))[1:-1]
    return {name: json.loads(canonical(value).replace(shipped, "SHIPPED")) for name, value in found.items()}


def _content(path: Path) -> Any:
    """A file's JSON, its lines of text, or its SHA-256."""
    if path.suffix == ".json":
        return json.loads(path.read_text(encoding="utf-8"))
    return path.read_text(encoding="utf-8").split("\n") if path.suffix in (".md", ".txt") else file_hash(path)


def _train_in_mlx(program: Program) -> Outputs:
    """With biases of zero the shipped model is no plain Llama, so mlx samples and learns also on a CPU under Linux."""
    import numpy as np
    from safetensors.numpy import load_file, save_file

    directory = Path("biased")
    shutil.copytree(_shipped_model(program), directory)
    config = json.loads((directory / "config.json").read_text())
    (directory / "config.json").write_text(json.dumps(config | {"attention_bias": True}))
    weights = load_file(directory / "model.safetensors")
    for name in [name for name in weights if ".self_attn." in name]:
        weights[name.removesuffix("weight") + "bias"] = np.zeros(len(weights[name]), weights[name].dtype)
    save_file(weights, directory / "model.safetensors", {"format": "pt"})
    return _train("--model", "./biased", *TRAINED, "--dev", "1", "--test", "1")(program)


def _shipped_model(program: Program) -> Path:
    return Path("".join(program.must("path")["out"]).strip())


def _scripts() -> None:
    """Put the scripted models' answers into the present folder."""
    for path in HERE.glob("script-*.jsonl"):
        shutil.copy(path, path.name)


def _scripted_run(program: Program) -> Path:
    """A run of the scripted model; trained once, then copied."""
    if program.run is None:
        _scripts()
        program.must("train", *SCRIPTED_RUN, "--run-dir", "run")
        program.run = Path("run").absolute()
    elif not Path("run").exists():
        _scripts()
        shutil.copytree(program.run, "run", symlinks=True)
    return Path("run")


def _scripted(program: Program) -> Outputs:
    return run_outputs(_scripted_run(program))


def _scripted_programs(program: Program) -> Outputs:
    _scripts()
    return _train(*SCRIPTED_PROGRAMS)(program)


# Commands


def _commands(program: Program) -> Outputs:
    """What every command prints that needs no run."""
    _scripts()
    problem = _first_line(program.must("generate", "--tiers", "T2", "--json"))
    Path("problem.json").write_text(json.dumps(problem), encoding="utf-8")
    for number, answer in enumerate(answer for answer in hostile_answers() if answer["task"] == "scheduling"):
        Path(f"answer-{number}.txt").write_text(answer["text"], encoding="utf-8", newline="")
    scripted = ("--model", "scripted:script-scheduling.jsonl")
    modes = ("--modes", "zero-shot,few-shot,multi-turn,simulate", "--shots", "2")
    return _printed(
        program,
        "generate --n 2",
        "generate --n 2 --json",
        "generate --task scheduling-reworded --preset paper --split test --seed 3 --json",
        "generate --task programs --n 2 --json",
        "generate --tiers T9",
        *(f"verify problem.json answer-{number}.txt --json" for number in range(3)),
        "verify problem.json answer-0.txt --steps --json",
        "verify problem.json answer-0.txt",
        "verify missing.json answer-0.txt",
        "audit --n 10 --fit 10 --json",
        "audit --task scheduling-brief --n 5 --fit 5 --tiers T0,T4 --json",
        "check --problems 1 --responses 100 --json",
        "models --json",
        " ".join(("evaluate", *scripted, "--n 2 --tiers T0,T3", *modes, "--answers answers.jsonl --json")),
        " ".join(("evaluate", *scripted, "--n 2 --split dev --samples 4 --temperature 1 --json")),
        "train --iterations 0",
    ) | {f"answers/{number}": line for number, line in enumerate(_lines(Path("answers.jsonl")))}


def _run_commands(program: Program) -> Outputs:
    """What the commands print that read a run or a study."""
    _scripted_run(program)
    study = ("--dir study --seeds 0 --conditions full,shuffled", *SCRIPTED, "--iterations 1 --test 1 --json")
    printed = _printed(
        program,
        "validity run --n 2 --json",
        "rescore run --json",
        "rescore run",
        "traces run --json",
        "traces run --to hf --tiers T0,T2 --valid 0.5 --out hf --json",
        "traces run --all --out all.jsonl --json",
        "export run --to peft --json",
        "report run --json",
        "report run --format md",
        " ".join(("ablate", *study)),
        "ablate --dir study --table --json",
        "ablate --dir study --table",
        "report study --json",
    )
    for path in (Path("run/export/jsonl/train.jsonl"), *sorted(Path("hf").rglob("*.jsonl")), Path("all.jsonl")):
        printed |= {f"{path.name}/{number}": line for number, line in enumerate(_lines(path))}
    return {name: _without_cost(value) for name, value in printed.items()}


def _html(program: Program) -> Outputs:
    """The page of a run, its pictures left out: their data stand in tables beside them."""
    _scripted_run(program)
    program.must("report", "run")
    page = re.sub(r"<svg.*?</svg>", "", Path("run/report.html").read_text(encoding="utf-8"), flags=re.DOTALL)
    return {f"section/{n}": _without_cost(part.split("\n")) for n, part in enumerate(page.split("<section"))}


def _printed(program: Program, *commands: str) -> Outputs:
    return {command: program(*command.split(" ")) for command in commands}


def _without_cost(value: Any) -> Any:
    """A report, or a part of one, without times, memory and versions."""
    if isinstance(value, dict):
        return {name: _without_cost(each) for name, each in value.items()}
    if isinstance(value, str):
        return re.sub(r"updates, [\d,]+ s;", "updates;", value)
    if not isinstance(value, list):
        return value
    if any(isinstance(each, str) and re.search(r"^## Cost$|<h2>Cost</h2>", each) for each in value):
        start = next((n for n, each in enumerate(value) if each == "## Cost"), 0)
        end = next((n for n, each in enumerate(value) if each.startswith("## Settings")), len(value))
        value = value[:start] + value[end:]
    kept = []
    for each in value:
        if isinstance(each, dict) and each.get("title") == "Cost":
            continue
        name = each[0] if isinstance(each, list) and each else each
        if isinstance(name, str) and _MACHINE.match(name):
            continue
        kept.append(_without_cost(each))
    return kept


_MACHINE = re.compile(
    r"(?:\| |<tr><td>)?(?:peak_bytes|tokens generated per second|python|machine|system|gce|attrs|cattrs|gguf|mlx"
    r"|mlx-lm|numpy|ortools|peft|safetensors|scipy-openblas32|tokenizers|torch|transformers)(?: \||</td>|$)"
)
"""Begins the row of a report that tells of memory or a version."""


# Verdicts, problems and records


def hostile_answers() -> list[dict[str, Any]]:
    """The committed answers: mutated right ones, padding, hedging, injected markup, programs that cheat."""
    packed = (HERE / "hostile_answers.jsonl.gz").read_bytes()
    return [json.loads(line) for line in gzip.decompress(packed).decode().splitlines()]


def _drawn(task: str, preset: str, tier: str, split: Any, index: int) -> Any:
    import gce

    return gce.draw_problem(gce.TASKS[task], preset, tier, split, index)


def _verdicts(_program: Program) -> Outputs:
    import gce

    found: Outputs = {}
    for number, answer in enumerate(hostile_answers()):
        if answer["task"] != "programs":
            place = (answer[name] for name in ("task", "preset", "tier", "split", "index"))
            found[f"{answer['task']}/{number}"] = _plain(gce.judge(_drawn(*place), answer["text"]))
    return found


def _program_verdicts(program: Program) -> Outputs:
    found: Outputs = {}
    drawn = program.must("generate", "--task", "programs", "--split", "test", "--n", "2", "--json")["out"]
    problems = {(problem["tier"], index % 2): problem for index, problem in enumerate(drawn)}
    for number, answer in enumerate(hostile_answers()):
        if answer["task"] == "programs":
            problem = problems[answer["tier"], answer["index"]]
            Path("problem.json").write_text(json.dumps(problem), encoding="utf-8")
            Path("answer.txt").write_text(answer["text"], encoding="utf-8", newline="")
            found[f"programs/{number}"] = program(
                "verify", "--task", "programs", "problem.json", "answer.txt", "--json"
            )
    return found


def _problems(_program: Program) -> Outputs:
    import gce

    found: Outputs = {}
    for task, places in PROBLEMS.items():
        for preset, tier, split in places:
            drawn = [_drawn(task, preset, tier, split, index) for index in range(AT_ONCE)]
            found[f"{task}/{preset}/{tier}/{split}/0-{AT_ONCE - 1}"] = [
                {"prompt": _plain(each.prompt), "instance": _plain(each.instance), "digest": each.digest}
                for each in drawn
            ]
    found["tasks"] = sorted(gce.TASKS)
    return found


def _fields(_program: Program) -> Outputs:
    """Field names of every record by the names of its module and class."""
    found: Outputs = {}
    for name, module in _modules():
        if module is None:
            found[f"{NOT_IMPORTED}{name}"] = True
            continue
        for each in vars(module).values():
            if isinstance(each, type) and attrs.has(each) and each.__module__ == name:
                found[f"{name}.{each.__name__}"] = [field.name for field in attrs.fields(each)]
    return found


def _modules() -> Iterator[tuple[str, Any]]:
    """Every module of the package; None where an extra is missing."""
    import gce

    for info in pkgutil.walk_packages(gce.__path__, "gce."):
        if info.name.rpartition(".")[2] == "__main__":
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # Vendors deprecate what they import themselves.
                yield info.name, importlib.import_module(info.name)
        except (ImportError, gce.MissingExtra):
            yield info.name, None


def _tells(field: attrs.Attribute[Any], value: Any) -> bool:
    """Whether a field says something: neither derived from the others, nor at its default."""
    return bool(field.eq) and not (field.default is not attrs.NOTHING and value == field.default)


def _plain(value: Any) -> Any:
    """Records as plain data."""
    if attrs.has(type(value)):
        return repeatable(attrs.asdict(value, filter=_tells))
    return [_plain(each) for each in value] if isinstance(value, (list, tuple)) else repeatable(value)


def _first_line(result: Mapping[str, Any]) -> Any:
    out = result["out"]
    return out[0] if isinstance(out, list) else out


def _lines(path: Path) -> list[Any]:
    return [repeatable(json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


STORED = ("safetensors",)
ITEMS: Mapping[str, Item] = {
    item.name: item
    for item in (
        Item("train-numpy", "the shipped model on scheduling, and exports", _train_and_export, needs=("mlx",)),
        Item("train-mlx", "the same model with biases, so that mlx samples and learns", _train_in_mlx, needs=("mlx",)),
        Item(
            "train-torch",
            "the shipped model on torch",
            _train("--model", "hf:gce-tiny", *TRAINED, "--dev", "0", "--test", "0"),
            needs=("torch", "transformers", "peft"),
        ),
        Item(
            "train-programs",
            "the shipped model on programs, with a warm-up",
            _train(
                *("--task", "programs", *TRAINED, "--dev", "1", "--test", "1", "--max-tokens", "40"),
                *("--warm-up", "3", "--shots", "1"),
            ),
            needs=("mlx",),
            sandbox=True,
        ),
        Item("scripted", "a scripted model on scheduling", _scripted, portable=True, needs=STORED),
        Item(
            "scripted-programs",
            "a scripted model on programs",
            _scripted_programs,
            portable=True,
            needs=STORED,
            sandbox=True,
        ),
        Item("commands", "what commands print that need no run", _commands, portable=True),
        Item("run-commands", "what commands print of a run and a study", _run_commands, portable=True, needs=STORED),
        Item("report", "the page of a run", _html, portable=True, needs=(*STORED, "matplotlib")),
        Item("verdicts", "160 hostile answers to scheduling", _verdicts, portable=True),
        Item("program-verdicts", "40 hostile programs", _program_verdicts, portable=True, sandbox=True),
        Item("problems", "100 problems of every task", _problems, portable=True),
        Item("fields", "field names of every record", _fields, portable=True),
    )
}
