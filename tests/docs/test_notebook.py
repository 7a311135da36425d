"""The example notebook: its outputs are cleared, its cells run, and its results show as tables and pictures."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

NOTEBOOK = Path(__file__).parents[2] / "examples" / "results.ipynb"


def code_cells() -> list[dict[str, Any]]:
    return [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]


def run_cell(source: str, names: dict[str, object]) -> object:
    """Run a cell, and return the value of its last line, which must be an expression, or None."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, str(NOTEBOOK), "exec"), names)
    if last is None:
        return None
    assert isinstance(last, ast.Expr)
    return eval(compile(ast.Expression(last.value), str(NOTEBOOK), "eval"), names)


def test_the_notebook_has_no_outputs() -> None:
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code_cells())


@pytest.mark.slow
def test_the_cells_show_tables_and_pictures() -> None:
    names: dict[str, object] = {}
    shown = [run_cell("".join(cell["source"]), names) for cell in code_cells()]
    pages = [one._repr_html_() for one in shown if hasattr(one, "_repr_html_")]

    assert len(pages) == len(shown) - 1
    assert sum("<table>" in page for page in pages) >= 5
    assert sum("<svg" in page for page in pages) >= 5
