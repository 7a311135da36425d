"""What sweeps promise, measured: nothing is lost or done twice, and little is added to what the points take.

    PYTHONPATH=benchmarks python -m sweeps kills|cheap|pruning|table|splits [--points N] [--workers N] [--store FILE]
                                           [--json FILE] [--figure FILE.svg]

`kills`: three networks at twenty sizes, killed three times, beside a sweep that was not. `cheap`: so many points of a
small network. `pruning`: ten networks at twenty sizes, with and without it. `table`: the rows of a store, a line for
each network and machine, such as those of the studies beside this file: `onchip sweep architectures.yaml --store FILE`.
`splits`: the figure of the two networks that spill, of a store of the studies split-one, split-two and split-three.
"""

from __future__ import annotations

import json
import resource
import signal
import subprocess
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

from shared.results import write_results
from sweeps.figure import figure_of_splits

from onchip.errors import InputError
from onchip.sweeps.store import rows_of_store

Json: TypeAlias = dict[str, Any]

KILLED = ("densenet121", "transformer", "vit_b_16")
POINTS_BEFORE_A_KILL = (8, 25, 45)
PRUNED = (
    "amoebanetd_18_256", "darts_v2", "densenet121", "large_elu", "lraspp_mobilenet_v3_large", "mobilenetv1",
    "nasnetalarge", "resnet18", "transformer", "vit_b_16",
)  # fmt: skip
CHEAP = "lenet5"
SPILL = ("densenet121", "transformer")


def main() -> int:
    """Measure one of them, print it, and write it if asked to."""
    options = _parser().parse_args()
    found = {"kills": kills, "cheap": cheap, "pruning": pruning, "table": table, "splits": splits}[options.what](
        options
    )
    print(json.dumps(found, indent=1))
    if options.json is not None:
        write_results(options.json, found)
    return 0


def kills(options: Namespace) -> Json:
    """The same sweep, killed again and again, and in one go."""
    asked = [*KILLED, "--sram", "768KiB..2200KiB", "--steps", "20", "--option", "bits=8", "--no-prune"]
    with TemporaryDirectory() as folder:
        killed, whole = Path(folder) / "killed.db", Path(folder) / "whole.db"
        kept = []
        for points in POINTS_BEFORE_A_KILL:
            with subprocess.Popen(_command([*asked, "--store", str(killed)]), stdout=subprocess.DEVNULL) as sweep:
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


def cheap(options: Namespace) -> Json:
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


def pruning(options: Namespace) -> Json:
    """Points that are not computed, and whether that changes any value."""
    with TemporaryDirectory() as folder:
        found: Json = {}
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


def table(options: Namespace) -> Json:
    """By network, machine and objective the best point of a store, and how many points are proven."""
    rows = rows_of_store(options.store)
    best: dict[str, Json] = {}
    for row in rows:
        name = f"{row.network} on {row.accelerator}, {row.objective}"
        value = row.answer.objective_value
        one = best.setdefault(name, {"value": None, "points": 0, "proven": 0, "seconds": 0.0})
        one["points"] += 1
        one["proven"] += row.answer.status in ("OPTIMAL", "INFEASIBLE")
        one["seconds"] = round(one["seconds"] + row.answer.seconds, 1)
        if value is not None and (one["value"] is None or value < one["value"]):
            one |= {"value": value, "bound": row.answer.lower_bound, "of": dict(row.parameters)}
    return {"points": len(rows), "seconds": round(sum(row.answer.seconds for row in rows), 1), **best}


def splits(options: Namespace) -> Json:
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


def _swept(arguments: Sequence[str], workers: int) -> Json:
    ended = subprocess.run(
        _command([*arguments, "--workers", str(workers), "--json"]), check=True, capture_output=True, text=True
    )
    found: Json = json.loads(ended.stdout)
    return found


def _command(arguments: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "onchip", "sweep", *arguments]


def _parser() -> ArgumentParser:
    parser = ArgumentParser(prog="sweeps", description=__doc__)
    parser.add_argument("what", choices=("kills", "cheap", "pruning", "table", "splits"))
    parser.add_argument("--points", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--store", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--figure", type=Path, default=Path("docs/figures/splits.svg"))
    return parser


if __name__ == "__main__":
    sys.exit(main())
