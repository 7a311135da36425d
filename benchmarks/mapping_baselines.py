"""Whether `exact` is ever above a baseline, and how much of it is proven: presets by layers by objectives.

    python benchmarks/mapping_baselines.py ROWS.jsonl [MINUTES [SECONDS]] [--processor] [--results FILE.json]

Adds rows to ROWS.jsonl for MINUTES (60), with at most SECONDS (10) for `exact`, and prints all rows; questions in the
file are not asked again. The same model costs every method's answer. Questions come in an order that mixes presets,
layers and objectives, so that the first rows are a sample of all.
"""

from __future__ import annotations

import time
from hashlib import sha256
from math import inf
from pathlib import Path
from typing import Final

from shared.results import write_results
from shared.runner import Row, asked_of, kept, lines_of, options_of, shown

from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.result import Status
from onchip.arch.accelerator import Accelerator
from onchip.errors import InputError
from onchip.formats.own.accelerator_yaml import bundled_accelerators, load_accelerator
from onchip.ir.layer import Layer
from onchip.mapping.methods.registry import method_named
from onchip.model.layer.cost import layer_cost
from onchip.ops.layers_of import Precision
from onchip.search.budget.limits import Limits, Run

BASELINES: Final = ("loma", "cosa", "hybrid", "random")
SECONDS_OF_BASELINE: Final = 2.0
CLOSE: Final = 1e-9
LAYERS: Final = (
    "conv:k64c3p224q224r3s3:pad1",
    "conv:k64c64p56q56r3s3:pad1",
    "conv:k128c128p28q28r3s3:pad1",
    "conv:k256c256p14q14r3s3:pad1",
    "conv:k64c64p56q56",
    "conv:k256c64p56q56",
    "conv:k512c1024p14q14",
    "conv:k2048c512p7q7",
    "conv:k24c144p56q56",
    "conv:k128c64p28q28r3s3:stride2:pad1x1x0x0",
    "conv:k32c3p112q112r3s3:stride2:pad1x1x0x0",
    "conv:k512c256p7q7r3s3:stride2:pad1x1x0x0",
    "conv:k512c256p28q28:stride2",
    "conv:k2048c1024p7q7:stride2",
    "conv:k96c48p19q19:stride2",
    "conv:k32c32p112q112r3s3:pad1:groups32",
    "conv:k144c144p56q56r3s3:pad1:groups144",
    "conv:k960c960p7q7r5s5:pad2:groups960",
    "conv:k672c672p14q14r5s5:pad2:groups672",
    "conv:k96c96p56q56r3s3:stride2:pad1x1x0x0:groups96",
    "conv:k192c192p28q28r3s3:stride2:pad1x1x0x0:groups192",
    "conv:k384c384p7q7r3s3:stride2:pad1x1x0x0:groups384",
    "conv:k64c3p112q112r7s7:stride2:pad3x3x2x2",
    "conv:k96c3p55q55r11s11:stride4",
    "conv:k64c48p27q27r5s5:pad2",
    "conv:k32c16p17q17r7s1:pad3x0x3x0",
    "conv:k32c16p17q17r1s7:pad0x3x0x3",
    "conv:k12c56p9q960",
    "conv:k56c12p40q40r9s9:pad4",
    "conv:k1c56p40q40r9s9:pad4",
    "conv:k16c16p13q13r3s3:dilation2:pad2",
    "conv:k256c256p33q33r3s3:dilation12:pad12",
    "conv:k128c128p28q28r3s3:pad1:groups32",
    "conv:k240c240p28q28:groups3",
    "conv:k17c19p23q29r3s3:pad1",
    "conv:k31c37p11q11",
    "conv:k67c3p61q61r5s5:stride2",
    "conv:k1000c2048",
    "conv:k21c512p16q16",
    "conv:n16k64c64p14q14r3s3:pad1",
    "conv:n16k256c64p14q14r1s1:pad0",
    "conv:n16k13c11p7q7r3s3:pad1",
    "conv:n16k512c512p7q7r3s3:pad1",
    "conv:n16k96c96p14q14r3s3:pad1:groups96",
    "conv:n16k1000c512",
    "gemm:m1n4096k4096",
    "gemm:m1n11008k4096",
    "gemm:m128n768k768",
    "gemm:m512n3072k768",
    "gemm:m512n512k64",
    "gemm:m2048n2048k128",
    "gemm:m16n50257k768",
    "gemm:m197n768k768",
    "gemm:m197n197k64",
    "gemm:m77n320k768",
    "gemm:m100n100k100",
    "gemm:m127n127k127",
    "gemm:m1n1000k1280",
    "gemm:m16n4096k1024",
    "gemm:m50n17k33",
)
"""Sixty: depthwise, grouped, 1x1, strided, dilated, large filters, matrix products, odd bounds, batches of 1 and 16."""


