"""Mappings of the host's benchmarks: search and execution."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Final

from onchip.answer.document import NamedMapping
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.api.map import MappingRequest, map_layers
from onchip.backends.nests.host import HOST, host_compiler
from onchip.backends.nests.mapping_files import MeasuredMapping, MeasureRequest, measure_mapping
from onchip.errors import InputError
from onchip.formats.own.accelerator_yaml import accelerator_to_yaml, load_accelerator
from onchip.search.budget.limits import Limits

SEARCH_SECONDS: Final = 20.0


def machine_for(method: str, folder: Path) -> str:
    """Return the host by its name; for CoSA a file of it in which tiles count once, in the registers of all lanes.

    CoSA has no double buffering, and no memory that belongs to one lane.
    """
    if method != "cosa":
        return HOST
    host = load_accelerator(HOST)
    lanes = host.array.macs if host.array else 1
    levels = []
    for level in host.levels:
        capacity = level.memory.capacity_bytes * (lanes if level.serves == () else 1) // (1 + level.double_buffered)
        memory = replace(level.memory, capacity_bytes=capacity)
        levels.append(replace(level, memory=memory, serves=("lane",), double_buffered=False))
    scratchpads = tuple(level.memory for level in levels if level.is_scratchpad)
    file = folder / "host-for-cosa.yaml"
    file.write_text(accelerator_to_yaml(replace(host, levels=tuple(levels), scratchpads=scratchpads)))
    return str(file)


def mapped(source: str, method: str = "exact", *, bits: int = 32, seed: int = 0) -> NamedMapping:
    """Return a mapping of one layer on the host.

    `exact` minimises the product of time and energy (here cycles that are not hidden), the others follow their own
    rules. Raises InputError if the method finds none.
    """
    with tempfile.TemporaryDirectory() as folder:
        request = MappingRequest(
            source,
            machine_for(method, Path(folder)),
            MappingObjective.EDP,
            method,
            bits,
            limits=Limits(SEARCH_SECONDS, seed=seed),
            use_cache=False,
            partial_bits=32,
        )
        outcome = map_layers(request)
    if not outcome.document.answer:
        raise InputError(f"{method} finds no mapping", place=source, expected="one that fits")
    (found,) = outcome.document.answer
    (layer,) = outcome.layers.layers.values()
    return replace(found, layer=layer)


def run(one: NamedMapping, seconds: float, repeats: int = 5) -> MeasuredMapping:
    """Compile and time a mapping and its peer."""
    request = MeasureRequest(Path("benchmark"), HOST, seconds, repeats)
    return measure_mapping(one, load_accelerator(HOST), host_compiler(), request)
