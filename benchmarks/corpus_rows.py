"""Results for each model of the corpus: rows, their file, and their page."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

STEPS: Final = ("read", "plan", "check", "run")
QDQ, QOPERATOR = ".qdq.onnx", ".qoperator.onnx"
_PAGE: Final = """# Models that nobody here wrote

What becomes of models from Python packages, in every verb. `make corpus` fetches and makes them, measures those without
a row, and writes this page; `python benchmarks/corpus.py --again NAME` measures anew. A model is asked for at most one
round of what it leaves open. `plan` is at M_R, with a limit of 15 or 30 s; `run` holds values against the model's
runtime; `split` is `plan --split auto` at 256 KiB; the levels have 4 to 10 s each. A cell `no` has its line below the
table, an empty one was not come to, or not ended on a machine that others used, too; of that machine are the seconds.

"""


_OF_TWINS: Final = """\
Bytes of all maps of networks that onnxruntime quantised both ways, where they are not equal. In these files it has
no kind over integers for LayerNormalization, BatchNormalization and Slice in its QOperator format, and leaves them
in floating point, with what only moves or averages their result (Transpose, Gather, GlobalAveragePool, ReduceMean),
between a DequantizeLinear and a QuantizeLinear; in its QDQ format each of them stands between a pair of its own,
and is planned over integers."""


@dataclass(slots=True)
class CorpusRow:
    """The results of one model; a column is `ok`, empty if it was not reached, or the reason of the failure."""

    name: str
    source: str
    licence: str = ""
    asked: list[str] = field(default_factory=list)
    read: str = ""
    operators: int | None = None
    map_bytes: int | None = None
    required_bytes: int | None = None
    plan: str = ""
    status: str = ""
    gap: float | None = None
    seconds: float | None = None
    check: str = ""
    run: str = ""
    relative_difference: float | None = None
    levels: dict[str, str] = field(default_factory=dict)

    @property
    def refusals(self) -> dict[str, str]:
        """Return the reason of each refusal, by column."""
        columns = {step: str(getattr(self, step)) for step in STEPS} | self.levels
        return {column: line for column, line in columns.items() if line not in ("", "ok")}


def read_rows(path: Path | None) -> dict[str, CorpusRow]:
    """Return the rows of a file by name; empty if there is no file."""
    if path is None or not path.exists():
        return {}
    return {row["name"]: CorpusRow(**row) for row in json.loads(path.read_text())}


def write_rows(path: Path | None, rows: Mapping[str, CorpusRow]) -> None:
    """Keep the rows in the file, if there is to be one."""
    if path is not None:
        path.write_text(json.dumps([asdict(row) for row in rows.values()], indent=1))


def summary(rows: Sequence[CorpusRow]) -> list[str]:
    """Return how many models pass each step and each level, and a comparison of twins."""
    lines = []
    for step in STEPS:
        come_to = [row for row in rows if getattr(row, step)]
        lines.append(f"{step}: {sum(getattr(row, step) == 'ok' for row in come_to)} of {len(come_to)}")
    for level in dict.fromkeys(level for row in rows for level in row.levels):
        told = [row.levels[level] for row in rows if level in row.levels]
        infeasible = sum(word.startswith("infeasible") for word in told)
        lines.append(f"{level}: {told.count('ok')} of {len(told)}, {infeasible} infeasible")
    twins = _twins(rows)
    if twins:
        equal = [name for name, (one, other) in twins.items() if one == other]
        lines.append(f"QDQ with the map bytes of its QOperator twin: {len(equal)} of {len(twins)}")
    return lines


def _twins(rows: Sequence[CorpusRow]) -> dict[str, tuple[int | None, int | None]]:
    """Return the bytes of all feature maps of networks quantised in both styles, by name."""
    named = {row.name: row for row in rows}
    stems = [name.removesuffix(QDQ) for name in named if name.endswith(QDQ)]
    return {
        stem: (named[stem + QDQ].map_bytes, named[stem + QOPERATOR].map_bytes)
        for stem in stems
        if stem + QOPERATOR in named
    }


def _told_of_twins(rows: Sequence[CorpusRow]) -> list[str]:
    """Return a table of networks whose bytes differ between the two styles of quantisation."""
    unequal = {name: pair for name, pair in _twins(rows).items() if pair[0] != pair[1]}
    lines = [f"| {name} | {_shown(one, ',')} | {_shown(other, ',')} |" for name, (one, other) in unequal.items()]
    return [_OF_TWINS, "", "| network | QDQ | QOperator |", "|---|---|---|", *lines] if lines else ["All are equal."]


def page(rows: Sequence[CorpusRow]) -> str:
    """Return the page of the documentation."""
    levels = list(dict.fromkeys(level for row in rows for level in row.levels))
    columns: dict[str, Callable[[CorpusRow], object]] = {
        "model": lambda row: row.name,
        "asks": lambda row: len(row.asked) // 2 or None,
        "read": lambda row: _cell(row.read),
        "operators": lambda row: row.operators,
        "bytes of maps": lambda row: _shown(row.map_bytes, ","),
        "M_R": lambda row: _shown(row.required_bytes, ","),
        "plan": lambda row: row.status if row.plan == "ok" else _cell(row.plan),
        "gap": lambda row: _shown(row.gap, ".1%"),
        "seconds": lambda row: _shown(row.seconds, ".1f"),
        "check": lambda row: _cell(row.check),
        "run": lambda row: _cell(row.run),
        "apart": lambda row: _shown(row.relative_difference, ".1e"),
    }
    lines = [f"* {line}" for line in summary(rows)]
    lines += ["", "| " + " | ".join((*columns, *levels)) + " |", "|---" * (len(columns) + len(levels)) + "|"]
    for row in rows:
        cells = [*(cell(row) for cell in columns.values()), *(_cell(row.levels.get(level, "")) for level in levels)]
        lines.append("| " + " | ".join("" if one is None else str(one) for one in cells) + " |")
    refused = [f"* `{row.name}` {column}: {line}" for row in rows for column, line in row.refusals.items()]
    sources = dict.fromkeys((row.source, row.licence) for row in rows)
    lines += ["", "## What is refused, and why", "", *(refused or ["Nothing."])]
    lines += ["", "## Twins", "", *_told_of_twins(rows)]
    lines += ["", "## Sources", "", "| source | licence |", "|---|---|"]
    lines += [f"| {source} | {licence} |" for source, licence in sources]
    return _PAGE + "\n".join(lines) + "\n"


def _cell(word: str) -> str:
    if word in ("", "ok"):
        return word
    return "infeasible" if word.startswith("infeasible") else "no"


def _shown(value: float | None, how: str) -> str:
    return "" if value is None else format(value, how)
