"""Headline figures that are deterministic or proven, run again and held against those that are kept.

    PYTHONPATH=benchmarks python -m frozen [TABLE ...] [--keep]

Each table runs the benchmark that makes it. Prints each figure that differs, and ends with 1 if there is any. With
`--keep` the figures become those of TABLE.json. `proofs` are those that `benchmarks/results/mapping_baselines.json`
has, with twice its limit of ten processor seconds each.
"""

from __future__ import annotations

import json
import sys
from argparse import ArgumentDefaultsHelpFormatter, ArgumentParser
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import overflow
import packing
from cosa import __main__ as cosa
from cosma.__main__ import SECTIONS, Asked
from defines.against import POINTS, ours
from defines.fsrcnn import case, case_study_tilings, conventions_of, costs_of_all
from defines.mappers import Answers, TileMapper
from frozen.rows import OPTIMAL, Row, differences, read_rows
from shared.results import write_results
from shared.runner import count_processor_seconds
from thesis import pinning
from thesis.published import TABLE_7_1

from onchip.answer.document import Reading
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.options.verb_options import FusionOptions
from onchip.answer.problem import Order
from onchip.api.fuse import FusionRequest, fuse_network
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.formats.own.graph_json import layer_table
from onchip.ir.layer import Layer
from onchip.mapping.cosa.cosa import solve_as_cosa
from onchip.mapping.methods.registry import METHODS
from onchip.ops.layers_of import Precision
from onchip.search.budget.limits import Limits, Run

FOLDER: Final = Path(__file__).parent
PROOFS: Final = FOLDER.parent / "results" / "mapping_baselines.json"
SECONDS_OF_A_PROOF: Final = 20.0
EVEN, WITHOUT_BYPASS = "even mappings", "mappings without bypass"


def cosma_rows() -> Iterator[Row]:
    """Yield the plans of the fourteen networks; only the status if a plan is not proven."""
    for section in ("human", "nas", "table2", "peaks"):
        for one in SECTIONS[section](Asked()):
            name = f"{one['network']} {one['granularity']}"
            if section == "peaks":
                values = {"m_r": one["required_bytes"], "m_p": one["min_peak_bytes"], "bound": one["lower_bound"]}
            else:
                name = f"{name} {one['count']} {one['budget']} {one['order']} {one['method']}"
                values = {"capacity": one["capacity_bytes"]} | _proven(one["status"], one["objective_bytes"])
            yield Row(f"{section}: {name}", f"python -m cosma --section {section}", values)


def packing_rows() -> Iterator[Row]:
    """Yield whether MiniMalloc's instances and the schedules of the NAS networks pack."""
    for one in (*packing.instance_rows(), *packing.schedule_rows()):
        keys = {"capacity": "capacity_bytes", "finding": "finding", "unpackable": "unpackable_steps"}
        values = {name: one[key] for name, key in keys.items()}
        yield Row(one["name"], "python benchmarks/packing.py", values)


def overflow_rows() -> Iterator[Row]:
    """Yield the shares of bytes outside of fast memory."""
    for one in overflow.rows():
        name, values = f"{one['network']} {one['share_percent']} %", _proven(one["status"], one["outside"])
        yield Row(name, "python benchmarks/overflow.py", values)


def thesis_rows() -> Iterator[Row]:
    """Yield the bytes that each method of the thesis moves in the given order, tensors capped."""
    for network in TABLE_7_1:
        for size_kb in pinning.SIZES_KB:
            problem = pinning.problem_of(network, "capped", size_kb, Order.GIVEN)
            found = [pinning.row_of(problem, network, "capped", size_kb, method) for method in pinning.METHODS]
            values = {one["method"]: one["moved_bytes"] for one in found}
            yield Row(f"{network} {size_kb} KB", "python -m thesis.pinning --tensors capped", values)


def cosa_rows() -> Iterator[Row]:
    """Yield the optima of CoSA's program by layer."""
    for machine in cosa.MACHINES:
        accelerator = load_accelerator(machine)
        for workload in ("resnet50", "resnext50", "resnext50-cosa", "deepbench"):
            found = {
                name: solve_as_cosa(LayerProblem(layer, accelerator), Run())
                for name, layer in layer_table(workload).items()
            }
            values = {name: one.objective_value if one.status == OPTIMAL else None for name, one in found.items()}
            yield Row(f"{machine} {workload}", "python -m cosa formulation", values)


