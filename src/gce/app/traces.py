"""`gce traces`: a run's verified answers as a chat data set."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from gce.adapters.output_files import check_output, write_output
from gce.adapters.run_reader import RunReader
from gce.adapters.whole_folder import whole_folder
from gce.app.examples import EXAMPLES_DRAWN, also_from
from gce.app.options import NAMES, PATH, SHARE_BELOW_1, Choice
from gce.app.reading import UNVERIFIED, add_no_verify, verifies
from gce.app.resolve import find_task, stored_problem
from gce.app.terminal import put, put_json
from gce.domain.serialization import to_plain
from gce.errors import BadInput

__all__ = ["add_arguments", "run"]

DESCRIPTION = """\
Write a run's verified traces, what it learned from, as conversations that end with the model's own right answer: a
JSON object a line with messages, problem, tier, iteration and policy. Traces of control runs that were judged wrong
are left out. Works while the run goes on.

formats:
  jsonl    a file for mlx_lm.lora --data FOLDER and datasets.load_dataset("json", data_files=...)
  hf       a folder with a dataset card for datasets.load_dataset(DIR), and for the hub
"""
EXAMPLES = """\
examples:
  gce traces runs/1                                 runs/1/export/jsonl/train.jsonl
  gce traces runs/1 --valid 0.1 --out data/train.jsonl; mlx_lm.lora --data data ...
  gce traces runs/1 --to hf --tiers T3,T4 --out my-traces
"""
FORMATS = Choice(("jsonl", "hf"))
CARD = """\
---
configs:
- config_name: default
  data_files:
{files}
task_categories:
- text-generation
---

# Verified traces of {model} on {task}

{traces} conversations about {problems} problems. Each ends with an answer that the model sampled itself and the task's
verifier judged right; no answer comes from a solver or a person.

| tier | traces | problems |
|---|---:|---:|
{rows}

How they were made: `gce train` (gce {version}), task {task}, preset {preset}, model {model}, seed {seed}, temperature
{temperature}, algorithm {algorithm}, {iterations} iterations{going}. {kept}

