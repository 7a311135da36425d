"""`fuse --accounting defines --method loma` beside DeFiNES itself, run on the same points.

    PYTHONPATH=benchmarks python -m defines.against FOLDER PYTHON [NETWORK:MACHINE:COLUMNSxROWS:MODE ...]
                                                    [--results FILE.json]

FOLDER is a clone of KULeuven-MICAS/DeFiNES at commit 7097d60, PYTHON one that has numpy before version 2, networkx,
sympy and matplotlib. Networks and machines by their names here, of those that are one stack. Ends with 1 where a
figure is more than 1 % off. A point takes DeFiNES ten seconds to a minute of a processor.
"""

from __future__ import annotations

import json
import subprocess
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from dataclasses import asdict, dataclass
from pathlib import Path
from time import process_time
from typing import Final

from shared.results import write_results

from onchip.answer.options.fusion_options import FusionOptions
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


@dataclass(frozen=True, slots=True)
class Beside:
    """Energies in pJ and cycles, ours and DeFiNES's; seconds of a processor."""

    point: str
    energy_pj: float
    their_energy_pj: float
    cycles: float
    their_cycles: float
    seconds: float
    their_seconds: float

    @property
    def off(self) -> tuple[float, float]:
        """Return the shares by which energy and cycles exceed DeFiNES's."""
        return self.energy_pj / self.their_energy_pj - 1, self.cycles / self.their_cycles - 1


def ours(point: str) -> StrategyFigures:
    """Return our figures of a point; ends the program if there is no strategy."""
    network, machine, tile, mode = point.split(":")
    columns, rows = (int(size) for size in tile.split("x"))
    options = FusionOptions(groups="one", tile=(columns, rows), mode=OverlapMode(mode))
    asked = FusionRequest(
        f"{network}-defines", machine, options=options, mapper="loma", accounting=AccountingName.DEFINES, bits=8
    )
    figures = fuse_network(asked).figures
    if figures is None:
        raise SystemExit(f"{point}: no strategy")
    return figures


def beside(point: str, folder: Path, python: str) -> Beside:
    """Both on one point; ends the program where DeFiNES ends with an error."""
    network, machine, tile, mode_name = point.split(":")
    columns, rows = tile.split("x")
    mode, started = OverlapMode(mode_name), process_time()
    figures = ours(point)
    seconds = process_time() - started
    place, hardware = MACHINES[machine]
    workload = f"{place}.workload_{network.replace('-', '')}"
    cached = str(mode.caches_columns), str(mode.caches_rows)
    program = Path(__file__).with_name("peer_program.py")
    command = (python, str(program), workload, hardware, columns, rows, *cached)
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise SystemExit(f"{point}: DeFiNES ends with {ended.returncode}: {ended.stderr.strip()[-300:]}")
    theirs = json.loads(ended.stdout.splitlines()[-1])
    return Beside(
        point,
        stated(figures.energy_pj),
        theirs["energy_pj"],
        figures.latency_cycles,
        theirs["cycles"],
        seconds,
        theirs["seconds"],
    )


def main() -> int:
    """Print a line for each point; 1 where one is off."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("python", metavar="PYTHON")
    parser.add_argument("points", nargs="*", default=POINTS, metavar="POINT")
    parser.add_argument("--results", type=Path, metavar="FILE.json", help="write them, with commit and machine")
    options = parser.parse_args()
    found = []
    print(f"{'point':52} {'mJ':>10} {'DeFiNES':>10} {'':>9} {'Mcycles':>10} {'DeFiNES':>10} {'':>9}  seconds")
    for point in options.points:
        one = beside(point, options.folder, options.python)
        found.append(one)
        print(
            f"{point:52} {one.energy_pj / 1e9:10.6f} {one.their_energy_pj / 1e9:10.6f} {one.off[0]:+9.4%}"
            f" {one.cycles / 1e6:10.6f} {one.their_cycles / 1e6:10.6f} {one.off[1]:+9.4%}"
            f"  {one.seconds:.2f} / {one.their_seconds:.1f}",
            flush=True,
        )
    if options.results is not None:
        write_results(options.results, [asdict(one) for one in found])
    return 1 if any(abs(part) > WITHIN for one in found for part in one.off) else 0


if __name__ == "__main__":
    sys.exit(main())
