"""The minimum SRAM of int8 models: tilings without recomputation, against Arm's Vela.

    PYTHONPATH=benchmarks:tests python -m vela [MODEL.tflite ...] [--generated] [--only NAME ...] [--seconds S] [--json]

`--generated` adds the fourteen models of `tests/support/tiny_ml_models.py`. Vela runs with `--optimise Size` for
`ethos-u55-128`; its figure is `sram_memory_used` of its summary, in which borders are cached. The last columns are the
bytes beyond compulsory in half of Vela's minimum. Rows are written to `benchmarks/results/vela.json`.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from shared.results import ROOT, write_results

from onchip.answer.operator_tiles import TilesOption
from onchip.answer.problem import Objective
from onchip.answer.program import Plan
from onchip.answer.result import SearchResult
from onchip.api.plan import Request, plan_network
from onchip.api.target import Target
from onchip.errors import UntiledError
from onchip.search.budget.limits import Limits
from support.tiny_ml_models import TINY_MODELS

VELA = ("--optimise", "Size", "--accelerator-config", "ethos-u55-128")
RESULTS = ROOT / "benchmarks" / "results" / "vela.json"


@dataclass(frozen=True, slots=True)
class Row:
    """A model's minimum SRAM in bytes, its bound, and the bytes beyond compulsory at half of Vela's minimum."""

    model: str
    vela_bytes: int | None
    min_bytes: int | None
    bound_bytes: int
    seconds: float
    half_status: str
    half_traffic_bytes: int | None
    half_bound_bytes: int
    recomputed_macs: int = 0


def vela_bytes(model: Path) -> int | None:
    """Return the SRAM that Vela's plan uses; None if Vela refuses the model or leaves it to the processor."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(sys.executable).with_name("vela")
        ended = subprocess.run([program, model, *VELA, "--output-dir", folder], capture_output=True, check=False)
        summaries = list(Path(folder).glob("*_summary_*.csv"))
        if ended.returncode or not summaries:
            return None
        (row,) = csv.DictReader(summaries[0].read_text().splitlines())
        return int(float(row["sram_memory_used"]) * 1024) or None


def planned(model: Path, sram: int | None, objective: Objective, seconds: float) -> SearchResult[Plan]:
    """Return the plan in tiles within a time limit."""
    limits = Limits(time_limit_seconds=seconds)
    asked = Request(str(model), target=Target(sram), objective=objective, limits=limits, tiles=TilesOption.AUTO)
    return plan_network(asked).result


def row_of(model: Path, seconds: float) -> Row:
    """Plan a model for the least peak, and for the least traffic in half of Vela's minimum."""
    vela, started = vela_bytes(model), time.perf_counter()
    peak = planned(model, None, Objective.PEAK, seconds)
    spent = time.perf_counter() - started
    status, traffic, bound = "", None, 0
    if vela is not None:
        try:
            half = planned(model, vela // 2, Objective.TRAFFIC, seconds)
            status, traffic, bound = str(half.status), half.objective_value, half.lower_bound
        except UntiledError as error:
            status = f"{'INFEASIBLE' if error.is_proven else 'UNKNOWN'}: {error.operator} {error.smallest_part_bytes}"
    return Row(model.stem, vela, peak.objective_value, peak.lower_bound, round(spent, 1), status, traffic, bound)


def models(arguments: argparse.Namespace, folder: Path) -> Iterator[Path]:
    """Yield the files, and the generated models as files in the folder."""
    yield from arguments.models
    for name, build in TINY_MODELS.items() if arguments.generated else ():
        yield build().write(folder / f"{name}.tflite")


def main() -> int:
    """Print a row for each model, and write all rows."""
    parser = argparse.ArgumentParser(prog="vela", description=__doc__)
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--generated", action="store_true")
    parser.add_argument("--only", nargs="*", default=())
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--json", action="store_true")
    arguments, rows = parser.parse_args(), []
    with tempfile.TemporaryDirectory() as folder:
        for model in models(arguments, Path(folder)):
            if not arguments.only or model.stem in arguments.only:
                rows.append(row_of(model, arguments.seconds))
                print(json.dumps(asdict(rows[-1])) if arguments.json else _line(rows[-1]), flush=True)
    if not arguments.only:
        write_results(RESULTS, [asdict(one) for one in rows])
    return 0


def _line(row: Row) -> str:
    ratio = f"{row.min_bytes / row.vela_bytes:.2f}" if row.min_bytes and row.vela_bytes else "-"
    half = "" if row.half_traffic_bytes is None else f" {row.half_traffic_bytes:,}"
    found = f"{row.model:40} Vela {row.vela_bytes or 0:>9,}  minimum {row.min_bytes or 0:>9,} ({ratio})"
    return f"{found}  bound {row.bound_bytes:>9,}  {row.seconds:>5} s  half: {row.half_status}{half}"


if __name__ == "__main__":
    sys.exit(main())
