"""Two tables as comma-separated values (RFC 4180, UTF-8): the residencies of a plan, and its transfers."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from onchip.answer.program import Plan, Residency, Transfer, residencies_of, transfers_of
from onchip.ir.graph import Graph

RESIDENCY_COLUMNS = (
    "tensor", "role", "memory", "offset_bytes", "size_bytes", "start_instruction", "stop_instruction", "start_step",
    "stop_step", "began", "spilled",
)  # fmt: skip
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
TRANSFER_COLUMNS = ("instruction", "step", "kind", "tensor", "role", "source", "target", "size_bytes")


def residencies_to_csv(plan: Plan, graph: Graph) -> str:
    """Return one line per residency of a legal plan, in the order of their starts; ranges are half-open."""
    return _table(RESIDENCY_COLUMNS, residencies_of(plan, graph), graph)


def transfers_to_csv(plan: Plan, graph: Graph) -> str:
    """Return one line per Copy of a legal plan, in execution order."""
    return _table(TRANSFER_COLUMNS, transfers_of(plan, graph), graph)


def spreadsheet_cell(value: object) -> object:
    """Return a cell that no spreadsheet takes for a formula: an apostrophe stands before text that begins like one."""
    is_formula = isinstance(value, str) and value[:1] in _FORMULA_STARTS
    return f"'{value}" if is_formula else value


def _table(columns: Sequence[str], rows: Sequence[Residency | Transfer], graph: Graph) -> str:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(columns)
    for row in rows:
        others = {"role": graph.tensor[row.tensor].role, "spilled": int(getattr(row, "is_spilled", False))}
        cells = (others[name] if name in others else getattr(row, name) for name in columns)
        writer.writerow([spreadsheet_cell(cell) for cell in cells])
    return text.getvalue()
