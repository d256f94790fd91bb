"""Hidden states of identical fixed texts before and after training: what `gce probe` and `gce geometry --hidden` read.

The texts are answers to test problems of the model as the run began, so that its training chose none of them: the base
model, with the adapter that the run was started with, if any.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain

import numpy as np
from attrs import evolve, frozen
from numpy.typing import NDArray

from gce.app.evaluation.checkpoints import arrays_digest, restore
from gce.app.evaluation.run import evaluate
from gce.app.evaluation.scoring import judge_each
from gce.app.evaluation.stored_runs import iteration_records, stored_settings
from gce.app.loaded_model import LoadedModel
from gce.app.settings.records import TrainSettings
from gce.app.shown import Part
from gce.app.tables.cells import difference_cell, p_cell
from gce.app.training.state import Watcher
from gce.app.wiring.evaluators import find_evaluator
from gce.app.wiring.models import find_learning_model
from gce.app.wiring.names import plain_name
from gce.app.wiring.runs import find_adapter, open_run
from gce.app.wiring.scores import with_scores
from gce.app.wiring.tasks import find_task
from gce.domain.answers import Answer
from gce.domain.evaluators.combination import scores_by_evaluator
from gce.domain.evaluators.critic import FOLDS
from gce.domain.evaluators.probes import FixedTexts, Internalisation, Transfer, internalisation, transfer
from gce.domain.figures import Table
from gce.domain.geometry import Geometry, ScoredProblem, path_geometry
from gce.domain.learning import ModelState
from gce.domain.randomness import generator
from gce.domain.tasks import Task
from gce.domain.text import counted
from gce.errors import BadInput
from gce.ports.model import Embedder, LearningModel
from gce.ports.runs import RunReader

__all__ = ["ProbedRun", "hidden_geometry", "probe", "probe_parts"]

Floats = NDArray[np.float64]


@frozen
class ProbedRun:
    """What probes find of one run."""

    run: str
    texts: int
    problems: int
    rows: tuple[Internalisation, ...]
    transfers: tuple[Transfer, ...]
    """For each held-out evaluator."""


@frozen(eq=False)
class _Bench:
    """A model with its answers before training, which are the texts of all runs that began with it."""

    name: str
    task: Task
    model: LearningModel
    """As the run began: the base, or the base with the adapter that the run was started with."""
    answers: Sequence[Answer]
    start: ModelState | None
    """That adapter."""

    @staticmethod
    def of(
        settings: TrainSettings, start: ModelState | None, watcher: Watcher, n: int, samples: int, temperature: float
    ) -> _Bench:
        task, name = find_task(settings.task), plain_name(settings.model.name)
        model = find_learning_model(evolve(settings, model=evolve(settings.model, sampler="")), task)
        if not isinstance(model, Embedder):
            raise BadInput(f"model {name} gives no hidden states: gce-tiny, a directory, hf:NAME and FILE.gguf do")
        if start is not None:
            restore(model, start, settings.model.adapter, name)
        asked = evaluate(
            task,
            LoadedModel(model, name),
            preset=settings.preset or None,
            n=n,
            samples=samples,
            temperature=temperature,
            watcher=watcher,
        )
        (held,) = asked.conversations.values()
        evaluator = with_scores(find_evaluator(task), task, settings)
        said = [(each.last.problem, each.last.completion) for each in held if not each.last.failed]
        return _Bench(name, task, model, list(judge_each(task, evaluator, said)), start)

    def states(self, learned: ModelState | None, where: str) -> Floats:
        """(texts, width): the mean state over each text's tokens; as the run began without a checkpoint."""
        model, learned = self.model, self.start if learned is None else learned
        assert isinstance(model, Embedder)
        if learned is not None:
            restore(model, learned, where, self.name)
        texts = ((each.problem.prompt, each.completion.text) for each in self.answers)
        adapter = learned is not None
        return np.array([model.hidden_states(*text, adapter=adapter).mean(axis=0) for text in texts], float)


def _start(run: RunReader, settings: TrainSettings) -> ModelState | None:
    """The adapter that a run was started with; None where it began from the base."""
    if not settings.model.adapter:
        return None
    found = find_adapter(settings.model.adapter)
    if arrays_digest(found) != run.config["adapter"]:
        raise BadInput(f"{settings.model.adapter} is not the adapter that {run.name} began with: restore that one")
    return found


def probe(
    runs: Sequence[str],
    *,
    n: int = 20,
    samples: int = 4,
    temperature: float = 0.8,
    seeds: int = 5,
    watcher: Watcher,
) -> list[ProbedRun]:
    """Probe the newest checkpoint of each run against the model as it began.

    Args:
        runs: trained from the same base and adapter on the same task with the same evaluators.
        n: problems per tier.
        samples: texts of each problem.
        temperature: at which it writes them.
        seeds: ways to deal problems to folds.
        watcher: is told of progress.

    Raises:
        BadInput: runs of different bases, tasks or evaluators; no hidden states; or too few texts.
    """
    found: list[ProbedRun] = []
    first = None
    for name in runs:
        with open_run(name) as reader:
            settings, (_, learned) = stored_settings(reader), reader.checkpoint()
            start = _start(reader, settings)
        kind = (settings.task, settings.preset, settings.model.name, settings.model.adapter, settings.evaluators)
        if first is None:
            first, bench = kind, _Bench.of(settings, start, watcher, n, samples, temperature)
            base = bench.states(None, name)
        elif kind != first:
            raise BadInput(
                f"expected runs of one task, base model, starting adapter and set of evaluators, got another in {name}"
            )
        texts = _fixed_texts(bench.answers, base, bench.states(learned, name))
        if len({*texts.problems}) < 4 * FOLDS:
            got = counted(len({*texts.problems}), "problem")
            raise BadInput(f"expected texts of at least {4 * FOLDS} problems, got {got}", hint="raise {n}")
        rng = generator(settings.seed, "probe")
        teaching = list(settings.evaluators.weights)
        transfers = (transfer(texts, teaching, each, rng, seeds=seeds) for each in settings.evaluators.hold_out)
        rows = internalisation(texts, rng, seeds=seeds)
        found.append(
            ProbedRun(
                name, len(texts.problems), len({*texts.problems}), rows, tuple(each for each in transfers if each)
            )
        )
    return found


