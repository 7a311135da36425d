"""The cheapest schedule of a tiny network whose operators run alone and whole: every residency, address and mapping.

The space: the given order; stacks of one operator without tiles; before each Compute any copies, evictions and loads;
every choice of homes that follows from them; every mapping of `oracles.mapspace` whose workspaces have room; every
aligned address. What is least is added up over instructions: energy, traffic, or the cycles that they take one after
another (`latency`: no least, as some run beside others; but a schedule that takes no longer).

Left out, because a schedule without it costs no more:

* a load from DRAM but right before a Compute that reads the tensor: what lies in DRAM stays there, so a load can wait
  until its place is used, and frees room until then;
* what nobody reads any more and DRAM need not have is freed at once: it is no operand's home;
* a second copy to DRAM, and an Allocate without a Copy or a Compute that writes there.

First addresses are left out: the least cost from each state of residencies to the end is found exactly, where all
that is resident and the workspaces have no more bytes than a memory. That guides (A*) the search with addresses.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import product
from math import inf

from oracles.packing import TooLargeError
from oracles.schedule_addresses import NOWHERE, Action, Addresses, State
from oracles.schedule_costs import Choice, Toy

MOST_STATES = 40_000
MOST_STATES_WITH_ADDRESSES = 60_000


@dataclass(frozen=True)
class Least:
    """The least cost; infinite where nothing fits. `actions` lead there, each with the residencies after it."""

    cost: float
    actions: tuple[tuple[Action, State], ...] = ()


class LeastSchedule:
    """Searches one tiny network for `energy`, `traffic` or `latency`; raises TooLargeError if that takes minutes."""

    def __init__(self, toy: Toy, objective: str, *, may_stay: bool = True) -> None:
        self.toy, self.objective, self.may_stay = toy, objective, may_stay
        self.dram = len(toy.memories)
        given = frozenset(at for at, one in enumerate(toy.tensors) if one.is_given)
        self.start = State(0, frozenset(), given)
        self.outputs = {at for at, one in enumerate(toy.tensors) if one.is_output}
        self.reads = [{one.tensor for one in operator.reads} for operator in toy.operators]
        self.last_read = {tensor: step for step, read in enumerate(self.reads) for tensor in read}

    def least(self) -> Least:
        to_the_end = self._to_the_end()
        addresses = Addresses(self.toy)
        if self.start not in to_the_end:
            return Least(inf)
        best = {self.start: 0.0}
        came: dict[State, tuple[State, Action]] = {}
        queue: list[tuple[float, float, int, State]] = [(to_the_end[self.start], inf, 0, self.start)]
        count = 0
        done: set[State] = set()
        while queue:
            _, _, _, state = heappop(queue)
            if state in done:
                continue
            done.add(state)
            if len(done) > MOST_STATES_WITH_ADDRESSES:
                raise TooLargeError
            if self._is_over(state):
                return Least(best[state], tuple(_way(came, state)))
            for action, cost, bare in self.moves(state):
                for taken, after in addresses.of(state, action, bare):
                    left = to_the_end.get(_without_addresses(after), inf)
                    reached = best[state] + cost
                    if left < inf and reached < best.get(after, inf):
                        best[after] = reached
                        came[after] = state, taken
                        count += 1
                        heappush(queue, (reached + left, left, -count, after))
        return Least(inf)

    def least_without_addresses(self) -> float:
        """No schedule of the space costs less."""
        return self._to_the_end().get(self.start, inf)

    def _to_the_end(self) -> dict[State, float]:
        """Of each state without addresses that can be reached, and from which the end can."""
        before: dict[State, list[tuple[State, float]]] = {self.start: []}
        open_states, ends = [self.start], []
        while open_states:
            state = open_states.pop()
            if self._is_over(state):
                ends.append(state)
                continue
            for _, cost, after in self.moves(state):
                if after not in before:
                    before[after] = []
                    open_states.append(after)
                    if len(before) > MOST_STATES:
                        raise TooLargeError
                before[after].append((state, cost))
        found = dict.fromkeys(ends, 0.0)
        queue = [(0.0, at, state) for at, state in enumerate(ends)]
        count = len(queue)
        done: set[State] = set()
        while queue:
            reached, _, state = heappop(queue)
            if state in done:
                continue
            done.add(state)
            for other, cost in before[state]:
                if reached + cost < found.get(other, inf):
                    found[other] = reached + cost
                    count += 1
                    heappush(queue, (reached + cost, count, other))
        return found

    def _is_over(self, state: State) -> bool:
        return state.step == len(self.toy.operators) and self.outputs <= state.in_dram

    # What may come next, addresses apart

    def moves(self, state: State) -> Iterator[tuple[Action, float, State]]:
        """Each with its cost and the state after it; what it makes resident has no address."""
        for tensor in range(len(self.toy.tensors)):
            held = state.memories_of(tensor)
            if not self._is_alive(tensor, state):
                continue
            if self.may_stay:
                sources = [*held, *([self.dram] if self._may_load(tensor, state) else [])]
                for target in range(self.dram):
                    if target not in held and self.toy.may_hold(target, tensor):
                        for source in sources:
                            yield from self._copied(state, tensor, source, target)
            if tensor not in state.in_dram:
                for source in held:
                    yield from self._copied(state, tensor, source, self.dram)
            if len(held) > 1 or tensor in state.in_dram:
                for memory in held:
                    fewer = frozenset(one for one in state.resident if one[:2] != (tensor, memory))
                    yield Action("free", tensor, (memory, memory)), 0, State(state.step, fewer, state.in_dram)
        if state.step < len(self.toy.operators):
            yield from self._computes(state)

    def _is_alive(self, tensor: int, state: State) -> bool:
        is_to_leave = tensor in self.outputs and tensor not in state.in_dram
        return self.last_read.get(tensor, -1) >= state.step or is_to_leave

    def _may_load(self, tensor: int, state: State) -> bool:
        return tensor in state.in_dram and state.step < len(self.reads) and tensor in self.reads[state.step]

    def _copied(self, state: State, tensor: int, source: int, target: int) -> Iterator[tuple[Action, float, State]]:
        action, is_outside = Action("copy", tensor, (source, target)), self.dram in (source, target)
        cost = self.toy.tensors[tensor].size_bytes if is_outside else 0
        if self.objective != "traffic":
            price = self.toy.copy_fj if self.objective == "energy" else self.toy.copy_cycles
            cost = price(tensor, source, target)
        if target == self.dram:
            yield action, cost, self._tidy(State(state.step, state.resident, state.in_dram | {tensor}))
            return
        after = State(state.step, state.resident | {(tensor, target, NOWHERE)}, state.in_dram)
        if self._has_room(after, (0,) * self.dram):
            yield action, cost, after

    def _computes(self, state: State) -> Iterator[tuple[Action, float, State]]:
        operator = self.toy.operators[state.step]
        homes: list[str | None] = []
        for one in operator.reads:
            held = state.memories_of(one.tensor)
            home = next((at for at in held if one.kind in self.toy.memories[at].holds), None)
            if home is None and one.tensor not in state.in_dram:
                return
            homes.append(None if home is None else self.toy.memories[home].name)
        holding = [at for at, one in enumerate(self.toy.memories) if "output" in one.holds] if self.may_stay else []
        for places in product([None, *holding], repeat=len(operator.writes)):
            written = list(zip((one.tensor for one in operator.writes), places, strict=True))
            resident = state.resident | {(tensor, at, NOWHERE) for tensor, at in written if at is not None}
            in_dram = state.in_dram | {tensor for tensor, at in written if at is None}
            during = State(state.step, resident, in_dram)
            own = (*homes, *(None if at is None else self.toy.memories[at].name for at in places))
            for choice in self._front(state.step, own):
                if self._has_room(during, choice.room):
                    cost = self._cost(choice)
                    action = Action("compute", state.step, (NOWHERE, NOWHERE), choice, own)
                    yield action, cost, self._tidy(State(state.step + 1, resident, in_dram))

    def _front(self, step: int, homes: tuple[str | None, ...]) -> list[Choice]:
        """What costs more and needs no less room than another serves nothing."""
        kept: list[Choice] = []
        for one in sorted(self.toy.choices(step, homes), key=lambda one: (self._cost(one), one.room)):
            if not any(all(a <= b for a, b in zip(other.room, one.room, strict=True)) for other in kept):
                kept.append(one)
        return kept

    def _cost(self, choice: Choice) -> int:
        return {"energy": choice.energy_fj, "traffic": choice.traffic_bytes, "latency": choice.cycles}[self.objective]

    def _tidy(self, state: State) -> State:
        alive = frozenset(one for one in state.resident if self._is_alive(one[0], state))
        return State(state.step, alive, state.in_dram)

    def _has_room(self, state: State, workspaces: tuple[int, ...]) -> bool:
        taken = list(workspaces)
        for tensor, memory, _ in state.resident:
            taken[memory] += self.toy.tensors[tensor].size_bytes
        return all(size <= one.capacity for size, one in zip(taken, self.toy.memories, strict=True))


def _without_addresses(state: State) -> State:
    return State(state.step, frozenset((a, b, NOWHERE) for a, b, _ in state.resident), state.in_dram)


def _way(came: dict[State, tuple[State, Action]], state: State) -> list[tuple[Action, State]]:
    found: list[tuple[Action, State]] = []
    while state in came:
        before, action = came[state]
        found.append((action, state))
        state = before
    return found[::-1]
