"""CoSA's weights as its paper chooses them: by a micro-benchmark of the architecture, here of the network on a chip.

The paper says that and no more. Ten small layers, none of the four networks, each busy with something else (products,
weights from DRAM, inputs, sums on the mesh); of some weights those whose mappings take the least cycles, by the
geometric mean. A schedule changes with the ratios of weights alone, so that compute stays as the program has it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import isfinite
from statistics import geometric_mean

from cosa.network import NetworkTimes

from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.arch.accelerator import Accelerator
from onchip.ir.layer import Layer
from onchip.mapping.cosa.cosa import solve_as_cosa_by_cost
from onchip.mapping.cosa.program import CosaWeights
from onchip.search.budget.limits import Limits, Run
from onchip.verify.mapping import verify_mapping

LAYERS = (
    Layer(k=64, c=64, p=16, q=16, r=3, s=3),
    Layer(k=96, c=96, p=24, q=24, r=3, s=3),
    Layer(k=256, c=256, p=8, q=8, r=3, s=3),
    Layer(k=32, c=16, p=48, q=48, r=3, s=3),
    Layer(k=1024, c=768),
    Layer(k=768, c=768, n=16),
    Layer(k=256, c=64, p=32, q=32),
    Layer(k=64, c=256, p=32, q=32),
    Layer(k=512, c=512, p=8, q=8),
    Layer(k=128, c=64, p=16, q=16, r=3, s=3, stride=(2, 2)),
)
UTILISATIONS = (0.1, 1.0, 4.0)
TRAFFICS = (0.3, 1.0, 3.0, 10.0, 30.0)
COMPUTE = CosaWeights().compute
SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class WeightsTried:
    """The geometric mean of cycles over the layers where every choice has a mapping, and how many have none here."""

    weights: CosaWeights
    cycles: float
    without: int


def weights_tried(machine: Accelerator, rounds_simulated: int) -> list[WeightsTried]:
    """Return the results of all weights, those of the authors' program first; counted as the authors count."""
    choices = [CosaWeights(used, COMPUTE, moved) for used, moved in product(UTILISATIONS, TRAFFICS)]
    choices.sort(key=lambda one: one != CosaWeights())
    cycles = [list(_cycles(machine, one, rounds_simulated)) for one in choices]
    everywhere = [at for at in range(len(LAYERS)) if all(isfinite(row[at]) for row in cycles)]
    return [
        WeightsTried(one, geometric_mean(row[at] for at in everywhere), sum(not isfinite(value) for value in row))
        for one, row in zip(choices, cycles, strict=True)
    ]


def best_weights(tried: list[WeightsTried]) -> CosaWeights:
    """Return the weights with the fewest layers without a mapping, then the fewest cycles, then the first."""
    return min(tried, key=lambda one: (one.without, one.cycles)).weights


def _cycles(machine: Accelerator, weights: CosaWeights, rounds_simulated: int) -> Iterator[float]:
    for layer in LAYERS:
        problem, run = LayerProblem(layer, machine), Run(Limits(time_limit_seconds=SECONDS))
        mapping = solve_as_cosa_by_cost(problem, MappingObjective.LATENCY, run, weights).answer
        if mapping is not None and list(verify_mapping(problem, mapping)):
            mapping = None
        yield NetworkTimes(problem, rounds_simulated, has_refills=False).cycles(mapping)
