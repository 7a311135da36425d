"""Is there any program that ends sooner? As `least_latency`, in states of whole numbers, for up to six operators.

Programs go load by load, store by store, operator by operator, with every address. Two that have done the same, and
have everything at the same addresses, differ in times alone: where none of the one's is later than the other's, the
other need not go on, as nothing ends sooner for what is free later. Times that nothing can wait for any more count as
none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from onchip.answer.problem import Problem
from onchip.arch.memory import DRAM
from onchip.ir.tensor import Role
from oracles.least_latency import TooManyProgramsError, in_all_bands

ABSENT = -1


class TimedState(NamedTuple):
    """What has run and what DRAM has (bits); of each tensor its offset, and since when it is there, and in DRAM.

    `busy` says of each byte until when it is in use, `queues` when each is free, the next one first.
    """

    has_run: int
    in_dram: int
    offsets: tuple[int, ...]
    written: tuple[int, ...]
    stored: tuple[int, ...]
    busy: tuple[int, ...]
    queues: tuple[int, ...]
    channels: tuple[int, int]
    array_free: int
    latest: int


@dataclass
class TimedStates:
    """All states of a problem in given bands; `left` is how many more may be gone through."""

    problem: Problem
    left: int
    seen: dict[tuple[int, int, tuple[int, ...]], list[tuple[int, ...]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Number tensors and operators."""
        problem, graph, durations = self.problem, self.problem.graph, self.problem.durations
        assert durations is not None
        memory, tensors = problem.memories[0], problem.counted_tensors
        self.setup, self.is_one_channel = durations.setup_cycles, durations.has_one_channel
        self.capacity, self.alignment = memory.capacity_bytes, memory.alignment_bytes
        self.queue_count = durations.queues
        number_of = {one.name: number for number, one in enumerate(tensors)}
        self.sizes = [one.size_bytes for one in tensors]
        self.loads = [problem.transfer_cost(one, DRAM, memory.name) for one in tensors]
        self.stores = [problem.transfer_cost(one, memory.name, DRAM) for one in tensors]
        self.reads = [sorted({number_of[name] for name in one.reads}) for one in graph.operators]
        self.writes = [[number_of[name] for name in one.outputs] for one in graph.operators]
        self.lasting = [durations.of_operator(one) for one in graph.operators]
        self.readers = [sum(1 << at for at, names in enumerate(self.reads) if number in names) for number in self._all]
        self.writer = [next((at for at, names in enumerate(self.writes) if one in names), ABSENT) for one in self._all]
        self.outputs = sum(1 << number for number, one in enumerate(tensors) if one.role is Role.OUTPUT)
        outside = (Role.INPUT, Role.PARAMETER)
        self.from_outside = sum(1 << number for number, one in enumerate(tensors) if one.role in outside)
        self.all_run = (1 << len(self.lasting)) - 1
        self.before = self._ancestors()
        self.after = self._tails()

    @property
    def _all(self) -> range:
        return range(len(self.sizes))

    def begun(self) -> TimedState:
        """Nothing has happened."""
        nothing = (0,) * len(self.sizes)
        nowhere = (ABSENT,) * len(self.sizes)
        queues = (0,) * self.queue_count
        return TimedState(0, self.from_outside, nowhere, nothing, nothing, (0,) * self.capacity, queues, (0, 0), 0, 0)

    def ends_before(self, state: TimedState, cycles: int) -> bool:
        """Whether some program that goes on from there ends before that cycle."""
        if self.floor(state) >= cycles:
            return False
        if state.has_run == self.all_run and self.outputs & ~state.in_dram == 0:
            return True
        if not self._is_new(state):
            return False
        return any(self.ends_before(longer, cycles) for longer in self.longer(state))

    def _is_new(self, state: TimedState) -> bool:
        """Whether no state that was gone through had done the same as early in everything."""
        known = self.seen.setdefault((state.has_run, state.in_dram, state.offsets), [])
        times = self._times(state)
        if any(all(mine <= theirs for mine, theirs in zip(one, times, strict=True)) for one in known):
            return False
        if self.left == 0:
            raise TooManyProgramsError
        self.left -= 1
        known.append(times)
        return True

    def _times(self, state: TimedState) -> tuple[int, ...]:
        """All times that later steps depend on; no copy begins before the next queue and its channel are free."""
        floor = min(state.array_free, max(state.queues[0], min(state.channels) - self.setup))
        waited_for = (*state.written, *state.stored, *state.busy)
        late = tuple(time if time > floor else 0 for time in waited_for)
        return (*late, *state.queues, *state.channels, state.array_free, state.latest)

    def longer(self, state: TimedState) -> Iterator[TimedState]:
        """Yield what follows by an operator, a store or a load; what is overwritten leaves."""
        for at, reads in enumerate(self.reads):
            if not state.has_run >> at & 1 and all(state.offsets[one] != ABSENT for one in reads):
                for placed in self._placed(state, self.writes[at], frozenset(reads)):
                    yield self._computed(placed, at)
        for one in self._all:
            if not self._is_needed(state, one):
                continue
            is_there, has_copy = state.offsets[one] != ABSENT, state.in_dram >> one & 1
            if is_there and not has_copy and state.has_run >> self.writer[one] & 1:
                yield self._copied(state, one, is_load=False)
            elif not is_there and has_copy:
                for placed in self._placed(state, [one], frozenset()):
                    yield self._copied(placed, one, is_load=True)

    def _is_needed(self, state: TimedState, tensor: int) -> bool:
        is_read = self.readers[tensor] & ~state.has_run
        return bool(is_read) or bool(self.outputs & ~state.in_dram & 1 << tensor)

    def _placed(self, state: TimedState, tensors: list[int], staying: frozenset[int]) -> Iterator[TimedState]:
        """Yield each way to place them one after another; what has to stay is not overwritten."""
        if not tensors:
            yield state
            return
        tensor, *others = tensors
        for start in range(0, self.capacity - self.sizes[tensor] + 1, self.alignment):
            leaving = {
                one
                for one, at in enumerate(state.offsets)
                if at != ABSENT and at < start + self.sizes[tensor] and start < at + self.sizes[one]
            }
            is_lost = any(not state.in_dram >> one & 1 and self._is_needed(state, one) for one in leaving)
            if leaving & staying or is_lost:
                continue
            offsets = [ABSENT if one in leaving else at for one, at in enumerate(state.offsets)]
            offsets[tensor] = start
            written = tuple(0 if one in leaving else time for one, time in enumerate(state.written))
            yield from self._placed(state._replace(offsets=tuple(offsets), written=written), others, staying | {tensor})

    def _free_at(self, state: TimedState, tensor: int) -> int:
        start = state.offsets[tensor]
        return max(state.busy[start : start + self.sizes[tensor]])

    def _used(self, state: TimedState, tensors: list[int], end: int) -> tuple[int, ...]:
        busy = list(state.busy)
        for tensor in tensors:
            start = state.offsets[tensor]
            until = max(end, self._free_at(state, tensor))
            busy[start : start + self.sizes[tensor]] = [until] * self.sizes[tensor]
        return tuple(busy)

    def _copied(self, state: TimedState, tensor: int, *, is_load: bool) -> TimedState:
        channel = 0 if is_load or self.is_one_channel else 1
        ready = max(state.stored[tensor], self._free_at(state, tensor)) if is_load else state.written[tensor]
        start = max(ready, state.queues[0], state.channels[channel] - self.setup)
        end = start + (self.loads if is_load else self.stores)[tensor]
        channels = (end, state.channels[1]) if channel == 0 else (state.channels[0], end)
        done = state._replace(
            queues=(*state.queues[1:], end),
            channels=channels,
            latest=max(state.latest, end),
            busy=self._used(state, [tensor], end),
        )
        if is_load:
            return done._replace(written=_with(state.written, tensor, end))
        return done._replace(in_dram=state.in_dram | 1 << tensor, stored=_with(state.stored, tensor, end))

    def _computed(self, state: TimedState, at: int) -> TimedState:
        reads, writes = self.reads[at], self.writes[at]
        ready = [*(state.written[one] for one in reads), *(self._free_at(state, one) for one in writes)]
        end = max(state.array_free, *ready) + self.lasting[at]
        written = state.written
        for one in writes:
            written = _with(written, one, end)
        return state._replace(
            has_run=state.has_run | 1 << at,
            written=written,
            busy=self._used(state, [*reads, *writes], end),
            array_free=end,
            latest=max(state.latest, end),
        )

    def floor(self, state: TimedState) -> int:
        """A cycle before which no program that goes on from there ends.

        Before an operator ends all that it depends on has run, and what they read has come; after it comes what
        depends on it, one after the other, and a store. What DRAM takes it takes in turns.
        """
        missing = [one for one in self._all if self._is_missing(state, one)]
        to_store = [one for one in self._all if self.outputs & ~state.in_dram & 1 << one]
        loading = self._loading(missing)
        storing = sum(self.stores[one] - self.setup for one in to_store)
        loads_begin, stores_begin = (max(free, min(state.queues) + self.setup) for free in state.channels)
        found = state.latest
        if to_store:
            found = max(found, (loads_begin + loading if self.is_one_channel else stores_begin) + storing)
        left = [at for at in range(len(self.lasting)) if not state.has_run >> at & 1]
        if not left:
            return found
        coming = {at: [one for one in missing if self.readers[one] >> at & 1] for at in left}
        last = [self.lasting[at] + self.after[at] for at in left if coming[at]]
        if last:
            found = max(found, loads_begin + loading + min(last))
        ready = {at: loads_begin + self._loading(coming[at]) if coming[at] else 0 for at in left}
        first = min(ready[at] for at in left if self.before[at] & ~state.has_run == 1 << at)
        starts = max(state.array_free, first)
        found = max(found, starts + sum(self.lasting[at] for at in left) + min(self.after[at] for at in left))
        for at in left:
            mine = self.before[at] & ~state.has_run
            running = sum(self.lasting[one] for one in left if mine >> one & 1)
            needed = [one for one in missing if self.readers[one] & mine]
            begins = loads_begin + self._loading(needed) + self.lasting[at] if needed else 0
            found = max(found, max(starts + running, begins) + self.after[at])
        return found

    def _loading(self, tensors: list[int]) -> int:
        """For how long these keep DRAM busy."""
        return sum(self.loads[one] - self.setup for one in tensors)

    def _is_missing(self, state: TimedState, tensor: int) -> bool:
        """Whether it has to come, as somebody reads it and it is not, and will not be, on the chip otherwise."""
        is_written_later = self.writer[tensor] != ABSENT and not state.has_run >> self.writer[tensor] & 1
        is_read = self.readers[tensor] & ~state.has_run
        return bool(is_read) and state.offsets[tensor] == ABSENT and not is_written_later

    def _ancestors(self) -> list[int]:
        """Of each operator all that has to run before it, and itself, as bits; a graph's operators are in order."""
        found: list[int] = []
        for at, reads in enumerate(self.reads):
            mine = 1 << at
            for one in reads:
                mine |= found[self.writer[one]] if self.writer[one] != ABSENT else 0
            found.append(mine)
        return found

    def _tails(self) -> list[int]:
        """Of each operator how long it takes at least after it has ended."""
        found = [0] * len(self.lasting)
        for at in reversed(range(len(self.lasting))):
            for one in self.writes[at]:
                found[at] = max(found[at], self.stores[one] if self.outputs >> one & 1 else 0)
                for reader in range(at + 1, len(self.lasting)):
                    if self.readers[one] >> reader & 1:
                        found[at] = max(found[at], self.lasting[reader] + found[reader])
        return found


def _with(times: tuple[int, ...], at: int, time: int) -> tuple[int, ...]:
    return (*times[:at], time, *times[at + 1 :])


def some_program_ends_before(problem: Problem, cycles: int, most_states: int = 20_000) -> bool:
    """Whether some program ends before that cycle; raises TooManyProgramsError where some bands leave more states."""
    every = (TimedStates(banded, most_states) for banded in in_all_bands(problem))
    return any(one.ends_before(one.begun(), cycles) for one in every)
