"""CoSA's formulation on CoSA's workloads, and `exact` beside it.

    PYTHONPATH=benchmarks python -m cosa formulation [--solver S]
    PYTHONPATH=benchmarks python -m cosa compare [--machines M ...] [--workloads W ...] [--objectives O ...]
                                              [--methods M ...] [--seconds S]
    PYTHONPATH=benchmarks python -m cosa figure6|figure7|figure8|figure9|table6 [--workloads W ...] [--seconds S]
                                              [--step N] [--processor] [--results FILE.json]
    PYTHONPATH=benchmarks python -m cosa figure3|figure4 [--results FILE.json]

`formulation`: its own times, and what its optima cost under the cost model here, with ties as the solver leaves them
and broken by energy. `compare`: geometric means of values, with the paper's beside them; it ends with 1 if a rival
beats a proof inside the proof's mapspace. `figure3` and `figure4` are of one layer each, on the network on a chip.
`figure6` and on: the paper's, of every `step`th layer; with `--processor`
seconds are those of the processor, so that what else the machine does changes less.
"""

from __future__ import annotations

import json
import sys
from argparse import ArgumentDefaultsHelpFormatter, ArgumentParser, Namespace
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import mean
from time import perf_counter

from cosa import published
from cosa.against import Compared, compare
from cosa.figures import FIGURES, Bar, Terms, figure, figure_eight, table_six
from cosa.spreads import FIGURE_FOUR, FIGURE_THREE, Spread, spread
from shared.processor import count_processor_seconds
from shared.results import write_results

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.result import SearchResult, Status
from onchip.arch.accelerator import Accelerator
from onchip.errors import InputError
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.formats.own.graph_json import layer_table, layer_tables
from onchip.ir.layer import Layer
from onchip.mapping.cosa.cosa import VALUE_PER_BIT, solve_as_cosa
from onchip.mapping.methods.registry import METHODS
from onchip.model.layer.cost import layer_cost
from onchip.search.budget.limits import Limits, MipSolver, Run

WORKLOADS = ("resnet50", "resnext50", "resnext50-cosa", "deepbench", "deepbench-ocr", "deepbench-face-recognition")
MACHINES = ("simba-cosa", "simba", "simba-64-pes", "simba-large-buffers")
FIGURE_EIGHT, TABLE_SIX = "figure8", "table6"
RIVALS = ("cosa", "hybrid", "random")
OPTIMA = Path(__file__).parents[2] / "tests" / "data" / "cosa" / "optima.json"


def main() -> int:
    """Print one of the two tables."""
    options = _parser().parse_args()
    if options.table == "formulation":
        formulation(options.solver)
        return 0
    if options.table != "compare":
        _figure(options)
        return 0
    for method in ("exact", *options.methods):
        METHODS[method](LayerProblem(Layer(k=4, c=4, p=2), load_accelerator("simba")), MappingObjective.EDP, Run())
    compared = Compared(options.machines, options.workloads, options.objectives, options.methods, options.seconds)
    start = perf_counter()
    wrong = compare(compared)
    print(f"\n{perf_counter() - start:.0f} s, at most {options.seconds} s for each layer and method; *: proven")
    return 1 if wrong else 0


def _parser() -> ArgumentParser:
    parser = ArgumentParser(description=__doc__, formatter_class=ArgumentDefaultsHelpFormatter)
    tables = parser.add_subparsers(dest="table", required=True)
    for name in (*FIGURES, FIGURE_EIGHT, TABLE_SIX):
        drawn = tables.add_parser(name, formatter_class=ArgumentDefaultsHelpFormatter)
        drawn.add_argument("--workloads", nargs="+", choices=layer_tables(), default=published.WORKLOADS)
        drawn.add_argument("--seconds", type=float, default=10.0, help="for each layer and method")
        drawn.add_argument("--step", type=int, default=1, help="every so manieth layer of a workload")
        drawn.add_argument("--processor", action="store_true", help="seconds are those of the processor")
        drawn.add_argument("--results", type=Path, metavar="FILE.json", help="write them, with commit and machine")
    for name in (FIGURE_THREE, FIGURE_FOUR):
        on_network = tables.add_parser(name)
        on_network.add_argument("--results", type=Path, metavar="FILE.json", help="write it, with commit and machine")
        on_network.set_defaults(processor=False)
    own = tables.add_parser("formulation", formatter_class=ArgumentDefaultsHelpFormatter)
    own.add_argument("--solver", type=MipSolver, choices=list(MipSolver), default=MipSolver.CP_SAT)
    both = tables.add_parser("compare", formatter_class=ArgumentDefaultsHelpFormatter)

    def some(name: str, choices: Sequence[str], default: Sequence[str], kind: type[str] = str) -> None:
        both.add_argument(name, nargs="+", type=kind, choices=choices, default=default)

    some("--machines", MACHINES, tuple(published.LATENCY))
    some("--workloads", layer_tables(), published.WORKLOADS)
    some("--objectives", tuple(MappingObjective), tuple(MappingObjective), MappingObjective)
    some("--methods", [name for name in METHODS if name != "exact"], RIVALS)
    both.add_argument("--seconds", type=float, default=10.0, help="for each layer and method")
    return parser


