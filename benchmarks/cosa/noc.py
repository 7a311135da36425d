"""CoSA's figure 10: mappings timed on the authors' network on a chip, with `exact` as more rows.

    PYTHONPATH=benchmarks python -m cosa.noc [--workloads W ...] [--every N] [--seconds S] [--rounds N] [--processor]
                                             [--simulated N] [--results FILE.json]

CoSA's weights are chosen by a micro-benchmark on this network, as in its paper (cosa/micro_benchmark.py). Random is the
best of five by the cost model, hybrid has one thread. `exact` is the mapping for latency that it finds in its time,
`six` the best on the network of six mappings by `exact`: for latency, energy and their product, on simba and on simba
with ports as slow as the network's. `searched` starts with these six and continues by the network's own cycles for
`--simulated` mappings, or until it reaches the floor of all mappings (docs/network_on_chip.md).

`authors` counts as they do: what a round touches moves once. With `refills`, operands that the memories cannot keep
move again.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from math import isfinite

from cosa import published
from cosa.layer_floor import floor_of_layer
from cosa.micro_benchmark import best_weights, weights_tried
from cosa.network import NetworkTimes, with_the_ports_of_the_network
from shared.results import write_results
from shared.runner import Row, asked_of, options_of, shown

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.formats.own.graph_json import layer_table, layer_tables
from onchip.ir.layer import Layer
from onchip.mapping.cosa.cosa import solve_as_cosa_by_cost
from onchip.mapping.cosa.program import CosaWeights
from onchip.mapping.methods.registry import METHODS
from onchip.search.budget.limits import Limits, Run
from onchip.verify.mapping import verify_mapping

ACCOUNTINGS = {"authors": False, "refills": True}
LATENCY = MappingObjective.LATENCY


def main() -> None:
    """Print the cycles of each layer, and write them by workload, layer and accounting."""
    parser = options_of(__doc__)
    parser.add_argument("--workloads", nargs="+", choices=layer_tables(), default=published.WORKLOADS)
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only each N-th layer")
    parser.add_argument("--seconds", type=float, default=4.0, help="for each layer and method")
    parser.add_argument("--rounds", type=int, default=1024, help="simulated of a mapping; the rest goes on alike")
    parser.add_argument("--simulated", type=int, default=12, help="mappings that the search simulates of a layer")
    asked = asked_of(parser)
    weights = best_weights(weights_tried(load_accelerator("simba"), asked.rounds))
    print(f"weights {weights}")
    rows = shown(_rows(asked, weights))
    if asked.results is not None:
        chosen = {"utilisation": weights.utilisation, "traffic": weights.traffic}
        cycles: dict[str, dict[str, Row]] = {}
        for row in rows:
            workload, layer, accounting = (row.pop(name) for name in ("workload", "layer", "accounting"))
            cycles.setdefault(workload, {}).setdefault(layer, {})[accounting] = row
        write_results(asked.results, {"weights": chosen, "cycles": cycles})


def _rows(asked: Namespace, weights: CosaWeights) -> Iterator[Row]:
    """Yield the cycles of each layer by each accounting; None without a mapping."""
    for workload in asked.workloads:
        for name, layer in list(layer_table(workload).items())[:: asked.every]:
            problem, known = LayerProblem(layer, load_accelerator("simba")), dict[str, float]()
            methods = ("cosa", "hybrid", "random", "exact")
            mappings = {method: _mapping(method, problem, asked, weights) for method in methods}
            six = [mappings["exact"], *_others(layer, asked, weights)]
            for accounting, has_refills in ACCOUNTINGS.items():
                times = NetworkTimes(problem, asked.rounds, has_refills, known)
                found = {method: times.cycles(mapping) for method, mapping in mappings.items()}
                found["six"] = min(map(times.cycles, six))
                found["searched"] = times.searched(six, asked.simulated).cost
                found["floor"] = floor_of_layer(problem)
                cycles = {row: value if isfinite(value) else None for row, value in found.items()}
                yield {"workload": workload, "layer": name, "accounting": accounting} | cycles


def _others(layer: Layer, asked: Namespace, weights: CosaWeights) -> list[LayerMapping | None]:
    """Return the mappings by `exact` for other objectives, and for each where the ports are the network's."""
    machine = load_accelerator("simba")
    slow = with_the_ports_of_the_network(machine)
    questions = [(machine, one) for one in (MappingObjective.ENERGY, MappingObjective.EDP)]
    questions += [(slow, one) for one in MappingObjective]
    return [_mapping("exact", LayerProblem(layer, one), asked, weights, aim) for one, aim in questions]


def _mapping(
    method: str, problem: LayerProblem, asked: Namespace, weights: CosaWeights, objective: MappingObjective = LATENCY
) -> LayerMapping | None:
    """Return a mapping, or None if there is none that fits: CoSA counts capacities in another way."""
    run = Run(Limits(time_limit_seconds=asked.seconds))
    if method == "cosa":
        result = solve_as_cosa_by_cost(problem, objective, run, weights)
    else:
        result = METHODS[method].solve(problem, objective, run)
    if result.answer is None or list(verify_mapping(problem, result.answer)):
        return None
    return result.answer


if __name__ == "__main__":
    main()
