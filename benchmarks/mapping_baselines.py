"""Whether `exact` is ever above a baseline, and how much of it is proven: presets by layers by objectives.

    python benchmarks/mapping_baselines.py ROWS.jsonl [MINUTES [SECONDS]] [--processor] [--results FILE.json]

Adds rows to ROWS.jsonl for MINUTES (60), each asked of `exact` for at most SECONDS (10), and prints the table of all
rows there are; what is in the file is not asked again. Every method's answer is costed by the same model. Questions
come in an order that mixes presets, layers and objectives, so that the first rows are a sample of all. With
`--processor` SECONDS, and those of the rows, are of the processor.
"""

from __future__ import annotations

import json
import time
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from math import inf
from pathlib import Path
from statistics import median
from typing import Final

from shared.processor import count_processor_seconds
from shared.results import write_results

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


@dataclass(frozen=True, slots=True)
class Question:
    """One layer on one preset for one objective."""

    preset: str
    layer: str
    objective: MappingObjective

    @property
    def key(self) -> str:
        """Return what a row is found by."""
        return f"{self.preset} {self.layer} {self.objective}"


@dataclass(frozen=True, slots=True)
class Row:
    """One answer; values are in the objective's unit, and missing if nothing fits.

    `is_beyond`: the answer is better than every even mapping, and its bound covers all mappings.
    """

    key: str
    values: Mapping[str, float]
    seconds: Mapping[str, float]
    status: str
    lower_bound: float
    is_beyond: bool = False

    @property
    def excess(self) -> float:
        """Return the share by which `exact` is above the best baseline; negative if it is below."""
        best = min((value for name, value in self.values.items() if name != "exact"), default=inf)
        own = self.values.get("exact", inf)
        return 0.0 if own == best else own / best - 1.0


def questions() -> Iterator[Question]:
    """Yields all, mixed, of presets that say what an access costs."""
    found = [
        Question(preset, layer, objective)
        for preset in bundled_accelerators()
        if _says_enough(load_accelerator(preset))
        for layer in LAYERS
        for objective in MappingObjective
    ]
    yield from sorted(found, key=lambda one: sha256(one.key.encode()).digest())


def _says_enough(accelerator: Accelerator) -> bool:
    levels = [level.access for level in accelerator.levels]
    return accelerator.array is not None and None not in (*levels, accelerator.dram and accelerator.dram.access)


def answered(question: Question, seconds: float) -> Row:
    """Ask all methods."""
    accelerator = load_accelerator(question.preset)
    problem = LayerProblem(Precision().on(accelerator).of(Layer.of_text(question.layer)), accelerator)
    values, took, status, bound, is_beyond = dict[str, float](), dict[str, float](), "", 0.0, False
    for name in ("exact", *BASELINES):
        started = time.perf_counter()
        limit = seconds if name == "exact" else SECONDS_OF_BASELINE
        try:
            result = method_named(name).solve(problem, question.objective, Run(Limits(time_limit_seconds=limit)))
            if result.answer is not None:
                cost = layer_cost(problem, result.answer)
                values[name] = question.objective.of(cost.energy_pj, cost.cycles)
            if name == "exact":
                is_beyond = result.optimal_among is None
                status = str(result.status if is_beyond else Status.OPTIMAL)
                bound = float(result.lower_bound)
        except InputError as error:
            status = f"refused: {error}" if name == "exact" else status
        took[name] = round(time.perf_counter() - started, 2)
    return Row(question.key, values, took, status, bound, is_beyond)


def add_rows(path: Path, minutes: float, seconds: float) -> None:
    """Answer questions that are not in the file until the time is over."""
    known, stop = {row.key for row in rows_of(path)}, time.monotonic() + 60 * minutes
    for question in questions():
        if time.monotonic() > stop:
            return
        if question.key not in known:
            with path.open("a") as file:
                file.write(json.dumps(asdict(answered(question, seconds))) + "\n")


def rows_of(path: Path) -> list[Row]:
    """Return the rows of a file; none if there is no file."""
    return [Row(**json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []


def table(rows: list[Row]) -> Iterator[str]:
    """Yield a line for each objective, then each row in which `exact` is above a baseline.

    `even` counts proofs over even mappings, `all` those over all mappings. `gap` is the median of answers better than
    every even mapping.
    """
    head = f"{'objective':10} {'rows':>5} {'even':>5} {'all':>5} {'open':>5} {'gap':>7}"
    yield f"{head} {'above':>6} {'median':>7} {'worst':>6} s"
    for objective in MappingObjective:
        own = [row for row in rows if row.key.endswith(f" {objective}")]
        proven = Counter(row.is_beyond for row in own if row.status == "OPTIMAL")
        gaps = [1 - row.lower_bound / row.values["exact"] for row in own if row.is_beyond and "exact" in row.values]
        above, took = sum(row.excess > CLOSE for row in own), [row.seconds["exact"] for row in own] or [0.0]
        yield (
            f"{objective:10} {len(own):5} {proven[False]:5} {proven[True]:5} {len(own) - proven.total():5} "
            f"{median(gaps or [0.0]):7.2%} {above:6} {median(took):7.2f} {max(took):6.2f} s"
        )
    for row in sorted(rows, key=lambda one: -one.excess):
        if row.excess > CLOSE:
            best = min((value, name) for name, value in row.values.items() if name != "exact")[1]
            yield f"above {best} by {row.excess:.2%}: {row.key} ({row.status})"
        if row.status not in ("OPTIMAL", "FEASIBLE"):
            yield f"{row.key}: {row.status}"


def main() -> None:
    """Adds rows and prints the table."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=Path, metavar="ROWS.jsonl")
    parser.add_argument("minutes", type=float, nargs="?", default=60.0)
    parser.add_argument("seconds", type=float, nargs="?", default=10.0)
    parser.add_argument("--results", type=Path, metavar="FILE.json", help="write all rows, with commit and machine")
    parser.add_argument("--processor", action="store_true", help="count seconds of the processor")
    asked = parser.parse_args()
    if asked.processor:
        count_processor_seconds()
    add_rows(asked.rows, asked.minutes, asked.seconds)
    found = rows_of(asked.rows)
    print("\n".join(table(found)))
    if asked.results is not None:
        write_results(asked.results, [asdict(row) for row in found])


if __name__ == "__main__":
    main()
