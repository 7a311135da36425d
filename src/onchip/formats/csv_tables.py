"""Two tables as comma-separated values (RFC 4180, UTF-8): the residencies of a plan, and its transfers."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from onchip.answer.program import Plan
from onchip.answer.residencies import residencies_of, transfers_of
from onchip.ir.graph import Graph

RESIDENCY_COLUMNS = (
    "tensor", "role", "memory", "offset_bytes", "size_bytes", "start_instruction", "stop_instruction", "start_step",
    "stop_step", "began", "spilled",
)  # fmt: skip
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
TRANSFER_COLUMNS = ("instruction", "step", "kind", "tensor", "role", "source", "target", "size_bytes")


def residencies_to_csv(plan: Plan, graph: Graph) -> str:
    """Return one line per residency of a legal plan, in the order of their starts; ranges are half-open."""
    return _table(
        RESIDENCY_COLUMNS,
        (
            (
                one.tensor,
                graph.tensor[one.tensor].role,
                one.memory,
                one.offset_bytes,
                one.size_bytes,
                one.start_instruction,
                one.stop_instruction,
                one.start_step,
                one.stop_step,
                one.began,
                int(one.is_spilled),
            )
            for one in residencies_of(plan, graph)
        ),
    )


def transfers_to_csv(plan: Plan, graph: Graph) -> str:
    """Return one line per Copy of a legal plan, in execution order."""
    return _table(
        TRANSFER_COLUMNS,
        (
            (
                one.instruction,
                one.step,
                one.kind,
                one.tensor,
                graph.tensor[one.tensor].role,
                one.source,
                one.target,
                one.size_bytes,
            )
            for one in transfers_of(plan, graph)
        ),
    )


def spreadsheet_cell(value: object) -> object:
    """Return a cell that no spreadsheet takes for a formula: an apostrophe stands before text that begins like one."""
    is_formula = isinstance(value, str) and value[:1] in _FORMULA_STARTS
    return f"'{value}" if is_formula else value


def _table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(columns)
    writer.writerows([spreadsheet_cell(value) for value in row] for row in rows)
    return text.getvalue()
