"""The fastest schedule of a tiny network in given stacks, or the one of least energy x latency, by the timeline.

In addition to the actions of `LeastSchedule`, a load may come at any earlier time (a prefetch), and workspaces are
tried at every offset. A label is a state with addresses and all times on which later times depend: nothing begins
earlier because one of them is later (docs/schedule.md, section 7). A label is therefore dropped if another of its state
has no later time (and, for the product, no more energy). The search is A*, with the fewest cycles of the remaining
operators, and of their use of DRAM, as lower bounds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from heapq import heappop, heappush
from itertools import count
from math import gcd, inf
from typing import NamedTuple

from oracles.schedule import NOWHERE, Action, Addresses, Least, LeastSchedule, Place, State, Way, Work
from oracles.schedule_costs import Choice, Toy


class Clock(NamedTuple):
    """The cycles in which the array, DRAM and each queue are free (`turn` is the next queue), and the times of places.

    `written` and `used` are of residents, `in_dram` of tensors there, `freed` of each range of bytes of each memory.
    """

    array: int
    dram: int
    queues: tuple[int, ...]
    turn: int
    written: dict[Place, int]
    used: dict[Place, int]
    in_dram: dict[int, int]
    freed: tuple[tuple[int, ...], ...]

    @property
    def end(self) -> int:
        """Return the cycle in which everything begun has ended."""
        return max(self.array, self.dram, *self.queues)

    def moments(self) -> tuple[int, ...]:
        """Return the times in a fixed order per state; times before anything can begin count as that start.

        Without addresses nothing waits for the last use of a place.
        """
        start = min(self.array, *self.queues)
        kept = (self.written, self.used) if self.freed else (self.written,)
        places = [moment for by in kept for _, moment in sorted(by.items())]
        others = [moment for _, moment in sorted(self.in_dram.items())]
        rest = (max(one, start) for one in (self.dram, *places, *others, *(one for own in self.freed for one in own)))
        return (self.array, *self.queues, *rest)


class FastestSchedule(LeastSchedule):
    """A search of one tiny network for the least `latency`, or with `edp` for the least energy times latency."""

    def __init__(self, toy: Toy, objective: str, *, work: Work | None = None) -> None:
        super().__init__(toy, "energy", work=work)
        self.is_product = objective == "edp"
        self.turns = LeastSchedule(toy, "turns")
        dma = toy.accelerator.dma
        self.queues = dma.queues if dma else 1
        self.units: list[int] = []
        self._fewest: dict[int, float] = {}

    def least(self, below: float = inf) -> Least:
        """Return the schedule of the least value, with infinite value if none is below `below`.

        Without addresses nothing waits for a place. If the best such solution has addresses with which it takes no
        longer, it is the answer; otherwise the search is repeated with addresses.
        """
        for number in range(len(self.toy.operators)):
            self._operator_pays(number, frozenset())  # enters all choices in `toy.known`
        first = self._searched(below, None)
        if not first.actions:
            return first
        addresses = Addresses(self.toy)
        sizes = [one.size_bytes for one in self.toy.tensors]
        choices = [one for found in self.toy.known.values() for one in found]
        self.units = [gcd(step, *sizes, *(one.room[at] for one in choices)) for at, step in enumerate(addresses.steps)]
        placed = self._placed_in_time(first, addresses)
        return self._searched(below, addresses) if placed is None else Least(first.cost, placed)

    def _begin(self, addresses: Addresses | None) -> Clock:
        sizes = [] if addresses is None else zip(self.toy.memories, self.units, strict=True)
        freed = tuple((0,) * -(-one.capacity // unit) for one, unit in sizes)
        return Clock(0, 0, (0,) * self.queues, 0, {}, {}, dict.fromkeys(self.start.in_dram, 0), freed)

    def _placed_in_time(self, first: Least, addresses: Addresses) -> Way | None:
        """Return the same actions with addresses at no greater value, or None if there are none."""

        def rest(at: int, state: State, clock: Clock, energy: float) -> Way | None:
            self.work.spend()
            if at == len(first.actions):
                return ()
            action, bare = first.actions[at]
            for taken, after, timed in self._steps(addresses, clock, state, action, bare):
                paid = energy + self._energy(action)
                if self._value(after, timed, paid) <= first.cost:
                    found = rest(at + 1, after, timed, paid)
                    if found is not None:
                        return ((taken, after), *found)
            return None

        return rest(0, self.start, self._begin(addresses), 0)

    def _searched(self, below: float, addresses: Addresses | None) -> Least:
        tie, kept = count(), dict[tuple[State, int], list[tuple[int, ...]]]()
        came: list[tuple[int, Action, State]] = []
        clock = self._begin(addresses)
        queue = [(self._value(self.start, clock, 0), 0, next(tie), self.start, clock, 0.0, -1)]
        while queue and queue[0][0] < below:
            value, _, _, state, clock, energy, way = heappop(queue)
            label = self._label(clock, energy)
            if any(other != label and _no_later(other, label) for other in kept.get((state, clock.turn), ())):
                continue
            if self._is_over(state):
                return Least(value, _way_to(came, way))
            for action, cost, bare in self.moves(state):
                for taken, after, timed in self._steps(addresses, clock, state, action, bare):
                    paid = self._value(after, timed, energy + cost)
                    if paid >= below:
                        continue
                    label, known = self._label(timed, energy + cost), kept.setdefault((after, timed.turn), [])
                    if not any(_no_later(other, label) for other in known):
                        known[:] = [other for other in known if not _no_later(label, other)]
                        known.append(label)
                        self.work.spend()
                        came.append((way, taken, after))
                        left = -len(after.done)
                        heappush(queue, (paid, left, next(tie), after, timed, energy + cost, len(came) - 1))
        return Least(inf)

    def _energy(self, action: Action) -> float:
        if action.choice is not None:
            return action.choice.energy_fj
        return self._copy_cost(action.tensor, *action.ends) if action.kind == "copy" else 0

    def _label(self, clock: Clock, energy: float) -> tuple[int, ...]:
        return (*clock.moments(), int(energy)) if self.is_product else clock.moments()

    def _value(self, state: State, clock: Clock, energy: float) -> float:
        """Return a lower bound on the value of every schedule from here."""
        left = sum(self._fewest_cycles(at) for at in range(len(self.toy.operators)) if at not in state.done)
        latency = max(clock.array + left, clock.dram + self.turns.to_pay(state), clock.end)
        return latency * (energy + self.to_pay(state)) if self.is_product else latency

    def _fewest_cycles(self, number: int) -> float:
        if number not in self._fewest:
            choices = [one for (at, _), found in self.toy.known.items() if at == number for one in found]
            self._fewest[number] = min((one.cycles for one in choices), default=inf)
        return self._fewest[number]

    def _may_be_loaded(self, state: State) -> set[int]:
        return set(state.in_dram)

    def _front(self, number: int, homes: tuple[str | None, ...]) -> list[Choice]:
        """Return the choices not dominated in the figures that count, in ascending order of energy."""
        if (number, homes) not in self._fronts:
            kept = self._fronts[number, homes] = list[Choice]()
            figures = {id(one): self._figures(one) for one in self.toy.choices(number, homes)}
            for one in sorted(self.toy.choices(number, homes), key=lambda one: (one.energy_fj, figures[id(one)])):
                if not any(_no_later(figures[id(other)], figures[id(one)]) for other in kept):
                    kept.append(one)
        return self._fronts[number, homes]

    def _figures(self, one: Choice) -> tuple[int, ...]:
        own = (one.cycles, one.read_bits, one.written_bits, *one.room)
        return (*own, one.energy_fj) if self.is_product else own

    # Time

    def _steps(
        self, addresses: Addresses | None, clock: Clock, state: State, action: Action, bare: State
    ) -> Iterator[tuple[Action, State, Clock]]:
        """Yield an action with every choice of addresses, or without any, the next state and its times."""
        for taken, after in [(action, bare)] if addresses is None else addresses.of(state, action, bare):
            if taken.choice is None:
                moved = self._copied_at(clock, state, taken, after) if taken.kind == "copy" else clock
                yield taken, after, self._settled(moved, state, after, [])
                continue
            came = {t for one in self.toy.operators[taken.tensor].writes for t in one.tensors}
            dead = {one for one in self._made(taken) if one not in after.resident} if addresses is None else taken.dead
            during = {*state.resident, *(one for one in after.resident if one[0] in came), *dead}
            for spaces in [()] if addresses is None else addresses.workspaces(taken.choice, during):
                timed = self._computed(clock, state, taken, during, spaces, after)
                yield replace(taken, spaces=spaces), after, timed

    def _made(self, action: Action) -> Iterator[Place]:
        """Yield the residencies that a Compute begins, without addresses."""
        names, written = [one.name for one in self.toy.memories], self.toy.operators[action.tensor].writes
        for one, home in zip(written, action.homes[-len(written) :], strict=True):
            yield from ((t, names.index(home), NOWHERE) for t in one.tensors if home is not None)

    def _copied_at(self, clock: Clock, state: State, action: Action, after: State) -> Clock:
        tensor, (source, target) = action.tensor, action.ends
        bits = self.toy.tensors[tensor].size_bytes * 8
        at = {memory: (one, memory, offset) for one, memory, offset in state.resident | after.resident if one == tensor}
        waits = [clock.queues[clock.turn]]
        waits.append(clock.in_dram[tensor] if source == self.dram else clock.written[at[source]])
        if target != self.dram:
            waits.append(self._free_at(clock, target, at[target][2], self.toy.tensors[tensor].size_bytes))
        turn = self.toy.cycles(self.dram, bits, reads=source == self.dram) if self.dram in action.ends else 0
        start = max([*waits, *([clock.dram] if turn else [])])
        end = start + self.toy.copy_cycles(tensor, source, target)
        written, used, in_dram = dict(clock.written), dict(clock.used), dict(clock.in_dram)
        for memory in {source, target} - {self.dram}:
            used[at[memory]] = max(used.get(at[memory], 0), end)
        if target == self.dram:
            in_dram[tensor] = end
        else:
            written[at[target]] = end
        queues = (*clock.queues[: clock.turn], end, *clock.queues[clock.turn + 1 :])
        dram = start + turn if turn else clock.dram
        return Clock(clock.array, dram, queues, (clock.turn + 1) % self.queues, written, used, in_dram, clock.freed)

    def _computed(
        self, clock: Clock, state: State, action: Action, during: set[Place], offsets: tuple[int, ...], after: State
    ) -> Clock:
        operator, choice = self.toy.operators[action.tensor], action.choice
        assert choice is not None
        names, waits, touched = [one.name for one in self.toy.memories], [clock.array], list[Place]()
        written, used, in_dram = dict(clock.written), dict(clock.used), dict(clock.in_dram)
        made = list[tuple[int, Place | None]]()
        for operand, home in zip(operator.operands, action.homes, strict=True):
            for tensor in operand.tensors:
                memory = None if home is None else names.index(home)
                place = next((one for one in during if one[:2] == (tensor, memory)), None)
                touched += [place] if place else []
                if operand.kind == "output":
                    made.append((tensor, place))
                    if place:
                        waits.append(self._free_at(clock, place[1], place[2], self.toy.tensors[tensor].size_bytes))
                        if clock.freed and action.lent is not None:
                            lender = next(one for one in state.resident if one[:2] == action.lent[1:])
                            waits.append(clock.used[lender] if lender[1:] == place[1:] else 0)
                else:
                    waits.append(clock.written[place] if place else clock.in_dram[tensor])
        spaces = [(memory, at, choice.room[memory]) for memory, at in enumerate(offsets) if choice.room[memory]]
        waits += [self._free_at(clock, *one) for one in spaces]
        turn = self.toy.cycles(self.dram, choice.read_bits, reads=True)
        turn += self.toy.cycles(self.dram, choice.written_bits, reads=False)
        start = max([*waits, *([clock.dram] if turn else [])])
        end = start + choice.cycles
        for place in touched:
            used[place] = max(used.get(place, 0), end)
        for tensor, place in made:
            if place:
                written[place] = end
            else:
                in_dram[tensor] = end
        dram = start + turn if turn else clock.dram
        ran = Clock(end, dram, clock.queues, clock.turn, written, used, in_dram, clock.freed)
        return self._settled(ran, state, after, [(*one, end) for one in spaces], frozenset(during) - after.resident)

    def _free_at(self, clock: Clock, memory: int, offset: int, size: int) -> int:
        if not clock.freed:
            return 0
        unit = self.units[memory]
        return max(clock.freed[memory][offset // unit : -(-(offset + size) // unit)], default=0)

    def _settled(
        self,
        clock: Clock,
        before: State,
        after: State,
        spaces: list[tuple[int, int, int, int]],
        dead: frozenset[Place] = frozenset(),
    ) -> Clock:
        """Return the clock with the bytes of ended residencies and of workspaces free from their last use on."""
        freed = [list(one) for one in clock.freed]
        gone = (before.resident | dead) - after.resident if freed else ()
        left = [(memory, at, self.toy.tensors[t].size_bytes, clock.used[t, memory, at]) for t, memory, at in gone]
        for memory, offset, size, moment in [*spaces, *left]:
            unit = self.units[memory]
            for at in range(offset // unit, -(-(offset + size) // unit)):
                freed[memory][at] = moment
        for tensor, memory, offset in after.resident if freed else ():
            unit, size = self.units[memory], self.toy.tensors[tensor].size_bytes
            for at in range(offset // unit, -(-(offset + size) // unit)):
                freed[memory][at] = 0
        return clock._replace(
            written={one: clock.written[one] for one in after.resident},
            used={one: clock.used[one] for one in after.resident},
            in_dram={
                one: clock.in_dram[one] for one in after.in_dram if not self.readers.get(one, set()) <= after.done
            },
            freed=tuple(map(tuple, freed)),
        )


def _no_later(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return all(map(int.__le__, one, other))


def _way_to(came: list[tuple[int, Action, State]], at: int) -> tuple[tuple[Action, State], ...]:
    found = list[tuple[Action, State]]()
    while at >= 0:
        before, action, state = came[at]
        found.append((action, state))
        at = before
    return tuple(found[::-1])
