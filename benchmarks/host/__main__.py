"""Mappings on the host, compiled and timed next to vendor libraries: one thread each, seconds of the processor.

    PYTHONPATH=benchmarks python -m host [products] [convolutions] [integers] [ranks] [--seconds 1] [--layer LAYER]
                                         [--mappings 100] [--results FILE.json]

`products`: float32 matrix products by `exact`, against OpenBLAS in numpy. `convolutions`: ResNet-50's 3x3 convolutions
against onnxruntime, each in its own layout; onnxruntime arranges weights before it is timed, the mapping copies them
each time. `integers`: int8 against MatMulInteger of uint8 by int8 and ConvInteger. `ranks`: each method's mapping of
one layer, then Spearman's rank correlation of measured and predicted cycles over random mappings, by the model of the
mapping as written and as this machine runs it. Both programs run in turn in one process, and every value is compared.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np
from host.machine import host_compiler, load_host
from host.measuring import MeasuredMapping, measure_mapping
from shared.runner import Row, asked_of, options_of, report

from onchip.answer.document import NamedMapping, Reading
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.options.verb_options import MapOptions
from onchip.api.map import MappingRequest, map_layers
from onchip.arch.accelerator import Accelerator
from onchip.errors import InputError
from onchip.formats.own.graph_json import layer_table
from onchip.search.budget.limits import Limits

SEARCH_SECONDS: Final = 20.0
METHODS: Final = ("exact", "loma", "hybrid", "random", "cosa")
SHAPES: Final = (
    *("768x768x768", "1024x1024x1024", "512x512x512"),  # square
    *("4096x64x512", "2048x128x256", "100x1000x300"),  # tall, and awkward
    *("128x3072x768", "512x768x3072", "16x4096x1024", "128x128x64"),  # of language models
    *("64x64x64", "33x127x65"),  # small
)
"""Rows, columns and depth of the products."""
INTEGERS: Final = (
    *("gemm:m256n256k256", "gemm:m768n768k768", "gemm:m128n3072k768", "gemm:m16n4096k1024", "gemm:m2048n128k256"),
    *(f"cosa:resnet50:_outputs_input.{number}" for number in (5, 36, 73)),
    "conv:n1k128c128p28q28r3s3",
    "conv:k256c64p56q56",
)


def products(asked: Namespace) -> Iterator[Row]:
    """Yield the speed of each product."""
    for shape in SHAPES:
        m, n, k = shape.split("x")
        found = run(mapped(f"gemm:m{m}n{n}k{k}"), asked.seconds)
        yield {"shape": shape, "gflops": found.gflops, "numpy_gflops": found.peer_gflops, "ratio": found.ratio}


def convolutions(asked: Namespace) -> Iterator[Row]:
    """Yield the speed of each 3x3 convolution."""
    for name, layer in layer_table("resnet50").items():
        if layer.r == 3:
            found = run(mapped(f"cosa:resnet50:{name}"), asked.seconds)
            speeds = {"gflops": found.gflops, "peer_gflops": found.peer_gflops, "ratio": found.ratio}
            yield {"layer": name, "peer": found.peer} | speeds


def integers(asked: Namespace) -> Iterator[Row]:
    """Yield the speed of each integer layer, with predicted and measured cycles."""
    for name in INTEGERS:
        found = run(mapped(name, bits=8), asked.seconds)
        speeds = {"gops": found.gflops, "peer_gops": found.peer_gflops, "ratio": found.ratio}
        cycles = {"predicted_cycles": found.predicted_cycles, "measured_cycles": found.measured_cycles or 0.0}
        yield {"layer": name, "peer": found.peer} | speeds | cycles


def ranks(asked: Namespace) -> Iterator[Row]:
    """Yield the speed of each method's mapping of one layer, then the rank correlations over random mappings."""
    for method in METHODS:
        try:
            found = run(mapped(asked.layer, method), 0.5)
        except InputError as error:
            print(f"{method}: {error.what}", flush=True)
            continue
        yield {"method": method, "gflops": found.gflops, "peer_gflops": found.peer_gflops, "ratio": found.ratio}
    random = [run(mapped(asked.layer, "random", seed=seed), 0.0, 2) for seed in range(asked.mappings)]
    measured = [one.measured_cycles or 0.0 for one in random]
    as_run = rank_correlation(measured, [one.predicted_cycles for one in random])
    as_written = rank_correlation(measured, [one.model_cycles for one in random])
    yield {"layer": asked.layer, "mappings": len(random), "as_run": as_run, "as_written": as_written}


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Return Spearman's rank correlation; no values are equal."""
    one, other = (np.argsort(np.argsort(values)) for values in (first, second))
    return float(np.corrcoef(one, other)[0, 1])


def mapped(source: str, method: str = "exact", *, bits: int = 32, seed: int = 0) -> NamedMapping:
    """Return a mapping of one layer on the host; raises InputError if the method finds none.

    `exact` minimises the product of time and energy (here cycles that are not hidden); others follow their own rules.
    """
    limits = Limits(SEARCH_SECONDS, seed=seed)
    options = MapOptions(method=method, uses_cache=False, partial_bits=32)
    asked = source, _machine_for(method), MappingObjective.EDP, options, Reading(bits=bits)
    outcome = map_layers(MappingRequest(*asked, limits))
    if not outcome.document.answer:
        raise InputError(f"{method} finds no mapping", place=source, expected="one that fits")
    (found,) = outcome.document.answer
    (layer,) = outcome.layers.layers.values()
    return replace(found, layer=layer)


def _machine_for(method: str) -> Accelerator:
    """Return the host; for CoSA one in which tiles count once, in the registers of all lanes.

    CoSA has no double buffering, and no memory that belongs to one lane.
    """
    host = load_host()
    if method != "cosa":
        return host
    lanes = host.array.macs if host.array else 1
    levels = []
    for level in host.levels:
        capacity = level.memory.capacity_bytes * (lanes if level.serves == () else 1) // (1 + level.double_buffered)
        memory = replace(level.memory, capacity_bytes=capacity)
        levels.append(replace(level, memory=memory, serves=("lane",), double_buffered=False))
    scratchpads = tuple(level.memory for level in levels if level.is_scratchpad)
    return replace(host, levels=tuple(levels), scratchpads=scratchpads)


def run(one: NamedMapping, seconds: float, repeats: int = 5) -> MeasuredMapping:
    """Compile and time a mapping and its peer; end the program if a value is wrong."""
    found = measure_mapping(one, load_host(), host_compiler(), seconds, repeats)
    if not found.is_right:
        raise SystemExit(f"{one.mapping}: its values are wrong by {found.error}")
    return found


TABLES: Final = {"products": products, "convolutions": convolutions, "integers": integers, "ranks": ranks}


def main() -> None:
    """Print the tables."""
    parser = options_of(__doc__)
    parser.add_argument("tables", nargs="*", choices=TABLES, default=list(TABLES), metavar="TABLE")
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--layer", default="gemm:m256n256k256", help="of ranks")
    parser.add_argument("--mappings", type=int, default=100, help="random ones of ranks")
    asked = asked_of(parser)
    report(asked, {table: partial(TABLES[table], asked) for table in asked.tables})


if __name__ == "__main__":
    main()
