"""`examples/notebook.ipynb` runs: its cells one after the other, in one namespace, as a kernel runs them."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

NOTEBOOK = Path(__file__).parents[1] / "examples" / "notebook.ipynb"


def cells(kind: str) -> list[str]:
    found = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    return ["".join(cell["source"]) for cell in found["cells"] if cell["cell_type"] == kind]


def shown(source: str, names: dict[str, Any]) -> Any:
    """What a cell shows: the value of its last line, where that is an expression."""
    tree = ast.parse(source)
    last = tree.body[-1]
    value = last.value if isinstance(last, ast.Expr) else None
    tree.body = tree.body[: -1 if value else None]
    exec(compile(tree, NOTEBOOK.name, "exec"), names)
    return eval(compile(ast.Expression(value), NOTEBOOK.name, "eval"), names) if value else None


def test_the_notebook_is_committed_without_outputs() -> None:
    """They would be those of one machine on one day."""
    found = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert (found["nbformat"], found["nbformat_minor"]) == (4, 5)
    code = [cell for cell in found["cells"] if cell["cell_type"] == "code"]
    assert code and not any(cell["outputs"] or cell["execution_count"] for cell in code)
    assert len({cell["id"] for cell in found["cells"]}) == len(found["cells"])


@pytest.mark.slow
def test_every_cell_of_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("mlx_lm", "matplotlib"):
        pytest.importorskip(module)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    values = [shown(source, names) for source in cells("code")]
    pages = [value._repr_html_() for value in values if hasattr(value, "_repr_html_")]
    assert len(pages) == 5 and all(page and "<script" not in page for page in pages[:-1])
    assert not names["report"].ok and True in values, "the leak is found, and the strict scorer has none"
    assert names["recorder"].trace.completion.token_ids
    assert not any(tmp_path.iterdir()), "nothing is written"
