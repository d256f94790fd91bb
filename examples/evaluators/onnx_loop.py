"""The shipped model in ONNX Runtime answers as it does in MLX.

python examples/evaluators/onnx_loop.py
Needs pip install '.[onnx,train]', and the repository for its exporter.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import gce
from benchmarks.onnx_export import export_llama
from gce.app.wiring.models import shipped_model_path

ASKED: Any = {"n": 5, "tiers": ("T0", "T1"), "progress": False}
with tempfile.TemporaryDirectory() as folder:
    export_llama(shipped_model_path(), Path(folder))
    runs = [gce.evaluate(model=model, **ASKED) for model in ("gce-tiny", f"onnx:{folder}")]
texts = [[each.last.completion.text for each in run.conversations["zero-shot"]] for run in runs]
right = [sum(each.last.right for each in run.conversations["zero-shot"]) for run in runs]
same = sum(one == other for one, other in zip(*texts, strict=True))
print(f"right of {len(texts[0])}: MLX {right[0]}, ONNX Runtime {right[1]}; {same} answers are the same text")