Fields: `messages` (the prompt, then the assistant's answer), `problem` (the key that the task draws it from), `tier`,
`iteration`, `policy` (SHA-256 of the weights that wrote the answer).{sides}{shown}

No licence is set: choose one before you publish, that of the model permitting.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line of `gce traces`."""
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("run", type=PATH, metavar="RUN", help="a run directory of gce train")
    parser.add_argument("--to", type=FORMATS, choices=FORMATS.names, default="jsonl", help="as above (default jsonl)")
    parser.add_argument("--out", type=PATH, help="a new file, or for hf a new folder (default: in RUN/export)")
    parser.add_argument("--tiers", type=NAMES, default=(), metavar="TIER,...", help="only these (default: all)")
    parser.add_argument("--all", action="store_true", help="every right rollout, also those the buffer refused")
    parser.add_argument(
        "--valid",
        type=SHARE_BELOW_1,
        default=0.0,
        metavar="SHARE",
        help="of problems that go to valid.jsonl (default 0)",
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    add_no_verify(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    verified = verifies(arguments)
    with RunReader(arguments.run, verify=verified) as reader:
        traces = _right(reader, arguments.tiers, every=arguments.all)
        digests: dict[str, str] = {}
        if arguments.all or arguments.valid:
            traces, digests = _drawn_again(reader.settings["task"], traces)
        splits = _split(traces, digests, arguments.valid)
        card = _card(reader, splits, every=arguments.all) + ("" if verified else f"\n{UNVERIFIED}\n")
    if arguments.to == "hf":
        out = arguments.out or arguments.run / "export" / "hf"
        paths = _write_folder(out, splits, card)
    else:
        out = arguments.out or arguments.run / "export" / "jsonl" / "train.jsonl"
        paths = _write_files(out, splits)
    if arguments.json:
        counts = {split: len(found) for split, found in splits.items()}
        found = {"path": str(out), "format": arguments.to, "traces": counts, "tiers": _tiers(traces)}
        put_json(found | {"verified": verified})
        return 0
    for split, path in paths.items():
        put(f"{path}: {_count(len(splits[split]), 'trace')} of {_count(_problems(splits[split]), 'problem')}")
    put(f"load them with {_how_to_load(arguments.to, out)}")
    return 0


@frozen
class _Trace:
    """A right answer."""

    problem: str
    tier: str
    iteration: int
    policy: str
    text: str
    messages: Any
    """What the model was shown; None where no record says."""

    @property
    def line(self) -> str:
        """As it is written: ASCII, so that no reader's default encoding matters."""
        answer = {"role": "assistant", "content": self.text}
        kept = {name: getattr(self, name) for name in ("problem", "tier", "iteration", "policy")}
        return json.dumps({"messages": [*self.messages, answer], **kept}) + "\n"


Splits = dict[str, Sequence[_Trace]]


def _right(reader: RunReader, tiers: Sequence[str], *, every: bool) -> list[_Trace]:
    """Rollouts that were judged right and admitted, or `every` right one, in the order in which they were stored."""
    rollouts = list(reader.read("rollouts"))
    known = {trace["problem"]: trace["messages"] for trace in reader.read("traces")}
    there = list(dict.fromkeys(rollout["tier"] for rollout in rollouts))
    for tier in tiers:
        if tier not in there:
            raise BadInput(f"{reader.path} has no rollouts of tier {tier!r}: choose from {', '.join(there) or 'none'}")
    asked = [rollout for rollout in rollouts if not tiers or rollout["tier"] in tiers]
    kept = [rollout for rollout in asked if rollout["right"] and (every or rollout["admitted"])]
    if not kept:
        right = sum(rollout["right"] for rollout in asked)
        hint = ": --all takes those, too" if right else ""
        raise BadInput(
            f"{reader.path} has no verified traces to write: {_count(len(asked), 'rollout')}, {right} right, none of "
            f"them admitted{hint}"
        )
    names = ("problem", "tier", "iteration", "policy", "text")
    return [_Trace(**{name: each[name] for name in names}, messages=known.get(each["problem"])) for each in kept]


def _drawn_again(name: str, traces: Sequence[_Trace]) -> tuple[list[_Trace], dict[str, str]]:
    """The traces with what the model was shown, and their problems' canonical digests by key.

    BadInput where the task shows a problem otherwise than the run did.
    """
    task = find_task(name)
    drawn = {key: stored_problem(task, {"problem": key}) for key in dict.fromkeys(trace.problem for trace in traces)}
    prompts = {key: to_plain(problem.prompt) for key, problem in drawn.items()}
    for trace in traces:
        if trace.messages not in (None, prompts[trace.problem]):
            raise BadInput(
                f"task {name} draws another problem {trace.problem} than the run had: leave out --all and --valid"
            )
    shown = [evolve(trace, messages=prompts[trace.problem]) for trace in traces]
    return shown, {key: problem.digest for key, problem in drawn.items()}


def _split(traces: Sequence[_Trace], digests: Mapping[str, str], share: float) -> Splits:
    """By problem, not by trace: which side one is on follows from its canonical digest alone."""
    if not share:
        return {"train": traces}
    places = {key: int(blake2b(digest.encode(), digest_size=8).hexdigest(), 16) for key, digest in digests.items()}
    held = {key for key, place in places.items() if place < share * 2**64}
    splits: Splits = {
        "train": [trace for trace in traces if trace.problem not in held],
        "valid": [trace for trace in traces if trace.problem in held],
    }
    for split, found in splits.items():
        if not found:
            raise BadInput(f"--valid {share} of {_count(len(digests), 'problem')} leaves none for {split}.jsonl")
    return splits


def _write_files(out: Path, splits: Splits) -> dict[str, Path]:
    paths = {"train": out, "valid": out.with_name("valid.jsonl")}
    paths = {split: paths[split] for split in splits}
    if len(set(paths.values())) < len(paths):
        raise BadInput(f"{out} is where --valid writes: give another --out, such as {out.with_name('train.jsonl')}")
    for path in paths.values():
        check_output(path)
    for split in reversed(splits):
        write_output(paths[split], _lines(splits[split]))
    return paths


def _write_folder(out: Path, splits: Splits, card: str) -> dict[str, Path]:
    paths = {split: Path("data") / f"{split}.jsonl" for split in splits}
    with whole_folder(out) as folder:
        (folder / "data").mkdir()
        for split, path in paths.items():
            (folder / path).write_bytes(_lines(splits[split]))
        (folder / "README.md").write_text(card, encoding="utf-8")
    return {split: out / path for split, path in paths.items()}


def _lines(traces: Sequence[_Trace]) -> bytes:
    return "".join(trace.line for trace in traces).encode()


def _card(reader: RunReader, splits: Splits, *, every: bool) -> str:
    """A dataset card: https://huggingface.co/docs/hub/datasets-cards."""
    traces = [trace for found in splits.values() for trace in found]
    by_tier = {tier: [trace for trace in traces if trace.tier == tier] for tier in sorted(_tiers(traces))}
    kept = "All answers judged right are here, equal ones too." if every else "Answers that the buffer refused are not."
    settings = {name: reader.settings[name] for name in ("task", "preset", "seed", "temperature", "algorithm")}
    return CARD.format(
        **settings,
        model=_model_name(reader.settings["model"]),
        files="\n".join(f"  - split: {split}\n    path: data/{split}.jsonl" for split in splits),
        traces=len(traces),
        problems=_problems(traces),
        rows="\n".join(f"| {tier} | {len(found)} | {_problems(found)} |" for tier, found in by_tier.items()),
        version=reader.config.get("versions", {}).get("gce", "of unknown version"),
        iterations=max(record["iteration"] for record in reader.read("iterations")),
        going="" if reader.summary() else " so far",
        kept=kept,
        sides=" No problem is in both splits." if len(splits) > 1 else "",
        shown=_shown(reader.settings),
    )


def _shown(settings: Mapping[str, Any]) -> str:
    made = "a solver" if settings.get("examples") == "solver" else "a plain rule"
    words = ""
    if settings.get("warm_up"):
        words += (
            f"\n\nBefore the first rollouts the model had a warm-up of {settings['warm_up']} steps on up to "
            f"{EXAMPLES_DRAWN * settings['shots']} examples a tier{also_from(settings)}, worked out by {made}; they "
            "are not here."
        )
    if settings.get("bootstrap", "none") != "none":
        words += (
            f"\n\nWhile a tier was new, most of its answers were sampled after up to {settings['shots']} examples that "
            f"{made} had worked out; `messages` leaves these out."
        )
    return words


def _model_name(name: str) -> str:
    """The name alone of what lies on a disk: where it does is nobody's business."""
    kind, _, rest = name.rpartition(":") if name.startswith(("hf:", "scripted:")) else ("", "", name)
    is_path = Path(rest).is_absolute() or rest.startswith((".", "~")) or rest.endswith(".gguf") or Path(rest).exists()
    return f"{kind}:" * bool(kind) + (Path(rest).name if is_path else rest)


def _how_to_load(form: str, out: Path) -> str:
    if form == "hf":
        return f"datasets.load_dataset({str(out)!r})"
    lora = f", or mlx_lm.lora --data {out.parent}" if out.name == "train.jsonl" else ""
    return f"datasets.load_dataset('json', data_files={str(out)!r}){lora}"


def _tiers(traces: Sequence[_Trace]) -> dict[str, int]:
    return dict(Counter(trace.tier for trace in traces))


def _problems(traces: Sequence[_Trace]) -> int:
    return len({trace.problem for trace in traces})


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" + ("" if n == 1 else "s")
