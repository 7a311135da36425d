"""From places to a whole schedule: movements, addresses, the room that is left, mappings within it, one program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.program import Allocate, Compute, Free, Instruction, Plan
from onchip.answer.schedule import WORKSPACE, Homes, Schedule, ScheduledMapping, ScheduledStack
from onchip.arch.accelerator import Accelerator
from onchip.cost.schedule.compute_cost import ComputeCost, OperandAtHome, cost_of_nests, cost_without_nest
from onchip.ir.layer import Layer
from onchip.solve.schedule.mapped import KnownMappings, MappedNest
from onchip.solve.schedule.movements import Movements, TiledNetwork, movements_of
from onchip.solve.schedule.places import Places
from onchip.solve.schedule.runs import NestPlace, Residents, Step


@dataclass(slots=True)
class NestRoom:
    """A nest at its homes: one of its steps, how many steps there are, and the least room that all of them have."""

    operator: str
    room: dict[str, int]
    times: int = 0


@dataclass(frozen=True, slots=True)
class Composition:
    """A schedule, what each of its Computes costs, by operator, and the rooms and mappings of its nests."""

    schedule: Schedule
    costs: Mapping[str, ComputeCost]
    rooms: Mapping[NestPlace, NestRoom]
    mapped: Mapping[NestPlace, MappedNest]


class NoMappingError(Exception):
    """No mapping of a step fits in the room that is left for it."""

    def __init__(self, operator: str) -> None:
        super().__init__(f"no mapping of {operator!r} fits")
        self.operator = operator


@dataclass(slots=True)
class Composer:
    """Composes schedules of one network in one set of stacks."""

    stacks: tuple[ScheduledStack, ...]
    network: TiledNetwork
    accelerator: Accelerator
    mappings: KnownMappings
    steps: Mapping[str, Step] = field(init=False)
    _without_nest: dict[tuple[str, tuple[str | None, ...]], ComputeCost] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.steps = {step.operator: step for step in self.network.steps}

    def composed(self, places: Places) -> Composition:
        """The schedule in which everything lies where `places` says; raises NoMappingError where no mapping fits."""
        levels = self.accelerator.addressed
        found = movements_of(self.network, levels, places)
        names = list(self.steps)
        homes = dict(zip(names, Residents(levels).homes(found.instructions, self.steps), strict=True))
        rooms = self._rooms(found, homes)
        self.mappings.announce((nest, one.room) for nest, one in rooms.items())
        mapped = {nest: self._mapped(nest, one) for nest, one in rooms.items()}
        costs = {name: self._cost(self.steps[name], homes[name], mapped) for name in names}
        for name, free in zip(names, found.free_below, strict=True):
            if any(size > free[memory] for memory, size in costs[name].workspace_bytes.items()):
                raise NoMappingError(name)
        memories = tuple(level.memory for level in levels)
        program = Plan(memories, tuple(_with_workspaces(found.instructions, costs)))
        mappings = tuple(_of_schedule(mapped, rooms))
        return Composition(Schedule(self.stacks, mappings, program), costs, rooms, mapped)

    def _rooms(self, found: Movements, homes: Mapping[str, Sequence[str | None]]) -> Mapping[NestPlace, NestRoom]:
        rooms: dict[NestPlace, NestRoom] = {}
        for step, free in zip(self.network.steps, found.free_below, strict=True):
            for nest in step.nest_places(homes[step.operator]):
                one = rooms.setdefault(nest, NestRoom(step.operator, dict(free)))
                one.times += 1
                for memory, size in free.items():
                    one.room[memory] = min(one.room[memory], size)
        return rooms

    def _mapped(self, nest: NestPlace, one: NestRoom) -> MappedNest:
        mapped = self.mappings.best(nest, one.room)
        if mapped is None:
            raise NoMappingError(one.operator)
        return mapped

    def _cost(self, step: Step, homes: Sequence[str | None], mapped: Mapping[NestPlace, MappedNest]) -> ComputeCost:
        if step.nests:
            return cost_of_nests([mapped[nest].cost for nest in step.nest_places(homes)])
        key = step.operator, tuple(homes)
        if key not in self._without_nest:
            operands = [
                OperandAtHome(one.operand, one.bits, one.row_bits, home)
                for one, home in zip(step.operands, homes, strict=True)
            ]
            self._without_nest[key] = cost_without_nest(operands, self.accelerator)
        return self._without_nest[key]


def _of_schedule(
    mapped: Mapping[NestPlace, MappedNest], rooms: Mapping[NestPlace, NestRoom]
) -> Iterator[ScheduledMapping]:
    """One for each stack, layer and homes; raises NoMappingError where a parameter and a map ask for two."""
    known: dict[tuple[int, Layer, Homes], LayerMapping] = {}
    for nest, found in mapped.items():
        key = nest.stack, nest.layer, nest.homes
        if key not in known:
            yield ScheduledMapping(*key, found.mapping)
        if known.setdefault(key, found.mapping) != found.mapping:
            raise NoMappingError(rooms[nest].operator)


def _with_workspaces(instructions: Sequence[Instruction], costs: Mapping[str, ComputeCost]) -> Iterator[Instruction]:
    for one in instructions:
        if not isinstance(one, Compute):
            yield one
            continue
        needs = costs[one.operator].workspace_bytes
        for memory in needs:
            yield Allocate(f"{one.operator}{WORKSPACE}", memory, 0)
        yield one
        for memory in needs:
            yield Free(f"{one.operator}{WORKSPACE}", memory)