def _figure(options: Namespace) -> None:
    """Print one of the paper's figures, or its table of seconds."""
    found: Sequence[Bar | Terms | Spread]
    if options.processor:
        count_processor_seconds()
    if options.table in (FIGURE_THREE, FIGURE_FOUR):
        found = spread(options.table)
    elif options.table == FIGURE_EIGHT:
        found = figure_eight(options.seconds)
    elif options.table == TABLE_SIX:
        found = table_six(options.workloads, options.seconds, options.step)
    else:
        found = figure(options.table, options.workloads, options.seconds, options.step)
    if options.results is not None:
        write_results(options.results, [asdict(one) for one in found])


def formulation(solver: MipSolver) -> None:
    """Print a row for each machine and workload."""
    optima = {name: one["objective"] for name, one in json.loads(OPTIMA.read_text())["optima"].items()}
    solve_as_cosa(LayerProblem(Layer(k=2), load_accelerator("simba-cosa")), Run(Limits(solver=solver)))
    print(f"{solver}, one worker. The paper: 4.2 s a layer; Gurobi on the exactly linearised booleans: 0.15 to 1.4 s.")
    print(f"{'machine':20} {'workload':27} layers optimal    mean s     max s  above reference optima   fit really")
    for machine in MACHINES:
        accelerator = load_accelerator(machine)
        for workload in WORKLOADS:
            reference = optima if (machine, workload) == ("simba-cosa", "resnet50") else {}
            print(f"{machine:20} {workload:27} {row(workload, accelerator, solver, reference)}", flush=True)
    ties()


def row(workload: str, accelerator: Accelerator, solver: MipSolver, optima: dict[str, float]) -> str:
    """Solve all layers of a workload."""
    seconds: list[float] = []
    differences: list[float] = []
    optimal = fit = 0
    for name, layer in layer_table(workload).items():
        start = perf_counter()
        result = solve_as_cosa(LayerProblem(layer, accelerator), Run(Limits(solver=solver, time_limit_seconds=60)))
        seconds.append(perf_counter() - start)
        optimal += result.status is Status.OPTIMAL
        if name in optima and result.objective_value is not None:
            differences.append(result.objective_value / VALUE_PER_BIT - optima[name])
        fit += energy_pj(layer, accelerator, result.answer) < float("inf")
    compared = f"{min(differences):+.4f} to {max(differences):+.4f}" if differences else ""
    count = len(seconds)
    return f"{count:6} {optimal:7} {mean(seconds):9.3f} {max(seconds):9.3f}  {compared:23} {fit:6} of {count}"


def ties() -> None:
    """Print how much energy the ties of one layer are worth."""
    layer, accelerator = layer_table("resnet50")["_outputs_input.73"], load_accelerator("simba-cosa")
    start = perf_counter()
    as_found = solve_as_cosa(LayerProblem(layer, accelerator), Run())
    broken = solve_as_cosa(
        LayerProblem(layer, accelerator),
        Run(),
        tie_break=lambda some: [energy_pj(layer, accelerator, one) for one in some],
    )
    found, least = (energy_pj(layer, accelerator, answer(result)) for result in (as_found, broken))
    print(
        f"ties of ResNet-50's _outputs_input.73: {found / 1e6:.1f} uJ as found, {least / 1e6:.1f} uJ broken by energy,"
    )
    print(f"both at objective {as_found.objective_value} / {VALUE_PER_BIT}; {perf_counter() - start:.1f} s")


def answer(result: SearchResult[LayerMapping]) -> LayerMapping | None:
    """Return the mapping."""
    return result.answer


def energy_pj(layer: Layer, accelerator: Accelerator, mapping: LayerMapping | None) -> float:
    """Return the energy in pJ; infinite if the cost model, which counts halos and partial sums, rejects the mapping."""
    try:
        return float("inf") if mapping is None else layer_cost(LayerProblem(layer, accelerator), mapping).energy_pj
    except InputError:
        return float("inf")


if __name__ == "__main__":
    sys.exit(main())
