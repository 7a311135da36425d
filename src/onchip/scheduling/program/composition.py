"""Composition of a schedule from groups, mappings and places, and its question.

A schedule is composed group by group: the content of a group depends only on the places of its tensors and on the
residents when it begins. Groups that a change of places does not affect are therefore kept. Capacity is first counted
in bytes; `addressed` then finds offsets, and maps loop nests again where fragmentation leaves less.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Final

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.answer.program import Allocate, Compute, Free, Instruction, Plan
from onchip.answer.schedule import WORKSPACE, Homes, Schedule, ScheduledMapping, ScheduledStack
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import Memory
from onchip.ir.graph import Graph
from onchip.ir.layer import Layer
from onchip.model.program.compute_cost import (
    ComputeCost,
    CopyPrices,
    OperandAtHome,
    cost_of_nests,
    cost_without_nest,
    resident_bytes,
    with_declared,
)
from onchip.model.program.figures import ScheduleFigures, energy_and_traffic
from onchip.model.timeline.schedule_timeline import time_schedule
from onchip.ops.layers_of import Precision
from onchip.scheduling.mappings.cycle_floors import CycleFloors
from onchip.scheduling.mappings.mapped import Edition, KnownMappings, MappedNest, NestKey, key_of
from onchip.scheduling.program.addresses import (
    NoOffsetsError,
    largest_gaps,
    lenders_of,
    offsets_of,
    residencies_of,
    with_early_loads,
    with_offsets,
)
from onchip.scheduling.program.movements import OnChip, StackMovements, movements_of
from onchip.scheduling.program.places import Places, StackPlaces
from onchip.scheduling.program.runs import NestPlace, Step, TiledNetwork
from onchip.search.budget.limits import Run
from onchip.transform.groups.tile_graph import TileGraph

MOST_KEPT_STEPS: Final = 100_000
"""Most steps in all cached groups: some hundred bytes each."""


@dataclass(slots=True)
class NestRoom:
    """A loop nest at its homes: one of its steps, the number of its steps, and the fewest free bytes of all of them."""

    operator: str
    room: dict[str, int]
    times: int = 0


@dataclass(frozen=True, slots=True)
class ComposedStack:
    """A group of a schedule: steps, movements, instructions, costs of its Computes by operator, loop nests, figures."""

    steps: Sequence[Step]
    movements: StackMovements
    instructions: tuple[Instruction, ...]
    costs: Mapping[str, ComputeCost]
    rooms: Mapping[NestPlace, NestRoom]
    mapped: Mapping[NestPlace, MappedNest]
    energy_fj: int
    traffic_bytes: int

    @property
    def cycles(self) -> int:
        """Return the cycles in which the array computes."""
        return sum(cost.cycles for cost in self.costs.values())


@dataclass(frozen=True, slots=True)
class Composition:
    """A schedule as its stacks and the composed group of each stack."""

    stacks: tuple[ScheduledStack, ...]
    memories: tuple[Memory, ...]
    composed: tuple[ComposedStack, ...]

    @property
    def schedule(self) -> Schedule:
        """Return the schedule as one program."""
        mappings = (one for part in self.composed for one in _of_schedule(part.mapped))
        instructions = (one for part in self.composed for one in part.instructions)
        return Schedule(self.stacks, tuple(mappings), Plan(self.memories, tuple(instructions)))

    @property
    def costs(self) -> Mapping[str, ComputeCost]:
        """Return the cost of each Compute, by operator."""
        return {name: cost for part in self.composed for name, cost in part.costs.items()}

    @property
    def nests(self) -> Iterator[tuple[NestPlace, NestRoom, MappedNest]]:
        """Yield every loop nest at its homes, with its free bytes and its mapping."""
        for part in self.composed:
            for nest, room in part.rooms.items():
                yield nest, room, part.mapped[nest]

    @property
    def energy_fj(self) -> int:
        """Return the energy of all stacks, in fJ."""
        return sum(part.energy_fj for part in self.composed)

    @property
    def cycles(self) -> int:
        """Return the cycles in which the array computes: the latency is no less."""
        return sum(part.cycles for part in self.composed)

    @property
    def traffic_bytes(self) -> int:
        """Return the DRAM traffic of all stacks, in bytes."""
        return sum(part.traffic_bytes for part in self.composed)


class NoMappingError(Exception):
    """Raised if no mapping of a step fits in the free bytes; `what` names the part of the step and the free bytes.

    `others` are further steps of the group without a mapping.
    """

    def __init__(self, operator: str, what: str, others: Sequence[str] = ()) -> None:
        super().__init__(f"operator {operator!r}: {what}")
        self.operator = operator
        self._steps = operator, *others

    def operators_of(self, network: Graph) -> Sequence[str]:
        """Return the operators of the network whose steps have no mapping."""
        names = (one if one in network.operator else one.rpartition("#")[0] for one in self._steps)
        return tuple(dict.fromkeys(names))


class NoGapError(NoMappingError):
    """Raised if no offsets were found; a tensor of the operator is the first that finds no gap."""


@dataclass(slots=True)
class _KnownStack:
    """The movements and loop nests of a stack; `composed` is valid while the mappings are those of `edition`."""

    steps: Sequence[Step]
    movements: StackMovements
    rooms: Mapping[NestPlace, NestRoom]
    composed: ComposedStack | None = None
    edition: Edition | None = None


@dataclass(slots=True)
class Composer:
    """Composes schedules of one network in one set of stacks."""

    stacks: tuple[ScheduledStack, ...]
    network: TiledNetwork
    accelerator: Accelerator
    mappings: KnownMappings
    run: Run = field(default_factory=Run)
    """The run that counts work, if work is counted."""
    is_timed: bool = False
    """True if the latency counts: loads get offsets at which they begin early."""
    floors: CycleFloors = field(init=False)
    """Lower bounds on cycles, the weights of loop nests; composers of other stacks may share them."""
    _prices: CopyPrices = field(init=False)
    _known: OrderedDict[tuple[int, StackPlaces, OnChip], _KnownStack] = field(default_factory=OrderedDict, init=False)
    """Composed groups by stack, places and residents; the most recently used is last."""
    _known_steps: int = field(default=0, init=False)
    _without_nest: dict[tuple[str, tuple[str | None, ...]], ComputeCost] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._prices = CopyPrices(self.accelerator)
        self.floors = CycleFloors(self.accelerator)

    def composed(self, places: Places) -> Composition:
        """Return the schedule with everything in the given places, without offsets.

        Raises NoMappingError if no mapping fits.
        """
        known = list(self._walked(places))
        edition = self.mappings.edition
        new = [one for one in known if one.edition != edition]
        self._map(new)
        for one in new:
            self._compose(one, edition)
        memories = tuple(level.memory for level in self.accelerator.addressed)
        return Composition(self.stacks, memories, tuple(composed for one in known if (composed := one.composed)))

    def continued(self, stack: int, places: StackPlaces, before: OnChip) -> ComposedStack:
        """Return one group in the given places, without offsets, after groups that leave `before` on chip.

        Raises NoMappingError if no mapping fits.
        """
        self._forget()
        known, edition = self._known_at(stack, places, before), self.mappings.edition
        if known.edition != edition or known.composed is None:
            self._map([known])
            self._compose(known, edition)
        composed = known.composed
        assert composed is not None
        return composed

    def _map(self, new: Sequence[_KnownStack]) -> None:
        """Request mappings of all loop nests.

        In quick mode the heaviest first, so that only light ones get fallback mappings. The weight of a loop nest is
        the lower bound on the cycles of all its steps. Stops at the first nest without a mapping.
        """
        asked = [(nest, one) for stack in new for nest, one in stack.rooms.items()]
        is_quick = self.mappings.mapper.is_quick
        if is_quick and len(asked) > 1:
            weights: defaultdict[NestKey, float] = defaultdict(float)
            for nest, one in asked:
                least = self.floors.least_cycles(nest.layer, weight_is_an_input=nest.weight_is_an_input)
                weights[key_of(nest)] += one.times * least
            asked.sort(key=lambda pair: -weights[key_of(pair[0])])
        self.mappings.announce((nest, one.room) for nest, one in asked)
        for nest, one in asked if is_quick else ():
            if self.run.stop is not None or self.mappings.best(nest, one.room) is None:
                break

    def _walked(self, places: Places) -> Iterator[_KnownStack]:
        """Yield the known movements and loop nests of each stack, in order."""
        places_of, nothing, on_chip = places.by_stack(), StackPlaces(), OnChip()
        for stack in range(len(self.stacks)):
            known = self._known_at(stack, places_of.get(stack, nothing), on_chip)
            yield known
            on_chip = known.movements.after
        self._forget()

    def _known_at(self, stack: int, places: StackPlaces, before: OnChip) -> _KnownStack:
        key = stack, places, before
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._new(*key)
            self._known_steps += len(known.steps)
        else:
            self._known.move_to_end(key)
        return known

    def _forget(self) -> None:
        """Drop the groups that were used least recently, if there are too many."""
        while self._known_steps > MOST_KEPT_STEPS and len(self._known) > len(self.stacks):
            _, forgotten = self._known.popitem(last=False)
            self._known_steps -= len(forgotten.steps)

    def _new(self, stack: int, places: StackPlaces, before: OnChip) -> _KnownStack:
        moved = movements_of(self.network, self.accelerator.addressed, stack, places, before)
        steps = [self.network.steps[at] for at in self.network.steps_of_stack[stack]]
        return _KnownStack(steps, moved, self._rooms(steps, moved.homes, moved.free_bytes))

    def _rooms(
        self, steps: Sequence[Step], homes_of: Sequence[Sequence[str | None]], free_bytes: Sequence[Mapping[str, int]]
    ) -> Mapping[NestPlace, NestRoom]:
        """Return the loop nests of some steps, each with the least free bytes of all its steps."""
        rooms: dict[NestPlace, NestRoom] = {}
        for step, homes, free in zip(steps, homes_of, free_bytes, strict=True):
            left = self._beside_declared(step, free)
            for nest in step.nest_places(homes):
                one = rooms.setdefault(nest, NestRoom(step.operator, dict(left)))
                one.times += 1
                for memory, size in left.items():
                    one.room[memory] = min(one.room[memory], size)
        return rooms

    def _beside_declared(self, step: Step, free: Mapping[str, int]) -> Mapping[str, int]:
        """Return the free bytes minus the operator's declared workspace. Raises NoMappingError if that does not fit."""
        last = self.accelerator.addressed[-1].memory.name
        if free[last] < step.declared_bytes:
            what = f"it needs {step.declared_bytes} bytes for itself in {last!r}, where {free[last]} are free"
            raise NoMappingError(step.operator, what)
        return {**free, last: free[last] - step.declared_bytes}

    def _compose(self, known: _KnownStack, edition: Edition) -> None:
        """Map the loop nests of a group and price it; raises NoMappingError."""
        moved = known.movements
        known.composed = self._composed_group(known.steps, moved, known.rooms, moved.free_bytes)
        is_makeshift = any(one.is_makeshift for one in known.composed.mapped.values())
        known.edition = None if is_makeshift else edition

    def _composed_group(
        self,
        steps: Sequence[Step],
        moved: StackMovements,
        rooms: Mapping[NestPlace, NestRoom],
        free_bytes: Sequence[Mapping[str, int]],
    ) -> ComposedStack:
        """Return the group with mappings and costs.

        Raises NoMappingError if a mapping or workspace does not fit in a step.
        """
        mapped = self._mapped(rooms)
        _ensure_one_mapping_a_layer(mapped, rooms)
        costs = dict[str, ComputeCost]()
        for step, homes, free in zip(steps, moved.homes, free_bytes, strict=True):
            cost = costs[step.operator] = self._cost(step, homes, mapped)
            for memory, size in cost.workspace_bytes.items():
                if size > free[memory]:
                    what = f"it needs {size} bytes while it runs in {memory!r}, where {free[memory]} are free"
                    raise NoMappingError(step.operator, what)
        instructions = tuple(_with_workspaces(moved.instructions, costs))
        figures = energy_and_traffic(self.network.graph, self._prices, instructions, costs)
        return ComposedStack(steps, moved, instructions, costs, rooms, mapped, *figures)

    def addressed(self, composition: Composition) -> Composition:
        """Return the composition with offsets; other mappings if workspaces get less than the free bytes of their step.

        Raises NoMappingError if no offsets were found, or a loop nest fits in no gap.
        """
        instructions = [one for part in composition.composed for one in part.instructions]
        size_of = partial(resident_bytes, self.network.graph, composition.costs)
        found = self._placed(composition, instructions, size_of)
        if found is None:
            return self._in_gaps(composition)
        while self.is_timed:
            early = with_early_loads(instructions, composition.memories, size_of, self.network.graph)
            other = None if early == instructions else self._placed(composition, early, size_of)
            if other is None or self._latency_cycles(other) >= self._latency_cycles(found):
                break
            instructions, found = early, other
        return found

    def _placed(
        self, composition: Composition, instructions: Sequence[Instruction], size_of: Callable[[str, str], int]
    ) -> Composition | None:
        """Return the composition with these instructions at offsets; None if none were found."""
        lenders = lenders_of(instructions, self.network.graph)
        residencies = residencies_of(instructions, composition.memories, size_of, lenders)
        try:
            offsets = offsets_of(composition.memories, residencies, is_timed=self.is_timed)
        except NoOffsetsError:
            return None
        placed = with_offsets(instructions, offsets, lenders)
        return replace(
            composition,
            composed=tuple(
                replace(part, instructions=tuple(islice(placed, len(part.instructions))))
                for part in composition.composed
            ),
        )

    def _latency_cycles(self, composition: Composition) -> int:
        program = composition.schedule.program
        return time_schedule(self.network.graph, self.accelerator, program, composition.costs).latency_cycles

    def _in_gaps(self, composition: Composition) -> Composition:
        """Pack the tensors alone, then give each workspace the largest gap between them. Raises NoMappingError."""
        instructions = [one for part in composition.composed for one in part.movements.instructions]
        size_of = partial(resident_bytes, self.network.graph, {})
        lenders = lenders_of(instructions, self.network.graph)
        residencies = residencies_of(instructions, composition.memories, size_of, lenders)
        try:
            offsets = offsets_of(composition.memories, residencies, is_timed=self.is_timed)
        except NoOffsetsError as error:
            after = (one.operator for one in instructions[error.at :] if isinstance(one, Compute))
            last = composition.composed[-1].steps[-1].operator
            raise NoGapError(next(after, last), str(error)) from None
        steps = [at for at, one in enumerate(instructions) if isinstance(one, Compute)]
        gaps = {
            memory.name: tuple(largest_gaps(memory, residencies[memory.name], offsets, steps))
            for memory in composition.memories
        }
        placed = with_offsets(instructions, offsets, lenders)
        parts, step = list[ComposedStack](), 0
        for part in composition.composed:
            own = range(step, step + len(part.steps))
            step = own.stop
            free = [{memory: of_steps[at][1] for memory, of_steps in gaps.items()} for at in own]
            begins = {
                (part.steps[at - own.start].operator, memory): of_steps[at][0]
                for memory, of_steps in gaps.items()
                for at in own
            }
            found = self._composed_group(
                part.steps, part.movements, self._rooms(part.steps, part.movements.homes, free), free
            )
            moved = list(islice(placed, len(part.movements.instructions)))
            parts.append(replace(found, instructions=tuple(_with_workspaces(moved, found.costs, begins))))
        return replace(composition, composed=tuple(parts))

    def _mapped(self, rooms: Mapping[NestPlace, NestRoom]) -> Mapping[NestPlace, MappedNest]:
        """Return the mapping of each loop nest. Raises NoMappingError that names all loop nests without one."""
        found = {nest: self.mappings.best(nest, one.room) for nest, one in rooms.items()}
        lacking = [nest for nest, mapped in found.items() if mapped is None]
        if lacking:
            nest, others = lacking[0], [rooms[other].operator for other in lacking[1:]]
            room = ", ".join(f"{size} bytes of {memory!r}" for memory, size in rooms[nest].room.items())
            loops = " ".join(f"{loop}={bound}" for loop, bound in nest.layer.bounds.items() if bound > 1)
            what = f"no mapping of its loop nest ({loops or 'one step'}) fits in {room}"
            raise NoMappingError(rooms[nest].operator, what, others)
        return {nest: mapped for nest, mapped in found.items() if mapped is not None}

    def _cost(self, step: Step, homes: Sequence[str | None], mapped: Mapping[NestPlace, MappedNest]) -> ComputeCost:
        if step.nests or step.filled_bits:
            costs = [mapped[nest].cost for nest in step.nest_places(homes)]
            found = cost_of_nests(costs, step.filled(homes, self.accelerator))
            return with_declared(found, self.accelerator, step.declared_bytes)
        key = step.operator, tuple(homes)
        if key not in self._without_nest:
            operands = [
                OperandAtHome(one.operand, one.bits, one.row_bits, home)
                for one, home in zip(step.operands, homes, strict=True)
            ]
            found = cost_without_nest(operands, self.accelerator, step.declared_bytes)
            self._without_nest[key] = with_declared(found, self.accelerator, step.declared_bytes)
        return self._without_nest[key]


