"""ResNet18 on ZigZag's tpu_like for energy, with ZigZag's accounting: its mappings, and the best there are.

    python benchmarks/resnet18_tpu.py [--limit 6] [--peer]

`loma` makes ZigZag's own mappings, `proven` the least over all orders of the loops and all cuts on the same unrolling.
With `--peer`, and zigzag-dse 3.9.1 and six installed, ZigZag itself says what the proven mappings cost. Exits with 1
where the sum of the 21 layers is above ZigZag's, a layer is not proven, or ZigZag says otherwise by more than 0.01 %.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from shared.runner import Row, asked_of, options_of, report
from zigzag_peer import Peer, peer_inputs

from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import FEMTO_PER_PICO, MappingObjective
from onchip.formats.zigzag import read_zigzag_hardware
from onchip.ir.layer import Layer
from onchip.mapping.baselines.loma import solve_as_loma
from onchip.mapping.tile_search.uneven import solve_uneven
from onchip.model.accounting.accounting import ZIGZAG
from onchip.model.layer.tables import LayerCosts
from onchip.search.budget.limits import Run

HARDWARE: Final = Path(__file__).parents[1] / "tests" / "data" / "zigzag-systolic.yaml"
UNROLLING: Final = {"D1": {"K": 32}, "D2": {"C": 32}}
"""Of ZigZag's mapping file for it."""
ZIGZAG_TOTAL_PJ: Final = 1_860_446_855.088
ZIGZAG_SECONDS: Final = 55.0
"""Of one core, busy; searched layer by layer, equal ones too."""
PEER_LIMIT: Final = 1e-4


class Zigzag(NamedTuple):
    """A layer, how often it occurs, and ZigZag 3.9.1's figures at limit 6."""

    name: str
    text: str
    times: int
    energy_pj: float
    cycles: int


LAYERS: Final = (
    Zigzag("conv1", "conv:k64c3p112q112r7s7:stride2:pad3x3x2x2", 1, 128899782.592, 1248163),
    Zigzag("layer1", "conv:k64c64p56q56r3s3:pad1", 4, 66996199.936, 138048),
    Zigzag("layer2.0.conv1", "conv:k128c64p28q28r3s3:stride2:pad1x1x0x0", 1, 47270885.888, 81600),
    Zigzag("layer2.0.downsample", "conv:k128c64p28q28:stride2", 1, 16432105.6, 18879),
    Zigzag("layer2", "conv:k128c128p28q28r3s3:pad1", 3, 57967469.312, 125504),
    Zigzag("layer3.0.conv1", "conv:k256c128p14q14r3s3:stride2:pad1x1x0x0", 1, 52822913.536, 69056),
    Zigzag("layer3.0.downsample", "conv:k256c128p14q14:stride2", 1, 11459105.088, 10431),
    Zigzag("layer3", "conv:k256c256p14q14r3s3:pad1", 3, 87358675.84, 186184),
    Zigzag("layer4.0.conv1", "conv:k512c256p7q7r3s3:stride2:pad1x1x0x0", 1, 123410071.04, 206023),
    Zigzag("layer4.0.downsample", "conv:k512c256p7q7:stride2", 1, 16507176.352, 19583),
    Zigzag("layer4", "conv:k512c512p7q7r3s3:pad1", 3, 238190980.224, 300463),
    Zigzag("fc", "conv:k1000c512", 1, 45108639.12, 63739),
)


def rows(asked: Namespace) -> Iterator[Row]:
    """Yield the energies of each layer by both methods; `peer_pj` is ZigZag's cost of the proven mapping."""
    hardware = read_zigzag_hardware(HARDWARE)
    peer = Peer(peer_inputs() / "hardware" / "tpu_like.yaml") if asked.peer else None
    for one in LAYERS:
        layer = replace(Layer.of_text(one.text), partial_bits=16)
        accounting = replace(ZIGZAG, systolic=hardware.systolic)
        problem = LayerProblem(layer, hardware.accelerator)
        given = problem, MappingObjective.ENERGY
        loma = solve_as_loma(*given, Run(), asked.limit, accounting, UNROLLING)
        proven = solve_uneven(*given, Run(), accounting, UNROLLING)
        assert loma.answer is not None
        assert proven.answer is not None
        has_peer = peer is not None and proven.answer.bounds == layer.bounds  # nothing is padded
        yield {
            "layer": one.name,
            "times": one.times,
            "zigzag_pj": one.energy_pj,
            "loma_pj": (loma.objective_value or 0) / FEMTO_PER_PICO,
            "proven_pj": (proven.objective_value or 0) / FEMTO_PER_PICO,
            "status": str(proven.status),
            "zigzag_cycles": one.cycles,
            "loma_cycles": float(LayerCosts(problem, accounting=accounting).of([loma.answer]).cycles[0]),
            "loma_seconds": loma.seconds,
            "proven_seconds": proven.seconds,
            "peer_pj": peer.cost(layer, hardware.accelerator, proven.answer).energy_pj if peer and has_peer else None,
        }


def main() -> int:
    """Print the table and the sums; return 1 if a layer is not proven, or ZigZag's sum or cost is another."""
    parser = options_of(__doc__)
    parser.add_argument("--limit", type=int, default=6, help="of factors that LOMA orders")
    parser.add_argument("--peer", action="store_true", help="let ZigZag cost the proven mappings too")
    asked = asked_of(parser)
    found = report(asked, {"layers": partial(rows, asked)})["layers"]
    sums = {name: sum(row["times"] * row[name] for row in found) for name in ("loma_pj", "proven_pj")}
    print(f"{sums}; ZigZag {ZIGZAG_TOTAL_PJ:.6e} pJ in {ZIGZAG_SECONDS:.0f} s")
    is_proven = all(row["status"] == "OPTIMAL" for row in found)
    is_equal = all(abs(row["proven_pj"] / row["peer_pj"] - 1) <= PEER_LIMIT for row in found if row["peer_pj"])
    return int(sums["proven_pj"] > ZIGZAG_TOTAL_PJ or not is_proven or not is_equal)


if __name__ == "__main__":
    raise SystemExit(main())
