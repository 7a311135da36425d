"""A fusion strategy: stacks of layers, the mappings of their layers in each tile, and the resulting figures."""

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
    """The mapping of the layers `names` of stack number `stack` in each tile with loop nest `layer`.

    Their operands are stored whole at `homes`. `room_bytes` maps a memory to the bytes left for tiles in one instance;
    an unlisted memory is free for tiles. Raises StrategyError if no layer is named.
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
    """Stacks in execution order, with a mapping for each distinct loop nest, homes and tile capacity.

    Every layer is in one of the stacks. `mappings` are empty in older files without mappings. Operators in `outside`,
    by name, are in no stack and only move data from and to DRAM. Raises StrategyError for a layer in two stacks.
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
    """The cause of an energy expense; an addition's second operand counts as an activation."""

    ACTIVATION = "activation"
    WEIGHT = "weight"
    COPY = "copy"
    MAC = "mac"


ENERGIES = "energies_pj"
"""Prefix of a figure's name, before the memory (or the MACs) and the cause: `energies_pj.dram.copy`."""
PEAKS = "peak_bytes"
"""Prefix of a figure's name, before the memory."""


@dataclass(frozen=True, slots=True)
class StrategyFigures:
    """The cost of running a network by a strategy; `macs` includes recomputed MACs.

    The objective is in fJ, cycles, fJ x cycles, or the bits that DRAM reads and writes. `energy_pj` is None if the
    accelerator does not state the energy of a multiply-accumulate. `energies_pj` are by memory (or the MACs) and cause.
    `peak_bytes` maps a memory to the maximum that one instance holds while a layer runs, of the data counted in the
    capacity for its tiles.
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
        """Return all known figures except the objective value, by name."""
        sums = {
            **({} if self.energy_pj is None else {"energy_pj": self.energy_pj}),
            "latency_cycles": self.latency_cycles,
            "macs": self.macs,
            "dram_bits": self.dram_bits,
        }
        return sums | named_parts(self.energies_pj, self.peak_bytes)


def named_parts(energies_pj: Mapping[tuple[str, str], float], peak_bytes: Mapping[str, int]) -> dict[str, float]:
    """Return energies by memory and cause, and peaks by memory, as flat names; `nested_figures` is the inverse."""
    energies = {f"{ENERGIES}.{memory}.{cause}": energy for (memory, cause), energy in energies_pj.items()}
    return energies | {f"{PEAKS}.{memory}": size for memory, size in peak_bytes.items()}


def nested_figures(named: Mapping[str, float]) -> dict[str, object]:
    """Return named figures with energies nested by memory and cause, and peaks nested by memory."""
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