def _fixed_texts(answers: Sequence[Answer], before: Floats, after: Floats) -> FixedTexts:
    """Of the answers that every evaluator scored."""
    scores = [scores_by_evaluator(each) for each in answers]
    whole = np.array([all(each is not None for each in row.values()) for row in scores], bool)
    kept = [row for row, is_whole in zip(scores, whole, strict=True) if is_whole]
    lengths = [[np.log2(1 + (each.completion.tokens or len(each.completion.text)))] for each in answers]
    return FixedTexts(
        [each.problem.key for each, is_whole in zip(answers, whole, strict=True) if is_whole],
        np.array(lengths, float)[whole],
        before[whole],
        after[whole],
        {name: np.array([row[name] for row in kept], float) for name in (kept[0] if kept else ())},
    )


def hidden_geometry(run: RunReader, *, n: int, watcher: Watcher, seed: int = 0) -> Geometry:
    """Return the path of hidden states of fixed texts over the checkpoints that the run keeps, from the base on.

    Raises:
        BadInput: fewer than two checkpoints, or no hidden states.
    """
    settings = stored_settings(run)
    states: dict[int, ModelState] = {}
    for record in iteration_records(run):
        try:
            states |= dict([run.checkpoint(record.iteration)])
        except BadInput:  # It is not kept.
            continue
    bench = _Bench.of(settings, _start(run, settings), watcher, n, 1, 0.0)
    steps: dict[int, ModelState | None] = {0: None, **states}
    rows = chain.from_iterable(
        _scored(step, bench.answers, bench.states(learned, run.name)) for step, learned in steps.items()
    )
    try:
        return path_geometry(list(rows), generator(seed, "geometry"), paired=True)
    except ValueError as error:
        raise BadInput(
            f"{run.name} has no path of hidden states: {error}",
            hint="train with {evaluation.keep_every} 1 to keep each checkpoint",
        ) from error


def _scored(step: int, answers: Sequence[Answer], states: Floats) -> list[ScoredProblem]:
    return [
        ScoredProblem(step, "texts", {f"h{place}": value for place, value in enumerate(row)}, answer.problem.key)
        for answer, row in zip(answers, states.tolist(), strict=True)
    ]


def probe_parts(found: Sequence[ProbedRun]) -> list[Part]:
    """Tables and sentences."""
    columns = (
        "evaluator",
        "R^2 of length",
        "before",
        "after",
        "after - before",
        "p",
        "pairs right, %",
        "pairs",
        "AUROC",
    )
    parts: list[Part] = []
    for each in found:
        rows = tuple(map(_cells, each.rows))
        parts += [
            f"{each.run}: R^2 of probes on hidden states of {counted(each.texts, 'fixed text')} of "
            f"{counted(each.problems, 'problem')}, before and after training; p: scores permuted within problems",
            Table(columns, rows),
            "",
        ]
        if each.transfers:
            parts += [
                "correlation with a held-out evaluator; the first two need no training",
                Table(
                    (
                        "held out",
                        "closed form",
                        "mean of teaching scores",
                        "length",
                        "before",
                        "after",
                        "after - before",
                    ),
                    tuple(map(_transfer_cells, each.transfers)),
                ),
                "",
            ]
    if len(found) > 1:
        parts += [f"gain in R^2 over {len(found)} runs: mean (lowest to highest)", _over_runs(found)]
    return parts


def _over_runs(found: Sequence[ProbedRun]) -> Table:
    gains: dict[str, list[float]] = {}
    for each in found:
        for row in each.rows:
            gains.setdefault(row.evaluator, []).append(row.gain.value)
    cells = (
        (name, f"{np.mean(values):+.3f} ({min(values):+.3f} to {max(values):+.3f})", str(len(values)))
        for name, values in gains.items()
    )
    return Table(("evaluator", "after - before", "runs"), tuple(cells))


def _cells(row: Internalisation) -> tuple[str, ...]:
    right, area = (" -> ".join(format.format(each) for each in pair) for format, pair in _pairs(row))
    r2 = tuple(f"{each:.3f}" for each in (row.length, row.before, row.after))
    gain = difference_cell(row.gain, digits=3, scale=1.0)
    return (row.evaluator, *r2, gain, p_cell(row.p), right, str(row.pairs), area)


def _pairs(row: Internalisation) -> tuple[tuple[str, tuple[float, ...]], ...]:
    return (("{:.1f}", tuple(100 * each for each in row.pairwise)), ("{:.3f}", row.auroc))


def _transfer_cells(found: Transfer) -> tuple[str, ...]:
    values: Callable[[float], str] = "{:.3f}".format
    plain = (found.closed_form, found.consensus, found.length, found.before, found.after)
    return (found.held_out, *map(values, plain), difference_cell(found.gain, digits=3, scale=1.0))
