"""Lower bounds on the latency of a plan, also in merged scratchpads.

From the end of an operator's last band to that of a later operator (docs/latency.md has the proofs):

* the array runs all bands of operators that begin wholly after the first and must end before the second's last band;
* the inputs of these operators are on chip when the first ends, next to the first's other operands, or are loaded
  later; if each band of the second reads its inputs whole, all but its parameters' bands precede its first band.

Consecutive intervals add up, so ends are longest paths over operators. Each operator has an end for each number of
bands, because that determines its duration and the capacity that its last band leaves.

docs/latency.md has the proofs. A band takes at least the cycles of the operator's shortest band, and all bands together
at least the least total. Loading a tensor in bands takes no fewer cycles than loading it whole.

*Proof.* A bound for one scratchpad adds up only work that every program has: each tensor read from DRAM is loaded once,
each output is stored once, operators run once and one after another, and tensors that do not fit on chip while an
operator runs are loaded after it. All of this holds with several scratchpads too. DRAM still serves one transfer at a
time, whichever scratchpad it goes to, and none is faster than the fastest; copies over links use queues in addition.
Tensors on chip occupy disjoint bytes of the total capacity; alignment only reduces it. A tensor in several scratchpads
takes more of it (docs/latency.md).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from onchip.answer.problem import Durations, Order, Problem, Rate, Transfers
from onchip.arch.memory import DRAM, Memory, Operand
from onchip.bounds.latency.ways_to_run import BandOrders, Border, Marks, WaysToRun, groups_of_borders, last_of_several
from onchip.bounds.retention.sure_gaps import pooled
from onchip.ir.tensor import Role
from onchip.model.lifetimes.indexed import IndexedProblem

MOST_WORK: Final = 300_000_000
"""Most work, in pairs of borders times operators, tensors and ways, about a second; larger graphs get fewer borders."""
NEVER: Final = 2**60
"""End, in cycles, for a number of parts that an operator cannot run in."""

Counts: TypeAlias = NDArray[np.int64]
Ends: TypeAlias = Mapping[int, int]
"""Earliest end of an operator's last band in cycles, by number of parts."""


def most_borders(ways: WaysToRun) -> int:
    """Return the most borders allowed, as all pairs of them are examined."""
    most_ways = max((len(one.cycles) for one in ways.operators), default=0)
    each = 1 + len(ways.operators) + len(_shared(ways)) + most_ways
    return max(int((MOST_WORK / each) ** 0.5), 1)


