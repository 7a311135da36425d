"""The cheapest schedule of a tiny network in given stacks: every order, residency, address and mapping.

The space: every order of the stacks; before each Compute any copies, evictions and loads; every choice of homes that
follows from them; every mapping that the toy lists whose workspaces fit; every aligned address. The objective is summed
over instructions: energy, traffic, their cycles in sequence (`cycles`: not the least latency, as some overlap, but some
schedule takes no longer), or the cycles for which they occupy DRAM (`turns`).

Omitted, because a schedule without it costs no more:

* a load from DRAM other than directly before a Compute that reads the tensor: a tensor in DRAM stays there, so its load
  can wait until it is used, which frees capacity until then;
* a tensor without further readers, which DRAM need not have, is freed at once: it is no operand's home;
* a second copy to DRAM, and an Allocate without a Copy or a Compute that writes there.

An output may take the bytes of an input whose residency ends with the Compute, where the tile graph states such a pair.

The first search omits addresses: the residents and the workspaces together must not exceed a memory's bytes. If a
cheapest solution has addresses, it is the answer; otherwise the search is repeated with addresses. Both searches are
A*. Their lower bound takes each remaining operator at its least cost, with a copy of missing operands (shared between
several readers), and the outputs missing in DRAM.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import product
from math import gcd, inf
from typing import NamedTuple

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.schedule import Homes
from onchip.ir.layer import Layer
from oracles.packing import TooLargeError
from oracles.schedule_costs import Choice, Toy, ToyOperator

NOWHERE = -1
"""The offset of a tensor without an address."""
Place = tuple[int, int, int]
"""A tensor, a memory, an offset."""
Fixed = tuple[tuple[Layer, Homes], LayerMapping]


class State(NamedTuple):
    """The executed operators, the residencies, and the tensors with a copy in DRAM.

    `fixed` are the mappings that later tiles of the stack share, by nest and homes.
    """

    done: frozenset[int]
    resident: frozenset[Place]
    in_dram: frozenset[int]
    fixed: frozenset[Fixed] = frozenset()

    def memories_of(self, tensor: int) -> list[int]:
        return sorted(memory for one, memory, _ in self.resident if one == tensor)


@dataclass(frozen=True)
class Action:
    """An action: `copy` from the first of `ends` to the second (DRAM has the greatest number), `free`, or `compute`."""

    kind: str
    tensor: int = NOWHERE
    ends: tuple[int, int] = (NOWHERE, NOWHERE)
    choice: Choice | None = None
    homes: tuple[str | None, ...] = ()
    dead: frozenset[Place] = frozenset()
    """Residencies that begin and end in the action, as nothing reads them."""
    spaces: tuple[int, ...] | None = None
    """Offsets of workspaces by memory, if they matter."""
    lent: tuple[int, int, int] | None = None
    """An output, the input whose bytes it takes in place, and their memory."""


class Addresses:
    """The addresses of one network, all of whose choices are known."""

    def __init__(self, toy: Toy) -> None:
        self.toy, self.dram = toy, len(toy.memories)
        self.steps = self._steps()
        self.own_offsets = self._own_offsets()

    def of(self, before: State, action: Action, bare: State) -> Iterator[tuple[Action, State]]:
        """Yield `bare` with each possible address of new residencies next to those that exist meanwhile."""
        if action.kind == "free":
            gone = (action.tensor, action.ends[0], self._at(before, action))
            yield action, bare._replace(resident=before.resident - {gone})
            return
        came = [action.tensor] if action.kind == "copy" else []
        if action.kind == "compute":
            came = [one for operand in self.toy.operators[action.tensor].writes for one in operand.tensors]
        targets = dict(zip(came, self._targets(action), strict=True))
        new = [(tensor, memory) for tensor, memory in targets.items() if memory is not None and memory < self.dram]
        there = before.resident
        lender = self.lender(before, action)
        if lender is not None:
            there = there - {lender}
        for offsets in product(*(self._tried(tensor, memory) for tensor, memory in new)):
            placed = [(*one, offset) for one, offset in zip(new, offsets, strict=True)]
            if lender is not None and action.lent is not None and (action.lent[0], *lender[1:]) not in placed:
                continue
            if all(self._is_free(one, [*there, *placed[:at]]) for at, one in enumerate(placed)):
                together = [*there, *placed]
                if action.choice is None or self._workspaces_fit(action.choice, together):
                    stay = {one[:2] for one in bare.resident}
                    after = frozenset(one for one in together if one[:2] in stay)
                    dead = frozenset(placed) - after
                    yield replace(action, dead=dead), bare._replace(resident=after)

    def lender(self, before: State, action: Action) -> Place | None:
        """Return the input whose bytes an output takes; in a memory with room for everything it takes its own."""
        if action.lent is None or (0, action.lent[2], NOWHERE) in self.own_offsets:
            return None
        return next(one for one in before.resident if one[:2] == action.lent[1:])

    def _at(self, state: State, action: Action) -> int:
        return next(at for tensor, memory, at in state.resident if (tensor, memory) == (action.tensor, action.ends[0]))

    def _targets(self, action: Action) -> list[int | None]:
        if action.kind == "copy":
            return [action.ends[1]]
        names = [one.name for one in self.toy.memories]
        written = self.toy.operators[action.tensor].writes
        return [
            None if home is None else names.index(home)
            for home, operand in zip(action.homes[-len(written) :], written, strict=True)
            for _ in operand.tensors
        ]

    def _size(self, tensor: int) -> int:
        return self.toy.tensors[tensor].size_bytes

    def _offsets(self, memory: int, size: int) -> range:
        """Return the offsets in descending order, as the search visits the last one first."""
        return range(0, self.toy.memories[memory].capacity - size + 1, self.steps[memory])[::-1]

    def _steps(self) -> list[int]:
        """Return, by memory, the common divisor of all sizes in it if it is aligned, else the alignment.

        Offsets may be multiples of it: offsets rounded down to its multiples cause no overlaps and no higher ends.
        """
        found = []
        for memory, one in enumerate(self.toy.memories):
            rooms = [choice.room[memory] for choices in self.toy.known.values() for choice in choices]
            common = gcd(*(tensor.size_bytes for tensor in self.toy.tensors), *rooms)
            found.append(common if common and common % one.alignment == 0 else one.alignment)
        return found

    def _own_offsets(self) -> dict[Place, int]:
        """Return a separate address for each tensor, above the workspaces, in memories with capacity for everything."""
        found: dict[Place, int] = {}
        for memory, one in enumerate(self.toy.memories):
            rooms = [choice.room[memory] for choices in self.toy.known.values() for choice in choices]
            end, own = _aligned(max(rooms, default=0), one.alignment), dict[Place, int]()
            for tensor, other in enumerate(self.toy.tensors):
                own[tensor, memory, NOWHERE] = end
                end += _aligned(other.size_bytes, one.alignment)
            found |= own if end <= one.capacity else {}
        return found

    def _tried(self, tensor: int, memory: int) -> Sequence[int]:
        own = self.own_offsets.get((tensor, memory, NOWHERE))
        return self._offsets(memory, self._size(tensor)) if own is None else (own,)

    def _is_free(self, placed: Place, others: list[Place]) -> bool:
        tensor, memory, start = placed
        stop = start + self._size(tensor)
        return not any(
            memory == where and start < other + self._size(name) and other < stop for name, where, other in others
        )

    def _workspaces_fit(self, choice: Choice, resident: list[Place]) -> bool:
        return next(self.workspaces(choice, resident), None) is not None

    def workspaces(self, choice: Choice, resident: Iterable[Place]) -> Iterator[tuple[int, ...]]:
        """Yield all offsets, by memory, of a Compute's workspaces next to the residents (0 for an empty workspace).

        In a memory with a separate address for each tensor, only the offset below all of them is tried.
        """
        found = []
        for memory, size in enumerate(choice.room):
            here = [(at, at + self._size(name)) for name, where, at in resident if where == memory]
            is_roomy = (0, memory, NOWHERE) in self.own_offsets
            tried = (0,) if is_roomy or not size else self._offsets(memory, size)
            fits = [at for at in tried if all(at + size <= begin or end <= at for begin, end in here)]
            found.append(fits if size else [0])
        yield from product(*found)


def _aligned(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment


MOST_STATES = 60_000


@dataclass
class Work:
    """A counter of visited states; raises TooLargeError for more than `most`."""

    most: int = MOST_STATES
    done: int = 0

    def spend(self) -> None:
        self.done += 1
        if self.done > self.most:
            raise TooLargeError


Way = tuple[tuple[Action, State], ...]


@dataclass(frozen=True)
class Least:
    """The least cost, infinite if nothing fits; `actions` lead there, each with the residencies after it."""

    cost: float
    actions: Way = ()


class LeastSchedule:
    """A search of one tiny network for the least `energy`, `traffic` or `cycles`; `work` may be shared with others."""

    def __init__(self, toy: Toy, objective: str, *, may_stay: bool = True, work: Work | None = None) -> None:
        self.toy, self.objective, self.may_stay, self.work = toy, objective, may_stay, work or Work()
        self.dram = len(toy.memories)
        given = frozenset(at for at, one in enumerate(toy.tensors) if one.is_given)
        self.start = State(frozenset(), frozenset(), given)
        self.outputs = {at for at, one in enumerate(toy.tensors) if one.is_output}
        self.readers: dict[int, set[int]] = {}
        for number, operator in enumerate(toy.operators):
            for tensor in (tensor for one in operator.reads for tensor in one.tensors):
                self.readers.setdefault(tensor, set()).add(number)
        self._ready: dict[frozenset[int], tuple[int, ...]] = {}
        self._paid: dict[tuple[int, frozenset[tuple[int, int]]], float] = {}
        self._fronts: dict[tuple[int, tuple[str | None, ...]], list[Choice]] = {}

    def least(self, below: float = inf) -> Least:
        """Return the cheapest schedule, with infinite cost if none costs less than `below`."""
        first = self._searched(below, None)
        placed = self._placed(first.actions)
        return self._searched(below, Addresses(self.toy)) if placed is None else Least(first.cost, placed)

    def _placed(self, way: Way) -> Way | None:
        """Return the same actions with addresses, or None if there are none; tries every address of each action."""
        addresses = Addresses(self.toy)

        def rest(at: int, state: State) -> Way | None:
            self.work.spend()
            if at == len(way):
                return ()
            for taken, after in addresses.of(state, *way[at]):
                found = rest(at + 1, after)
                if found is not None:
                    return ((taken, after), *found)
            return None

        return rest(0, self.start)

    def _searched(self, below: float, addresses: Addresses | None) -> Least:
        """Run A* over states; without `addresses` no tensor has one."""
        best, came = {self.start: 0.0}, dict[State, tuple[State, Action]]()
        queue: list[tuple[float, int, State]] = [(self.to_pay(self.start), 0, self.start)]
        count, done = 0, set[State]()
        while queue and queue[0][0] < below:
            _, _, state = heappop(queue)
            if state in done:
                continue
            done.add(state)
            self.work.spend()
            if self._is_over(state):
                return Least(best[state], tuple(_way(came, state)))
            for action, cost, bare in self.moves(state):
                for taken, after in [(action, bare)] if addresses is None else addresses.of(state, action, bare):
                    reached = best[state] + cost
                    if reached < best.get(after, inf):
                        best[after] = reached
                        came[after] = state, taken
                        count += 1
                        heappush(queue, (reached + self.to_pay(after), -count, after))
        return Least(inf)

    def to_pay(self, state: State) -> float:
        """Return a lower bound on the cost from the state to the end."""
        there = frozenset(one[0] for one in state.resident)
        left = {tensor: len(readers - state.done) for tensor, readers in self.readers.items()}
        written = {t for at in state.done for one in self.toy.operators[at].writes for t in one.tensors}
        found = sum(self._least_copy(one, is_load=False) for one in (self.outputs & written) - state.in_dram)
        for number, operator in enumerate(self.toy.operators):
            if number not in state.done:
                wanted = (t for one in operator.reads for t in one.tensors if self.toy.tensors[t].is_given)
                found += self._operator_pays(number, frozenset((t, left[t]) for t in wanted if t not in there))
        return found

    def _operator_pays(self, number: int, missing: frozenset[tuple[int, int]]) -> float:
        """Return an operator's least cost with its share of the copies of `missing`: (tensor, reader count) pairs."""
        if (number, missing) not in self._paid:
            operator, sharers, least = self.toy.operators[number], dict(missing), inf
            places = [
                [None, *(one.name for one in self.toy.memories if o.kind in one.holds)] for o in operator.operands
            ]
            for homes in product(*places) if self.may_stay else [(None,) * len(places)]:
                at_home = [one for one, home in zip(operator.operands, homes, strict=True) if home is not None]
                copies = sum(
                    self._least_copy(t, is_load=True) / sharers[t]
                    for one in at_home
                    for t in one.tensors
                    if t in sharers
                )
                leaving = {t for one in at_home if one.kind == "output" for t in one.tensors} & self.outputs
                copies += sum(self._least_copy(one, is_load=False) for one in leaving)
                if self._operands_fit(operator, homes):
                    least = min([least, *(self._cost(one) + copies for one in self._front(number, homes)[:1])])
            self._paid[number, missing] = least
        return self._paid[number, missing]

    def _operands_fit(self, operator: ToyOperator, homes: Sequence[str | None]) -> bool:
        is_in_place = bool(self.toy.graph.operator[operator.name].in_place)
        return all(
            sum(
                self.toy.bytes_of(one)
                for one, home in zip(operator.operands, homes, strict=True)
                if home == memory.name and not (is_in_place and one.kind == "output")
            )
            <= memory.capacity
            for memory in self.toy.memories
        )

    def _least_copy(self, tensor: int, *, is_load: bool) -> float:
        ends = [(self.dram, at) if is_load else (at, self.dram) for at in range(self.dram)]
        return min((self._copy_cost(tensor, *one) for one in ends if self.toy.may_hold(min(one), tensor)), default=inf)

    def _is_over(self, state: State) -> bool:
        return len(state.done) == len(self.toy.operators) and self.outputs <= state.in_dram

    def ready(self, done: frozenset[int]) -> tuple[int, ...]:
        """Return the operators that may run next: a stack that has begun runs to its end, in its order."""
        if done not in self._ready:
            written = {t for number in done for one in self.toy.operators[number].writes for t in one.tensors}
            stacks: dict[int, list[int]] = {}
            for number, operator in enumerate(self.toy.operators):
                stacks.setdefault(operator.stack, []).append(number)
            left = [[number for number in own if number not in done] for own in stacks.values()]
            begun = [one for one, own in zip(left, stacks.values(), strict=True) if 0 < len(one) < len(own)]
            self._ready[done] = tuple(
                one[0]
                for one in begun or left
                if one
                and all(
                    tensor in written or self.toy.tensors[tensor].is_given
                    for operand in self.toy.operators[one[0]].reads
                    for tensor in operand.tensors
                )
            )
        return self._ready[done]

    # Possible next actions, without addresses

    def moves(self, state: State) -> Iterator[tuple[Action, float, State]]:
        """Yield each action with its cost and the next state; tensors that it makes resident have no address."""
        soon = self._may_be_loaded(state)
        where: dict[int, list[int]] = {}
        for tensor, memory, _ in sorted(state.resident):
            where.setdefault(tensor, []).append(memory)
        for tensor in range(len(self.toy.tensors)):
            held = where.get(tensor, [])
            if not (held or tensor in soon) or not self.is_alive(tensor, state):
                continue
            if self.may_stay:
                sources = [*held, *([self.dram] if tensor in state.in_dram and tensor in soon else [])]
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
                    yield Action("free", tensor, (memory, memory)), 0, state._replace(resident=fewer)
        for number in self.ready(state.done):
            yield from self._computes(number, state)

    def _may_be_loaded(self, state: State) -> set[int]:
        return {t for at in self.ready(state.done) for one in self.toy.operators[at].reads for t in one.tensors}

    def is_alive(self, tensor: int, state: State) -> bool:
        """Return True if an operator still reads it, or if it is an output missing in DRAM."""
        is_to_leave = tensor in self.outputs and tensor not in state.in_dram
        return is_to_leave or not self.readers.get(tensor, set()) <= state.done

    def _copied(self, state: State, tensor: int, source: int, target: int) -> Iterator[tuple[Action, float, State]]:
        action, cost = Action("copy", tensor, (source, target)), self._copy_cost(tensor, source, target)
        if target == self.dram:
            yield action, cost, self._tidy(state._replace(in_dram=state.in_dram | {tensor}))
            return
        after = state._replace(resident=state.resident | {(tensor, target, NOWHERE)})
        if self._has_room(after.resident, (0,) * self.dram):
            yield action, cost, after

    def _copy_cost(self, tensor: int, source: int, target: int) -> int:
        if self.objective == "traffic":
            return self.toy.tensors[tensor].size_bytes if self.dram in (source, target) else 0
        if self.objective == "turns":
            bits = self.toy.tensors[tensor].size_bytes * 8
            return self.toy.cycles(self.dram, bits, reads=source == self.dram) if self.dram in (source, target) else 0
        price = self.toy.copy_fj if self.objective == "energy" else self.toy.copy_cycles
        return price(tensor, source, target)

    def _computes(self, number: int, state: State) -> Iterator[tuple[Action, float, State]]:
        operator = self.toy.operators[number]
        homes: list[str | None] = []
        for one in operator.reads:
            held = set.intersection(*(set(state.memories_of(tensor)) for tensor in one.tensors))
            home = next((at for at in sorted(held) if one.kind in self.toy.memories[at].holds), None)
            if home is None and not set(one.tensors) <= state.in_dram:
                return
            homes.append(None if home is None else self.toy.memories[home].name)
        holding = [at for at, one in enumerate(self.toy.memories) if "output" in one.holds] if self.may_stay else []
        done = state.done | {number}
        for places in product([None, *holding], repeat=len(operator.writes)):
            written = [(t, at) for one, at in zip(operator.writes, places, strict=True) for t in one.tensors]
            came = {(tensor, at, NOWHERE) for tensor, at in written if at is not None}
            in_dram = state.in_dram | {tensor for tensor, at in written if at is None}
            own = (*homes, *(None if at is None else self.toy.memories[at].name for at in places))
            for lent in (None, *self._lent(number, state, written)):
                gone = () if lent is None else (one for one in state.resident if one[:2] == lent[1:])
                resident = state.resident.difference(gone) | came
                fits = self._has_room(resident, (0,) * self.dram)
                for choice in self._front(number, own) if fits else ():
                    if self._has_room(resident, choice.room) and self._is_same_again(choice, state):
                        cost = self._cost(choice)
                        action = Action("compute", number, (NOWHERE, NOWHERE), choice, own, lent=lent)
                        fixed = self._fixed(number, choice, state)
                        yield action, cost, self._tidy(State(done, resident, in_dram, fixed))

    def _lent(
        self, number: int, state: State, written: Sequence[tuple[int, int | None]]
    ) -> Iterator[tuple[int, int, int]]:
        """Yield the outputs that may take the bytes of an input which is dead behind the Compute, or is in DRAM."""
        numbers, where = {one.name: at for at, one in enumerate(self.toy.tensors)}, dict(written)
        after = state._replace(done=state.done | {number})
        for pair in self.toy.graph.operator[self.toy.operators[number].name].in_place:
            read, made = numbers[pair.input], numbers[pair.output]
            memory, held = where[made], state.memories_of(read)
            is_kept = read in state.in_dram or len(held) > 1
            if memory is not None and memory in held and (is_kept or not self.is_alive(read, after)):
                yield made, read, memory

    # A stack has one mapping for each nest at its homes

    def _is_same_again(self, choice: Choice, state: State) -> bool:
        fixed = dict(state.fixed)
        return all(fixed.get((layer, homes), mapping) == mapping for layer, homes, mapping in choice.mappings)

    def _fixed(self, number: int, choice: Choice, state: State) -> frozenset[Fixed]:
        """Return the mappings that nests of later tiles of the stack share."""
        stack = self.toy.operators[number].stack
        done = state.done | {number}
        left = [one for at, one in enumerate(self.toy.operators) if one.stack == stack and at not in done]
        if not left:
            return frozenset()
        own = {((layer, homes), mapping) for layer, homes, mapping in choice.mappings}
        return frozenset(one for one in state.fixed | own if any(one[0][0] in other.nests for other in left))

    def _front(self, number: int, homes: tuple[str | None, ...]) -> list[Choice]:
        """Return the choices that no other dominates in cost and capacity."""
        if (number, homes) in self._fronts:
            return self._fronts[number, homes]
        kept = self._fronts[number, homes] = list[Choice]()
        for one in sorted(self.toy.choices(number, homes), key=lambda one: (self._cost(one), one.room)):
            if not any(all(a <= b for a, b in zip(other.room, one.room, strict=True)) for other in kept):
                kept.append(one)
        return kept

    def _cost(self, choice: Choice) -> int:
        if self.objective == "turns":
            return sum(
                self.toy.cycles(self.dram, bits, reads=reads)
                for bits, reads in ((choice.read_bits, True), (choice.written_bits, False))
            )
        return {"energy": choice.energy_fj, "traffic": choice.traffic_bytes, "cycles": choice.cycles}[self.objective]

    def _tidy(self, state: State) -> State:
        return state._replace(resident=frozenset(one for one in state.resident if self.is_alive(one[0], state)))

    def _has_room(self, resident: Iterable[tuple[int, int, int]], workspaces: tuple[int, ...]) -> bool:
        taken = list(workspaces)
        for tensor, memory, _ in resident:
            taken[memory] += self.toy.tensors[tensor].size_bytes
        return all(size <= one.capacity for size, one in zip(taken, self.toy.memories, strict=True))


def _way(came: dict[State, tuple[State, Action]], state: State) -> list[tuple[Action, State]]:
    found: list[tuple[Action, State]] = []
    while state in came:
        before, action = came[state]
        found.append((action, state))
        state = before
    return found[::-1]
