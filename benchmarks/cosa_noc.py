"""CoSA's figure 10: mappings timed on the authors' network on a chip, as ratios, with `exact` as more rows.

    python benchmarks/cosa_noc.py [--workloads W ...] [--every N] [--seconds S] [--rounds N] [--processor]
                                  [--simulated N] [--json FILE]

CoSA's weights are chosen as its paper chooses them, by a micro-benchmark on this network (cosa/micro_benchmark.py).
Random is the best of five by the cost model, hybrid one thread. `exact` is its mapping for latency, proven or not in
the time it has; `six` the best on the network of six by `exact`: for latency, energy and their product, on simba as it
is and with ports as slow as the network's. `searched` begins with these six and goes on by the network's own cycles,
`--simulated` mappings far, and ends where the floor of all mappings is reached (docs/network_on_chip.md).

Twice: `authors`, as they count, what a round touches moves once; and `refills`, what the memories cannot keep moves
again.
"""

from __future__ import annotations

import sys
from argparse import ArgumentDefaultsHelpFormatter, ArgumentParser, Namespace
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from statistics import geometric_mean
from time import perf_counter
from typing import TypeAlias

from cosa import published
from cosa.layer_floor import floor_of_layer
from cosa.micro_benchmark import best_weights, weights_tried
from cosa.network import NetworkTimes, with_the_ports_of_the_network
from shared.processor import count_processor_seconds
from shared.results import write_results

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.arch.accelerator import Accelerator
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.formats.own.graph_json import layer_table, layer_tables
from onchip.ir.layer import Layer
from onchip.mapping.cosa.cosa import solve_as_cosa_by_cost
from onchip.mapping.cosa.machine import CosaWeights
from onchip.mapping.methods.registry import METHODS
from onchip.search.budget.limits import Limits, Run
from onchip.verify.mapping import verify_mapping

ACCOUNTINGS = {"authors": False, "refills": True}
COSA = "cosa"
METHOD_NAMES = (COSA, "hybrid", "random", "exact")
SIX, SEARCHED, FLOOR = "six", "searched", "floor"
PAIRS = (
    ("random", COSA),
    ("hybrid", COSA),
    (COSA, "exact"),
    (COSA, SIX),
    (COSA, SEARCHED),
    ("hybrid", SEARCHED),
    ("random", SEARCHED),
    (SEARCHED, FLOOR),
)
PROVEN = 1.01
"""A layer counts as proven where what was found is no more than so many times its floor."""
Cycles: TypeAlias = dict[str, dict[str, float]]  # by accounting, by method


@dataclass(frozen=True, slots=True)
class Asked:
    """What is the same of all layers."""

    machine: Accelerator
    weights: CosaWeights
    options: Namespace


def main() -> int:
    """Print a line for each layer and a table of geometric means."""
    options = _options()
    if options.processor:
        count_processor_seconds()
    start = perf_counter()
    machine = load_accelerator("simba")
    tried = weights_tried(machine, options.rounds)
    print("weights of utilisation, compute, traffic: cycles of the micro-benchmark, its layers without a mapping")
    for one in tried:
        weights = one.weights
        print(f"  {weights.utilisation:4} {weights.compute:4} {weights.traffic:4} {one.cycles:9,.0f} {one.without}")
    asked = Asked(machine, best_weights(tried), options)
    print(f"chosen: {asked.weights}", flush=True)
    found: dict[str, dict[str, Cycles]] = {}
    for workload in options.workloads:
        layers = list(layer_table(workload).items())[:: options.every]
        found[workload] = {name: _layer(name, layer, asked) for name, layer in layers}
    for accounting in ACCOUNTINGS:
        _print_means(found, accounting)
    over_random, over_hybrid = published.LATENCY_ON_NETWORK
    print(f"\nThe paper: random / cosa {over_random}, hybrid / cosa {over_hybrid}. {perf_counter() - start:.0f} s")
    if options.json is not None:
        chosen = {"utilisation": asked.weights.utilisation, "traffic": asked.weights.traffic}
        write_results(options.json, {"weights": chosen, "cycles": _written(found)})
    return 0


