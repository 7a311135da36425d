"""What a program says of each tensor without its network: where it lies when, and how often DRAM gets or gives it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from onchip.answer.program import Allocate, Compute, Copy, Free, Plan
from onchip.arch.memory import DRAM


@dataclass(frozen=True, slots=True)
class TensorStay:
    """A tensor in a scratchpad at an offset while the operators of the steps [start, stop) run."""

    memory: str
    offset_bytes: int
    start_step: int
    stop_step: int

    @property
    def steps(self) -> int:
        """How many operators run meanwhile."""
        return self.stop_step - self.start_step


@dataclass(slots=True)
class TensorLife:
    """All stays of one tensor in the order in which they end, its copies to DRAM, and those from there."""

    stays: list[TensorStay] = field(default_factory=list)
    write_backs: int = 0
    loads: int = 0

    @property
    def steps(self) -> int:
        """How many operators run while it is on the chip, each counted once for each copy of it."""
        return sum(stay.steps for stay in self.stays)

    @property
    def places(self) -> tuple[tuple[str, int], ...]:
        """The scratchpads and offsets at which it lies, in the order of its stays."""
        return tuple((stay.memory, stay.offset_bytes) for stay in sorted(self.stays, key=_by_start))


def _by_start(stay: TensorStay) -> tuple[int, str, int]:
    return stay.start_step, stay.memory, stay.offset_bytes


def order_of(plan: Plan) -> tuple[str, ...]:
    """The operators in the order in which they run."""
    return tuple(line.operator for line in plan.instructions if isinstance(line, Compute))


def lives_of(plan: Plan) -> dict[str, TensorLife]:
    """The life of every tensor that the program names."""
    lives: dict[str, TensorLife] = {}
    here: dict[tuple[str, str], tuple[int, int]] = {}
    step = 0
    for line in plan.instructions:
        if isinstance(line, Compute):
            step += 1
            continue
        life = lives.setdefault(line.tensor, TensorLife())
        match line:
            case Allocate(tensor=tensor, memory=memory, offset_bytes=offset_bytes):
                here[tensor, memory] = offset_bytes, step
            case Copy(source=source, target=target):
                life.loads += source == DRAM
                life.write_backs += target == DRAM
            case Free(tensor=tensor, memory=memory) if (tensor, memory) in here:
                life.stays.append(TensorStay(memory, *here.pop((tensor, memory)), step))
    for tensor, stay in _left(here, step):
        lives[tensor].stays.append(stay)
    return lives


def _left(here: dict[tuple[str, str], tuple[int, int]], step: int) -> Iterator[tuple[str, TensorStay]]:
    """What is resident at the end."""
    for (tensor, memory), place in here.items():
        yield tensor, TensorStay(memory, *place, step)
