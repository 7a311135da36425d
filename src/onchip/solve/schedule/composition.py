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


@dataclass(frozen=True, slots=True)
class Composition:
    """A schedule, and what each of its Computes costs, by operator."""

    schedule: Schedule
    costs: Mapping[str, ComputeCost]


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

    def __post_init__(self) -> None:
        self.steps = {step.operator: step for step in self.network.steps}

    def composed(self, places: Places) -> Composition:
        """The schedule in which everything lies where `places` says; raises NoMappingError where no mapping fits."""
        levels = self.accelerator.addressed
        found = movements_of(self.network, levels, places)
        names = list(self.steps)
        homes = dict(zip(names, Residents(levels).homes(found.instructions, self.steps), strict=True))
        rooms = self._rooms(found, homes)
        self.mappings.expect(len(rooms))
        mapped = {nest: self._mapped(nest, *room) for nest, room in rooms.items()}
        costs = {name: self._cost(self.steps[name], homes[name], mapped) for name in names}
        for name, free in zip(names, found.free_below, strict=True):
            if any(size > free[memory] for memory, size in costs[name].workspace_bytes.items()):
                raise NoMappingError(name)
        memories = tuple(level.memory for level in levels)
        program = Plan(memories, tuple(_with_workspaces(found.instructions, costs)))
        mappings = tuple(_of_schedule(mapped, rooms))
        return Composition(Schedule(self.stacks, mappings, program), costs)

    def _rooms(
        self, found: Movements, homes: Mapping[str, Sequence[str | None]]
    ) -> Mapping[NestPlace, tuple[str, dict[str, int]]]:
        """Of each nest one of its steps, and the least room of all of them."""
        rooms: dict[NestPlace, tuple[str, dict[str, int]]] = {}
        for step, free in zip(self.network.steps, found.free_below, strict=True):
            for nest in step.nest_places(homes[step.operator]):
                if nest not in rooms:
                    rooms[nest] = step.operator, dict(free)
                room = rooms[nest][1]
                for memory, size in free.items():
                    room[memory] = min(room[memory], size)
        return rooms

    def _mapped(self, nest: NestPlace, operator: str, room: Mapping[str, int]) -> MappedNest:
        mapped = self.mappings.best(nest, room)
        if mapped is None:
            raise NoMappingError(operator)
        return mapped

    def _cost(self, step: Step, homes: Sequence[str | None], mapped: Mapping[NestPlace, MappedNest]) -> ComputeCost:
        if step.nests:
            return cost_of_nests([mapped[nest].cost for nest in step.nest_places(homes)])
        operands = [
            OperandAtHome(one.operand, one.bits, one.row_bits, home)
            for one, home in zip(step.operands, homes, strict=True)
        ]
        return cost_without_nest(operands, self.accelerator)


def _of_schedule(
    mapped: Mapping[NestPlace, MappedNest], rooms: Mapping[NestPlace, tuple[str, dict[str, int]]]
) -> Iterator[ScheduledMapping]:
    """One for each stack, layer and homes; raises NoMappingError where a parameter and a map ask for two."""
    known: dict[tuple[int, Layer, Homes], LayerMapping] = {}
    for nest, found in mapped.items():
        key = nest.stack, nest.layer, nest.homes
        if key not in known:
            yield ScheduledMapping(*key, found.mapping)
        if known.setdefault(key, found.mapping) != found.mapping:
            raise NoMappingError(rooms[nest][0])


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
