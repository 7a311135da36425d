"""ResNet18 on ZigZag's tpu_like for energy, with ZigZag's accounting: its mappings, and the best there are.

    python benchmarks/resnet18_tpu.py [--limit 6] [--peer]

`loma` makes ZigZag's own mappings, `proven` the least over all orders of the loops and all cuts on the same unrolling.
With `--peer`, and zigzag-dse 3.9.1 and six installed, ZigZag itself says what the proven mappings cost. Exits with 1
where the sum of the 21 layers is above ZigZag's, a layer is not proven, or ZigZag says otherwise by more than 0.01 %.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Final

from zigzag_peer import Peer, peer_inputs

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import FEMTO_PER_PICO, MappingObjective
from onchip.answer.result import SearchResult, Status
from onchip.formats.zigzag import ZigzagHardware, read_zigzag_hardware
from onchip.ir.layer import Layer
from onchip.mapping.baselines.loma import solve_as_loma
from onchip.mapping.tile_search.uneven import solve_uneven
from onchip.model.accounting.accounting import ZIGZAG
from onchip.model.layer.tables import ZigzagCosts
from onchip.search.budget.limits import Run

HARDWARE: Final = Path(__file__).parents[1] / "tests" / "data" / "zigzag-systolic.yaml"
UNROLLING: Final = {"D1": {"K": 32}, "D2": {"C": 32}}
"""Of ZigZag's mapping file for it."""
ZIGZAG_TOTAL_PJ: Final = 1_860_446_855.088
ZIGZAG_SECONDS: Final = 55.0
"""Of one core, busy; searched layer by layer, equal ones too."""
PEER_LIMIT: Final = 1e-4


@dataclass(frozen=True, slots=True)
class Row:
    """A layer, how often it occurs, and what ZigZag 3.9.1 says of it at limit 6."""

    name: str
    text: str
    times: int
    zigzag_pj: float
    zigzag_cycles: int


ROWS: Final = (
    Row("conv1", "conv:k64c3p112q112r7s7:stride2:pad3x3x2x2", 1, 128899782.592, 1248163),
    Row("layer1", "conv:k64c64p56q56r3s3:pad1", 4, 66996199.936, 138048),
    Row("layer2.0.conv1", "conv:k128c64p28q28r3s3:stride2:pad1x1x0x0", 1, 47270885.888, 81600),
    Row("layer2.0.downsample", "conv:k128c64p28q28:stride2", 1, 16432105.6, 18879),
    Row("layer2", "conv:k128c128p28q28r3s3:pad1", 3, 57967469.312, 125504),
    Row("layer3.0.conv1", "conv:k256c128p14q14r3s3:stride2:pad1x1x0x0", 1, 52822913.536, 69056),
    Row("layer3.0.downsample", "conv:k256c128p14q14:stride2", 1, 11459105.088, 10431),
    Row("layer3", "conv:k256c256p14q14r3s3:pad1", 3, 87358675.84, 186184),
    Row("layer4.0.conv1", "conv:k512c256p7q7r3s3:stride2:pad1x1x0x0", 1, 123410071.04, 206023),
    Row("layer4.0.downsample", "conv:k512c256p7q7:stride2", 1, 16507176.352, 19583),
    Row("layer4", "conv:k512c512p7q7r3s3:pad1", 3, 238190980.224, 300463),
    Row("fc", "conv:k1000c512", 1, 45108639.12, 63739),
)


@dataclass(frozen=True, slots=True)
class Found:
    """What both methods found for one layer."""

    row: Row
    layer: Layer
    loma: SearchResult[LayerMapping]
    proven: SearchResult[LayerMapping]
    cycles: float

    @property
    def proven_pj(self) -> float:
        """Infinite where there is none."""
        return _pj(self.proven)


