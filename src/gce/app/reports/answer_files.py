"""A report of the answers that `gce evaluate --answers` has kept: strategies side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from attrs import evolve

from gce.app.evaluation.answer_file import open_answers, stored_conversations
from gce.app.evaluation.one_outcome import cut_off_words, ended_early
from gce.app.evaluation.rewards import is_graded, rewards_of_conversations
from gce.app.reports.beliefs import belief_sections
from gce.app.reports.run import SAMPLED
from gce.app.reports.section import Section
from gce.app.reports.transcripts import transcripts_section
from gce.app.tables.cells import count_words
from gce.app.tables.summary import accuracy_rows, reward_rows
from gce.app.transcripts import sample_answers, stored_answers, transcripts_of
from gce.app.wiring.names import plain_name
from gce.domain.conversations import Conversation
from gce.domain.figures import Bars, Table
from gce.domain.metrics import METRICS, by_tier
from gce.domain.metrics.rates import ACCURACY
from gce.domain.statistics import DEFAULT_INTERVAL
from gce.errors import BadInput

__all__ = ["answer_file_sections"]

_COSTS = ("replies", "prompt tokens", "tokens", "truncated")


def answer_file_sections(path: Path, before: str = "") -> list[Section]:
    """Return the sections of a file of answers; `before` comes before each title.

    Raises:
        BadInput: it is no file of answers, or has none.
    """
    held = stored_conversations(path)
    if not held:
        raise BadInput(f"{path} has no answers yet")
    with open_answers(str(path)) as reader:
        sample = sample_answers(stored_answers(reader), seed=reader.config["settings"].get("seed", 0), each=SAMPLED)
        transcripts = transcripts_of(reader, sample.chosen)
        task = plain_name(str(reader.config["settings"].get("task", "")))
    tiers = list(dict.fromkeys(each.last.problem.tier for found in held.values() for each in found))
    sections = [
        _result(held, tiers, task),
        *belief_sections(held),
        _costs(held, tiers),
        transcripts_section(sample, transcripts, tiers),
    ]
    return [evolve(section, title=before + section.title) for section in sections]


def _result(held: Mapping[str, Sequence[Conversation]], tiers: Sequence[str], task: str) -> Section:
    shares = {name: by_tier(ACCURACY, each) for name, each in held.items()}
    rewards = {name: rewards_of_conversations(each, method=DEFAULT_INTERVAL) for name, each in held.items()}
    tables = [Table(*accuracy_rows(shares, tiers))]
    figures = [Bars("result", "Accuracy by strategy", shares)]
    if is_graded(rewards.values()):
        tables.append(Table(*reward_rows(rewards, tiers)))
        figures.append(Bars("result-reward", "Mean reward by strategy", rewards, unit="mean reward"))
    sizes = {tier: max(row[tier].n + row[tier].failed for row in shares.values() if tier in row) for tier in tiers}
    words = (
        f"An evaluation on {task}: accuracy in % with 95 % Wilson intervals, {count_words(sizes, 0)}. gce evaluate "
        "prints prompt-blind baselines and heuristics on the same problems beside it."
    )
    ends = {name: cut_off_words("answers", *ended_early([each.last for each in found])) for name, found in held.items()}
    cut_off = [f"Warning: {name}: {said}." for name, said in ends.items() if said]
    return Section("Result", (words, *cut_off), tuple(tables), tuple(figures))


def _costs(held: Mapping[str, Sequence[Conversation]], tiers: Sequence[str]) -> Section:
    tables = []
    for name in _COSTS:
        found = {strategy: by_tier(METRICS[name], each) for strategy, each in held.items()}
        rows = tuple(
            (strategy, *(f"{row[tier].value:.2f}" if tier in row else "-" for tier in tiers))
            for strategy, row in found.items()
        )
        tables.append(Table((name, *tiers), rows))
    return Section("Costs", ("Means per problem; a dash where the backend does not report it.",), tuple(tables))
