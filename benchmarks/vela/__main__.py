"""Arm's Vela next to onchip on int8 models: minimum SRAM, verified allocations, and bytes off chip.

    PYTHONPATH=benchmarks:tests python -m vela size|allocations|cascades --vela PROGRAM [MODEL ...] [--generated]
        [--accelerator ethos-u55-128] [--seconds 30] [--results FILE.json]

PROGRAM is Vela's (`pip install ethos-u-vela`), MODEL a .tflite file or a folder of them; `--generated` adds the models
of `vela/tiny_models.py`. `size`: the least SRAM in tiles without recomputation against `sram_memory_used`
of `--optimise Size`, in which borders are cached, that with 10 % recomputation, and bytes beyond compulsory in half of
Vela's minimum.
`allocations`: Vela's allocations by both strategies, verified; `ours_bytes` is the least arena of whole operators: Vela
also runs operators in stripes, pads channels to 16, compresses weights and stages them in SRAM. `cascades`: schedules
for the least traffic (groups free and greedy, the better of both) in Vela's SRAM. Vela's bytes are its reads of
compressed weights and its transfers of feature maps; ours include uncompressed weights and the network's ends.
"""

from __future__ import annotations

import csv
import tempfile
import warnings
from argparse import Namespace
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from shared.runner import Row, asked_of, onchip, options_of, report, run

from onchip.answer.operator_tiles import TilesOption
from onchip.answer.problem import Objective
from onchip.answer.program import Plan
from onchip.answer.result import SearchResult
from onchip.api.check import check_file
from onchip.api.check_request import AnswerCheck, CheckRequest
from onchip.api.networks import read_network
from onchip.api.plan import Request, plan_network
from onchip.api.target import Target
from onchip.backends.vela.check_vela import ALIGNMENT_BYTES
from onchip.errors import NetworkWarning, OnchipError, UntiledError
from onchip.ir.tensor import Role
from onchip.search.budget.limits import Limits

ACCELERATOR: Final = """
format: onchip-accelerator
version: 1
name: ethos-like
array: {{free: 128, mac_energy_pj: 0}}
memories:
  - {{name: sram, capacity: {sram}, scratchpad: true, alignment: 16, access_bits: 64,
     read_energy_pj: 0, write_energy_pj: 0, ports: [{{direction: read_write, bits_per_cycle: 64}}]}}
dram: {{access_bits: 8, read_energy_pj: 1, write_energy_pj: 1,
       ports: [{{direction: read_write, bits_per_cycle: 8}}]}}
"""