def found(row: Row, hardware: ZigzagHardware, limit: int) -> Found:
    """Both methods on one layer."""
    layer = replace(Layer.of_text(row.text), partial_bits=16)
    accounting = replace(ZIGZAG, systolic=hardware.systolic)
    problem = LayerProblem(layer, hardware.accelerator)
    given = problem, MappingObjective.ENERGY
    loma = solve_as_loma(*given, Run(), limit, accounting, UNROLLING)
    proven = solve_uneven(*given, Run(), accounting, UNROLLING)
    cycles = -1.0
    if loma.answer is not None:
        costs = ZigzagCosts(problem, accounting).of([loma.answer])
        cycles = float(costs.cycles[0])
    return Found(row, layer, loma, proven, cycles)


def _pj(result: SearchResult[LayerMapping]) -> float:
    return float("inf") if result.objective_value is None else result.objective_value / FEMTO_PER_PICO


def print_rows(rows: list[Found]) -> None:
    """Energy in uJ of each layer, how often it occurs, cycles, milliseconds."""
    head = (
        "layer",
        "times",
        "ZigZag uJ",
        "loma uJ",
        "proven uJ",
        "ZigZag cycles",
        "loma cycles",
        "loma ms",
        "proof ms",
    )
    print("{:20} {:>5} {:>10} {:>10} {:>10} {:>14} {:>12} {:>8} {:>8}".format(*head))
    for one in rows:
        energies = f"{one.row.zigzag_pj / 1e6:10.3f} {_pj(one.loma) / 1e6:10.3f} {one.proven_pj / 1e6:10.3f}"
        cycles = f"{one.row.zigzag_cycles:14,} {one.cycles:12,.0f}"
        seconds = f"{one.loma.seconds * 1e3:8.1f} {one.proven.seconds * 1e3:8.1f}"
        print(f"{one.row.name:20} {one.row.times:5} {energies} {cycles} {seconds}")


def print_peer(rows: list[Found], hardware: ZigzagHardware) -> float:
    """What ZigZag says of the proven mappings where nothing is padded; the greatest relative difference."""
    peer, worst = Peer(peer_inputs() / "hardware" / "tpu_like.yaml"), 0.0
    for one in rows:
        if one.proven.answer is not None and one.proven.answer.bounds == one.layer.bounds:
            cost = peer.cost(one.layer, hardware.accelerator, one.proven.answer)
            worst = max(worst, abs(one.proven_pj / cost.energy_pj - 1))
            print(f"{one.row.name:20} ZigZag says {cost.energy_pj / 1e6:.3f} uJ of the proven mapping")
    return worst


def main() -> None:
    """Prints the table and the sums; times are of this process, after compiling."""
    parser = argparse.ArgumentParser(description="ResNet18 on tpu_like with ZigZag's accounting.")
    parser.add_argument("--limit", type=int, default=6, help="of factors that LOMA orders")
    parser.add_argument("--peer", action="store_true", help="let ZigZag cost the proven mappings too")
    arguments = parser.parse_args()
    hardware = read_zigzag_hardware(HARDWARE)
    found(ROWS[0], hardware, arguments.limit)
    start = perf_counter()
    rows = [found(row, hardware, arguments.limit) for row in ROWS]
    seconds = perf_counter() - start
    print_rows(rows)
    loma, proven = (
        sum(one.row.times * energy for one, energy in zip(rows, energies, strict=True))
        for energies in ([_pj(one.loma) for one in rows], [one.proven_pj for one in rows])
    )
    print(f"{sum(row.times for row in ROWS)} layers: ZigZag {ZIGZAG_TOTAL_PJ:.6e} pJ in {ZIGZAG_SECONDS:.0f} s,")
    print(f"loma {loma:.6e} pJ, proven least {proven:.6e} pJ, both in {seconds:.2f} s")
    worst = print_peer(rows, hardware) if arguments.peer else 0.0
    is_proven = all(one.proven.status is Status.OPTIMAL for one in rows)
    raise SystemExit(proven > ZIGZAG_TOTAL_PJ or not is_proven or worst > PEER_LIMIT)


if __name__ == "__main__":
    main()
