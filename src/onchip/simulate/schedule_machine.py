"""Execution of a schedule's program on real bytes, with streamed operands and exclusive workspaces.

The Compute itself reads streamed operands from DRAM and writes them there. The bytes of a workspace are overwritten
while its operator runs, before it reads and after it has written, so that any other data there is destroyed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from onchip.answer.problem import Count, Problem
from onchip.answer.program import Allocate, Free, Instruction, Plan
from onchip.answer.schedule import WORKSPACE
from onchip.arch.memory import Operand
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.ops.derive.banded_operands import BandedOperand, operands_of
from onchip.simulate.kernel_protocol import Bytes, Kernels
from onchip.simulate.machine import BytePlace, MachineError, ProgramMachine, run_on
from onchip.simulate.machine_run import MachineRun, WrongBytes
from onchip.simulate.reference import Reference

TILE_BYTE = 0xA5
"""Fill value of a workspace, different from zero and from the fill value of fresh memory."""


@dataclass(frozen=True, slots=True)
class ScheduledProgram:
    """A program over the operators of `tiles`, with the bytes of each operator's workspaces by memory.

    `executed` has the same operators with all their parameters, the ones that no schedule counts among them.
    """

    program: Plan
    tiles: Graph
    executed: Graph
    workspaces: Mapping[str, Mapping[str, int]]

    @property
    def problem(self) -> Problem:
        """Return the problem of the program, as for a run without a schedule."""
        return Problem(self.executed, self.program.memories, count=Count.ALL)


def run_schedule_on_machine(
    scheduled: ScheduledProgram, kernels: Kernels, inputs: Mapping[str, Bytes], reference: Reference
) -> MachineRun:
    """Execute a schedule's program; raises MachineError for what no machine can carry out."""
    return run_on(_ScheduleMachine(scheduled, kernels, inputs, reference), scheduled.program)


_Target: TypeAlias = "tuple[Tensor, tuple[str, BytePlace] | None]"
"""A band that is written, with its memory and its place there; None: DRAM."""


class _ScheduleMachine(ProgramMachine):
    """The addressed memories and DRAM, with Copies between any two of them."""

    def __init__(
        self, scheduled: ScheduledProgram, kernels: Kernels, inputs: Mapping[str, Bytes], reference: Reference
    ) -> None:
        super().__init__(scheduled.problem, kernels, inputs, reference)
        self._tiles = scheduled.tiles
        self._workspaces = scheduled.workspaces

    def execute(self, index: int, instruction: Instruction) -> None:
        """Do what an instruction says; a workspace is as large as its operator's mapping needs it in that memory."""
        match instruction:
            case Allocate(name, memory, offset_bytes) if self._is_workspace(name):
                self._allocate(self._workspace(name, memory), self._memory(memory), offset_bytes, is_state=False)
            case Free(name, memory) if self._is_workspace(name):
                self._free(self._workspace(name, memory), self._memory(memory))
            case _:
                super().execute(index, instruction)

    def _is_workspace(self, name: str) -> bool:
        return name.endswith(WORKSPACE) and name not in self.problem.graph.tensor

    def _workspace(self, name: str, memory: str) -> Tensor:
        size_bytes = self._workspaces.get(name.removesuffix(WORKSPACE), {}).get(memory)
        if size_bytes is None:
            raise MachineError(f"no mapping needs {name!r} in {memory!r}")
        return Tensor(name, size_bytes, Role.ACTIVATION)

    def _is_a_way(self, source: str, target: str) -> bool:
        return source != target

    # Compute

    def _compute(self, operator: Operator) -> None:
        banded = operands_of(self._tiles, self._tiles.operator[operator.name])
        self._overwrite_workspaces(operator)
        operands: dict[str, Bytes] = {}
        for operand in banded:
            if operand.operand is not Operand.OUTPUT:
                operands |= self._read_from_home(operator, operand)
        if self.difference is not None:
            return
        written = self.kernels.run(operator, operands)
        targets = [target for one in banded if one.operand is Operand.OUTPUT for target in self._targets(operator, one)]
        for tensor, place in targets:
            self._write(operator, tensor, place, written[tensor.name])
        self._overwrite_workspaces(operator)
        for tensor, place in targets:
            content = self.dram[tensor.name] if place is None else self._bytes_at(*place)
            self._compare(tensor, content, WrongBytes.WRITTEN, operator)
        self.step += 1

    def _overwrite_workspaces(self, operator: Operator) -> None:
        for memory in self._workspaces.get(operator.name, {}):
            place = self.places[memory].get(operator.name + WORKSPACE)
            if place is None:
                raise MachineError(f"{operator.name!r} has no workspace in {memory!r}")
            self._bytes_at(memory, place)[:] = TILE_BYTE

    def _read_from_home(self, operator: Operator, operand: BandedOperand) -> Iterator[tuple[str, Bytes]]:
        """Yield each band's bytes, from the memory nearest the MACs that has them all, else from DRAM."""
        for memory in self.problem.memories:
            places = [self.places[memory.name].get(band.name) for band in operand.bands]
            there = [place for place in places if place is not None and place.is_written]
            if operand.operand in memory.holds and len(there) == len(operand.bands):
                contents = [self._bytes_at(memory.name, place) for place in there]
                break
        else:
            contents = [self._stored(band).view() for band in operand.bands]
        for band, content in zip(operand.bands, contents, strict=True):
            self._compare(band, content, WrongBytes.READ, operator)
            content.flags.writeable = False
            yield band.name, content

    def _targets(self, operator: Operator, operand: BandedOperand) -> Iterator[_Target]:
        """Yield each band with its place in the one memory in which all are; None: they are written to DRAM."""
        found = {
            memory.name: [band.name for band in operand.bands if band.name in self.places[memory.name]]
            for memory in self.problem.memories
        }
        resident = {memory: names for memory, names in found.items() if names}
        for band in operand.bands:
            if not resident:
                yield band, None
                continue
            (home, names), *others = resident.items()
            if others or len(names) < len(operand.bands) or operand.operand not in self._memories[home].holds:
                raise MachineError(
                    f"{operator.name!r} writes {band.name!r}, of which there are bands in {', '.join(resident)}",
                    expected="all of them in one memory that holds outputs, or none in any",
                )
            yield band, (home, self.places[home][band.name])

    def _write(self, operator: Operator, tensor: Tensor, place: tuple[str, BytePlace] | None, content: Bytes) -> None:
        if len(content) != tensor.size_bytes:
            what = f"{operator.name!r} wrote {len(content)} bytes of {tensor.name!r}"
            raise MachineError(what, expected=str(tensor.size_bytes))
        if place is None:
            self.dram[tensor.name] = content.copy()
        else:
            self._bytes_at(*place)[:] = content
            place[1].is_written = True
