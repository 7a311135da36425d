"""The cost of factors that other models of depth-first execution leave out: DeFiNES's figure 18."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Final

from defines.fsrcnn import PJ_OF_MJ, case_study_tilings, conventions_of, costs_of_all
from defines.mappers import Answers, TileMapper, machine, network
from shared.runner import Row

from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.strategy import EnergyCause
from onchip.arch.energies import stated, summed
from onchip.arch.memory import DRAM
from onchip.model.group.cost import StackCost, stack_cost
from onchip.transform.groups.stacks import LayerSpan, single_layers, stack_of, whole

MACHINES: Final = ("meta-prototype-df", "edge-tpu-like-df")
NETWORKS: Final = ("fsrcnn-defines", "mc-cnn-defines", "dmcnn-vd-defines")
"""Networks of one stack; the paper does not state the networks of (b), (c) and (d)."""
ALIKE: Final = 1.001


def figure_18(mapper: TileMapper, workers: int) -> Iterator[Row]:
    """Yield each factor of three networks on two machines, as the energy over the best of the 108 tilings.

    (a) the tilings with the least DRAM traffic, from the least energy to the most, and DRAM's share layer by layer;
    (b) without skipping of levels; (c) the best tiling for activations alone; (d) cycles for energy and for latency.
    """
    for network_name, machine_name in product(NETWORKS, MACHINES):
        layers, accelerator = network(network_name), machine(machine_name)
        stack, conventions = stack_of(layers, LayerSpan(0, len(layers.layers))), conventions_of(mapper)
        all_of = partial(costs_of_all, stack, accelerator, case_study_tilings())
        answers = Answers(mapper)
        costs = list(all_of(answers, conventions, workers).values())
        without = all_of(answers, replace(conventions, levels_are_skipped=False), workers).values()
        for_latency = Answers(replace(mapper, objective=MappingObjective.LATENCY))
        fast = all_of(for_latency, conventions, workers).values()
        alone = [stack_of(layers, span) for span in single_layers(layers)]
        single = [stack_cost(one, accelerator, whole(one.output), answers, conventions) for one in alone]
        best = min(costs, key=_energy)
        least = min(map(_dram_accesses, costs))
        ties = sorted(_energy(one) for one in costs if _dram_accesses(one) <= least * ALIKE)
        yield {
            "network": network_name,
            "machine": machine_name,
            "mapper": mapper.name,
            "best_mj": _energy(best) / PJ_OF_MJ,
            "single_layers_mj": sum(map(_energy, single)) / PJ_OF_MJ,
            "dram_share": sum(map(_dram_energy, single)) / sum(map(_energy, single)),
            "dram_only": [ties[0] / _energy(best), ties[-1] / _energy(best)],
            "skipping_saves": 1 - _energy(best) / min(map(_energy, without)),
            "activations_only": _energy(min(costs, key=_activation_energy)) / _energy(best),
            "cycles_for_energy": best.sums.cycles,
            "cycles_for_latency": min(one.sums.cycles for one in fast),
        }


_energy: Callable[[StackCost], float] = lambda cost: cost.sums.energy_pj  # noqa: E731


def _dram_energy(cost: StackCost) -> float:
    return sum(energy for (memory, _), energy in cost.sums.energies_pj.items() if memory == DRAM)


def _dram_accesses(cost: StackCost) -> int:
    """Return the elements moved from and to DRAM; all have equally many bits."""
    return sum(count for (memory, _, _), count in cost.sums.accesses.items() if memory == DRAM)


def _activation_energy(cost: StackCost) -> float:
    return stated(summed(cost.sums.energy_of(cause) for cause in (EnergyCause.ACTIVATION, EnergyCause.COPY)))
