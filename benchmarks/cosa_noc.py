"""CoSA's figure 10: mappings timed on the authors' network on a chip, as ratios, with `exact` as more rows.

    python benchmarks/cosa_noc.py [--workloads W ...] [--every N] [--seconds S] [--rounds N] [--processor]
                                  [--json FILE]

CoSA has the weights of its paper's program (docs/cosa.md), as its figure 10 has: the architecture is that of its
Timeloop figures, and weights are chosen for each architecture once. Random is the best of five by the cost model,
hybrid one thread. `exact` is its mapping for latency, proven or not in the time it has; `exact, network` the best on
the network of six: for latency, energy and their product, on simba as it is and with ports as slow as the network's.

Twice: `authors`, as they count, what a round touches moves once; and `refills`, what the memories cannot keep moves
again.
"""

from __future__ import annotations

import sys
from argparse import ArgumentDefaultsHelpFormatter, ArgumentParser, Namespace
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import isfinite
from pathlib import Path
from statistics import geometric_mean
from time import perf_counter
from typing import TypeAlias

from cosa import published
from shared.processor import count_processor_seconds
from shared.results import write_results

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import Dram, MemoryLevel
from onchip.errors import InputError
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.formats.own.layer_tables import layer_table, layer_tables
from onchip.ir.layer import Layer
from onchip.simulate.network_on_chip.layer import layer_on_network
from onchip.simulate.network_on_chip.mesh import COSA_DRAM, COSA_NETWORK
from onchip.solve.mapping.objective import MappingObjective
from onchip.solve.mapping.registry import METHODS
from onchip.solve.run.limits import Limits, Run
from onchip.verify.mapping import verify_mapping

ACCOUNTINGS = {"authors": False, "refills": True}
METHOD_NAMES = ("cosa", "hybrid", "random", "exact")
ON_NETWORK = "exact, network"
ROWS = (*METHOD_NAMES, ON_NETWORK)
PAIRS = (
    ("random", "cosa"),
    ("hybrid", "cosa"),
    ("cosa", "exact"),
    ("cosa", ON_NETWORK),
    ("hybrid", ON_NETWORK),
    ("random", ON_NETWORK),
)
Cycles: TypeAlias = dict[str, dict[str, float]]  # by accounting, by method


def main() -> int:
    """Print a line for each layer and a table of geometric means."""
    options = _options()
    if options.processor:
        count_processor_seconds()
    start = perf_counter()
    machine = load_accelerator("simba")
    found: dict[str, dict[str, Cycles]] = {}
    for workload in options.workloads:
        layers = list(layer_table(workload).items())[:: options.every]
        found[workload] = {name: _layer(name, layer, machine, options) for name, layer in layers}
    for accounting in ACCOUNTINGS:
        print(f"\n{accounting}: geometric means of cycles on the network")
        print(f"{'workload':27} layers " + " ".join(f"{f'{a} / {b}':>23}" for a, b in PAIRS))
        rows = {**found, "all": {f"{w} {name}": one for w, some in found.items() for name, one in some.items()}}
        for workload, layers_found in rows.items():
            ratios = " ".join(f"{_shown(_ratio(layers_found.values(), accounting, *pair)):>23}" for pair in PAIRS)
            print(f"{workload:27} {len(layers_found):6} {ratios}")
    over_random, over_hybrid = published.LATENCY_ON_NETWORK
    print(f"\nThe paper: random / cosa {over_random}, hybrid / cosa {over_hybrid}. {perf_counter() - start:.0f} s")
    if options.json is not None:
        write_results(options.json, {"cycles": _written(found)})
    return 0


