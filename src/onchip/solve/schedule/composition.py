"""From places to a whole schedule: movements, addresses, the room that is left, mappings within it, one program."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from onchip.answer.program import Allocate, Compute, Free, Instruction, Plan
from onchip.answer.schedule import WORKSPACE, Homes, Schedule, ScheduledMapping, ScheduledStack
from onchip.arch.memory import MemoryLevel
from onchip.ir.layer import Layer
from onchip.solve.schedule.addresses import Addressed, NoPlaceError, addressed
from onchip.solve.schedule.mapped import KnownMappings, MappedNest, Room
from onchip.solve.schedule.movements import TiledNetwork, movements_of
from onchip.solve.schedule.places import Places
from onchip.solve.schedule.runs import HomesOfSteps, NestPlace, StepOperands


@dataclass(frozen=True, slots=True)
class Steps:
    """Of each tile operator with loop nests, these and its operands; of each without, its workspace given its homes."""

    nests: Mapping[str, tuple[Layer, ...]]
    operands: Mapping[str, StepOperands]
    workspace_without_nest: Callable[[str, Mapping[str, str | None]], Room]


@dataclass(frozen=True, slots=True)
class Composition:
    """A schedule, and how each of its steps runs: the mapped nests, none for an operator without one."""

    schedule: Schedule
    mapped: Mapping[str, tuple[MappedNest, ...]]
    homes: Mapping[str, Homes]


@dataclass(slots=True)
class Composer:
    """Composes schedules of one network in one set of stacks."""

    stacks: tuple[ScheduledStack, ...]
    network: TiledNetwork
    steps: Steps
    levels: Sequence[MemoryLevel]
    mappings: KnownMappings
    _memories: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        self._memories = tuple(level.memory.name for level in self.levels)

    def composed(self, places: Places) -> Composition | None:
        """None where something does not fit: what is resident together, or a mapping in the room that is left."""
        memories = tuple(level.memory for level in self.levels)
        try:
            found = addressed(self.network.graph, memories, movements_of(self.network, places))
        except NoPlaceError:
            return None
        homes = self._homes(found)
        mapped = self._mapped(found, homes)
        if mapped is None:
            return None
        workspaces = {name: _greatest(nests) for name, nests in mapped.items()}
        program = Plan(memories, tuple(_with_workspaces(found.instructions, workspaces)))
        keys = {
            nest: one.mapping
            for name, nests in mapped.items()
            for nest, one in zip(self._places_of_nests(name, homes[name]), nests, strict=True)
        }
        mappings = tuple(ScheduledMapping(one.stack, one.layer, one.homes, keys[one]) for one in keys)
        return Composition(Schedule(self.stacks, mappings, program), mapped, homes)

    def _homes(self, found: Addressed) -> Mapping[str, Homes]:
        replay = HomesOfSteps(self.network.graph, self.levels)
        names = [one.operator for one in found.instructions if isinstance(one, Compute)]
        return dict(zip(names, replay.homes(found.instructions, self.steps.operands), strict=True))

    def _places_of_nests(self, name: str, homes: Homes) -> Iterator[NestPlace]:
        stack, is_input = self.network.stacks[name], self.steps.operands[name].weight_is_an_input
        for layer in self.steps.nests.get(name, ()):
            yield NestPlace(
                stack, layer, homes if layer.has_weight else Homes(homes.input, None, homes.output), is_input
            )

    def _mapped(self, found: Addressed, homes: Mapping[str, Homes]) -> Mapping[str, tuple[MappedNest, ...]] | None:
        """Each nest within the least room of all its steps."""
        rooms: dict[NestPlace, dict[str, int]] = {}
        for operator, free in zip(self.network.graph.operators, found.free_below, strict=True):
            for nest in self._places_of_nests(operator.name, homes[operator.name]):
                room = rooms.setdefault(nest, dict(free))
                for memory, size in free.items():
                    room[memory] = min(room[memory], size)
        best: dict[NestPlace, MappedNest] = {}
        for nest, room in rooms.items():
            mapped = self.mappings.best(nest, room)
            if mapped is None:
                return None
            best[nest] = mapped
        return {
            one.name: tuple(best[nest] for nest in self._places_of_nests(one.name, homes[one.name]))
            for one in self.network.graph.operators
        }


def _greatest(nests: Sequence[MappedNest]) -> Room:
    """The greatest workspace of several nests, by memory."""
    memories = dict.fromkeys(memory for nest in nests for memory in nest.workspace_bytes)
    return {memory: max(nest.workspace_bytes.get(memory, 0) for nest in nests) for memory in memories}


def _with_workspaces(instructions: Sequence[Instruction], workspaces: Mapping[str, Room]) -> Iterator[Instruction]:
    for one in instructions:
        if not isinstance(one, Compute):
            yield one
            continue
        needs = {memory: size for memory, size in workspaces[one.operator].items() if size}
        for memory in needs:
            yield Allocate(f"{one.operator}{WORKSPACE}", memory, 0)
        yield one
        for memory in needs:
            yield Free(f"{one.operator}{WORKSPACE}", memory)
