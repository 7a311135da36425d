"""The least cost of any program for scratchpads: Dijkstra's search over sequences of instructions.

A state is that of the machine: the operators that have run, the residencies, and the tensors with a copy in DRAM. These
restrictions shorten the search at no cost: an allocation directly precedes the instruction that fills it; dead tensors
are freed at once; any other tensor is freed only when its bytes are needed (except under static placement, which counts
residencies), and never if it would be lost; certain future transfers (a load of a needed tensor that is not on chip,
the write of an output) count at their cheapest from the start.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import NamedTuple

from oracles.machine import Machine, Net

MOST_STATES = 5_000
Lies = tuple[int, int, int, int]  # tensor, scratchpad, offset, operators run in the residency (static only)
Past = tuple[tuple[int, int], ...]  # per tensor: residencies begun, operators in the longest (static only)


class TooManyStatesError(Exception):
    """The case is too large for the oracle."""


class State(NamedTuple):
    ran: int
    lying: frozenset[Lies]
    in_dram: int
    past: Past = ()
    arenas: tuple[int, ...] = ()


class Programs:
    """The programs for a net on a machine; `order` is the operators' numbers in order, or None for any order."""

    def __init__(
        self,
        net: Net,
        machine: Machine,
        order: tuple[int, ...] | None = None,
        *,
        is_static: bool = False,
        is_peak: bool = False,
        most_states: int = MOST_STATES,
    ) -> None:
        self._net, self._machine, self._order = net, machine, order
        self._is_static, self._is_peak, self._most_states = is_static, is_peak, most_states
        self._tensors = range(len(net.sizes))
        self._pads = range(len(machine.pads))
        self._readers = [net.readers(t) for t in self._tensors]
        self._writer = [sum(1 << i for i, step in enumerate(net.steps) if t in step.writes) for t in self._tensors]
        self._is_output = [role == "output" for role in net.roles]
        self._load = [min(machine.prices[t, -1, pad] for pad in self._pads) for t in self._tensors]
        self._store = [min(machine.prices[t, pad, -1] for pad in self._pads) for t in self._tensors]

    def least(self, below: int | None = None) -> int | None:
        """Return the least cost beyond the compulsory one (peak: the least sum of arenas); None if not below `below`.

        Raises TooManyStatesError.
        """
        in_dram = sum(1 << t for t in self._tensors if self._net.comes_from_outside(t))
        past = tuple((0, 0) for _ in self._tensors) if self._is_static else ()
        start = self._tidied(State(0, frozenset(), in_dram, past, tuple(0 for _ in self._pads) * self._is_peak))
        compulsory = 0 if self._is_peak else self._to_come(start)
        best, heap, pushed = {start: 0}, [(0, 0, start)], 0
        seen: set[State] = set()
        while heap:
            estimate, _, state = heapq.heappop(heap)
            if state in seen:
                continue
            if self._is_over(state):
                return estimate
            seen.add(state)
            if len(seen) > self._most_states:
                raise TooManyStatesError
            for more, child in self._after(state):
                cost = best[state] + more
                if cost < best.get(child, 1 << 60) and not self._breaks_static(child):
                    total = cost + self._to_come(child) - compulsory
                    if below is None or total < below:
                        best[child] = cost
                        pushed += 1
                        heapq.heappush(heap, (total, pushed, child))
        return None

    def _is_over(self, state: State) -> bool:
        """Return True if every operator has run and DRAM has every output."""
        outputs = (t for t in self._tensors if self._is_output[t])
        return state.ran == (1 << len(self._net.steps)) - 1 and all(state.in_dram >> t & 1 for t in outputs)

    # Certain future costs, and the end

    def _is_needed(self, tensor: int, ran: int) -> bool:
        return bool(self._readers[tensor] & ~ran)

    def _to_come(self, state: State) -> int:
        if self._is_peak:
            return 0
        here = {tensor for tensor, *_ in state.lying}
        total = 0
        for t in self._tensors:
            if self._net.roles[t] == "output" and not state.in_dram >> t & 1:
                total += self._store[t]
            if state.in_dram >> t & 1 and t not in here and self._is_needed(t, state.ran):
                total += self._load[t]
        return total

    def _tidied(self, state: State) -> State:
        """Free tensors without further readers, and drop their copies in DRAM."""
        in_dram, over = state.in_dram, 0
        for t in self._tensors:
            if not self._readers[t] & ~state.ran and self._is_written(t, state):
                over |= 1 << t
                in_dram = in_dram | 1 << t if self._is_output[t] else in_dram & ~(1 << t)
        lying = frozenset(one for one in state.lying if not over >> one[0] & 1)
        return State(state.ran, lying, in_dram, state.past, state.arenas)

    def _is_written(self, tensor: int, state: State) -> bool:
        """Return True if the tensor exists and is not an output missing in DRAM (for the peak, that write is free)."""
        if self._writer[tensor] & ~state.ran:
            return False
        return not self._is_output[tensor] or self._is_peak or bool(state.in_dram >> tensor & 1)

    def _breaks_static(self, state: State) -> bool:
        return any(begun > 1 and longest > 1 for begun, longest in state.past)

    # Instructions

    def _after(self, state: State) -> Iterator[tuple[int, State]]:
        yield from self._computed(state)
        yield from self._loaded(state)
        if not self._is_peak:
            yield from self._moved(state)
        if self._is_static and not self._is_peak:
            for one in state.lying:
                if not self._is_lost(state, state.lying - {one}, one[0]):
                    yield 0, State(state.ran, state.lying - {one}, state.in_dram, state.past, state.arenas)

    def _is_lost(self, state: State, lying: frozenset[Lies], tensor: int) -> bool:
        """Return True if a tensor that the network still needs would be in no memory."""
        return not state.in_dram >> tensor & 1 and all(one[0] != tensor for one in lying)

    def _loaded(self, state: State) -> Iterator[tuple[int, State]]:
        for t in self._tensors:
            is_here = any(one[0] == t for one in state.lying)
            if state.in_dram >> t & 1 and self._is_needed(t, state.ran):
                if self._is_peak and (is_here or not self._net.comes_from_outside(t)):
                    continue
                for pad in self._pads:
                    price = 0 if self._is_peak else self._machine.prices[t, -1, pad]
                    yield from ((price + grown, child) for grown, child in self._placed(state, t, pad, 0))

    def _moved(self, state: State) -> Iterator[tuple[int, State]]:
        for t, source, _, _ in state.lying:
            if not state.in_dram >> t & 1:
                child = State(state.ran, state.lying, state.in_dram | 1 << t, state.past, state.arenas)
                yield self._machine.prices[t, source, -1], self._tidied(child)
            for pad in self._pads:
                if (t, source, pad) in self._machine.prices:
                    price = self._machine.prices[t, source, pad]
                    for grown, child in self._placed(state, t, pad, 0):
                        if any(one[:2] == (t, source) for one in child.lying):
                            yield price + grown, child

    def _computed(self, state: State) -> Iterator[tuple[int, State]]:
        for number, step in enumerate(self._net.steps):
            if state.ran >> number & 1 or not self._is_next(number, state.ran):
                continue
            if not all(self._is_served(state, t) for t in step.reads):
                continue
            children = [(0, state)]
            for t in step.writes:
                pads = [pad for pad in self._pads if "output" in self._machine.pads[pad].holds]
                children = [
                    (grown + more, later)
                    for grown, child in children
                    for pad in pads
                    for more, later in self._placed(child, t, pad, 0)
                ]
            for grown, child in children:
                if all(self._is_served(child, t) for t in step.reads) and self._lie_once(child, step.writes):
                    yield grown, self._tidied(self._aged(child, number))

    def _lie_once(self, state: State, tensors: tuple[int, ...]) -> bool:
        return all(sum(one[0] == t for one in state.lying) == 1 for t in tensors)

    def _is_next(self, number: int, ran: int) -> bool:
        if self._order is not None:
            return self._order[ran.bit_count()] == number
        return self._net.may_run(number, ran)

    def _is_served(self, state: State, tensor: int) -> bool:
        operand = self._net.operand(tensor)
        return any(one[0] == tensor and operand in self._machine.pads[one[1]].holds for one in state.lying)

    def _aged(self, state: State, number: int) -> State:
        """Return the state after the operator has run, with one more operator counted for each residency."""
        ran = state.ran | 1 << number
        if not self._is_static:
            return State(ran, state.lying, state.in_dram, state.past, state.arenas)
        lying = frozenset((t, pad, offset, min(2, age + 1)) for t, pad, offset, age in state.lying)
        past = list(state.past)
        for t, _, _, age in lying:
            past[t] = (past[t][0], max(past[t][1], age))
        return State(ran, lying, state.in_dram, tuple(past), state.arenas)

    def _placed(self, state: State, tensor: int, pad: int, age: int) -> Iterator[tuple[int, State]]:
        """Yield the tensor at every offset of a scratchpad, replacing overlapped tensors, with the arena's growth."""
        one, size = self._machine.pads[pad], self._net.sizes[tensor]
        past = state.past
        if self._is_static:
            past = tuple((min(2, n + 1), most) if t == tensor else (n, most) for t, (n, most) in enumerate(past))
        for offset in range(0, one.capacity - size + 1, one.alignment):
            in_the_way = [
                other
                for other in state.lying
                if other[1] == pad
                and (other[0] == tensor or (other[2] < offset + size and offset < other[2] + self._net.sizes[other[0]]))
            ]
            if in_the_way and (self._is_static or self._is_peak):
                continue
            kept = state.lying.difference(in_the_way) if in_the_way else state.lying
            lying, arenas, grown = kept | {(tensor, pad, offset, age)}, state.arenas, 0
            if in_the_way and any(self._is_lost(state, lying, t) for t, *_ in in_the_way):
                continue
            if self._is_peak:
                grown = max(0, offset + size - arenas[pad])
                arenas = (*arenas[:pad], arenas[pad] + grown, *arenas[pad + 1 :])
            yield grown, State(state.ran, lying, state.in_dram, past, arenas)