def questions() -> list[str]:
    """Return preset, layer and objective of all questions, mixed, for presets that state the cost of an access."""
    presets = [preset for preset in bundled_accelerators() if _states_costs(load_accelerator(preset))]
    found = [f"{preset} {layer} {one}" for preset in presets for layer in LAYERS for one in MappingObjective]
    return sorted(found, key=lambda one: sha256(one.encode()).digest())


def _states_costs(accelerator: Accelerator) -> bool:
    levels = [level.access for level in accelerator.levels]
    return accelerator.array is not None and None not in (*levels, accelerator.dram and accelerator.dram.access)


def answered(question: str, seconds: float) -> Row:
    """Ask all methods; values are in the objective's unit, and missing if nothing fits.

    `is_beyond` is True if the answer is better than every even mapping, and its bound covers all mappings.
    """
    preset, text, name = question.split()
    accelerator, objective = load_accelerator(preset), MappingObjective(name)
    problem = LayerProblem(Precision().on(accelerator).of(Layer.of_text(text)), accelerator)
    values, took, status, bound, is_beyond = dict[str, float](), dict[str, float](), "", 0.0, False
    for method in ("exact", *BASELINES):
        started = time.perf_counter()
        limits = Limits(time_limit_seconds=seconds if method == "exact" else SECONDS_OF_BASELINE)
        try:
            result = method_named(method).solve(problem, objective, Run(limits))
            if result.answer is not None:
                cost = layer_cost(problem, result.answer)
                values[method] = objective.of(cost.energy_pj, cost.cycles)
            if method == "exact":
                is_beyond = result.optimal_among is None
                status = str(result.status if is_beyond else Status.OPTIMAL)
                bound = float(result.lower_bound)
        except InputError as error:
            status = f"refused: {error}" if method == "exact" else status
        took[method] = round(time.perf_counter() - started, 2)
    proof = {"status": status, "lower_bound": bound, "is_beyond": is_beyond}
    return {"key": question, "values": values, "seconds": took} | proof


def is_above_a_baseline(row: Row) -> bool:
    """Return True if a baseline has a better mapping than `exact`."""
    best = min((value for name, value in row["values"].items() if name != "exact"), default=inf)
    return bool(row["values"].get("exact", inf) > best * (1 + CLOSE))


def main() -> int:
    """Add rows and print all; return 1 if a baseline is better than `exact`."""
    parser = options_of(__doc__)
    parser.add_argument("rows", type=Path, metavar="ROWS.jsonl")
    parser.add_argument("minutes", type=float, nargs="?", default=60.0)
    parser.add_argument("seconds", type=float, nargs="?", default=10.0)
    asked = asked_of(parser)
    stop = time.monotonic() + 60 * asked.minutes
    known = {row["name"] for row in lines_of(asked.rows)}
    in_time = (question for question in questions() if question in known or time.monotonic() < stop)
    found = shown(kept(asked.rows, in_time, lambda question: answered(question, asked.seconds)))
    if asked.results is not None:
        write_results(asked.results, found)
    return int(any(map(is_above_a_baseline, found)))


if __name__ == "__main__":
    raise SystemExit(main())
