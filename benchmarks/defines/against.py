"""`fuse --accounting defines --method loma` beside DeFiNES itself, run on the same points.

    PYTHONPATH=benchmarks python -m defines.against FOLDER PYTHON [NETWORK:MACHINE:COLUMNSxROWS:MODE ...]
                                                    [--results FILE.json]

FOLDER is a clone of KULeuven-MICAS/DeFiNES at commit 7097d60, PYTHON one that has numpy before version 2, networkx,
sympy and matplotlib. Networks and machines by their names here, of those that are one stack. Ends with 1 where a
figure is more than 1 % off. A point takes DeFiNES ten seconds to a minute of a processor.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import process_time
from typing import Final

from shared.runner import Row, asked_of, options_of, report, run

from onchip.answer.document import Reading
from onchip.answer.options.verb_options import FusionOptions
from onchip.answer.stacks import OverlapMode
from onchip.answer.strategy import StrategyFigures
from onchip.api.fuse import FusionRequest, fuse_network
from onchip.arch.energies import stated
from onchip.model.accounting.accounting import AccountingName

WITHIN: Final = 0.01
MACHINES: Final = {
    "meta-prototype-df": ("Meta_prototype", "Meta_prototype_DF"),
    "tpu-like-df": ("TPU_like", "TPU_like_DF"),
    "edge-tpu-like-df": ("Edge_TPU_like", "Edge_TPU_like_DF"),
    "ascend-like-df": ("Ascend_like", "Ascend_like_DF"),
    "tesla-npu-like-df": ("Tesla_NPU_like", "Tesla_NPU_like_DF"),
}
"""The folder of DeFiNES's networks for a machine, and its file."""
META: Final = "fsrcnn:meta-prototype-df"
POINTS: Final = (
    *(f"{META}:{tile}:{mode}" for tile in ("4x72", "60x72", "16x18") for mode in OverlapMode),
    *(f"{META}:960x540:{mode}" for mode in OverlapMode),
    *(f"fsrcnn:{one}:60x72:fully-cached" for one in MACHINES if one != "meta-prototype-df"),
    *(f"fsrcnn:{one}-df:16x18:h-cached" for one in ("edge-tpu-like", "ascend-like")),
    *(f"fsrcnn:{one}-df:240x270:recompute" for one in ("tpu-like", "tesla-npu-like")),
    *(f"mc-cnn:meta-prototype-df:{one}" for one in ("4x72:fully-cached", "60x72:fully-cached")),
    *(f"mc-cnn:meta-prototype-df:{one}" for one in ("16x18:h-cached", "240x270:recompute")),
)
"""Points that `tests/published/test_fuse_as_defines.py` also has."""


def ours(point: str) -> StrategyFigures:
    """Return our figures of a point; ends the program if there is no strategy."""
    network, machine, tile, mode = point.split(":")
    columns, rows = (int(size) for size in tile.split("x"))
    options = FusionOptions(groups="one", tile=(columns, rows), mode=OverlapMode(mode))
    asked = FusionRequest(
        f"{network}-defines",
        machine,
        options=replace(options, mapper="loma", accounting=AccountingName.DEFINES),
        reading=Reading(bits=8),
    )
    figures = fuse_network(asked).figures
    if figures is None:
        raise SystemExit(f"{point}: no strategy")
    return figures


def beside(asked: Namespace) -> Iterator[Row]:
    """Yield both on each point, and the shares by which energy and cycles exceed DeFiNES's."""
    for point in asked.points:
        network, machine, tile, mode_name = point.split(":")
        mode, started = OverlapMode(mode_name), process_time()
        figures = ours(point)
        seconds = process_time() - started
        place, hardware = MACHINES[machine]
        workload = f"{place}.workload_{network.replace('-', '')}"
        cached = str(mode.caches_columns), str(mode.caches_rows)
        program = Path(__file__).with_name("peer_program.py")
        theirs = run((asked.python, program, workload, hardware, *tile.split("x"), *cached), asked.folder).answer
        energy_pj, cycles = stated(figures.energy_pj), figures.latency_cycles
        yield {
            "point": point,
            "energy_pj": energy_pj,
            "their_energy_pj": theirs["energy_pj"],
            "energy_off": energy_pj / theirs["energy_pj"] - 1,
            "cycles": cycles,
            "their_cycles": theirs["cycles"],
            "cycles_off": cycles / theirs["cycles"] - 1,
            "seconds": seconds,
            "their_seconds": theirs["seconds"],
        }


def main() -> int:
    """Print a row for each point; return 1 if one is off."""
    parser = options_of(__doc__)
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("python", metavar="PYTHON")
    parser.add_argument("points", nargs="*", default=POINTS, metavar="POINT")
    asked = asked_of(parser)
    found = report(asked, {"points": partial(beside, asked)})["points"]
    return int(any(abs(row[part]) > WITHIN for row in found for part in ("energy_off", "cycles_off")))


if __name__ == "__main__":
    raise SystemExit(main())