def defines_rows() -> Iterator[Row]:
    """Yield energy in pJ and cycles of the points for which DeFiNES's program was run."""
    for point in POINTS:
        figures = ours(point)
        values = {"energy_pj": figures.energy_pj, "cycles": figures.latency_cycles}
        yield Row(point, f"python -m defines.against FOLDER PYTHON {point}", values)


def fsrcnn_rows() -> Iterator[Row]:
    """Yield the 108 points of case study 1 by two mappers, and the proven strategies of three networks."""
    stack, accelerator = case()
    for name in ("loma", "uneven"):
        mapper = TileMapper(name)
        tilings = case_study_tilings()
        costs = costs_of_all(stack, accelerator, tilings, Answers(mapper), conventions_of(mapper), 1)
        values = {str(tiling): [cost.sums.energy_pj, cost.sums.cycles] for tiling, cost in costs.items()}
        yield Row(f"case study 1, {name}: pJ and cycles", f"python -m defines case1 --mappers {name}", values)
    for network in ("fsrcnn", "dmcnn-vd", "mobilenetv1"):
        result = fuse_network(
            FusionRequest(
                network, "meta-prototype-df", options=FusionOptions(uses_cache=False), reading=Reading(bits=8)
            )
        ).result
        command = "python -m scale fusion"
        yield Row(f"fuse {network}", command, {"value": result.objective_value, "bound": result.lower_bound})


def proof_rows() -> Iterator[Row]:
    """Yield the proven optima of `map --method exact`, asked again; those of even mappings of `exact-even`."""
    for kept in kept_proofs():
        preset, layer, objective = kept.name.split()
        accelerator = load_accelerator(preset)
        problem = LayerProblem(Precision().on(accelerator).of(Layer.of_text(layer)), accelerator)
        method = "exact-even" if kept.values["among"] == EVEN else "exact"
        result = METHODS[method].solve(problem, MappingObjective(objective), Run(Limits(SECONDS_OF_A_PROOF)))
        values = _proven(result.status, result.objective_value) | {"among": kept.values["among"]}
        yield Row(kept.name, kept.command, values)


def kept_proofs() -> list[Row]:
    """Return the proven ones of the 184 questions that were asked."""
    kept = json.loads(PROOFS.read_text())
    return [
        Row(
            one["key"],
            f"python benchmarks/{kept['command'].replace('mapping_baselines', 'mapping_baselines.py', 1)}",
            {
                "status": OPTIMAL,
                "value": float(round(one["values"]["exact"])),
                "among": WITHOUT_BYPASS if one["is_beyond"] else EVEN,
            },
        )
        for one in kept["results"]
        if one["status"] == OPTIMAL
    ]


def _proven(status: str, value: float | None) -> dict[str, Any]:
    """Return the status, and the value of a proof: without one it depends on the time."""
    return {"status": str(status)} | ({"value": value} if status == OPTIMAL else {})


TABLES: Final[Mapping[str, Callable[[], Iterator[Row]]]] = {
    "defines": defines_rows,
    "packing": packing_rows,
    "overflow": overflow_rows,
    "thesis": thesis_rows,
    "cosma": cosma_rows,
    "cosa": cosa_rows,
    "fsrcnn": fsrcnn_rows,
    "proofs": proof_rows,
}


def main() -> int:
    """Run the tables, and print what differs."""
    parser = ArgumentParser(description=__doc__, formatter_class=ArgumentDefaultsHelpFormatter)
    parser.add_argument("tables", nargs="*", choices=TABLES, default=tuple(TABLES), metavar="TABLE")
    parser.add_argument("--keep", action="store_true", help="write the figures instead of comparing them")
    given = parser.parse_args()
    count_processor_seconds()
    is_equal = True
    for table in given.tables:
        found, path = [*TABLES[table]()], FOLDER / f"{table}.json"
        if given.keep and table != "proofs":
            write_results(path, [asdict(row) for row in found])
            continue
        lines = differences(kept_proofs() if table == "proofs" else read_rows(path), found)
        print("\n".join((f"{table}: {len(found)} rows, {len(lines)} figures differ", *lines)), flush=True)
        is_equal &= not lines
    return 0 if is_equal else 1


if __name__ == "__main__":
    sys.exit(main())
