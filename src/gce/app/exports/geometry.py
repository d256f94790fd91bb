"""The path of a run through the space of scores, as ScalarScope's viewer reads it: schema 1.0, or 1.1 with the nulls.

`gce/data/geometry.schema.json` is the JSON Schema of both.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from gce.app.evaluation.scoring import stored_outcome, stored_reward
from gce.app.evaluation.stored_runs import iteration_records, stored_settings
from gce.domain.evaluators.scores import VERIFIER
from gce.domain.geometry import Geometry, ScoredProblem, path_geometry
from gce.domain.measurements import IterationRecord
from gce.domain.randomness import generator
from gce.domain.serialization import to_plain
from gce.errors import BadInput
from gce.ports.runs import RunReader

__all__ = ["SCHEMAS", "Schema", "exported", "geometry_of"]

Schema = Literal["1.0", "1.1"]
SCHEMAS: tuple[Schema, ...] = ("1.0", "1.1")


def geometry_of(run: RunReader, *, seed: int = 0) -> Geometry:
    """Return the path of the run's rollouts.

    Raises:
        BadInput: too few iterations, or too few scores that vary.
    """
    try:
        return path_geometry(list(_problems(run)), generator(seed, "geometry"))
    except ValueError as error:
        raise BadInput(f"{run.name} has no path through the space of scores: {error}") from error


def _problems(run: RunReader) -> Iterator[ScoredProblem]:
    """The mean scores of each problem's rollouts, by iteration; rollouts that failed are left out."""
    groups: dict[tuple[int, str, str], list[dict[str, float]]] = defaultdict(list)
    for record in run.read("rollouts"):
        if stored_outcome(record) != "failed":
            groups[record["iteration"], record["tier"], record["problem"]].append(_scores(record))
    for (iteration, tier, _), rows in groups.items():
        names = [name for name in rows[0] if all(name in row for row in rows)]
        yield ScoredProblem(iteration, tier, {name: sum(row[name] for row in rows) / len(rows) for name in names})


def _scores(record: Mapping[str, Any]) -> dict[str, float]:
    beside = {each["evaluator"]: each["score"] for each in record["verdicts"] if each.get("beside")}
    return {VERIFIER: stored_reward(record) or 0.0, **{name: s for name, s in beside.items() if s is not None}}


def exported(run: RunReader, found: Geometry, schema: Schema, *, hidden: bool = False) -> dict[str, Any]:
    """Return the path of scores, or of hidden states, as plain data in this schema."""
    settings, records = stored_settings(run), iteration_records(run)
    held_out = settings.evaluators.hold_out
    last = max(1, len(found.steps) - 1)
    times = [place / last for place in range(len(found.steps))]
    plain: dict[str, Any] = {
        "schema_version": schema,
        "run_metadata": {
            "run_id": run.name,
            "condition": settings.objective.algorithm,
            "seed": settings.seed,
            "training_items": sum(count.rollouts for record in records for count in record.tiers.values()),
            "cycles": len(records),
            "holdout_professor": held_out[0] if held_out else None,
            "conscience_tier": None,
        },
        "reduction": {
            "method": "PCA",
            "input_dim": len(found.dimensions),
            "output_dim": 2,
            "explained_variance": list(found.explained),
            "components": found.components.tolist(),
        },
        "trajectory": {
            "timesteps": [
                {
                    "t": t,
                    "state_2d": list(step.state),
                    "velocity": list(step.velocity),
                    "curvature": step.curvature,
                    "effective_dim": step.effective_dim,
                }
                for t, step in zip(times, found.steps, strict=True)
            ]
        },
        "scalars": {
            "dimensions": list(found.dimensions),
            "values": [
                {"t": t, **dict(zip(found.dimensions, state, strict=True))}
                for t, state in zip(times, found.states.tolist(), strict=True)
            ],
        },
        "geometry": {
            "eigenvalues": [
                {"t": t, "values": list(step.eigenvalues)} for t, step in zip(times, found.steps, strict=True)
            ],
            "anisotropy": [{"t": t, "ratio": step.anisotropy} for t, step in zip(times, found.steps, strict=True)],
        },
        "evaluators": {"latent_dim": 2, "professors": [] if hidden else list(_professors(found, held_out))},
        "failures": list(_failures(records, dict(zip(found.iterations, times, strict=True)))),
    }
    if schema == "1.1":
        plain["run_metadata"] |= {
            "step_axis": "training_step",
            "checkpoints": list(found.iterations),
            "scalar_source": "replayed" if hidden else "live",
        }
        plain["analysis"] = {
            "eigenvalues": "covariance of the standardised states of a trailing window",
            "window": found.window,
            "nulls": to_plain(found.nulls),
        }
    return plain


def _professors(found: Geometry, held_out: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """Each evaluator with its mean loading on both components."""
    of = [name.rpartition("/")[0] for name in found.dimensions]
    for name in dict.fromkeys(of):
        columns = [place for place, each in enumerate(of) if each == name]
        vector = found.components[:, columns].mean(axis=1).tolist()
        yield {"name": name, "vector": vector, "holdout": name in held_out}


def _failures(records: list[IterationRecord], times: Mapping[int, float]) -> Iterator[dict[str, Any]]:
    """Iterations in which rollouts failed, with their share."""
    for record in records:
        failed = sum(record.failed.values())
        if failed and record.iteration in times:
            asked = failed + sum(count.rollouts for count in record.tiers.values())
            yield {
                "t": times[record.iteration],
                "category": "failed_rollouts",
                "severity": failed / asked,
                "description": f"{failed} of {asked} rollouts failed in iteration {record.iteration}",
            }
