"""What `map` found, as it is shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from onchip.answer.document import Claim, MappingDocument
from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.result import Result
from onchip.arch.accelerator import Accelerator
from onchip.arch.energies import summed
from onchip.ir.layer import Layer
from onchip.mapping.space.spaces import MapSpace
from onchip.model.layer.cost import LayerCost
from onchip.ops.derive.layers_of import NetworkLayers

Number: TypeAlias = "int | float"


@dataclass(frozen=True, slots=True)
class MappedLayer:
    """One layer, and the names of all that are like it.

    `mapping` and `cost` are None where there is no legal mapping; `why_not` says why the one of a method that has
    capacities of its own is none. `claim` is then still what the method says. `lower_bound_of_any` holds for every
    legal mapping, also for those that bypass a memory.
    """

    names: tuple[str, ...]
    layer: Layer
    result: Result[LayerMapping]
    claim: Claim | None
    mapping: LayerMapping | None
    cost: LayerCost | None
    why_not: str | None = None
    lower_bound_of_any: int | None = None

    @property
    def lower_bound(self) -> Number:
        """Return the lower bound as claimed, in the unit of the objective."""
        return self.claim.lower_bound if self.claim else self.result.lower_bound


@dataclass(frozen=True, slots=True)
class MappingOutcome:
    """A mapped layer, or the layers of a network; `unit` is that of the objective.

    Status and bounds hold for the mappings of `mapspace`. `moved` are the network's operators without a loop nest.
    """

    source: str
    layers: NetworkLayers
    accelerator: Accelerator
    method: str
    objective: str
    unit: str
    mapped: tuple[MappedLayer, ...]
    document: MappingDocument
    is_one_layer: bool
    mapspace: MapSpace | None = None
    accounting: str = "interpreter"
    moved: tuple[MovedOperator, ...] = ()

    def of_each(self) -> Iterator[tuple[str, MappedLayer, bool]]:
        """Every layer's name, in the network's order, how it is mapped, and whether it is the first of its likes."""
        found = {name: one for one in self.mapped for name in one.names}
        for name in self.layers.layers:
            yield name, found[name], name == found[name].names[0]

    def times(self, name: str) -> int:
        """Return how often a layer runs."""
        return self.layers.times.get(name, 1)

    @property
    def coverage(self) -> tuple[CoveredShare, CoveredShare]:
        """Return how many operators, and which share of the operations, each way covers."""
        return coverage(self.layers, self.moved)

    @property
    def totals(self) -> Totals | None:
        """Of the layers, each as often as it runs; None unless there are any and every layer has a cost."""
        rows = [(one, one.cost, self.times(name)) for name, one, _ in self.of_each()]
        costs = [(cost, times) for _, cost, times in rows if cost is not None]
        if len(costs) < len(rows) or not rows:
            return None
        energy_pj = summed(
            [None if cost.stated_energy_pj is None else cost.stated_energy_pj * times for cost, times in costs]
        )
        cycles = sum(cost.cycles * times for cost, times in costs)
        is_additive = self.objective in ("energy", "latency")
        return Totals(
            energy_pj,
            round(cycles),
            sum(cost.macs * times for cost, times in costs),
            costs[0][0].units,
            sum(one.claim.objective_value * times for one, _, times in rows if one.claim) if is_additive else None,
            sum(one.lower_bound * times for one, _, times in rows) if is_additive else None,
        )

    @property
    def seconds(self) -> float:
        """The seconds of all searches together."""
        return sum(one.result.seconds for one in self.mapped)


@dataclass(frozen=True, slots=True)
class Totals:
    """Layers run one after the other. A product of sums has no bound that is the sum of the layers' bounds."""

    energy_pj: float | None
    latency_cycles: int
    macs: int
    units: int
    objective_value: Number | None
    lower_bound: Number | None

    @property
    def energy_delay_pj_cycles(self) -> float | None:
        """Return the energy-delay product, or None if the energy is unknown."""
        return None if self.energy_pj is None else self.energy_pj * self.latency_cycles

    @property
    def utilisation(self) -> float:
        """The share of the array's multiply-accumulates that the layers need."""
        return self.macs / (self.units * self.latency_cycles)


class Way(StrEnum):
    """What an operator is covered by: nests of loops that multiply and add, or movement of its data alone."""

    LOOP_NESTS = "loop nests"
    DATA_MOVEMENT = "data movement"


@dataclass(frozen=True, slots=True)
class MovedOperator:
    """An operator without a loop nest, and why it has none; it reads and writes each operand once, in DRAM.

    `operations` are its multiply-accumulates if it is a contraction, else one for each element. They cost nothing.
    """

    operator: str
    kind: str
    why: str
    operations: int
    energy_pj: float | None
    latency_cycles: int
    read_bits: int
    written_bits: int


@dataclass(frozen=True, slots=True)
class CoveredShare:
    """The operators that are covered in one way, and their operations (multiply-accumulates, or those of elements)."""

    way: Way
    operators: int
    operations: int
    share: float


def coverage(layers: NetworkLayers, moved: Sequence[MovedOperator]) -> tuple[CoveredShare, CoveredShare]:
    """Return the shares of both ways, which are 1 together; layers that are of no network are an operator each."""
    nests = len(layers.layers) if layers.graph is None else len(layers.graph.operators) - len(moved)
    operations = layers.macs, sum(one.operations for one in moved)
    whole = sum(operations)
    return (
        CoveredShare(Way.LOOP_NESTS, nests, operations[0], operations[0] / whole),
        CoveredShare(Way.DATA_MOVEMENT, len(moved), operations[1], operations[1] / whole),
    )
