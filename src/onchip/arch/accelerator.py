"""The accelerator a network is planned for."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from onchip.arch.memory import Memory
from onchip.errors import AcceleratorError


@dataclass(frozen=True, slots=True)
class Accelerator:
    """A named set of scratchpads beside one DRAM."""

    name: str
    scratchpads: tuple[Memory, ...]

    def __post_init__(self) -> None:
        if not self.scratchpads:
            raise AcceleratorError("it has no scratchpad", place=f"accelerator {self.name!r}", expected="at least one")
        name, times = Counter(memory.name for memory in self.scratchpads).most_common(1)[0]
        if times > 1:
            raise AcceleratorError(f"{times} memories have this name", place=f"memory {name!r}", expected="one")
