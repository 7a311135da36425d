"""How fast DRAM and the scratchpads exchange bytes, and what an access to each costs."""

from __future__ import annotations

from collections.abc import Iterable

from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM, Access, Direction, Dma, MemoryLevel, Port
from onchip.errors import AcceleratorError
from onchip.plan.problem import Problem


class Links:
    """The scratchpads of a problem as levels of an accelerator, with the links to its DRAM.

    A scratchpad is known by its name; where plan and accelerator have one each, they are the same.
    Raises AcceleratorError for one that the accelerator does not have, and for a DRAM without ports.
    """

    def __init__(self, problem: Problem, accelerator: Accelerator) -> None:
        self.dma = accelerator.dma or Dma()
        self.dram_access: Access | None = accelerator.dram.access if accelerator.dram else None
        self._place = f"accelerator {accelerator.name!r}"
        self._dram_ports = accelerator.dram.ports if accelerator.dram else ()
        self._levels = self._levels_of(problem, accelerator)
        for direction in (Direction.READ, Direction.WRITE):
            if not _bits_per_cycle(self._dram_ports, direction):
                raise AcceleratorError(
                    f"its DRAM has no port to {direction}, so nothing can be timed on it",
                    place=self._place,
                    expected="`dram` with `ports` in its file",
                )

    @property
    def has_one_channel(self) -> bool:
        """Whether loads and write-backs take turns at DRAM: a port that does both can do one at a time."""
        return any(port.direction is Direction.READ_WRITE for port in self._dram_ports)

    def access(self, memory: str) -> Access | None:
        """What an access to a scratchpad costs."""
        return self._levels[memory].access

    def cycles(self, size_bytes: int, source: str, target: str) -> int:
        """Of a transfer without its set-up: the slower end says how fast."""
        rates = [_bits_per_cycle(self._dram_ports, Direction.READ if source == DRAM else Direction.WRITE)]
        level = self._levels[target if source == DRAM else source]
        if level.ports:
            rates.append(_bits_per_cycle(level.ports, Direction.WRITE if source == DRAM else Direction.READ))
        if not min(rates):
            raise AcceleratorError(
                f"no port leads from {source!r} to {target!r}", place=self._place, expected="ports of both directions"
            )
        return -(-size_bytes * 8 // min(rates))

    def _levels_of(self, problem: Problem, accelerator: Accelerator) -> dict[str, MemoryLevel]:
        levels = {level.memory.name: level for level in accelerator.levels if level.is_scratchpad}
        names = [memory.name for memory in problem.memories]
        if len(names) == len(levels) == 1:
            return {names[0]: next(iter(levels.values()))}
        for name in names:
            if name not in levels:
                raise AcceleratorError(
                    f"it has no scratchpad {name!r}, which the plan uses",
                    place=self._place,
                    expected=f"one of {', '.join(levels)}",
                )
        return levels


def _bits_per_cycle(ports: Iterable[Port], direction: Direction) -> int:
    return sum(port.bits_per_cycle for port in ports if port.direction in (direction, Direction.READ_WRITE))
