"""What sweeps promise, measured: nothing is lost or done twice, and little is added to what the points take.

    PYTHONPATH=benchmarks python -m sweeps kills|cheap|pruning|splits [--points N] [--workers N] [--store FILE]
                                           [--results FILE] [--figure FILE.svg]

`kills`: three networks at twenty sizes, killed three times, beside a sweep that was not. `cheap`: so many points of a
small network. `pruning`: ten networks at twenty sizes, with and without it. `splits`: the figure of the two networks
that spill, from a store of the studies split-one, split-two and split-three in this folder.
"""

from __future__ import annotations

import json
import resource
import signal
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from shared.results import write_results
from shared.runner import Row, onchip, options_of
from sweeps.figure import figure_of_splits

from onchip.errors import InputError
from onchip.sweeps.store import rows_of_store

KILLED = ("densenet121", "transformer", "vit_b_16")
POINTS_BEFORE_A_KILL = (8, 25, 45)
PRUNED = (
    "amoebanetd_18_256", "darts_v2", "densenet121", "large_elu", "lraspp_mobilenet_v3_large", "mobilenetv1",
    "nasnetalarge", "resnet18", "transformer", "vit_b_16",
)  # fmt: skip
CHEAP = "lenet5"
SPILL = ("densenet121", "transformer")


def kills(options: Namespace) -> Row:
    """The same sweep, killed again and again, and in one go."""
    asked = [*KILLED, "--sram", "768KiB..2200KiB", "--steps", "20", "--option", "bits=8", "--no-prune"]
    with TemporaryDirectory() as folder:
        killed, whole = Path(folder) / "killed.db", Path(folder) / "whole.db"
        kept = []
        for points in POINTS_BEFORE_A_KILL:
            with subprocess.Popen(
                [sys.executable, "-m", "onchip", "sweep", *asked, "--store", str(killed)], stdout=subprocess.DEVNULL
            ) as sweep:
                while sweep.poll() is None and _kept(killed) < points:
                    time.sleep(0.02)
                sweep.send_signal(signal.SIGKILL)
            kept.append(_kept(killed))
        last = _swept([*asked, "--store", str(killed)], options.workers)
        _swept([*asked, "--store", str(whole)], options.workers)
        figures = [[{**row.record, "seconds": 0} for row in rows_of_store(path)] for path in (killed, whole)]
    return {
        "points": last["points"],
        "in the store after each kill": kept,
        "computed by the last": last["computed"],
        "kept before it": last["kept_before"],
        "same figures": figures[0] == figures[1],
    }


def cheap(options: Namespace) -> Row:
    """So many points that take milliseconds: what the machine does meanwhile, and what each point adds."""
    with TemporaryDirectory() as folder:
        store = Path(folder) / "cheap.db"
        sizes = f"{40_064}..{40_063 + options.points}"
        asked = [CHEAP, "--sram", sizes, "--steps", str(options.points), "--option", "bits=8", "--no-prune"]
        swept = _swept([*asked, "--store", str(store)], options.workers)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        rows, size_bytes = rows_of_store(store), store.stat().st_size
    in_points = sum(row.answer.seconds for row in rows)
    wall, workers = swept["seconds"], options.workers
    return {
        "points": len(rows),
        "workers": workers,
        "seconds": round(wall, 1),
        "workers within points": round(in_points / (wall * workers), 3),
        "milliseconds a point": round(1000 * in_points / len(rows), 2),
        "beside it, of a worker": round(1000 * (wall * workers - in_points) / len(rows), 2),
        "processor milliseconds a point, of all processes": round(
            1000 * (used.ru_utime + used.ru_stime) / len(rows), 2
        ),
        "store bytes": size_bytes,
    }


def pruning(options: Namespace) -> Row:
    """Points that are not computed, and whether that changes any value."""
    with TemporaryDirectory() as folder:
        found: Row = {}
        for network in PRUNED:
            asked = [network, "--sram", "512KiB..5MiB", "--steps", "20", "--option", "bits=8"]
            stores = [Path(folder) / f"{network}-{name}.db" for name in ("pruned", "whole")]
            pruned = _swept([*asked, "--store", str(stores[0])], options.workers)
            whole = _swept([*asked, "--store", str(stores[1]), "--no-prune"], options.workers)
            values = [[(row.answer.status, row.answer.objective_value) for row in rows_of_store(one)] for one in stores]
            found[network] = {
                "computed": pruned["computed"],
                "saved": pruned["settled"],
                "equal": values[0] == values[1],
                "seconds": [round(one["seconds"], 1) for one in (pruned, whole)],
            }
        saved = sum(one["saved"] for one in found.values())
        return {**found, "share saved": saved / (20 * len(PRUNED))}


def splits(options: Namespace) -> Row:
    """Draw the splits of those networks that spill."""
    options.figure.parent.mkdir(exist_ok=True)
    options.figure.write_text(figure_of_splits(rows_of_store(options.store), SPILL))
    return {"figure": str(options.figure)}


def _kept(store: Path) -> int:
    """How many points a store has answers of; 0 where there is none yet."""
    try:
        return len(rows_of_store(store))
    except InputError:
        return 0


def _swept(arguments: Sequence[str], workers: int) -> Row:
    return onchip("sweep", *arguments, "--workers", workers, "--json").answer


def main() -> None:
    """Measure one of them, print it, and write it if asked to."""
    parser = options_of(__doc__)
    tables = {"kills": kills, "cheap": cheap, "pruning": pruning, "splits": splits}
    parser.add_argument("what", choices=tables)
    parser.add_argument("--points", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--store", type=Path)
    parser.add_argument("--figure", type=Path, default=Path("docs/figures/splits.svg"))
    options = parser.parse_args()
    found = tables[options.what](options)
    print(json.dumps(found, indent=1))
    if options.results is not None:
        write_results(options.results, found)


if __name__ == "__main__":
    main()
