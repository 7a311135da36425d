"""Peak memory use of a fused group's layers, in capacity that tiles share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.model.group.cost import StackCost
from onchip.model.layer.limits import needed_bits
from onchip.model.layer.ragged import boundaries


def peak_bytes_of(costs: Iterable[StackCost]) -> Mapping[str, int]:
    """Return the peak bytes of one instance of each memory over all layers, by name; see docs/fused.md, section 4."""
    peaks: dict[str, int] = {}
    seen: set[tuple[int, int]] = set()
    for cost in costs:
        for layer in (layer for tile in cost.placed for layer in tile.layers):
            key = id(layer.problem), id(layer.mapping)
            if key not in seen:
                seen.add(key)
                for memory, size in _bytes_of(layer.problem, layer.mapping).items():
                    peaks[memory] = max(peaks.get(memory, 0), size)
    return peaks


def _bytes_of(problem: LayerProblem, mapping: LayerMapping) -> Mapping[str, int]:
    """Return the bytes that other data and tiles take, by memory; tiles count in whole units in every accounting."""
    needs = needed_bits(problem, boundaries(mapping.layer(problem.layer), problem, mapping))
    found: dict[str, int] = {}
    for level in problem.accelerator.levels:
        name, capacity_bytes = level.memory.name, level.memory.capacity_bytes
        bits = sum(need for (memory, _), need in needs.items() if memory == name) - problem.resident_bits(name)
        found[name] = capacity_bytes - problem.room_bytes.get(name, capacity_bytes) - (-bits // 8)
    return found
