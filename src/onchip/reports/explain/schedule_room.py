"""How much room there is in the memories of a schedule for what is not there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from onchip.answer.residencies import Residency
from onchip.arch.memory import Memory, Operand
from onchip.reports.explain.schedule_history import ScheduleHistory


@dataclass(frozen=True, slots=True)
class Crowding:
    """`need_bytes` beside the `others_bytes` that lie in `memory` in `step`, the fullest of those asked about."""

    memory: Memory
    step: int
    need_bytes: int
    others_bytes: int

    @property
    def missing_bytes(self) -> int:
        """By how much it does not fit; 0 or less where it does."""
        return self.need_bytes + self.others_bytes - self.memory.capacity_bytes

    @property
    def is_too_large(self) -> bool:
        """Whether it would not even fit alone."""
        return self.need_bytes > self.memory.capacity_bytes


@dataclass(frozen=True)
class RoomOverTime:
    """The bytes resident in each addressed memory of a schedule, step by step; addresses are not looked at."""

    history: ScheduleHistory

    def crowding(
        self, operand: Operand, sizes_bytes: Mapping[str, int], start_step: int, stop_step: int
    ) -> Crowding | None:
        """Where tensors of these sizes would fit best, over steps [start, stop); None where no memory holds such.

        What already lies there of the tensors themselves takes no room of others.
        """
        holding = [one.memory for one in self.history.accelerator.addressed if operand in one.memory.holds]
        found = [self._in(memory, sizes_bytes, start_step, stop_step) for memory in holding]
        return min(found, key=lambda one: one.missing_bytes, default=None)

    def others(self, crowding: Crowding, own: Iterable[str]) -> Sequence[Residency]:
        """What else lies in the memory in that step, the largest first."""
        apart = set(own)
        there = [
            one
            for one in self._by_memory[crowding.memory.name]
            if one.start_step <= crowding.step < one.stop_step and one.tensor not in apart
        ]
        return sorted(there, key=lambda one: (-one.size_bytes, one.start_instruction))

    def residency(self, tensor: str, memory: str, instruction: int) -> Residency:
        """Where a tensor lies in a memory while an instruction runs; raises StopIteration where it does not."""
        there = self._by_tensor[tensor, memory]
        return next(one for one in there if one.start_instruction < instruction < one.stop_instruction)

    def _in(self, memory: Memory, sizes_bytes: Mapping[str, int], start_step: int, stop_step: int) -> Crowding:
        taken = self._footprints[memory.name][start_step:stop_step].copy()
        for tensor in sizes_bytes:
            for one in self._by_tensor.get((tensor, memory.name), ()):
                inside = slice(max(one.start_step - start_step, 0), max(one.stop_step - start_step, 0))
                taken[inside] -= one.size_bytes
        fullest = int(taken.argmax())
        return Crowding(memory, start_step + fullest, sum(sizes_bytes.values()), int(taken[fullest]))

    @cached_property
    def _by_memory(self) -> Mapping[str, Sequence[Residency]]:
        found: dict[str, list[Residency]] = defaultdict(list)
        for one in self.history.residencies:
            found[one.memory].append(one)
        return found

    @cached_property
    def _by_tensor(self) -> Mapping[tuple[str, str], Sequence[Residency]]:
        found: dict[tuple[str, str], list[Residency]] = defaultdict(list)
        for one in self.history.residencies:
            found[one.tensor, one.memory].append(one)
        return found

    @cached_property
    def _footprints(self) -> Mapping[str, npt.NDArray[np.int64]]:
        """By memory the bytes that are resident in each step, shape (steps,)."""
        found = {}
        for level in self.history.accelerator.addressed:
            change = np.zeros(self.history.step_count + 1, np.int64)
            for one in self._by_memory.get(level.memory.name, ()):
                change[one.start_step] += one.size_bytes
                change[one.stop_step] -= one.size_bytes
            found[level.memory.name] = change.cumsum()[:-1]
        return found