@dataclass(frozen=True)
class LatencyChains:
    """The intervals between borders; `load` is the rate of loads.

    For each border that is the last of several, there is one for each of the others, and one for each operator alone.
    """

    ways: WaysToRun
    borders: Sequence[Border]
    load: Rate

    def ends(self, alone: Sequence[Ends]) -> list[Ends]:
        """Return the earliest ends of the borders' last bands, by number of parts.

        Each end is at least its value `alone`, at least the end of any earlier border plus the interval between them,
        and, for the last of several, at least the value without the others.
        """
        found = np.full(self._band_cycles.shape, NEVER, np.int64)
        for row, parts, one in zip(found, self.parts, alone, strict=True):
            row[: len(parts)] = [one[each] for each in parts]
        by_itself = {one.operator: at for at, one in enumerate(self.borders) if not one.others}
        for group in groups_of_borders(self.borders):
            for at in group:
                np.maximum(found[at], found[by_itself[self.borders[at].operator]], out=found[at])
            follows = np.minimum.reduce([self.after(at, found[at]) for at in group])
            np.maximum(found, follows, out=found)
        return [dict(zip(parts, map(int, row), strict=False)) for parts, row in zip(self.parts, found, strict=True)]

    def after(self, at: int, ends: Counts) -> Counts:
        """Return, by border and way, the earliest end of its last band after the given ends of border `at` by way.

        The value is 0 if the border need not follow border `at`.
        """
        missing = self._missing(at)
        loaded = (ends[:, None] + self._loading(missing)).min(axis=0)[:, None]
        loaded_first = (ends[:, None] + self._loading(missing - self._later)).min(axis=0)[:, None]
        follows = np.where(self._after[at, self._own][:, None], self._all_cycles, self._band_cycles)
        found = np.maximum(ends.min() + self._between[at][:, None] + follows, loaded + self._band_cycles)
        in_order = np.where(self._reads_whole[:, None], loaded_first + self._all_cycles, 0)
        latest: Counts = np.where(self._before[:, self._own[at]][:, None], np.maximum(found, in_order), 0)
        return latest

    @cached_property
    def parts(self) -> tuple[tuple[int, ...], ...]:
        """Return the possible numbers of parts of each border's operator."""
        return tuple(self.ways.possible_parts(one.operator) for one in self.borders)

    @cached_property
    def _own(self) -> Counts:
        """Return the operator of each border."""
        return np.array([one.operator for one in self.borders], np.int64)

    @cached_property
    def _reads_whole(self) -> Marks:
        """Return, by border, True if all earlier operators have ended when its first band begins."""
        wholes = (not one.others and not self.ways.operators[one.operator].cuts_inputs for one in self.borders)
        return np.fromiter(wholes, np.bool_, len(self.borders))

    @cached_property
    def _band_cycles(self) -> Counts:
        """Return the cycles of one band by border and way; 0 for ways that do not exist."""
        found = np.zeros((len(self.borders), max(map(len, self.parts), default=0)), np.int64)
        for row, operator, parts in zip(found, self._own, self.parts, strict=True):
            row[: len(parts)] = [self.ways.operators[operator].cycles[each] for each in parts]
        return found

    @cached_property
    def _all_cycles(self) -> Counts:
        """Return the cycles of all bands together by border and way."""
        found = self._band_cycles.copy()
        for row, parts in zip(found, self.parts, strict=True):
            row[: len(parts)] *= parts
        return found

    @cached_property
    def _after(self) -> Marks:
        return self._marks(one.after for one in self.borders)

    @cached_property
    def _before(self) -> Marks:
        return self._marks(one.before for one in self.borders)

    @cached_property
    def _up_to(self) -> Marks:
        return self._marks((*one.before, one.operator) for one in self.borders)

    def _marks(self, sets: Iterable[Sequence[int]]) -> Marks:
        """Return marks by border and operator."""
        found = np.zeros((len(self.borders), len(self.ways.operators)), np.bool_)
        for row, members in zip(found, sets, strict=True):
            row[list(members)] = True
        return found

    @cached_property
    def _between(self) -> Counts:
        """Return, by pair of borders, the cycles of operators wholly after the first and before the second."""
        least = np.array([one.least_cycles for one in self.ways.operators], np.float64)
        found: Counts = ((self._after * least) @ self._before.T.astype(np.float64)).astype(np.int64)
        return found

    def _loading(self, missing: Counts) -> Counts:
        """Return the cycles to load `missing` bytes; 0 for negative numbers."""
        found: Counts = np.zeros_like(missing)
        for unit_bits, cycles in self.load.terms:
            found = found + -(-np.maximum(missing, 0) * 8 // unit_bits) * cycles
        return found

    def _missing(self, at: int) -> Counts:
        """Return, by way and other border, the awaited bytes that do not fit next to the last band of border `at`.

        Negative if capacity is left.
        """
        missing: Counts = self._waited_for[at] - (self.ways.problem.memories[0].capacity_bytes - self._taken(at))
        return missing

    @cached_property
    def _later(self) -> Counts:
        """Return, by border, the most input bytes that may arrive after its first band begins.

        Used for borders that read their inputs whole: only the later bands of cut operands may arrive then.
        """
        return np.array([self._parameters_later(operator) for operator in self._own], np.int64)

    def _parameters_later(self, operator: int) -> int:
        one, parts = self.ways.operators[operator], max(self.ways.operators[operator].cycles)
        cut = [tensor for tensor in one.reads if tensor in one.cut]
        return sum(self.ways.tensors[each].size_bytes - self.ways.operand_bytes(operator, each, parts) for each in cut)

    def _taken(self, at: int) -> Counts:
        """Return, by way and other border, the bytes of the last band's operands that are not awaited up to it."""
        operator, parts = self.borders[at].operator, self.parts[at]
        one = self.ways.operators[operator]
        found = np.zeros((self._band_cycles.shape[1], len(self.borders)), np.int64)
        for tensor in (*one.reads, *one.writes):
            taken = np.array([self.ways.operand_bytes(operator, tensor, each) for each in parts], np.int64)
            found[: len(parts)] += taken[:, None] * ~self._is_waited_for(tensor, at)
        return found

    @cached_property
    def _waited_for(self) -> Counts:
        """Return, by pair of borders, bytes of tensors read between them and not written after the first."""
        found: Counts = ((self._after * self._read_once) @ self._up_to.T.astype(np.float64)).astype(np.int64)
        for tensor in _shared(self.ways):
            found += self._is_waited_for(tensor) * self.ways.tensors[tensor].size_bytes
        return found

    @property
    def _read_once(self) -> NDArray[np.float64]:
        """Return, by operator, the bytes of external tensors that only this operator reads."""
        found = np.zeros(len(self.ways.operators))
        for tensor, readers in self.ways.readers.items():
            if _is_from_outside(self.ways, tensor) and len(readers) == 1:
                found[readers[0]] += self.ways.tensors[tensor].size_bytes
        return found

    def _is_waited_for(self, tensor: int, border: int | None = None) -> Marks:
        """Return marks by pair of borders, or with `border` as the first: the tensor is awaited between them."""
        rows = slice(None) if border is None else slice(border, border + 1)
        readers, writer = list(self.ways.readers.get(tensor, ())), self.ways.writer.get(tensor)
        after, up_to = self._after[rows][:, readers], self._up_to[:, readers]
        found: Marks = (after.astype(np.float32) @ up_to.T.astype(np.float32)) > 0
        if writer is not None:
            found &= self._up_to[rows][:, writer][:, None]
        return found


def _is_from_outside(ways: WaysToRun, tensor: int) -> bool:
    return ways.tensors[tensor].role in (Role.INPUT, Role.PARAMETER)


def _shared(ways: WaysToRun) -> list[int]:
    """Return the tensors that are written, or that several operators read."""
    return [
        tensor for tensor, readers in ways.readers.items() if len(readers) > 1 or not _is_from_outside(ways, tensor)
    ]


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
            yield LatencyBound(f"{name}, then loads delayed by the capacity", min(loaded for _, loaded in around))

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
        follows += sum(min(self.ways.operators[each].cycles.values()) for each in border.partly_after)
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


def least_latency_bound(problem: Problem) -> LatencyBound:
    """Return the greatest lower bound on the latency with one or several scratchpads; all operators must fit.

    A tensor that the array cannot read from any memory it can write it to goes through DRAM, if no link leads on. It
    ends as a network output, and returns as an input. The bounds of both graphs hold. Raises UsageError if the duration
    of an operator is unknown.
    """
    if len(problem.memories) == 1:
        return LatencyBounds(WaysToRun(problem)).greatest
    merged = merged_problem(problem)
    graphs = [merged.graph, pooled(IndexedProblem.of(_without_limits_of_size(problem))).indexed.problem.graph]
    bounds = (LatencyBounds(WaysToRun(replace(merged, graph=graph))).greatest for graph in graphs)
    return max(bounds, key=lambda bound: bound.cycles)


def _without_limits_of_size(problem: Problem) -> Problem:
    """Return the problem with larger memories if operators run in bands, as bands fit where whole tensors do not."""
    if all(operator.stated.splits is None for operator in problem.graph.operators):
        return problem
    total_bytes = sum(tensor.size_bytes for tensor in problem.counted_tensors)
    memories = (replace(memory, capacity_bytes=memory.capacity_bytes + total_bytes) for memory in problem.memories)
    return replace(problem, memories=tuple(memories))


def merged_problem(problem: Problem) -> Problem:
    """Return the problem with one scratchpad of the total capacity, without alignment and with the fastest rates."""
    memories = problem.memories
    name = "+".join(memory.name for memory in memories)
    loaded = _that_hold(problem, Operand.INPUT, Operand.WEIGHT)
    stored = _that_hold(problem, Operand.OUTPUT)
    rates = problem.transfers.rates
    merged = {
        (DRAM, name): no_slower(rates[DRAM, one] for one in loaded),
        (name, DRAM): no_slower(rates[one, DRAM] for one in stored),
    }
    room = Memory(name, sum(memory.capacity_bytes for memory in memories))
    return replace(problem, memories=(room,), transfers=Transfers((), merged))


def _that_hold(problem: Problem, *operands: Operand) -> list[str]:
    """Return the scratchpads that hold one of these operands; all if links lead on, or if none holds any."""
    names = [one.name for one in problem.memories]
    holding = [one.name for one in problem.memories if {*one.holds} & {*operands}]
    return names if problem.transfers.links or not holding else holding


def no_slower(rates: Iterable[Rate]) -> Rate:
    """Return a rate that is nowhere above any of these: the least of all, or one of whole cycles per unit begun.

    A transfer of b bits takes whole cycles, and at least b times the cycles per bit at the fastest rate. It therefore
    takes at least one cycle per unit begun, if a unit has at most the bits that the fastest rate transfers in a cycle.
    """
    known = list(dict.fromkeys(rates))
    setup = min(rate.setup for rate in known)
    for rate in known:
        if all(_is_nowhere_above(rate, other) for other in known):
            return replace(rate, setup=setup)
    cycles_of_bit = min(sum(Fraction(cost, unit) for unit, cost in rate.terms) for rate in known)
    return Rate(setup, ((-(-1 // cycles_of_bit), 1),)) if cycles_of_bit else Rate(setup, ((1, 0),))


def _is_nowhere_above(rate: Rate, other: Rate) -> bool:
    """Return True if each term of the rate has a unit no smaller and a cost no higher."""
    return len(rate.terms) == len(other.terms) and all(
        unit >= other_unit and cost <= other_cost
        for (unit, cost), (other_unit, other_cost) in zip(rate.terms, other.terms, strict=True)
    )
