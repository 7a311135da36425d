"""Transfer rates between DRAM and the scratchpads, and access costs."""

from __future__ import annotations

from onchip.answer.problem import Problem
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM, Access, Direction, Dma
from onchip.errors import AcceleratorError


class Links:
    """The scratchpads of a problem on an accelerator, with their links and the paths to DRAM.

    Scratchpads match by name; a single scratchpad on both sides always matches. Raises AcceleratorError for a
    scratchpad that the accelerator lacks.
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
        """Return True if loads and write-backs take turns at DRAM: a read-write port does one at a time."""
        ports = self._accelerator.dram.ports if self._accelerator.dram else ()
        return any(port.direction is Direction.READ_WRITE for port in ports)

    def access(self, memory: str) -> Access | None:
        """Return the access of a scratchpad or DRAM, None if its cost is not stated."""
        return self._access[self._names[memory]]

    def cycles(self, size_bytes: int, source: str, target: str) -> int:
        """Return the cycles of a transfer without its set-up; raises AcceleratorError if no rate is stated."""
        bits_per_cycle = self._accelerator.bits_per_cycle(self._names[source], self._names[target])
        return -(-size_bytes * 8 // bits_per_cycle)


def _names_of(problem: Problem, accelerator: Accelerator) -> dict[str, str]:
    """Return the accelerator's name of each memory of the plan."""
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
    """The transfer paths of a problem that states durations, but no energies."""

    def __init__(self, problem: Problem) -> None:
        durations = problem.known_durations
        self.dma = Dma(durations.queues, durations.setup_cycles)
        self.has_one_channel = durations.has_one_channel
        self._rates = problem.transfers.rates

    def access(self, memory: str) -> Access | None:
        """Return None: access costs are unknown."""
        del memory
        return None

    def cycles(self, size_bytes: int, source: str, target: str) -> int:
        """Return the cycles of a transfer without its set-up; every path of such a problem has a rate."""
        rate = self._rates[source, target]
        return rate.cost(size_bytes) - rate.setup
