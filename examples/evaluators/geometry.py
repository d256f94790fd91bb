"""The path of a run's scores beside its nulls, for ScalarScope's viewer.

python examples/evaluators/geometry.py
"""

import json
import tempfile
from pathlib import Path
from typing import Any

import gce
from gce.app.exports.geometry import exported, geometry_of

SIZES: Any = {
    "iterations": 3,
    "problems": 6,
    "samples": 2,
    "updates": 2,
    "test": 0,
    "dev": 0,
    "shifts": 0,
    "progress": False,
}

result = gce.train(
    evaluators={"teach": {"verifier": 1.0, "steps": 0.5, "length": 0.2}},
    **SIZES,
)
with result.runs.read(result.name) as run:
    path = geometry_of(run)
    file = Path(tempfile.mkdtemp()) / "geometry.json"
    file.write_text(json.dumps(exported(run, path, "1.1")))
for null in path.nulls:
    print(f"{null.statistic}: {null.observed.value:.2f}, by chance {null.null.value:.2f}, p = {null.p:.3f}")
print(f"schema 1.1, {len(path.steps)} time steps, in {file}")
