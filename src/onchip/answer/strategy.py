"""A fusion strategy: stacks of layers, how every layer runs in each of their tiles, and what all of it costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.schedule import Homes
from onchip.answer.stacks import StackStrategy, StrategyError
from onchip.ir.layer import Layer


@dataclass(frozen=True, slots=True)
class TileMapping:
    """How the layers `names` of the stack numbered `stack` run in each tile in which their loop nest is `layer`.

    Their operands lie whole at `homes`. `room_bytes` are what is left to tiles in one instance of a memory, by its
    name; a memory that is not listed is theirs as a whole. Raises StrategyError where no layer is named.
    """

    stack: int
    names: tuple[str, ...]
    layer: Layer
    homes: Homes
    mapping: LayerMapping
    room_bytes: Mapping[str, int] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if not self.names:
            raise StrategyError("it is for no layer", place=f"mappings of stack {self.stack}", expected="a name")


@dataclass(frozen=True, slots=True)
class FusionStrategy:
    """Stacks in the order in which they run, with a mapping for each different loop nest, homes and room in them.

    Every layer is in one of the stacks. `mappings` are empty where nothing is said of how layers run, as in older
    files. Operators that are `outside`, by name, run beside the stacks and only move data from and to DRAM. Raises
    StrategyError for a layer in two stacks.
    """

    stacks: tuple[StackStrategy, ...]
    mappings: tuple[TileMapping, ...] = ()
    outside: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        names = Counter(name for stack in self.stacks for name in stack.layers)
        for name, times in names.items():
            if times > 1:
                raise StrategyError(f"layer {name!r} is in {times} stacks", place="strategy", expected="one")


class EnergyCause(StrEnum):
    """Why energy is spent; an addition's second operand is an activation."""

    ACTIVATION = "activation"
    WEIGHT = "weight"
    COPY = "copy"
    MAC = "mac"


ENERGIES = "energies_pj"
"""Of a figure's name, before the memory (or the MACs) and the cause: `energies_pj.dram.copy`."""
PEAKS = "peak_bytes"
"""Of a figure's name, before the memory."""


@dataclass(frozen=True, slots=True)
class StrategyFigures:
    """What running a network as a strategy says costs; `macs` with those that are computed again.

    The objective is in femtojoules, cycles, the product of both, or the bits that DRAM reads and writes.
    `energy_pj` is None if the accelerator does not state the energy of a multiply-accumulate. `energies_pj` are by
    memory (or the MACs) and cause; `peak_bytes` by memory the most that one instance has to hold
    while a layer runs, of what is counted in the room of its tiles.
    """

    objective_value: float
    energy_pj: float | None
    latency_cycles: float
    macs: int
    dram_bits: int
    energies_pj: Mapping[tuple[str, str], float] = field(default_factory=dict)
    peak_bytes: Mapping[str, int] = field(default_factory=dict)

    @property
    def named(self) -> dict[str, float]:
        """Return all figures that are known but the objective value, by name."""
        sums = {
            **({} if self.energy_pj is None else {"energy_pj": self.energy_pj}),
            "latency_cycles": self.latency_cycles,
            "macs": self.macs,
            "dram_bits": self.dram_bits,
        }
        return sums | named_parts(self.energies_pj, self.peak_bytes)


def named_parts(energies_pj: Mapping[tuple[str, str], float], peak_bytes: Mapping[str, int]) -> dict[str, float]:
    """Return energies by memory and cause, and peaks by memory, by name; `nested_figures` is the way back."""
    energies = {f"{ENERGIES}.{memory}.{cause}": energy for (memory, cause), energy in energies_pj.items()}
    return energies | {f"{PEAKS}.{memory}": size for memory, size in peak_bytes.items()}


def nested_figures(named: Mapping[str, float]) -> dict[str, object]:
    """Return figures by name with energies as objects by memory and cause, and peaks as one by memory."""
    plain: dict[str, object] = {}
    energies: dict[str, dict[str, float]] = {}
    peaks: dict[str, float] = {}
    for name, value in named.items():
        group, _, rest = name.partition(".")
        if group == ENERGIES:
            memory, _, cause = rest.rpartition(".")
            energies.setdefault(memory, {})[cause] = value
        elif group == PEAKS:
            peaks[rest] = value
        else:
            plain[name] = value
    return plain | ({ENERGIES: energies} if energies else {}) | ({PEAKS: peaks} if peaks else {})
