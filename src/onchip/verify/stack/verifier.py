"""Check a fusion strategy, and recompute its figures and its objective."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import fsum

from onchip.answer.fused_network import FusedNetwork, StreamedOperator
from onchip.answer.strategy import EnergyCause, FusionStrategy, StrategyFigures
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM, Operand
from onchip.verify.rules import Rule, Violation
from onchip.verify.stack.caches import AlikeTiles, RunningStack, TiledStackOnChip, running_stacks
from onchip.verify.stack.chip import ChipInUse, MappingsOfStrategy, TilePrices, expense_of_moving
from onchip.verify.stack.strips import PaddingAloneError
from onchip.verify.stack.tile_run import LayerRunByMapping, MappingMissingError, StackOnChip, TileRunByMappings

FEMTOJOULES_IN_A_PICOJOULE = 1000
RELATIVE_TOLERANCE = 1e-12
"""Tolerance of energies and cycles: sums of real numbers, whose last digits depend on the order of addition."""


@dataclass(frozen=True, slots=True)
class RunCost:
    """Cost of one stack: pJ (None if unknown), cycles, and bits from and to DRAM."""

    energy_pj: float | None
    cycles: float
    dram_bits: int


@dataclass(frozen=True, slots=True)
class ObjectiveRange:
    """The rounded objective value, and the least and greatest value that another order of addition may give."""

    nearest: int
    least: int
    greatest: int


def objective_range(objective: str, stacks: Sequence[RunCost]) -> ObjectiveRange:
    """Return the objective value, in fJ, cycles, their product, or bits.

    Raises ValueError for an unknown objective, or for one that needs an unknown energy.
    """
    known = [one.energy_pj for one in stacks if one.energy_pj is not None]
    if len(known) < len(stacks) and objective in ("energy", "edp"):
        raise ValueError(objective)
    energies = _rounded([FEMTOJOULES_IN_A_PICOJOULE * energy_pj for energy_pj in known])
    cycles = _rounded([one.cycles for one in stacks])
    match objective:
        case "energy":
            return ObjectiveRange(*energies)
        case "latency":
            return ObjectiveRange(*cycles)
        case "edp":
            return ObjectiveRange(*(one * other for one, other in zip(energies, cycles, strict=True)))
        case "dram":
            bits = sum(one.dram_bits for one in stacks)
            return ObjectiveRange(bits, bits, bits)
        case _:
            raise ValueError(objective)


def _rounded(values: Sequence[float]) -> tuple[int, int, int]:
    least = sum(round(value * (1 - RELATIVE_TOLERANCE)) for value in values)
    greatest = sum(round(value * (1 + RELATIVE_TOLERANCE)) for value in values)
    return sum(map(round, values)), least, greatest


MACS = "macs"
"""Label of the multiply-accumulates' energy, used where the other energies name a memory."""


@dataclass(frozen=True, slots=True)
class StrategySetting:
    """The inputs of a strategy's replay; `as_defines` selects the counting of DeFiNES."""

    network: FusedNetwork
    accelerator: Accelerator
    objective: str
    as_defines: bool


@dataclass(frozen=True, slots=True)
class ReplayedStrategy:
    """The violations of a strategy's mappings, and its cost if there are none; `priced` counts the priced mappings.

    Energies are rounded to femtojoules and cycles to whole cycles for each stack. If a value is near the middle between
    two whole numbers, the objective value may be anywhere in `objectives`.
    """

    violations: tuple[Violation, ...]
    figures: StrategyFigures | None
    objectives: ObjectiveRange | None
    priced: int


def replay_strategy(setting: StrategySetting, strategy: FusionStrategy, prices: TilePrices) -> ReplayedStrategy:
    """Run every layer of every tile by the strategy's mappings; the strategy's structure must be legal.

    Raises AcceleratorError for a memory without a port of a needed direction; never raises because of the strategy
    itself. The values that `prices` returns are not checked.
    """
    mappings = MappingsOfStrategy(strategy, prices, counts_parts=setting.as_defines)
    tallies: list[_Tally] = []
    for stack in running_stacks(setting.network, strategy):
        try:
            tallies.append(_replayed(stack, setting, mappings))
        except PaddingAloneError as error:
            detail = f"a tile sees nothing of {str(error)!r} but padding"
            mappings.violations.append(Violation(Rule.NOT_IN_TILES, f"stack {stack.number}", detail))
        except MappingMissingError as error:
            detail = f"stack {stack.number} has no mapping of one of its tiles, wherever its operands lie"
            mappings.violations.append(Violation(Rule.MAPPING_MISSING, str(error), detail))
    violations = mappings.violations or list(mappings.unused())
    if violations:
        return ReplayedStrategy(tuple(violations), None, None, mappings.priced)
    tallies += [_moved(operator, setting.accelerator) for operator in setting.network.moved]
    objectives = objective_range(setting.objective, [tally.cost for tally in tallies])
    return ReplayedStrategy((), _figures(tallies, objectives), objectives, mappings.priced)


