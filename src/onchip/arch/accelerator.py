"""The accelerator model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import isfinite
from types import MappingProxyType

from onchip.arch.compute import ComputeArray
from onchip.arch.memory import DRAM, Direction, Dma, Dram, Link, Memory, MemoryLevel, Port
from onchip.arch.sharing import NO_SHARING, SharedKinds
from onchip.arch.sizes import bytes_of
from onchip.errors import AcceleratorError


@dataclass(frozen=True, slots=True)
class Accelerator:
    """The scratchpads and DRAM of a chip; time, energy and layer mapping also use its other parts.

    `levels` are all on-chip memories, nearest the MACs first. The scratchpads are the levels that software addresses in
    `plan`, in the same order; without levels, each scratchpad is a level. `share` gives the operator kinds whose
    kernels compute in place. `notes` are sentences about features of the accelerator file that the model ignores.
    Reports state the notes with every answer; hashes, comparisons and cache keys ignore them.
    """

    name: str
    scratchpads: tuple[Memory, ...]
    levels: tuple[MemoryLevel, ...] = ()
    clock_mhz: float | None = None
    array: ComputeArray | None = None
    dram: Dram | None = None
    dma: Dma | None = None
    links: tuple[Link, ...] = ()
    share: SharedKinds = NO_SHARING
    notes: tuple[str, ...] = field(default=(), repr=False, compare=False)

    def __post_init__(self) -> None:
        place = f"accelerator {self.name!r}"
        if not self.name:
            raise AcceleratorError("an accelerator has no name", expected="a name")
        if not self.scratchpads:
            raise AcceleratorError("it has no scratchpad", place=place, expected="at least one")
        if not self.levels:
            levels = tuple(MemoryLevel(memory, is_scratchpad=True) for memory in self.scratchpads)
            object.__setattr__(self, "levels", levels)
        name, times = Counter(level.memory.name for level in self.levels).most_common(1)[0]
        if times > 1:
            raise AcceleratorError(f"{times} memories have this name", place=f"memory {name!r}", expected="one")
        if self.scratchpads != tuple(level.memory for level in self.levels if level.is_scratchpad):
            raise AcceleratorError("its scratchpads are not those of its levels", place=place, expected="the same")
        if self.clock_mhz is not None and not (isfinite(self.clock_mhz) and self.clock_mhz > 0):
            raise AcceleratorError(f"clock_mhz is {self.clock_mhz}", place=place, expected="a finite number above 0")
        self._levels_serve_dimensions_of_the_array()
        self._links_lead_from_scratchpad_to_scratchpad()

    @property
    def addressed(self) -> tuple[MemoryLevel, ...]:
        """Return the levels with one instance for the whole array, nearest the MACs first; schedules allocate there."""
        dimensions = set(self.array.sizes if self.array else ())
        return tuple(level for level in self.levels if level.serves is None or set(level.serves) == dimensions)

    @property
    def restriction(self) -> str | None:
        """Return the restriction that the notes add to every proof on this accelerator; None without notes."""
        return "without the features noted" if self.notes else None

    def resized(self, capacities: Mapping[str, int | str] = MappingProxyType({}), /, **more: int | str) -> Accelerator:
        """Return the accelerator with other capacities of the named memories, in bytes or as sizes such as `64KiB`.

        The access energies follow the laws of the memory; without laws they do not change. Raises AcceleratorError for
        an unknown memory or an invalid capacity.
        """
        capacity_bytes = {name: bytes_of(size, f"memory {name!r}") for name, size in {**capacities, **more}.items()}
        names = [level.memory.name for level in self.levels]
        for name in capacity_bytes:
            if name not in names:
                place = f"accelerator {self.name!r}"
                raise AcceleratorError(
                    f"there is no memory {name!r}", place=place, expected=f"one of {', '.join(names)}"
                )
        levels = tuple(
            level.resized(capacity_bytes[level.memory.name]) if level.memory.name in capacity_bytes else level
            for level in self.levels
        )
        scratchpads = tuple(level.memory for level in levels if level.is_scratchpad)
        return replace(self, scratchpads=scratchpads, levels=levels)

    def bits_per_cycle(self, source: str, target: str) -> int:
        """Return the transfer rate in bits per cycle: the minimum over the ports at both ends and the link.

        A scratchpad without ports and a link without `bits_per_cycle` impose no limit. Raises AcceleratorError if there
        is no connection, or if its rate is unknown.
        """
        limits = [self._bits_per_cycle_at(source, Direction.READ), self._bits_per_cycle_at(target, Direction.WRITE)]
        if DRAM not in (source, target):
            limits.append(self._link(source, target).bits_per_cycle)
        known = [limit for limit in limits if limit is not None]
        if not known:
            raise AcceleratorError(
                "nothing says how many bits per cycle it moves",
                place=f"link from {source!r} to {target!r}",
                expected="`bits_per_cycle`, or `ports` of a scratchpad that it joins",
            )
        if not min(known):
            raise AcceleratorError(
                f"no port leads from {source!r} to {target!r}",
                place=f"accelerator {self.name!r}",
                expected="ports of both directions",
            )
        return min(known)

    def _bits_per_cycle_at(self, memory: str, direction: Direction) -> int | None:
        """Return the rate at one end of a transfer, in bits per cycle; None for a scratchpad without ports."""
        if memory != DRAM:
            levels = {level.memory.name: level for level in self.levels if level.is_scratchpad}
            return _bits_per_cycle(levels[memory].ports, direction) if levels[memory].ports else None
        bits_per_cycle = _bits_per_cycle(self.dram.ports, direction) if self.dram else 0
        if not bits_per_cycle:
            raise AcceleratorError(
                f"its DRAM has no port to {direction}, so nothing can be timed on it",
                place=f"accelerator {self.name!r}",
                expected="`dram` with `ports` in its file, or an objective that needs no rate, as traffic",
            )
        return bits_per_cycle

    def _link(self, source: str, target: str) -> Link:
        for link in self.links:
            if (link.source, link.target) == (source, target):
                return link
        raise AcceleratorError(
            f"no link leads from {source!r} to {target!r}",
            place=f"accelerator {self.name!r}",
            expected="one among its `links`",
        )

    def _levels_serve_dimensions_of_the_array(self) -> None:
        dimensions = self.array.dimensions if self.array else {}
        for level in self.levels:
            for dimension in level.serves or ():
                if dimension not in dimensions:
                    raise AcceleratorError(
                        f"unknown array dimension {dimension!r}",
                        place=f"memory {level.memory.name!r}",
                        expected=f"one of {', '.join(dimensions)}" if dimensions else "an array with fixed dimensions",
                    )

    def _links_lead_from_scratchpad_to_scratchpad(self) -> None:
        names = [memory.name for memory in self.scratchpads]
        for link in self.links:
            for name in (link.source, link.target):
                if name not in names:
                    raise AcceleratorError(
                        f"there is no scratchpad {name!r}",
                        place=f"link from {link.source!r} to {link.target!r}",
                        expected=f"one of {', '.join(names)}",
                    )
        ends, times = (
            Counter((link.source, link.target) for link in self.links).most_common(1)[0]
            if self.links
            else (("", ""), 0)
        )
        if times > 1:
            raise AcceleratorError(f"there are {times}", place=f"link from {ends[0]!r} to {ends[1]!r}", expected="one")


def _bits_per_cycle(ports: tuple[Port, ...], direction: Direction) -> int:
    return sum(port.bits_per_cycle for port in ports if port.direction in (direction, Direction.READ_WRITE))