def _options() -> Namespace:
    parser = ArgumentParser(description=__doc__, formatter_class=ArgumentDefaultsHelpFormatter)
    parser.add_argument("--workloads", nargs="+", choices=layer_tables(), default=published.WORKLOADS)
    parser.add_argument("--every", type=int, default=1, help="only each N-th layer")
    parser.add_argument("--seconds", type=float, default=4.0, help="for each layer and method")
    parser.add_argument("--rounds", type=int, default=1024, help="simulated of a mapping; the rest goes on alike")
    parser.add_argument("--processor", action="store_true", help="seconds are those of the processor")
    parser.add_argument("--json", type=Path, help="write all cycles, with commit and machine")
    return parser.parse_args()


def _layer(name: str, layer: Layer, machine: Accelerator, options: Namespace) -> Cycles:
    mappings = {method: [_mapping(method, layer, machine, options)] for method in METHOD_NAMES}
    mappings[ON_NETWORK] = [*mappings["exact"], *_others(layer, machine, options)]
    cycles: Cycles = {accounting: {} for accounting in ACCOUNTINGS}
    problem = LayerProblem(layer, machine)
    for accounting, has_refills in ACCOUNTINGS.items():
        for row, some in mappings.items():
            values = [_cycles(problem, mapping, options.rounds, has_refills) for mapping in some]
            cycles[accounting][row] = min(values)
        shown = "  ".join(f"{row} {value:.4g}" for row, value in cycles[accounting].items())
        print(f"  {name} {accounting}: {shown}", flush=True)
    return cycles


def _others(layer: Layer, machine: Accelerator, options: Namespace) -> list[LayerMapping | None]:
    """What `exact` finds for other objectives, and for latency where the ports are the network's."""
    other = [
        _mapping("exact", layer, machine, options, objective)
        for objective in (MappingObjective.ENERGY, MappingObjective.EDP)
    ]
    slow = with_the_ports_of_the_network(machine)
    return [*other, *(_mapping("exact", layer, slow, options, one) for one in MappingObjective)]


def with_the_ports_of_the_network(machine: Accelerator) -> Accelerator:
    """The same machine where DRAM and the shared memory give no more bits a cycle than the network takes from them."""
    packet = COSA_NETWORK.payload_bits
    from_dram = packet // (COSA_NETWORK.endpoints[COSA_DRAM].read_cycles + 1)
    from_buffer = packet // COSA_NETWORK.packet_flits
    levels = (*machine.levels[:-1], _with_ports(machine.levels[-1], from_buffer))
    dram = None if machine.dram is None else _dram_with_ports(machine.dram, from_dram)
    scratchpads = tuple(level.memory for level in levels if level.is_scratchpad)
    return replace(machine, levels=levels, scratchpads=scratchpads, dram=dram)


def _with_ports(level: MemoryLevel, bits_per_cycle: int) -> MemoryLevel:
    return replace(level, ports=tuple(replace(port, bits_per_cycle=bits_per_cycle) for port in level.ports))


def _dram_with_ports(dram: Dram, bits_per_cycle: int) -> Dram:
    return replace(dram, ports=tuple(replace(port, bits_per_cycle=bits_per_cycle) for port in dram.ports))


def _mapping(
    method: str,
    layer: Layer,
    machine: Accelerator,
    options: Namespace,
    objective: MappingObjective = MappingObjective.LATENCY,
) -> LayerMapping | None:
    """None where there is none, or one that does not fit (CoSA counts capacities its own way)."""
    problem = LayerProblem(layer, machine)
    result = METHODS[method].solve(problem, objective, Run(Limits(time_limit_seconds=options.seconds)))
    if result.answer is None or list(verify_mapping(problem, result.answer)):
        return None
    return result.answer


def _cycles(problem: LayerProblem, mapping: LayerMapping | None, rounds: int, has_refills: bool) -> float:
    """Infinite where there is no mapping, or one that is no answer to this network."""
    if mapping is None:
        return float("inf")
    try:
        run = layer_on_network(problem, mapping, rounds, has_refills=has_refills)
    except InputError:
        return float("inf")
    return float("inf") if run is None else run.cycles


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
