"""Export a run's verified answers as a data set: conversations in splits, with a dataset card."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from gce.app.evaluation.demonstrations import EXAMPLES_DRAWN, also_from
from gce.app.evaluation.stored_runs import stored_settings
from gce.app.settings.records import DemonstrationSettings, TrainSettings
from gce.app.wiring.names import is_given, plain_name
from gce.app.wiring.tasks import find_task, stored_problem
from gce.domain.completions import Completion
from gce.domain.learning import Trace, single_turn
from gce.domain.problems import Message
from gce.domain.serialization import from_plain, to_plain
from gce.domain.strategies.single_turn import ZERO_SHOT
from gce.domain.tasks import ProblemSource
from gce.domain.text import counted
from gce.domain.traces import conversation_digest, trace_of_record
from gce.domain.verdicts import Verdict
from gce.errors import BadInput
from gce.ports.runs import RunReader

__all__ = ["Conversation", "DataSet", "data_set"]

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

{traces} about {problems}. Each ends with an answer that the model sampled itself and the task's
verifier judged right; no answer comes from a solver or a person.

| tier | traces | problems |
|---|---:|---:|
{rows}

How they were made: `gce train` (gce {version}), task {task}, preset {preset}, model {model}, seed {seed}, temperature
{temperature}, algorithm {algorithm}, {iterations}{going}. {kept}

Fields: `messages` (the prompt, then the assistant's answer), `problem` (the key that the task draws it from), `tier`,
`iteration`, `policy` (SHA-256 of the weights that wrote the answer).{sides}{shown}

No licence is set: choose one before you publish, that of the model permitting.
"""


@frozen
class Conversation:
    """A prompt with the model's own right answer."""

    problem: str
    tier: str
    iteration: int
    policy: str
    text: str
    messages: Any
    """The messages shown to the model; None if no record has them."""
    rollout: Mapping[str, Any]
    stored: Trace | None
    """The trace in the buffer; None if the buffer did not admit one."""
    digest: str = ""
    """The problem's digest, if the problem was redrawn."""

    @property
    def chat(self) -> dict[str, Any]:
        """Messages, answer and provenance, as plain data."""
        answer = {"role": "assistant", "content": self.text}
        kept = {name: getattr(self, name) for name in ("problem", "tier", "iteration", "policy")}
        return {"messages": [*self.messages, answer], **kept}

    @property
    def trace(self) -> Trace:
        """The trace in the buffer; for an answer not admitted, a trace without tokens, which are not stored."""
        if self.stored is not None:
            return self.stored
        key = self.rollout["key"]
        completion = Completion(key, self.text, self.rollout["finish_reason"], self.policy)
        turns = single_turn(from_plain(tuple[Message, ...], self.messages), completion)
        verdicts = from_plain(tuple[Verdict, ...], self.rollout["verdicts"])
        digest = conversation_digest(self.digest, turns)
        return Trace(key, self.problem, self.tier, self.iteration, turns, verdicts, digest)


@frozen
class DataSet:
    """Conversations by split, and the data set's card."""

    splits: Mapping[str, Sequence[Conversation]]
    tiers: Mapping[str, int]
    """Number of conversations by tier."""
    card: str
    """Markdown: https://huggingface.co/docs/hub/datasets-cards."""

    def content(self, split: str, plain: Callable[[Conversation], Any]) -> bytes:
        """Return one JSON object per line, `plain` of each conversation, in ASCII to suit any default encoding."""
        return "".join(json.dumps(plain(each)) + "\n" for each in self.splits[split]).encode()

    def words(self, split: str) -> str:
        """Return the numbers of traces and problems in words."""
        found = self.splits[split]
        return f"{counted(len(found), 'trace')} of {counted(_problems(found), 'problem')}"


def data_set(run: RunReader, *, tiers: Sequence[str] = (), every: bool = False, valid: float = 0.0) -> DataSet:
    """Return a run's right answers, optionally of some tiers only; with `every`, also those not admitted to the buffer.

    A share `valid` of the problems, in [0, 1), goes to a validation split.

    Raises:
        BadInput: a split would be empty, or the task draws other problems than the run had.
    """
    if every and (strategy := stored_settings(run).rollouts.strategy) != ZERO_SHOT.name:
        raise BadInput(
            f"{run.name} was sampled with strategy {strategy} and keeps the conversations of admitted traces alone",
            hint="leave out {all}",
        )
    found = _right(run, tiers, every=every)
    if every or valid:
        found = _drawn_again(stored_settings(run), found)
    splits = _split(found, valid)
    return DataSet(splits, _tiers(found), _card(run, splits, every=every))


def _right(run: RunReader, tiers: Sequence[str], *, every: bool) -> list[Conversation]:
    """Return rollouts that were right and admitted, or `every` right one, in stored order."""
    rollouts = list(run.read("rollouts"))
    stored = {record["key"]: trace_of_record(record) for record in run.read("traces")}
    there = list(dict.fromkeys(rollout["tier"] for rollout in rollouts))
    for tier in tiers:
        if tier not in there:
            raise BadInput(f"{run.name} has no rollouts of tier {tier!r}: choose from {', '.join(there) or 'none'}")
    asked = [rollout for rollout in rollouts if not tiers or rollout["tier"] in tiers]
    kept = [rollout for rollout in asked if rollout["right"] and (every or rollout["admitted"])]
    if not kept:
        right = sum(rollout["right"] for rollout in asked)
        raise BadInput(
            f"{run.name} has no verified traces to write: {counted(len(asked), 'rollout')}, {right} right, none of "
            "them admitted",
            hint="{all} includes those" if right else "",
        )
    names = ("problem", "tier", "iteration", "policy", "text")
    return [
        Conversation(
            **{name: each[name] for name in names},
            messages=to_plain(stored[each["key"]].messages) if each["key"] in stored else None,
            rollout=each,
            stored=stored.get(each["key"]),
        )
        for each in kept
    ]


