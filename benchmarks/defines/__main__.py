"""DeFiNES's tables and figures (HPCA 2023), ours beside them.

    PYTHONPATH=benchmarks python -m defines [points|depfin|case1|sweep|case2|case3|figure18|features|schedules ...]
        [--mappers loma uneven exact] [--networks unpadded real] [--workers 2] [--repeats 1] [--seconds 20]

`points`: the nine points of DeFiNES's program. `depfin`: figure 11. `case1`: figure 12, 108 points. `sweep`: 110 tile
sizes, three modes and any fuse depth, searched. `case2`: five networks, five strategies. `case3`: ten machines; both
of networks as DeFiNES has them (`unpadded`) and as they are. `figure18`: what other models leave out. `features`: table
II. `schedules`: the best points of FSRCNN and MC-CNN, and what `schedule` finds in as many seconds of the processor.
`loma` is DeFiNES's mapper with its accounting, and in all but `sweep` its conventions; `uneven` the best mapper of that
accounting, `exact` that of ours. Ends with 1 if a point is not as DeFiNES's, or a search finds worse than any of the
strategies that it includes.
"""

from __future__ import annotations

import sys
from argparse import ArgumentDefaultsHelpFormatter, ArgumentParser, Namespace
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from defines.depfin import depfin
from defines.factors import features, figure_18
from defines.fsrcnn import case_study_1, points, sweep
from defines.mappers import MAPPERS, Clock, TileMapper, peak_mib, warm
from defines.networks import Row
from defines.schedules import schedules
from defines.studies import Asked, case_study_2, case_study_3
from shared.results import write_results

TABLES = ("points", "depfin", "case1", "sweep", "case2", "case3", "figure18", "features", "schedules")
ALL = "all"
UNPADDED, REAL = "unpadded", "real"


def main() -> int:
    """Print each requested table."""
    options = _parser().parse_args()
    mappers = [TileMapper(name) for name in options.mappers]
    results: dict[str, list[dict[str, Any]]] = {}
    is_right = True
    for table in TABLES if ALL in options.tables else options.tables:
        clock = Clock()
        warm(mappers)
        match table:
            case "points":
                is_right &= points(mappers, options.repeats)
            case "depfin":
                asked = (one for one in mappers if one.name != "uneven")
                results[table] = [asdict(line) for one in asked for line in depfin(one, options.seconds)]
            case "case2" | "case3":
                rows = _case_study(table, mappers, options)
                results[table] = [asdict(row) for row in rows]
                is_right &= not any(row.worse for row in rows)
            case "features":
                features()
            case "schedules":
                results[table] = [asdict(row) for row in schedules(options.seconds, options.workers)]
            case _:
                for mapper in mappers:
                    is_right &= _by(table, mapper, options.workers)
        print(f"{table}: {clock} in all, {peak_mib()}", flush=True)
    if options.results is not None:
        write_results(options.results, results)
    return 0 if is_right else 1


def _case_study(table: str, mappers: Sequence[TileMapper], options: Namespace) -> list[Row]:
    """Return the rows of a case study for each kind of networks."""
    study = case_study_2 if table == "case2" else case_study_3
    kinds = (Asked(mappers, kind == UNPADDED, options.seconds, options.workers) for kind in options.networks)
    return [row for asked in kinds for row in study(asked)]


def _by(table: str, mapper: TileMapper, workers: int) -> bool:
    """Print a table on FSRCNN."""
    match table:
        case "case1":
            return case_study_1(mapper, workers)
        case "sweep":
            return sweep(mapper)
        case _:
            figure_18(mapper, workers)
            return True


def _parser() -> ArgumentParser:
    parser = ArgumentParser(description=__doc__, formatter_class=ArgumentDefaultsHelpFormatter)
    named = f"of {', '.join(TABLES)}"
    parser.add_argument("tables", nargs="*", metavar="TABLE", choices=(*TABLES, ALL), default=ALL, help=named)
    parser.add_argument("--mappers", nargs="+", choices=MAPPERS, default=["loma", "uneven"])
    parser.add_argument(
        "--networks", nargs="+", choices=(UNPADDED, REAL), default=[UNPADDED, REAL], help="of case2 and case3"
    )
    parser.add_argument("--seconds", type=float, default=20.0, help="for each search of case2, case3 and schedules")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=1, help="of points; their seconds are medians")
    parser.add_argument(
        "--results", type=Path, metavar="FILE.json", help="of depfin, case2, case3 and schedules: write the rows"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