def size(model: Path, asked: Namespace, folder: Path) -> Iterator[Row]:
    """Yield the least SRAM in tiles, and the bytes beyond compulsory at half of Vela's minimum."""
    try:
        vela = int(float(_compiled(model, asked, "Size", folder)[1]["sram_memory_used"]) * 1024) or None
    except OnchipError:  # Vela refuses the model, or leaves it to the processor
        vela = None
    peak, ten_percent = (_tiled(model, None, Objective.PEAK, asked.seconds, again) for again in (0.0, 0.1))
    half: Row = {"half_status": "", "half_traffic_bytes": None, "half_bound_bytes": 0}
    if vela is not None:
        try:
            found = _tiled(model, vela // 2, Objective.TRAFFIC, asked.seconds, 1.0)
            traffic = {"half_traffic_bytes": found.objective_value, "half_bound_bytes": found.lower_bound}
            half = {"half_status": str(found.status)} | traffic
        except UntiledError as error:
            status = "INFEASIBLE" if error.is_proven else "UNKNOWN"
            half["half_status"] = f"{status}: {error.operator} {error.smallest_part_bytes}"
    sizes = {"vela_bytes": vela, "min_bytes": peak.objective_value, "bound_bytes": peak.lower_bound}
    more = {"ten_percent_bytes": ten_percent.objective_value, "seconds": peak.seconds}
    yield {"model": model.stem, **sizes, **more, **half}


def _tiled(
    model: Path, sram: int | None, objective: Objective, seconds: float, most_again: float
) -> SearchResult[Plan]:
    limits = Limits(time_limit_seconds=seconds)
    request = Request(str(model), target=Target(sram), objective=objective, limits=limits, tiles=TilesOption.AUTO)
    return plan_network(replace(request, most_again=most_again)).result


def allocations(model: Path, asked: Namespace, folder: Path) -> Iterator[Row]:
    """Yield Vela's allocation by each strategy; `ours_bytes` and `parameter_bytes` are equal in both rows."""
    ours_bytes, parameter_bytes = _whole(model, asked.seconds)
    for strategy in ("Size", "Performance"):
        check, summary = _compiled(model, asked, strategy, folder)
        sram = _sram_of(check)
        yield {
            "model": model.stem,
            "strategy": strategy,
            "is_legal": check.is_legal,
            "violations": [str(one) for one in check.violations],
            "sram_bytes": sram["arena_bytes"],
            "most_live_bytes": sram["most_live_bytes"],
            "off_chip_bytes": _off_chip(summary),
            "cycles": int(float(summary["cycles_total"])),
            "ours_bytes": ours_bytes,
            "parameter_bytes": parameter_bytes,
        }


def cascades(model: Path, asked: Namespace, folder: Path) -> Iterator[Row]:
    """Yield the bytes off chip of Vela's cascades, and of our schedule in the same SRAM."""
    whole_bytes, parameter_bytes = _whole(model, asked.seconds)
    check, summary = _compiled(model, asked, "Size", folder)
    sram, graph = int(_sram_of(check)["arena_bytes"]), read_network(str(model))
    accelerator = folder / "accelerator.yaml"
    accelerator.write_text(ACCELERATOR.format(sram=sram))
    found = []
    for groups in ("optimal", "greedy"):
        options = ("--objective", "traffic", "--groups", groups, "--time-limit", asked.seconds, "--json")
        found.append(onchip("schedule", model, "--accelerator", accelerator, *options).answer)
    best = min(found, key=lambda one: int(one["objective_value"]))
    yield {
        "model": model.stem,
        "whole_bytes": whole_bytes,
        "sram_bytes": sram,
        "vela_off_chip_bytes": _off_chip(summary),
        "ours_sram_bytes": best["arena_bytes"]["sram"],
        "is_legal": best["arena_bytes"]["sram"] <= sram,
        "ours_off_chip_bytes": best["objective_value"],
        "lower_bound_bytes": max(int(one["lower_bound"]) for one in found),
        "parameter_bytes": parameter_bytes,
        "ends_bytes": sum(one.size_bytes for role in (Role.INPUT, Role.OUTPUT) for one in graph.with_role(role)),
        "fused_stacks": sum(len(one["operators"]) > 1 for one in best["stacks"]),
    }


def _compiled(model: Path, asked: Namespace, strategy: str, folder: Path) -> tuple[AnswerCheck, Mapping[str, str]]:
    """Return onchip's verdict on Vela's allocation, and Vela's own summary; raises OnchipError if Vela refuses it."""
    out = Path(tempfile.mkdtemp(dir=folder))
    options = ("--accelerator-config", asked.accelerator, "--optimise", strategy, "--verbose-allocation")
    ended = run((asked.vela, model, *options, "--output-dir", out))
    summaries = list(out.glob("*summary*.csv"))
    if ended.code or not summaries:
        lines = [line for line in f"{ended.output}\n{ended.errors}".splitlines() if line.strip()]
        raise OnchipError(f"Vela refuses it: {lines[-1:]}", file=str(model))
    written = out / "vela.txt"
    written.write_text(ended.output)
    check = check_file(CheckRequest(written, str(model)))
    assert isinstance(check, AnswerCheck)
    with summaries[0].open(newline="") as file:
        return check, next(csv.DictReader(file))


def _sram_of(check: AnswerCheck) -> Mapping[str, Any]:
    return next(one for one in check.recomputed if str(one["names"]).startswith("Sram"))


def _off_chip(summary: Mapping[str, str]) -> int:
    return sum(int(float(summary[kind])) for kind in ("dram_total_bytes", "off_chip_flash_total_bytes"))


def _whole(model: Path, seconds: float) -> tuple[int, int]:
    """Return our least arena of whole operators, and the bytes of all parameters."""
    target, limits = Target(sram=2**30, alignment_bytes=ALIGNMENT_BYTES), Limits(time_limit_seconds=seconds)
    outcome = plan_network(Request(str(model), target=target, objective=Objective.PEAK, limits=limits))
    if outcome.figures is None:
        raise OnchipError("no plan was found in time", file=str(model))
    parameters = outcome.problem.graph.with_role(Role.PARAMETER)
    return outcome.figures.arena_bytes, sum(tensor.size_bytes for tensor in parameters)


TABLES: Final = {"size": size, "allocations": allocations, "cascades": cascades}


def rows(asked: Namespace) -> Iterator[Row]:
    """Yield the rows of all models, and print why a model has none."""
    warnings.simplefilter("ignore", NetworkWarning)
    with tempfile.TemporaryDirectory() as name:
        models = [one for path in asked.models for one in (sorted(path.glob("*.tflite")) or [path])]
        if asked.generated:
            from vela.tiny_models import TINY_MODELS

            models += [build().write(Path(name) / f"{stem}.tflite") for stem, build in TINY_MODELS.items()]
        for model in models:
            try:
                yield from TABLES[asked.table](model, asked, Path(name))
            except (OnchipError, StopIteration, SystemExit) as error:
                print(f"{model.stem}: {error}"[:200], flush=True)


def main() -> int:
    """Print the table; return 1 if an allocation is illegal or larger than Vela's."""
    parser = options_of(__doc__)
    parser.add_argument("table", choices=TABLES)
    parser.add_argument("models", nargs="*", type=Path, metavar="MODEL")
    parser.add_argument("--vela", type=Path, required=True, metavar="PROGRAM")
    parser.add_argument("--generated", action="store_true")
    parser.add_argument("--accelerator", default="ethos-u55-128")
    parser.add_argument("--seconds", type=float, default=30.0)
    asked = asked_of(parser)
    found = report(asked, {asked.table: partial(rows, asked)})[asked.table]
    return int(not found or not all(row.get("is_legal", True) for row in found))


if __name__ == "__main__":
    raise SystemExit(main())
