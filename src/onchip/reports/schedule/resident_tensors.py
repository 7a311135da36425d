"""The residencies that a page draws one by one, with the tensors that they are of, as its script looks them up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from onchip.answer.residencies import Began, Residency
from onchip.answer.schedule import WORKSPACE
from onchip.reports.explain.schedule_history import ScheduleHistory
from onchip.reports.shared.page import Json


@dataclass(frozen=True, slots=True)
class DrawnResidencies:
    """`numbers` of the history's residencies that are drawn; memories that have too many are `coarse`."""

    history: ScheduleHistory
    numbers: tuple[int, ...]
    coarse: frozenset[str]
    counts: Mapping[str, int]

    @classmethod
    def of(cls, history: ScheduleHistory, most: int) -> DrawnResidencies:
        """Those in memories with at most so many."""
        counts = Counter(one.memory for one in history.residencies)
        coarse = frozenset(memory for memory, count in counts.items() if count > most)
        numbers = tuple(number for number, one in enumerate(history.residencies) if one.memory not in coarse)
        return cls(history, numbers, coarse, counts)

    def count(self, memory: str) -> int:
        """How many residencies a memory has."""
        return self.counts.get(memory, 0)

    def indices(self, memory: str) -> Mapping[int, int]:
        """By number of each residency in a memory, its place in the page's list."""
        residencies = self.history.residencies
        return {number: place for place, number in enumerate(self.numbers) if residencies[number].memory == memory}

    def rows(self) -> list[list[object]]:
        """Tensor, memory, offset, start and stop step, how it began; bytes of its spill, its reload and its move."""
        places = {name: place for place, name in enumerate(self._names)}
        return [_row(places, self.history.residencies[number]) for number in self.numbers]

    def tensors(self) -> list[Json]:
        """Name, role, shape, bytes, the step that makes it and those that read it; sizes of workspaces are greatest."""
        step = {name: number for number, name in enumerate(self.history.operators)}
        graph, sizes = self.history.tiles.graph, self._sizes
        found: list[Json] = []
        made: int | None
        for name in self._names:
            tensor = graph.tensor.get(name)
            if tensor is None:
                own = step[name.removesuffix(WORKSPACE)]
                made, read, shape = own, [own], "tiles of streamed operands"
            else:
                made = step[graph.producer[name].name] if name in graph.producer else None
                read = sorted(step[reader.name] for reader in graph.readers[name])
                shape = "not known" if tensor.shape is None else "\u00d7".join(map(str, tensor.shape)) or "scalar"
            size, role = sizes[name], self.history.role(name)
            found.append({"name": name, "role": role, "shape": shape, "bytes": size, "made": made, "read": read})
        return found

    @property
    def _names(self) -> list[str]:
        return list(dict.fromkeys(self.history.residencies[number].tensor for number in self.numbers))

    @property
    def _sizes(self) -> Mapping[str, int]:
        sizes: dict[str, int] = {}
        for number in self.numbers:
            one = self.history.residencies[number]
            sizes[one.tensor] = max(sizes.get(one.tensor, 0), one.size_bytes)
        return sizes


def _row(places: Mapping[str, int], one: Residency) -> list[object]:
    costs = (one.is_spilled, one.began is Began.RELOADED, one.began is Began.MOVED)
    where = [places[one.tensor], one.memory, one.offset_bytes, one.start_step, one.stop_step, one.began]
    return [*where, *(one.size_bytes if has_cost else 0 for has_cost in costs)]