def _print_means(found: Mapping[str, Mapping[str, Cycles]], accounting: str) -> None:
    print(f"\n{accounting}: geometric means of cycles on the network; proven is within {PROVEN - 1:.0%} of the floor")
    print(f"{'workload':27} layers " + " ".join(f"{f'{a} / {b}':>17}" for a, b in PAIRS) + "  proven, beat cosa")
    rows = {**found, "all": {f"{w} {name}": one for w, some in found.items() for name, one in some.items()}}
    for workload, layers in rows.items():
        ratios = " ".join(f"{_shown(_ratio(layers.values(), accounting, *pair)):>17}" for pair in PAIRS)
        cycles = [one[accounting] for one in layers.values()]
        proven = sum(one[SEARCHED] <= PROVEN * one[FLOOR] for one in cycles)
        better = sum(one[SEARCHED] < one[COSA] for one in cycles)
        print(f"{workload:27} {len(layers):6} {ratios}  {proven}, {better}")


def _options() -> Namespace:
    parser = ArgumentParser(description=__doc__, formatter_class=ArgumentDefaultsHelpFormatter)
    parser.add_argument("--workloads", nargs="+", choices=layer_tables(), default=published.WORKLOADS)
    parser.add_argument("--every", type=int, default=1, help="only each N-th layer")
    parser.add_argument("--seconds", type=float, default=4.0, help="for each layer and method")
    parser.add_argument("--rounds", type=int, default=1024, help="simulated of a mapping; the rest goes on alike")
    parser.add_argument("--simulated", type=int, default=12, help="mappings that the search simulates of a layer")
    parser.add_argument("--processor", action="store_true", help="seconds are those of the processor")
    parser.add_argument("--json", type=Path, help="write all cycles, with commit and machine")
    return parser.parse_args()


def _layer(name: str, layer: Layer, asked: Asked) -> Cycles:
    mappings = {method: _mapping(method, layer, asked.machine, asked) for method in METHOD_NAMES}
    six = [mappings["exact"], *_others(layer, asked)]
    problem = LayerProblem(layer, asked.machine)
    cycles: Cycles = {}
    known: dict[str, float] = {}
    for accounting, has_refills in ACCOUNTINGS.items():
        times = NetworkTimes(problem, asked.options.rounds, has_refills, known)
        found = {method: times.cycles(mapping) for method, mapping in mappings.items()}
        found[SIX] = min(map(times.cycles, six))
        found[SEARCHED] = times.searched(six, asked.options.simulated).cost
        cycles[accounting] = found | {FLOOR: floor_of_layer(problem)}
        shown = "  ".join(f"{row} {value:.4g}" for row, value in cycles[accounting].items())
        print(f"  {name} {accounting}: {shown}", flush=True)
    return cycles


def _others(layer: Layer, asked: Asked) -> list[LayerMapping | None]:
    """What `exact` finds for other objectives, and for latency where the ports are the network's."""
    others = (MappingObjective.ENERGY, MappingObjective.EDP)
    slow = with_the_ports_of_the_network(asked.machine)
    return [
        *(_mapping("exact", layer, asked.machine, asked, objective) for objective in others),
        *(_mapping("exact", layer, slow, asked, objective) for objective in MappingObjective),
    ]


def _mapping(
    method: str,
    layer: Layer,
    machine: Accelerator,
    asked: Asked,
    objective: MappingObjective = MappingObjective.LATENCY,
) -> LayerMapping | None:
    """None where there is none, or one that does not fit (CoSA counts capacities its own way)."""
    problem, run = LayerProblem(layer, machine), Run(Limits(time_limit_seconds=asked.options.seconds))
    if method == COSA:
        result = solve_as_cosa_by_cost(problem, objective, run, asked.weights)
    else:
        result = METHODS[method].solve(problem, objective, run)
    if result.answer is None or list(verify_mapping(problem, result.answer)):
        return None
    return result.answer


def _ratio(
    layers: Iterable[Mapping[str, Mapping[str, float]]], accounting: str, rival: str, method: str
) -> float | None:
    """The geometric mean of rival / method over the layers where both have a mapping."""
    both: Sequence[tuple[float, float]] = [(one[accounting][rival], one[accounting][method]) for one in layers]
    ratios = [theirs / ours for theirs, ours in both if isfinite(theirs) and isfinite(ours)]
    return geometric_mean(ratios) if ratios else None


def _written(found: Mapping[str, Mapping[str, Cycles]]) -> dict[str, object]:
    """Null where there is no mapping: JSON has no infinity."""
    return {
        workload: {
            name: {
                accounting: {row: value if isfinite(value) else None for row, value in some.items()}
                for accounting, some in cycles.items()
            }
            for name, cycles in layers.items()
        }
        for workload, layers in found.items()
    }


def _shown(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.2f}"


if __name__ == "__main__":
    sys.exit(main())