def _drawn_again(settings: TrainSettings, traces: Sequence[Conversation]) -> list[Conversation]:
    """The traces with what the model was shown, and their problems' canonical digests.

    Raises BadInput if the task's prompt differs from the run's.
    """
    if is_given(settings.task):
        own = plain_name(settings.task)
        raise BadInput(
            f"the problems have to be drawn again, and the task {own!r} was given from Python",
            hint="leave out {all} and {valid}",
        )
    source = ProblemSource(find_task(settings.task))
    drawn = {key: stored_problem(source, {"problem": key}) for key in dict.fromkeys(trace.problem for trace in traces)}
    shown = []
    for trace in traces:
        prompt, digest = to_plain(drawn[trace.problem].prompt), drawn[trace.problem].digest
        messages = prompt if trace.messages is None else trace.messages
        same = trace.stored is None or trace.stored.content_digest == conversation_digest(digest, trace.stored.turns)
        # What another strategy shows first, or in place of the prompt, is in the trace.
        if not same or (settings.rollouts.strategy == ZERO_SHOT.name and messages[: len(prompt)] != prompt):
            raise BadInput(
                f"task {settings.task} draws another problem {trace.problem} than the run had",
                hint="leave out {all} and {valid}",
            )
        shown.append(evolve(trace, messages=messages, digest=digest))
    return shown


def _split(traces: Sequence[Conversation], share: float) -> dict[str, Sequence[Conversation]]:
    """Split by problem, not by trace; the problem's digest alone decides its split."""
    if not share:
        return {"train": traces}
    splits: dict[str, Sequence[Conversation]] = {
        "train": [trace for trace in traces if _place(trace.digest) >= share],
        "valid": [trace for trace in traces if _place(trace.digest) < share],
    }
    for split, found in splits.items():
        if not found:
            raise BadInput(f"a share {share} of {counted(_problems(traces), 'problem')} leaves none for {split}.jsonl")
    return splits


def _place(digest: str) -> float:
    """A number in [0, 1) that follows from the digest alone."""
    return int(blake2b(digest.encode(), digest_size=8).hexdigest(), 16) / 2**64


def _card(run: RunReader, splits: Mapping[str, Sequence[Conversation]], *, every: bool) -> str:
    """Return a dataset card: https://huggingface.co/docs/hub/datasets-cards."""
    traces = [trace for found in splits.values() for trace in found]
    by_tier = {tier: [trace for trace in traces if trace.tier == tier] for tier in sorted(_tiers(traces))}
    kept = (
        "All answers judged right are included, duplicates too."
        if every
        else "Answers not admitted to the buffer are left out."
    )
    settings = stored_settings(run)
    return CARD.format(
        task=plain_name(settings.task),
        preset=settings.preset,
        seed=settings.seed,
        temperature=settings.rollouts.temperature,
        algorithm=plain_name(settings.objective.algorithm),
        model=_model_name(plain_name(settings.model.name)),
        files="\n".join(f"  - split: {split}\n    path: data/{split}.jsonl" for split in splits),
        traces=counted(len(traces), "conversation"),
        problems=counted(_problems(traces), "problem"),
        rows="\n".join(f"| {tier} | {len(found)} | {_problems(found)} |" for tier, found in by_tier.items()),
        version=run.config.get("versions", {}).get("gce", "of unknown version"),
        iterations=counted(max(record["iteration"] for record in run.read("iterations")), "iteration"),
        going="" if run.summary() else " so far",
        kept=kept,
        sides=" No problem is in both splits." if len(splits) > 1 else "",
        shown=_shown(settings.demonstrations),
    )


def _shown(settings: DemonstrationSettings) -> str:
    made = "a solver" if settings.examples == "solver" else "a heuristic"
    words = ""
    if settings.warm_up:
        words += (
            f"\n\nBefore the first rollouts the model had an SFT warm-up of {settings.warm_up} steps on up to "
            f"{EXAMPLES_DRAWN * settings.shots} demonstrations per tier{also_from(settings.warm_up_also)}, made by "
            f"{made}; they are not included."
        )
    if settings.bootstrap != "none":
        words += (
            f"\n\nWhile a tier was new, most of its answers were sampled with up to {settings.shots} few-shot "
            "examples made "
            f"by {made}; `messages` leaves these out."
        )
    return words


def _model_name(name: str) -> str:
    """Return a model's name without its local path, which is private."""
    kind, _, rest = name.rpartition(":") if name.startswith(("hf:", "scripted:")) else ("", "", name)
    is_path = Path(rest).is_absolute() or rest.startswith((".", "~")) or rest.endswith(".gguf") or Path(rest).exists()
    return f"{kind}:" * bool(kind) + (Path(rest).name if is_path else rest)


def _tiers(traces: Sequence[Conversation]) -> dict[str, int]:
    return dict(Counter(trace.tier for trace in traces))


def _problems(traces: Sequence[Conversation]) -> int:
    return len({trace.problem for trace in traces})