def _ensure_one_mapping_a_layer(mapped: Mapping[NestPlace, MappedNest], rooms: Mapping[NestPlace, NestRoom]) -> None:
    """Raises NoMappingError where a layer of the stack at the same homes, with a parameter and with a map, has two."""
    known: dict[tuple[Layer, Homes], LayerMapping] = {}
    for nest, found in mapped.items():
        if known.setdefault((nest.layer, nest.homes), found.mapping) != found.mapping:
            what = "loop nests of it that are alike have no mapping in common that fits each"
            raise NoMappingError(rooms[nest].operator, what)


def _of_schedule(mapped: Mapping[NestPlace, MappedNest]) -> Iterator[ScheduledMapping]:
    """Yield one mapping for each layer and its homes."""
    found = {(nest.stack, nest.layer, nest.homes): one.mapping for nest, one in mapped.items()}
    for key, mapping in found.items():
        yield ScheduledMapping(*key, mapping)


def _with_workspaces(
    instructions: Sequence[Instruction],
    costs: Mapping[str, ComputeCost],
    begins: Mapping[tuple[str, str], int] | None = None,
) -> Iterator[Instruction]:
    """Yield the instructions with each workspace around its Compute, at the offset that `begins` gives, else 0."""
    for one in instructions:
        if not isinstance(one, Compute):
            yield one
            continue
        needs = costs[one.operator].workspace_bytes
        for memory in needs:
            yield Allocate(f"{one.operator}{WORKSPACE}", memory, 0 if begins is None else begins[one.operator, memory])
        yield one
        for memory in needs:
            yield Free(f"{one.operator}{WORKSPACE}", memory)


@dataclass(frozen=True, slots=True)
class ScheduleQuestion:
    """The network as read, the accelerator, the bits of elements and partial sums, and the objective.

    Concatenations that are `views` are not materialised: their readers read the parts. `together` are runs of operators
    that are tried as one group at first.
    """

    network: Graph
    accelerator: Accelerator
    precision: Precision
    objective: ScheduleObjective
    lower_bound: int = 0
    uses_cache: bool = True
    views: frozenset[str] = frozenset()
    together: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class FoundSchedule:
    """A schedule with what its Computes cost, the tile graph that it runs, and its figures.

    Where stacks are given and none were found, every operator runs alone, and `why_alone` says it. Where some runs of
    operators have none, `left_alone` has these by their first and last.
    """

    composition: Composition
    tiles: TileGraph
    figures: ScheduleFigures
    why_alone: str | None = None
    left_alone: tuple[tuple[str, str], ...] = ()
