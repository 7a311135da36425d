"""Small machines and simple mappers for stacks of fused layers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from onchip.answer.layer_mapping import Kept, LayerMapping, Loop, MappingError
from onchip.answer.layer_problem import LayerProblem
from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import Access, Direction, Dram, Memory, MemoryLevel, Operand, Port
from onchip.model.layer.cost import Latency, LayerCost, layer_cost

READ_AND_WRITE = (Port(Direction.READ, 64), Port(Direction.WRITE, 32))
DRAM_PORT = (Port(Direction.READ_WRITE, 16),)
FREE = Latency(0, 0, 0, 0, 0)


def level(
    name: str, size: int, *holds: Operand, pj: float = 1.0, ports: tuple[Port, ...] = READ_AND_WRITE
) -> MemoryLevel:
    """Return a memory level whose reads cost `pj` for 16 bits, and whose writes cost twice as much."""
    memory = Memory(name, size, holds=holds or tuple(Operand))
    return MemoryLevel(memory, None, True, access=Access(16, pj, 2 * pj, 8), ports=ports)


def machine(*levels: MemoryLevel) -> Accelerator:
    """Return a machine with one unit."""
    scratchpads = tuple(one.memory for one in levels)
    dram = Dram(Access(16, 100.0, 200.0, 8), DRAM_PORT)
    return Accelerator("toy", scratchpads, levels, None, ComputeArray({"K": 1}, mac_energy_pj=0.5), dram)


def small_machine(local: int = 256, shared: int = 1024) -> Accelerator:
    """Return a machine with a weight memory, and a local and a global buffer for features."""
    return machine(
        level("weights", 4096, Operand.WEIGHT),
        level("local", local, Operand.INPUT, Operand.OUTPUT),
        level("global", shared, Operand.INPUT, Operand.OUTPUT, pj=4.0),
    )


def split_machine() -> Accelerator:
    """Return a machine with separate input and output buffers below a shared one."""
    return machine(level("in", 64, Operand.INPUT), level("out", 64, Operand.OUTPUT), level("shared", 512, pj=4.0))


def plain(problem: LayerProblem) -> LayerCost | None:
    """Return the cost with one element at a time in every memory, or None if that does not fit."""
    nest = tuple(Loop(name, size) for name, size in problem.layer.bounds.items() if size > 1)
    kept = (
        tuple(Kept(one.memory.name, 0) for one in problem.keepers(operand) if operand in problem.layer.operands)
        for operand in Operand
    )
    try:
        return layer_cost(problem, LayerMapping(nest, *kept))
    except MappingError:
        return None


def fitting(problem: LayerProblem) -> LayerCost | None:
    """Return a cost of zero; the caller asks only for problems whose whole operands fit."""
    return LayerCost(LayerMapping(()), problem.layer.macs, (), {}, 0.0, FREE, 1)


@dataclass(slots=True)
class Noting:
    """A mapper that records its problems, and refuses the first `refusals` of them."""

    refusals: int = 0
    asked: list[LayerProblem] = field(default_factory=list)

    def __call__(self, problem: LayerProblem) -> LayerCost | None:
        self.asked.append(problem)
        self.refusals -= 1
        return None if self.refusals >= 0 else fitting(problem)


def with_capacity(accelerator: Accelerator, name: str, capacity_bytes: int) -> Accelerator:
    levels = tuple(
        replace(one, memory=replace(one.memory, capacity_bytes=capacity_bytes)) if one.memory.name == name else one
        for one in accelerator.levels
    )
    return replace(accelerator, levels=levels, scratchpads=tuple(one.memory for one in levels))