@dataclass(slots=True)
class _Tally:
    """The cost of a stack; energies are lists of summands, and the total is unknown if a summand is."""

    energies_pj: dict[tuple[str, str], list[float]] = field(default_factory=lambda: defaultdict(list))
    cycles: list[float] = field(default_factory=list)
    macs: int = 0
    dram_bits: int = 0
    peak_bytes: dict[str, int] = field(default_factory=dict)
    energy_is_known: bool = True

    @property
    def cost(self) -> RunCost:
        """Return the stack's contribution to the objective."""
        energy_pj = fsum(one for energies in self.energies_pj.values() for one in energies)
        return RunCost(energy_pj if self.energy_is_known else None, fsum(self.cycles), self.dram_bits)

    def add_energy(self, place: str, cause: str, energy_pj: float | None, times: int) -> None:
        """Count an energy that is spent `times` times; None if the machine does not state it."""
        if energy_pj is None:
            self.energy_is_known = False
        else:
            self.energies_pj[place, cause].append(times * energy_pj)

    def add_layer(self, layer: LayerRunByMapping, times: int) -> None:
        """Add the cost of a layer in `times` tiles; a layer without a price adds only its MACs."""
        self.macs += times * layer.macs
        if layer.priced is None:
            return
        price = layer.priced.price
        for (memory, operand), energy_pj in price.memory_energy_pj.items():
            is_weight = operand == Operand.WEIGHT and not layer.weights_are_maps
            cause = EnergyCause.WEIGHT if is_weight else EnergyCause.ACTIVATION
            self.add_energy(memory, cause, energy_pj, times)
        self.add_energy(MACS, EnergyCause.MAC, price.mac_energy_pj, times)
        self.cycles.append(times * price.cycles)
        self.dram_bits += times * price.dram_bits
        for memory, size in layer.priced.taken_bytes.items():
            self.peak_bytes[memory] = max(self.peak_bytes.get(memory, 0), size)


def _replayed(stack: RunningStack, setting: StrategySetting, mappings: MappingsOfStrategy) -> _Tally:
    chip = ChipInUse(setting.accelerator, stack.taken_bits)
    tiled = TiledStackOnChip(stack, chip, as_defines=setting.as_defines)
    on_chip, tally = StackOnChip(stack, chip, mappings, tiled.weights(), setting.as_defines), _Tally()
    for tile in tiled.tiles():
        _add_tile(tally, TileRunByMappings(on_chip, tile), tile)
    return tally


def _moved(operator: StreamedOperator, accelerator: Accelerator) -> _Tally:
    """Return the cost of an operator outside of all stacks."""
    expense = expense_of_moving(operator, accelerator)
    energies = {(DRAM, str(cause)): [energy_pj] for cause, energy_pj in (expense.energies_pj or {}).items()}
    is_known = expense.energies_pj is not None
    return _Tally(energies, [expense.cycles], 0, expense.dram_bits, energy_is_known=is_known)


def _add_tile(tally: _Tally, run: TileRunByMappings, tile: AlikeTiles) -> None:
    for layer in run.layers:
        tally.add_layer(layer, tile.times)
    for moved in run.copies:
        for memory, energy_pj in moved.energies_pj:
            tally.add_energy(memory, EnergyCause.COPY, energy_pj, tile.times)
        tally.cycles.append(tile.times * moved.cycles)
        tally.dram_bits += tile.times * moved.dram_bits


def _figures(tallies: Sequence[_Tally], objectives: ObjectiveRange) -> StrategyFigures:
    energies: dict[tuple[str, str], list[float]] = defaultdict(list)
    peaks: dict[str, int] = {}
    for tally in tallies:
        for place, found in tally.energies_pj.items():
            energies[place] += found
        for memory, size in tally.peak_bytes.items():
            peaks[memory] = max(peaks.get(memory, 0), size)
    is_known = all(tally.energy_is_known for tally in tallies)
    return StrategyFigures(
        objectives.nearest,
        fsum(one for found in energies.values() for one in found) if is_known else None,
        fsum(one for tally in tallies for one in tally.cycles),
        sum(tally.macs for tally in tallies),
        sum(tally.dram_bits for tally in tallies),
        {place: fsum(found) for place, found in energies.items()},
        peaks,
    )
