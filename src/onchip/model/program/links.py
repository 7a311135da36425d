"""How fast DRAM and the scratchpads exchange bytes, and what an access to each costs."""

from __future__ import annotations

from onchip.answer.problem import Problem
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM, Access, Direction, Dma
from onchip.errors import AcceleratorError


class Links:
    """The scratchpads of a problem as those of an accelerator, with the ways between them and to its DRAM.

    A scratchpad is known by its name; where plan and accelerator have one each, they are the same.
    Raises AcceleratorError for one that the accelerator does not have.
    """

    def __init__(self, problem: Problem, accelerator: Accelerator) -> None:
        self.dma = accelerator.dma or Dma()
        self._accelerator = accelerator
        self._access: dict[str, Access | None] = {
            level.memory.name: level.access for level in accelerator.levels if level.is_scratchpad
        } | {DRAM: accelerator.dram.access if accelerator.dram else None}
        self._names = _names_of(problem, accelerator)

    @property
    def has_one_channel(self) -> bool:
        """Whether loads and write-backs take turns at DRAM: a port that does both can do one at a time."""
        ports = self._accelerator.dram.ports if self._accelerator.dram else ()
        return any(port.direction is Direction.READ_WRITE for port in ports)

    def access(self, memory: str) -> Access | None:
        """What an access to a scratchpad, or to DRAM, costs."""
        return self._access[self._names[memory]]

    def cycles(self, size_bytes: int, source: str, target: str) -> int:
        """Of a transfer without its set-up; raises AcceleratorError where the accelerator does not say how fast."""
        bits_per_cycle = self._accelerator.bits_per_cycle(self._names[source], self._names[target])
        return -(-size_bytes * 8 // bits_per_cycle)


def _names_of(problem: Problem, accelerator: Accelerator) -> dict[str, str]:
    """What the accelerator calls each of the plan's memories."""
    known = [memory.name for memory in accelerator.scratchpads]
    names = [memory.name for memory in problem.memories]
    if len(names) == len(known) == 1:
        return {DRAM: DRAM, names[0]: known[0]}
    for name in names:
        if name not in known:
            raise AcceleratorError(
                f"it has no scratchpad {name!r}, which the plan uses",
                place=f"accelerator {accelerator.name!r}",
                expected=f"one of {', '.join(known)}",
            )
    return {name: name for name in (DRAM, *names)}


class StatedLinks:
    """The ways of a problem that says how long transfers last, and nothing of energy."""

    def __init__(self, problem: Problem) -> None:
        durations = problem.known_durations
        self.dma = Dma(durations.queues, durations.setup_cycles)
        self.has_one_channel = durations.has_one_channel
        self._rates = problem.transfers.rates

    def access(self, memory: str) -> Access | None:
        """Nothing is known of accesses, to whatever memory."""
        del memory
        return None

    def cycles(self, size_bytes: int, source: str, target: str) -> int:
        """Return the cycles of a transfer without its set-up; every way of such a problem has a rate."""
        rate = self._rates[source, target]
        return rate.cost(size_bytes) - rate.setup
