"""Mapped loop nests, the fronts of their mappings, and the mapping of all nests of a schedule."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Protocol

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.options.mapping_objective import FEMTO_PER_PICO
from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.answer.schedule import Homes
from onchip.ir.layer import Layer
from onchip.model.program.compute_cost import MemoryRates, NestCost, dram_cycles
from onchip.scheduling.program.runs import NestPlace

Room = Mapping[str, int]
"""Bytes available for tiles, by addressed memory."""


@dataclass(frozen=True, slots=True)
class MappedNest:
    """A mapping and the cost of the nest with it.

    `is_makeshift`: built without a search, for lack of time. `is_quick`: only known mappings and LOMA were used.
    Without `is_proven` there may be better ones. `is_wide`: the search included uneven mappings. `others` are mappings
    met in the same search that are better in some criterion.
    """

    mapping: LayerMapping
    cost: NestCost
    is_makeshift: bool = False
    is_quick: bool = False
    is_proven: bool = False
    is_wide: bool = False
    others: tuple[MappedNest, ...] = field(default=(), compare=False, repr=False)

    def fits(self, room: Room) -> bool:
        """Return True if its workspaces fit the capacity."""
        return all(room.get(memory, 0) >= size for memory, size in self.cost.workspace_bytes.items())


@dataclass(frozen=True, slots=True)
class MappingFront:
    """The options of one nest at its homes, in the order found."""

    options: tuple[MappedNest, ...] = ()

    def with_options(self, found: Iterable[MappedNest]) -> MappingFront:
        """Return the front with other options; the first of equal ones stays."""
        options = self.options
        for one in found:
            if not any(is_no_more(known.cost, one.cost) for known in options):
                options = (*(known for known in options if not is_no_more(one.cost, known.cost)), one)
        return MappingFront(options)

    def least(self, room: Room, prices: OptionPrices) -> MappedNest | None:
        """Return the cheapest option whose workspaces fit the capacity; None if none does."""
        return min((one for one in self.options if one.fits(room)), key=lambda one: prices.of(one.cost), default=None)


def is_no_more(one: NestCost, other: NestCost) -> bool:
    """Return True if energy, cycles, DRAM bits each way, and workspaces are at most the other's.

    Then it can replace the other in any schedule, which becomes no worse (docs/schedule.md, section 9).
    """
    return (
        one.energy_pj <= other.energy_pj
        and one.cycles <= other.cycles
        and one.dram_read_bits <= other.dram_read_bits
        and one.dram_written_bits <= other.dram_written_bits
        and all(size <= other.workspace_bytes.get(memory, 0) for memory, size in one.workspace_bytes.items())
    )


@dataclass(frozen=True, slots=True)
class OptionPrices:
    """The marginal prices of options in a schedule, all else equal.

    Energy times latency grows by the option's energy times the schedule's `latency_cycles`, and by its cycles times the
    schedule's `energy_fj`. While these are unknown (None), the option's own product is the price.
    """

    rates: MemoryRates
    objective: ScheduleObjective
    energy_fj: int | None = None
    latency_cycles: int | None = None

    def of(self, cost: NestCost) -> tuple[float, float]:
        """Return the price of an option, and a tie-breaker."""
        energy_fj = cost.energy_pj * FEMTO_PER_PICO
        match self.objective:
            case ScheduleObjective.ENERGY:
                return energy_fj, cost.cycles
            case ScheduleObjective.TRAFFIC:
                return ceil(cost.dram_read_bits / 8) + ceil(cost.dram_written_bits / 8), energy_fj
            case ScheduleObjective.LATENCY:
                return self._cycles(cost), energy_fj
            case ScheduleObjective.EDP:
                if self.energy_fj is None or self.latency_cycles is None:
                    return energy_fj * self._cycles(cost), energy_fj
                return energy_fj * self.latency_cycles + self._cycles(cost) * float(self.energy_fj), energy_fj

    def _cycles(self, cost: NestCost) -> int:
        """Return the cycles in which the array or DRAM is busy with it."""
        turn = dram_cycles(self.rates, cost.dram_read_bits, cost.dram_written_bits)
        return max(cost.cycles, turn)


Edition = tuple[int, bool]
"""Number of replacements and reweighings of known mappings, and True if quick mappings suffice."""


class NestMapper(Protocol):
    """A mapper of nests; a quick one returns its first mapping."""

    is_quick: bool

    def __call__(self, nest: NestPlace, room: Room, similar: Sequence[LayerMapping]) -> MappedNest | None:
        """Return the best mapping of a nest within a capacity, None if none fits; `similar` are from other homes."""

    def expect(self, asked: Sequence[tuple[NestPlace, Room]]) -> None:
        """Announce the nests and capacities of the next calls."""


@dataclass(slots=True)
class KnownMappings:
    """The cache of a mapper's answers.

    A mapping that is optimal in a capacity is optimal in every smaller one in which it fits. If none fits in a
    capacity, none fits in a smaller one. With `prices` the answer is the cheapest mapping ever found for the nest at
    its homes that fits, or a preferred one.
    """

    mapper: NestMapper
    prices: OptionPrices | None = None
    _found: dict[NestKey, list[_FoundInRoom]] = field(default_factory=dict)
    _keys_of_layer: dict[tuple[Layer, bool], list[NestKey]] = field(default_factory=dict)
    _fronts: dict[NestKey, MappingFront] = field(default_factory=dict)
    _preferred: dict[NestKey, LayerMapping] = field(default_factory=dict)
    _replaced: int = 0

    @property
    def edition(self) -> Edition:
        """Return a value that changes whenever a best mapping may have changed."""
        return self._replaced, self.mapper.is_quick

    def best(self, nest: NestPlace, room: Room) -> MappedNest | None:
        """Return the best mapping of a nest in a capacity; None if none fits."""
        known = self._known(nest, room)
        if known is not None:
            return self._chosen(nest, room, known.mapped)
        found = self.mapper(nest, room, self._similar(nest))
        if found is None or not found.is_makeshift:
            is_quick = self.mapper.is_quick if found is None else found.is_quick
            self._found_at(nest).insert(0, _FoundInRoom(room, found, is_quick))
            self._remember(nest, found)
        return self._chosen(nest, room, found)

    def learn(self, nest: NestPlace, others: Iterable[MappedNest]) -> None:
        """Add mappings of a nest that were found elsewhere to its options."""
        self._fronts[key_of(nest)] = self._front(nest).with_options(others)
        self._replaced += 1

    def options(self, nest: NestPlace, room: Room) -> Sequence[MappedNest]:
        """Return the options of the nest that fit, cheapest first; empty without prices."""
        prices = self.prices
        if prices is None:
            return ()
        fitting = [one for one in self._front(nest).options if one.fits(room)]
        return sorted(fitting, key=lambda one: prices.of(one.cost))

    def weigh(self, prices: OptionPrices) -> None:
        """Set the prices of options, for all mappings found before and later."""
        if self.prices is None:
            for key, found in self._found.items():
                known = (one.mapped for one in reversed(found) if one.mapped is not None)
                self._fronts[key] = MappingFront().with_options(known)
        self.prices = prices
        self._replaced += 1

    def prefer(self, nest: NestPlace, mapping: LayerMapping | None) -> LayerMapping | None:
        """Prefer an option wherever it fits (None: the cheapest); return the earlier preference."""
        before = self._preferred.pop(key_of(nest), None)
        if mapping is not None:
            self._preferred[key_of(nest)] = mapping
        self._replaced += 1
        return before

    def announce(self, asked: Iterable[tuple[NestPlace, Room]]) -> None:
        """Announce the nests and capacities of the next calls: the mapper divides its time among new ones."""
        self.mapper.expect([(nest, room) for nest, room in asked if self._known(nest, room) is None])

    def replace(self, nest: NestPlace, room: Room, better: MappedNest) -> None:
        """Replace the best mapping of the nest in the capacity, and in smaller ones where it fits."""
        self._doubt_quick(nest)
        self._found_at(nest).insert(0, _FoundInRoom(room, better, better.is_quick))
        self._remember(nest, better)
        self._replaced += 1

    def _found_at(self, nest: NestPlace) -> list[_FoundInRoom]:
        """Return the list of answers for a nest at its homes."""
        key = key_of(nest)
        if key not in self._found:
            self._found[key] = []
            self._keys_of_layer.setdefault((nest.layer, nest.weight_is_an_input), []).append(key)
        return self._found[key]

    def _doubt_quick(self, nest: NestPlace) -> None:
        """Mark quick mappings of the layer at any homes for a new search, which may use the new knowledge."""
        for key in self._keys_of_layer.get((nest.layer, nest.weight_is_an_input), ()):
            self._found[key] = [replace(one, is_doubted=one.is_quick) for one in self._found[key]]

    def _remember(self, nest: NestPlace, found: MappedNest | None) -> None:
        """Add its options to the front."""
        if self.prices is not None and found is not None:
            self._fronts[key_of(nest)] = self._front(nest).with_options((replace(found, others=()), *found.others))

    def _front(self, nest: NestPlace) -> MappingFront:
        return self._fronts.get(key_of(nest), MappingFront())

    def _chosen(self, nest: NestPlace, room: Room, found: MappedNest | None) -> MappedNest | None:
        """Return the preferred or cheapest option, with the proof state of the answer for the capacity."""
        if self.prices is None or found is None or found.is_makeshift:
            return found
        wanted = self._preferred.get(key_of(nest))
        front = self._front(nest)
        preferred = next((one for one in front.options if one.mapping == wanted and one.fits(room)), None)
        best = preferred or front.least(room, self.prices)
        return (
            found
            if best is None
            else replace(best, is_quick=found.is_quick, is_proven=found.is_proven, is_wide=found.is_wide)
        )

    def _known(self, nest: NestPlace, room: Room) -> _FoundInRoom | None:
        """Return the answer for a larger capacity, if it is also the answer for this one."""
        is_quick = self.mapper.is_quick
        found = self._found.get(key_of(nest), [])
        usable = (one for one in found if not one.is_doubted and (is_quick or not one.is_quick))
        return next((one for one in usable if one.holds_within(room)), None)

    def _similar(self, nest: NestPlace) -> list[LayerMapping]:
        """Return the latest mappings of the same layer at each choice of homes, and doubted ones at its own."""
        doubted = [one.mapped for one in self._found.get(key_of(nest), []) if one.is_doubted]
        keys = self._keys_of_layer.get((nest.layer, nest.weight_is_an_input), ())
        mapped = [next((one.mapped for one in self._found[key] if one.mapped is not None), None) for key in keys]
        return [one.mapping for one in (*mapped, *doubted) if one is not None]


@dataclass(frozen=True, slots=True)
class _FoundInRoom:
    """An answer for a capacity, quick or not; None if nothing fits.

    It is doubted if it was found quickly, before something better was known of its layer.
    """

    room: Room
    mapped: MappedNest | None
    is_quick: bool
    is_doubted: bool = False

    def holds_within(self, room: Room) -> bool:
        return is_within(room, self.room) and (self.mapped is None or self.mapped.fits(room))


NestKey = tuple[Layer, Homes, bool]


def key_of(nest: NestPlace) -> NestKey:
    """Return the key shared by nests with the same mappings."""
    return nest.layer, nest.homes, nest.weight_is_an_input


def is_within(room: Room, larger: Room) -> bool:
    """Return True if no memory has more capacity than in the larger one."""
    return all(size <= larger.get(memory, 0) for memory, size in room.items())
