"""The cost of factors that other models of depth-first execution leave out: DeFiNES's figure 18 and table II."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Final, TypeAlias

from defines import published
from defines.fsrcnn import MILLION, NETWORK, PJ_OF_MJ, case_study_tilings, conventions_of, costs_of_all
from defines.mappers import Answers, Clock, TileMapper, machine, network, peak_mib

from onchip.answer.options.fusion_objective import FusionObjective
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.answer.strategy import EnergyCause
from onchip.arch.energies import stated, summed
from onchip.arch.memory import DRAM
from onchip.model.accounting.conventions import Conventions
from onchip.model.group.cost import StackCost, stack_cost
from onchip.transform.groups.stacks import LayerSpan, single_layers, stack_of, whole

MACHINES: Final = ("meta-prototype-df", "edge-tpu-like-df")
NETWORKS: Final = ("fsrcnn-defines", "mc-cnn-defines", "dmcnn-vd-defines")
"""Networks of one stack; the paper does not state the networks of (b), (c) and (d)."""
BITS: Final = 8
ALIKE: Final = 1.001
Costs: TypeAlias = Mapping[Tiling, StackCost]


@dataclass(frozen=True, slots=True)
class _Case:
    """A network, all of it one stack, on a machine, in the 108 tilings of case study 1."""

    network_name: str
    machine_name: str
    mapper: TileMapper
    workers: int

    def figure(self) -> None:
        """Print each factor by the cost of the best tiling."""
        clock, answers, conventions = Clock(), Answers(self.mapper), conventions_of(self.mapper)
        costs = self._costs(answers, conventions)
        print(f"\nfigure 18, {self.network_name} on {self.machine_name}, by {self.mapper.name}")
        print(f"  best in energy {_told(costs, _energy)}")
        paper = published.DRAM_ONLY.get(self.machine_name) if self.network_name == NETWORK else None
        _dram_only(costs, self._single_layers(answers, conventions), paper)
        _without_skipping(costs, self._costs(answers, replace(conventions, levels_are_skipped=False)))
        _activations_only(costs, published.ACTIVATIONS_ONLY.get(self.machine_name))
        if self.mapper.name == "loma":
            for_latency = Answers(replace(self.mapper, objective=MappingObjective.LATENCY))
            told = _told(self._costs(for_latency, conventions), _cycles)
            print(f"  (d) for energy {_told(costs, _energy)}; for latency {told}")
        print(f"  {clock}, {peak_mib()}", flush=True)

    def _costs(self, answers: Answers, conventions: Conventions) -> Costs:
        layers = network(self.network_name)
        stack = stack_of(layers, LayerSpan(0, len(layers.layers)))
        accelerator = machine(self.machine_name)
        return costs_of_all(stack, accelerator, case_study_tilings(), answers, conventions, self.workers)

    def _single_layers(self, answers: Answers, conventions: Conventions) -> list[StackCost]:
        layers, accelerator = network(self.network_name), machine(self.machine_name)
        alone = [stack_of(layers, span) for span in single_layers(layers)]
        return [stack_cost(one, accelerator, whole(one.output), answers, conventions) for one in alone]


def figure_18(mapper: TileMapper, workers: int) -> None:
    """Three networks on two machines."""
    for network_name, machine_name in product(NETWORKS, MACHINES):
        _Case(network_name, machine_name, mapper, workers).figure()


def _dram_only(costs: Costs, alone: Sequence[StackCost], paper: float | None) -> None:
    """Print the range of costs of the tilings with minimum DRAM traffic, among which such a model cannot decide."""
    single, share = sum(map(_energy, alone)), sum(map(_dram_energy, alone)) / sum(map(_energy, alone))
    bits = {tiling: _dram_bits(cost) for tiling, cost in costs.items()}
    least, best = min(bits.values()), min(map(_energy, costs.values()))
    ties = sorted((_energy(costs[tiling]), str(tiling)) for tiling, one in bits.items() if one <= least * ALIKE)
    print(f"  (a) single layers {single / PJ_OF_MJ:.3f} mJ, DRAM's share {share:.0%}")
    chosen = {"least": ties[0], "in the middle": ties[len(ties) // 2], "most": ties[-1]}
    told = ", ".join(
        f"{how} {energy / PJ_OF_MJ:.3f} mJ ({tiling}, {energy / best:.2f} times the best)"
        for how, (energy, tiling) in chosen.items()
    )
    print(f"      DRAM traffic alone: {len(ties)} tilings with the least, {least / 8e6:.3f} MB: {told}{_paper(paper)}")


def _without_skipping(costs: Costs, without: Costs) -> None:
    """Data in the largest memory on the chip, or in DRAM."""
    best, best_without = min(map(_energy, costs.values())), min(map(_energy, without.values()))
    low, high = published.SKIPPING_LEVELS
    print(
        f"  (b) without skipping levels on the chip {_told(without, _energy)}: skipping saves"
        f" {1 - best / best_without:.1%}; the paper {low:.0%} to {high:.0%}"
    )


def _activations_only(costs: Costs, paper: float | None) -> None:
    chosen = min(costs, key=lambda one: _activation_energy(costs[one]))
    ratio = _energy(costs[chosen]) / min(map(_energy, costs.values()))
    share = _activation_energy(costs[chosen]) / _energy(costs[chosen])
    print(
        f"  (c) activations alone: {chosen}, {_energy(costs[chosen]) / PJ_OF_MJ:.3f} mJ, theirs {share:.0%} of it,"
        f" {ratio:.2f} times the best{_paper(paper)}"
    )


def _paper(times: float | None) -> str:
    return "" if times is None else f"; the paper {times} times"


def _told(costs: Costs, of: Callable[[StackCost], float]) -> str:
    """Return the tiling with the least figure, as text."""
    best = min(costs, key=lambda one: of(costs[one]))
    return f"{best} {_energy(costs[best]) / PJ_OF_MJ:.3f} mJ {_cycles(costs[best]) / MILLION:.3f} Mcycles"


def _energy(cost: StackCost) -> float:
    return cost.sums.energy_pj


def _cycles(cost: StackCost) -> float:
    return cost.sums.cycles


def _dram_energy(cost: StackCost) -> float:
    return sum(energy for (memory, _), energy in cost.sums.energies_pj.items() if memory == DRAM)


def _dram_bits(cost: StackCost) -> int:
    """Return the bits moved from and to DRAM; all elements have equally many bits."""
    return BITS * sum(count for (memory, _, _), count in cost.sums.accesses.items() if memory == DRAM)


def _activation_energy(cost: StackCost) -> float:
    return stated(summed(cost.sums.energy_of(cause) for cause in (EnergyCause.ACTIVATION, EnergyCause.COPY)))


def features() -> None:
    """Table II with a row for us, its columns down."""
    ours = [
        *("yes" for _ in OverlapMode),
        *("yes" for _ in published.FEATURES[len(OverlapMode) : -1]),
        ", ".join(FusionObjective),
    ]
    own = (
        ("sizes and modes searched", "no", "yes, with a bound"),
        ("fuse depth", "a rule", "searched, with a bound"),
        ("maps between stacks", "DRAM", "the memory that is best"),
        ("weights that do not all fit", "all in DRAM", "the largest that fit stay"),
        ("padding, projections", "no", "yes"),
        ("best mapping of a layer's tile", "not proven", "proven"),
        ("a strategy's file, verified", "no", "yes"),
    )
    frameworks = {**published.FRAMEWORKS, "onchip": tuple(ours)}
    print(f"\ntable II{'':24}" + "".join(f"{name:>17}" for name in frameworks))
    for at, feature in enumerate(published.FEATURES):
        print(f"{feature:32}" + "".join(f"{row[at]:>17}" for row in frameworks.values()))
    print("\nbeside it")
    for feature, theirs, here in own:
        print(f"{feature:32} DeFiNES: {theirs:14} onchip: {here}")
