"""Lower bounds on the latency of every plan, over all orders, bands, residencies and start times of transfers.

docs/latency.md has the proofs. A band takes at least the cycles of the operator's shortest band, and all bands together
at least the least total. Loading a tensor in bands takes no fewer cycles than loading it whole.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from onchip.answer.problem import Durations, Order, Rate
from onchip.arch.memory import DRAM
from onchip.bounds.latency.band_orders import BandOrders, Border, groups_of_borders, last_of_several
from onchip.bounds.latency.latency_chains import Ends, LatencyChains, most_borders
from onchip.bounds.latency.ways_to_run import WaysToRun
from onchip.ir.tensor import Role

MOST_VISITS: Final = 4_000_000
"""Most visits of operators from operators, about a second; in larger graphs only some operators have borders."""

_IN_DRAM: Final = (Role.INPUT, Role.PARAMETER)


@dataclass(frozen=True, slots=True)
class LatencyBound:
    """A proven lower bound in cycles, with the name of its argument."""

    name: str
    cycles: int


@dataclass(frozen=True)
class LatencyBounds:
    """The lower bounds of a problem with one scratchpad."""

    ways: WaysToRun

    @property
    def greatest(self) -> LatencyBound:
        """Return the greatest of all these bounds."""
        return max(self.all(), key=lambda bound: bound.cycles)

    def all(self) -> Iterator[LatencyBound]:
        """Yield each bound: transfers, computing, and the work before and after each border."""
        yield from self._of_everything()
        yield from self._of_borders()

    def least_of_parts(self, loaded: Collection[str], stored: Collection[str]) -> int:
        """Return a lower bound on the cycles of all computing and of these transfers, even if made in parts."""
        number = {tensor.name: at for at, tensor in enumerate(self.ways.tensors)}
        loads = [number[name] for name in loaded if self.ways.tensors[number[name]].role in _IN_DRAM]
        return max(self._computing, self._busy(loads, [number[name] for name in stored]))

    def _of_everything(self) -> Iterator[LatencyBound]:
        loads = self._loaded(range(len(self.ways.operators)))
        yield LatencyBound("transfers", self._busy(loads, self._stored))
        yield LatencyBound("loads, then what reads the last", self._busy(loads, ()) + self._least_tail(loads))
        yield LatencyBound("first load, computing, last store", self._computing + self._beside_computing)

    def _of_borders(self) -> Iterator[LatencyBound]:
        borders = self.borders
        for group in groups_of_borders(borders):
            around = [self._around(borders[at], self._ends[at]) for at in group]
            name = self._name_of(borders[group[0]])
            yield LatencyBound(f"{name}, then what follows it", min(follows for follows, _ in around))
            yield LatencyBound(f"{name}, then loads that had no room", min(loaded for _, loaded in around))

    @cached_property
    def _ends(self) -> Sequence[Ends]:
        """Return, for each border, the earliest end of its operator by number of parts."""
        borders = self.borders
        ends = [self._ends_alone(border) for border in borders]
        some = range(0, len(borders), 1 + len(borders) // most_borders(self.ways))
        chains = LatencyChains(self.ways, [borders[at] for at in some], self._rate(loads=True))
        for at, chained in zip(some, chains.ends([ends[at] for at in some]), strict=True):
            ends[at] = chained
        return ends

    @cached_property
    def borders(self) -> Sequence[Border]:
        """Return the borders of operators in graph order, with the operators that must precede and follow each.

        If they are not too many, borders for the last of several operators follow.
        """
        borders = BandOrders(self.ways, self._borders).borders
        if len(borders) < len(self.ways.operators):
            return borders
        lasts = [one for group in last_of_several(self.ways, borders) for one in group]
        return [*borders, *lasts] if len(borders) + len(lasts) < most_borders(self.ways) else borders

    def _ends_alone(self, border: Border) -> Ends:
        """Return the earliest ends of the last band, by parts, from the loads and operators that must precede it."""
        one = self.ways.operators[border.operator]
        loads = self._loaded((*border.before, border.operator))
        computed = self._first_load + sum(self.ways.operators[each].least_cycles for each in border.before)
        last = max(self._busy(loads, ()), computed)
        first_loads = [tensor for tensor in loads if tensor not in one.reads or tensor not in one.cut]
        first = 0 if one.cuts_inputs or border.others else max(self._busy(first_loads, ()), computed)
        possible = self.ways.possible_parts(border.operator)
        return {parts: max(last, first + (parts - 1) * one.cycles[parts]) + one.cycles[parts] for parts in possible}

    def _around(self, border: Border, ends: Ends) -> tuple[int, int]:
        """Return two lower bounds on the latency, given the earliest ends of an operator's last band.

        The first adds the operators that can only run after the band. The second adds the loads of tensors that do not
        fit next to the band, then the operators that read the last of them; it is 0 if all tensors fit. Only readers
        that begin after the band count: an earlier reader does not wait for a later load of the same tensor.
        """
        follows = sum(self.ways.operators[each].least_cycles for each in border.after)
        follows += sum(self.ways.operators[each].least_band_cycles for each in border.partly_after)
        latency, waited_for = min(ends.values()) + follows + self._last_store, self._waited_for(border)
        if not waited_for:
            return latency, 0
        later = {*border.after}
        tail = min(max(self._tails[one] for one in self.ways.readers[each] if one in later) for each in waited_for)
        loads = (end + self._loads_after(border.operator, parts, waited_for, tail) for parts, end in ends.items())
        return latency, min(loads)

    def _name_of(self, border: Border) -> str:
        operators = self.ways.problem.graph.operators
        last, *others = (repr(operators[one].name) for one in (border.operator, *border.others))
        return f"up to the last of {last}, {', '.join(others)}" if others else f"up to {last}"

    def _loads_after(self, operator: int, parts: int, waited_for: Iterable[int], tail: int) -> int:
        """Return the cycles to load awaited tensors that do not fit next to the last band, then to run their readers.

        Returns 0 if all of them fit.
        """
        missing = sum(self.ways.tensors[tensor].size_bytes for tensor in waited_for)
        missing -= self._most_room(operator, parts, waited_for)
        return self._cycles(missing, loads=True) + tail if missing > 0 else 0

    def _waited_for(self, border: Border) -> list[int]:
        """Return the tensors for later operators that are on chip when the last band ends, or are loaded after it.

        These are inputs and parameters that only later operators read, and tensors written before that have a later
        reader, except the operator's own inputs.
        """
        reads, later = {*self.ways.operators[border.operator].reads}, {*border.after}
        found = [tensor for tensor in self._loaded(border.after) if {*self.ways.readers[tensor]} <= later]
        written = (tensor for one in (*border.before, border.operator) for tensor in self.ways.operators[one].writes)
        return found + [
            tensor
            for tensor in written
            if tensor not in reads and self.ways.readers.get(tensor) and {*self.ways.readers[tensor]} & later
        ]

    @property
    def _borders(self) -> range:
        operators = len(self.ways.operators)
        is_given = self.ways.problem.order is Order.GIVEN
        visits = 1 if is_given else operators + sum(len(one.reads) for one in self.ways.operators)
        return range(0, operators, 1 + operators * visits // MOST_VISITS)

    # Durations

    @property
    def _durations(self) -> Durations:
        return self.ways.problem.known_durations

    def _busy(self, loads: Iterable[int], stores: Iterable[int]) -> int:
        """Return a lower bound on the cycles to load and store these tensors.

        DRAM and queues serve one transfer at a time. If each direction has a channel, the two directions overlap.
        """
        times = [[self._transfer(tensor, loads=True) for tensor in loads]]
        times.append([self._transfer(tensor, loads=False) for tensor in stores])
        setup_cycles, count = self._durations.setup_cycles, sum(map(len, times))
        if not count:
            return 0
        channels = [sum(each) for each in times]
        on_channel = sum(channels) if self._durations.has_one_channel else max(channels)
        on_queues = sum(channels) + count * setup_cycles
        return max(setup_cycles + on_channel, -(-on_queues // self._durations.queues))

    def _transfer(self, tensor: int, *, loads: bool) -> int:
        return self._cycles(self.ways.tensors[tensor].size_bytes, loads=loads)

    def _cycles(self, size_bytes: int, *, loads: bool) -> int:
        rate = self._rate(loads=loads)
        return rate.cost(size_bytes) - rate.setup

    def _rate(self, *, loads: bool) -> Rate:
        rates, name = self.ways.problem.transfers.rates, self.ways.problem.memories[0].name
        return rates[DRAM, name] if loads else rates[name, DRAM]

    def _loaded(self, operators: Iterable[int]) -> list[int]:
        """Return the tensors of DRAM that these operators read."""
        read = dict.fromkeys(tensor for operator in operators for tensor in self.ways.operators[operator].reads)
        return [tensor for tensor in read if self.ways.tensors[tensor].role in _IN_DRAM]

    @cached_property
    def _stored(self) -> tuple[int, ...]:
        tensors = enumerate(self.ways.tensors)
        return tuple(number for number, tensor in tensors if tensor.role is Role.OUTPUT)

    @cached_property
    def _computing(self) -> int:
        return sum(one.least_cycles for one in self.ways.operators)

    @property
    def _beside_computing(self) -> int:
        """Return the least cycles beyond the least computing: before the first band, after the last, excess of bands.

        The same operator may run first and last, with the same number of parts.
        """
        pairs = [self._beside(first, last) for first in self._firsts for last in self._lasts]
        return min(pairs, default=self._first_load + self._last_store)

    def _beside(self, first: int, last: int) -> int:
        """Return the least cycles before an operator's first band and after another's last, with excess of bands."""
        begun = self._ways_begun(first)
        if first == last:
            return min(beyond + load + self._store_of_band(first, parts) for parts, beyond, load in begun)
        return min(beyond + load for _, beyond, load in begun) + self._least_end(last)

    def _ways_begun(self, operator: int) -> list[tuple[int, int, int]]:
        """Return each number of parts, its cycles above the least total, and the load cycles before the first part."""
        one = self.ways.operators[operator]
        return [
            (parts, parts * cycles - one.least_cycles, self._until_first_band(operator, parts))
            for parts, cycles in one.cycles.items()
        ]

    def _least_end(self, operator: int) -> int:
        one = self.ways.operators[operator]
        return min(
            parts * cycles - one.least_cycles + self._store_of_band(operator, parts)
            for parts, cycles in one.cycles.items()
        )

    @cached_property
    def _firsts(self) -> tuple[int, ...]:
        """Return the operators that may run first: they read no written tensor."""
        operators = enumerate(self.ways.operators)
        return tuple(each for each, one in operators if not any(read in self.ways.writer for read in one.reads))

    @cached_property
    def _lasts(self) -> tuple[int, ...]:
        """Return the operators that may run last: their outputs have no readers."""
        operators = enumerate(self.ways.operators)
        return tuple(each for each, one in operators if not any(self.ways.readers.get(each) for each in one.writes))

    @cached_property
    def _first_load(self) -> int:
        """Return the least cycles of loading before any band begins."""
        loads = (self._until_first_band(each, parts) for each in self._firsts for parts in self._parts(each))
        return min(loads, default=0)

    @cached_property
    def _last_store(self) -> int:
        """Return the least cycles of storing after the last band of all operators has ended."""
        stores = (self._store_of_band(each, parts) for each in self._lasts for parts in self._parts(each))
        return min(stores, default=0)

    def _parts(self, operator: int) -> Iterable[int]:
        return self.ways.operators[operator].cycles

    def _until_first_band(self, operator: int, parts: int) -> int:
        reads = self.ways.operators[operator].reads
        loads = [self._cycles(self.ways.operand_bytes(operator, tensor, parts), loads=True) for tensor in reads]
        if not loads:
            return 0
        setup_cycles, queues = self._durations.setup_cycles, self._durations.queues
        return max(setup_cycles + sum(loads), -(-(sum(loads) + len(loads) * setup_cycles) // queues))

    def _store_of_band(self, operator: int, parts: int) -> int:
        outputs = [tensor for tensor in self.ways.operators[operator].writes if tensor in self._stored]
        if not outputs:
            return 0
        stores = (self._cycles(self.ways.operand_bytes(operator, tensor, parts), loads=False) for tensor in outputs)
        return self._durations.setup_cycles + max(stores)

    @cached_property
    def _tails(self) -> tuple[int, ...]:
        """Return, by operator, the least cycles from the start of any of its bands to the end of the program."""
        tails = [0] * len(self.ways.operators)
        for operator in reversed(range(len(self.ways.operators))):
            one = self.ways.operators[operator]
            readers = [reader for tensor in one.writes for reader in self.ways.readers.get(tensor, ())]
            behind = max((tails[reader] for reader in readers), default=0)
            tails[operator] = min(
                cycles + max(behind, self._store_of_band(operator, parts)) for parts, cycles in one.cycles.items()
            )
        return tuple(tails)

    def _least_tail(self, loads: Iterable[int]) -> int:
        """Return the least cycles after the last of these loads, whichever it is: its readers must still run."""
        return min((max(self._tails[reader] for reader in self.ways.readers[one]) for one in loads), default=0)

    def _most_room(self, operator: int, parts: int, waited_for: Iterable[int]) -> int:
        """Return the bytes of the scratchpad that the last band leaves for awaited tensors."""
        one, others = self.ways.operators[operator], {*waited_for}
        operands = [each for each in (*one.reads, *one.writes) if each not in others]
        taken = sum(self.ways.operand_bytes(operator, each, parts) for each in operands)
        return self.ways.problem.memories[0].capacity_bytes - taken
