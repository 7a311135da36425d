"""When each operator and each transfer of a plan starts and ends.

The array runs the operators in the plan's order. Transfers go to the DMA queues in turn, each
queue in the plan's order: a transfer is set up on its queue and then has the DRAM to itself, or,
where DRAM has ports for reading and for writing apart, the ports of its direction. Otherwise
everything runs as soon as it can:

* an operator waits for the bytes it reads and for the places it writes to;
* a load waits for its place, and for the write-back that made DRAM's copy;
* a write-back waits for the bytes;
* a place waits until whatever used its bytes before, reading or writing, is done with them.

Allocate and Free take no time. Because every order is fixed by the plan, no activity can begin
later when another gets shorter: a faster DRAM never makes a plan slower.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM, Dma
from onchip.ir.operator import Operator
from onchip.ir.tensor import Tensor
from onchip.plan.plan import Allocate, Compute, Copy, Free, Instruction, Plan
from onchip.plan.problem import Problem
from onchip.simulate.energy import Energy, EnergyMeter
from onchip.simulate.rates import Rates


@dataclass(frozen=True, slots=True)
class Activity:
    """Cycles [start, stop) of an operator, or of a transfer on DMA queue `queue` (None for operators).

    `subject` names the operator or tensor; `instruction` is an index into the plan.
    """

    instruction: int
    subject: str
    start: int
    stop: int
    queue: int | None = None
    source: str | None = None
    target: str | None = None

    @property
    def cycles(self) -> int:
        """How long it takes."""
        return self.stop - self.start


@dataclass(frozen=True, slots=True)
class Timeline:
    """`activities` in the plan's order; cycles from 0, when the plan begins, to `total_cycles`, when all is done."""

    activities: tuple[Activity, ...]
    macs: int
    macs_per_cycle: int
    dma: Dma
    energy: Energy

    @property
    def total_cycles(self) -> int:
        """Until the last activity has ended."""
        return max((activity.stop for activity in self.activities), default=0)

    @property
    def compute_cycles(self) -> int:
        """In which the array runs an operator."""
        return sum(activity.cycles for activity in self.activities if activity.queue is None)

    @property
    def stalled_cycles(self) -> int:
        """In which it does not: it can only be waiting for transfers, the last of them included."""
        return self.total_cycles - self.compute_cycles

    @property
    def transfer_cycles(self) -> int:
        """Of all queues together."""
        return sum(activity.cycles for activity in self.activities if activity.queue is not None)

    @property
    def dma_utilisation(self) -> float:
        """The share of its time that a queue is busy, set-up and waiting for the DRAM included."""
        return self.transfer_cycles / (self.dma.queues * self.total_cycles) if self.total_cycles else 0.0

    @property
    def mac_utilisation(self) -> float:
        """Multiply-accumulates done, by those that could have been done."""
        return self.macs / (self.macs_per_cycle * self.total_cycles) if self.total_cycles else 0.0


def time_plan(
    problem: Problem,
    plan: Plan,
    accelerator: Accelerator,
    compute_cycles: Callable[[Operator], int],
    macs: Callable[[Operator], int],
) -> Timeline:
    """Time a legal plan; raises AcceleratorError where the accelerator does not say how fast its DRAM is."""
    clock = _Clock(problem, accelerator, compute_cycles)
    meter = EnergyMeter(problem, accelerator)
    done = 0
    for index, instruction in enumerate(plan.instructions):
        clock.execute(index, instruction)
        if isinstance(instruction, Compute):
            operator = problem.graph.operator[instruction.operator]
            done += macs(operator)
            meter.compute(macs(operator), [clock.memory_of(tensor) for tensor in problem.operands(operator)], operator)
        elif isinstance(instruction, Copy):
            meter.transfer(problem.graph.tensor[instruction.tensor], instruction.source, instruction.target)
    macs_per_cycle = accelerator.array.macs if accelerator.array else 1
    return Timeline(tuple(clock.activities), done, macs_per_cycle, clock.dma, meter.energy())
