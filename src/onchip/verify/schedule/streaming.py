"""The operands of tile operators, their home memories, and the streams from and to DRAM."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from math import prod
from typing import Final

from onchip.answer.problem import Count, Order, Problem, Transfers
from onchip.answer.program import Allocate, Compute, Copy, Free, Instruction
from onchip.answer.schedule import WORKSPACE, Homes
from onchip.arch.memory import DRAM, Memory, Operand
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.verify.replay import Replay
from onchip.verify.rules import Rule
from onchip.verify.schedule.machine import AddressedMachine
from onchip.verify.schedule.nests import Nests
from onchip.verify.schedule.tiles import TileOfNetwork

LOOKED_UP: Final = frozenset({"EMBEDDING_LOOKUP", "GATHER", "Gather", "GatherElements", "Slice"})


@dataclass(frozen=True, slots=True)
class TileOperand:
    """Bands of one tensor of the network (`base`); its home is a memory that holds operands such as `held_as`.

    `most_read` are the elements of it that the operator reads or writes at most, if it does not read all.
    """

    base: str
    held_as: Operand
    bands: tuple[str, ...]
    most_read: int | None = None


def tile_operands(tiles: Graph, run: TileOfNetwork) -> tuple[TileOperand, ...]:
    """Return the operands that a tile operator reads, then those that it writes, each network tensor once.

    The parts of a concatenation that is not materialised are one operand: the concatenation. Parameters are held where
    weights are, all other inputs where inputs are, also if they are the weight of a loop nest. A lookup reads at most
    as many elements of each operand as it writes.
    """
    found: dict[tuple[str, Operand], list[str]] = {}
    for name in run.operator.reads:
        tensor = tiles.tensor[name]
        held_as = Operand.WEIGHT if tensor.role is Role.PARAMETER else Operand.INPUT
        base = tensor.part_of or name
        operand = run.place_of[base][0] if base in run.place_of else base
        found.setdefault((operand, held_as), []).append(name)
    for name in run.operator.outputs:
        found.setdefault((tiles.tensor[name].part_of or name, Operand.OUTPUT), []).append(name)
    looked_up = None
    if run.operator.kind in LOOKED_UP:
        shapes = [shape for name in run.operator.outputs if (shape := tiles.tensor[name].shape) is not None]
        looked_up = sum(map(prod, shapes)) if len(shapes) == len(run.operator.outputs) else None
    return tuple(TileOperand(base, held_as, tuple(bands), looked_up) for (base, held_as), bands in found.items())


def homes_of_nests(nests: Nests, output: str, homes: Mapping[str, str | None]) -> Homes:
    """Return the homes of a loop nest's operands from those of the network's tensors; None: streamed, or absent."""
    weight = None if nests.weight is None else homes.get(nests.weight)
    return Homes(homes.get(nests.input), weight, homes.get(output))


HomeOf = Mapping[str, str | None]
"""Map from network tensor to the memory where an operator reads or writes it; None: it is streamed from or to DRAM."""


def tile_problem(tiles: Graph, machine: AddressedMachine) -> Problem:
    """Return the problem of the tile graph in its given order, with all tensors, all addressed memories and DRAM.

    Raises UsageError if no memory is addressed.
    """
    memories = tuple(level.memory for level in machine.levels)
    ways = tuple(permutations((memory.name for memory in memories), 2))
    return Problem(tiles, memories, order=Order.GIVEN, count=Count.ALL, transfers=Transfers(ways))


class StreamingReplay(Replay):
    """The state between two instructions; `homes` maps each operator that has run to the homes of its operands.

    `workspaces` holds bytes by operator and memory. Workspaces of operators that it lacks are ignored, because homes do
    not depend on them.
    """

    def __init__(
        self,
        problem: Problem,
        machine: AddressedMachine,
        operands: Mapping[str, Sequence[TileOperand]],
        workspaces: Mapping[str, Mapping[str, int]],
    ) -> None:
        super().__init__(problem, forbids_spills=False)
        self.homes: dict[str, HomeOf] = {}
        self._machine = machine
        self._operands = operands
        self._workspaces = workspaces
        self._resident_workspaces: dict[tuple[str, str], Tensor] = {}
        names = {operator.name + WORKSPACE: operator.name for operator in self._graph.operators}
        self._operator_of = {name: of for name, of in names.items() if name not in self._graph.tensor}

    def execute(self, index: int, instruction: Instruction) -> None:
        """Apply instruction number `index` to the state; workspaces have separate rules."""
        if isinstance(instruction, Compute) or instruction.tensor not in self._operator_of:
            super().execute(index, instruction)
            return
        operator = self._operator_of[instruction.tensor]
        if operator in self._workspaces:
            self.report.instruction = index
            self._workspace(instruction, self._workspaces[operator])

    def finish(self) -> None:
        """End the program; workspaces may still be resident."""
        for name, memory in self._resident_workspaces:
            del self._on_chip[memory][name]
        super().finish()

    # Workspaces

    def _workspace(self, instruction: Allocate | Copy | Free, sizes: Mapping[str, int]) -> None:
        name = instruction.tensor
        if isinstance(instruction, Copy):
            detail = f"copied from {instruction.source!r} to {instruction.target!r}; it is no tensor to move"
            self.report.once(Rule.WORKSPACE_COPIED, name, detail)
            return
        memory = self._names.scratchpad(name, instruction.memory)
        if memory is None:
            return
        if memory.name not in sizes:
            self.report.once(Rule.WORKSPACE_NOT_NEEDED, name, f"its mapping needs none in {memory.name!r}")
            return
        tensor = Tensor(name, sizes[memory.name], Role.ACTIVATION)
        if isinstance(instruction, Allocate):
            self._begin(tensor, memory, instruction.offset_bytes)
            self._resident_workspaces[name, memory.name] = tensor
        elif self._resident_workspaces.pop((name, memory.name), None) is None:
            detail = f"freed in {memory.name!r}, where it is not resident"
            self.report.not_resident(Rule.FREED_NOT_RESIDENT, name, detail)
        else:
            residency = self._on_chip[memory.name].pop(name)
            self._end(tensor, memory, residency)

    def _workspaces_are_those_of_the_operator_that_runs(self, operator: Operator) -> None:
        own = operator.name + WORKSPACE
        for name, memory in self._resident_workspaces:
            if name != own:
                detail = f"it is resident in {memory!r} while {operator.name!r} runs"
                self.report.once(Rule.WORKSPACE_STAYS, name, detail)
        for memory, size_bytes in self._workspaces.get(operator.name, {}).items():
            if (own, memory) not in self._resident_workspaces:
                detail = f"operator {operator.name!r} runs, and its mapping needs {size_bytes} bytes in {memory!r}"
                self.report.violation(Rule.WORKSPACE_MISSING, own, detail)

    # Allocate

    def _allocate(self, allocate: Allocate) -> None:
        """Allocate a tensor; add a violation if the memory may not hold it."""
        tensor, memory = self._graph.tensor.get(allocate.tensor), self._on_chip.scratchpads.get(allocate.memory)
        if tensor is not None and memory is not None and not self._machine.may_hold(memory.name, tensor):
            detail = f"allocated in {memory.name!r}, which holds {', '.join(memory.holds)}, as {tensor.role}"
            self.report.violation(Rule.TENSOR_NOT_HELD, tensor.name, detail)
        super()._allocate(allocate)

    # Compute

    def _operands_are_in_place(self, operator: Operator) -> None:
        """Find the home of each operand, and add a violation for each that is neither resident nor streamed legally."""
        self._workspaces_are_those_of_the_operator_that_runs(operator)
        homes = {}
        for operand in self._operands.get(operator.name, ()):
            is_written = operand.held_as is Operand.OUTPUT
            find = self._home_of_what_is_written if is_written else self._home_of_what_is_read
            homes[operand.base] = find(operator, operand)
        self.homes[operator.name] = homes

    def _home_of_what_is_read(self, operator: Operator, operand: TileOperand) -> str | None:
        """Return the memory nearest the MACs that may hold the operand and has all its bands; None if it is streamed.

        Add a violation for each streamed band without a copy in DRAM.
        """
        for name, memory in self._on_chip.scratchpads.items():
            held = self._on_chip[name]
            if operand.held_as in memory.holds and all(
                band in held and held[band].is_written for band in operand.bands
            ):
                return name
        for band in operand.bands:
            if band not in self._in_dram:
                detail = f"operator {operator.name!r} streams it, but DRAM has no copy of it"
                self.report.violation(Rule.NOT_IN_DRAM, band, detail)
                self._in_dram.add(band)
        return None

    def _home_of_what_is_written(self, operator: Operator, operand: TileOperand) -> str | None:
        """Return the one memory in which all bands are resident.

        None if no band is resident and they are written to DRAM.
        """
        places = [self._on_chip.of(self._graph.tensor[band]) for band in operand.bands]
        if not any(places):
            for band in operand.bands:
                self._the_target_has_a_place(self._graph.tensor[band], DRAM)
            return None
        for band, residencies in zip(operand.bands, places, strict=True):
            for residency in residencies.values():
                residency.is_written = True
            if len(residencies) > 1:
                where = ", ".join(map(repr, residencies))
                detail = f"operator {operator.name!r} writes it, and it is allocated in {where}: one is written"
                self.report.violation(Rule.OUTPUT_IN_SEVERAL, band, detail)
        home = next(name for residencies in places for name in residencies)
        if any(home not in residencies for residencies in places):
            detail = f"operator {operator.name!r} writes some bands of it into {home!r}, and others elsewhere"
            self.report.violation(Rule.OUTPUT_APART, operand.base, detail)
        elif Operand.OUTPUT not in self._on_chip.scratchpads[home].holds:
            detail = f"operator {operator.name!r} writes it into {home!r}, which holds no outputs"
            self.report.violation(Rule.OUTPUT_NOT_HELD, operand.base, detail)
        return home


@dataclass(slots=True)
class HomesOfProgram:
    """A replay of residency alone; `homes` maps operators to the homes of their operands.

    For an illegal program the homes are a guess at its intention; the full replay reports the violations.
    """

    memories: Sequence[Memory]
    operands: Mapping[str, Sequence[TileOperand]]
    homes: dict[str, HomeOf] = field(default_factory=dict)
    _is_written: dict[str, dict[str, bool]] = field(init=False)

    def __post_init__(self) -> None:
        self._is_written = {memory.name: {} for memory in self.memories}

    def run(self, program: Iterable[Instruction]) -> Mapping[str, HomeOf]:
        """Return the homes for all operators that the program runs."""
        for instruction in program:
            match instruction:
                case Allocate(tensor, memory) if memory in self._is_written:
                    self._is_written[memory].setdefault(tensor, False)
                case Free(tensor, memory) if memory in self._is_written:
                    self._is_written[memory].pop(tensor, None)
                case Copy(tensor, source, target):
                    for memory in (source, target):
                        if tensor in self._is_written.get(memory, ()):
                            self._is_written[memory][tensor] = True
                case Compute(operator) if operator in self.homes:
                    self._homes(self.operands[operator])  # the first time counts, but it writes again
                case Compute(operator) if operator in self.operands:
                    self.homes[operator] = self._homes(self.operands[operator])
        return self.homes

    def _homes(self, operands: Sequence[TileOperand]) -> HomeOf:
        homes = {}
        for operand in operands:
            if operand.held_as is Operand.OUTPUT:
                homes[operand.base] = self._home_of_what_is_written(operand.bands)
            else:
                homes[operand.base] = self._home_of_what_is_read(operand)
        return homes

    def _home_of_what_is_read(self, operand: TileOperand) -> str | None:
        """Return the memory nearest the MACs that may hold the operand and has all its bands; None if there is none."""
        for memory in self.memories:
            if operand.held_as in memory.holds:
                is_written = self._is_written[memory.name]
                if all(is_written.get(band, False) for band in operand.bands):
                    return memory.name
        return None

    def _home_of_what_is_written(self, bands: Sequence[str]) -> str | None:
        """Mark the bands as written in every memory where they are resident; return the first of these memories."""
        home = None
        for band in bands:
            for memory, is_written in self._is_written.items():
                if band in is_written:
                    is_written[band] = True
                    home = home or memory
        return home
