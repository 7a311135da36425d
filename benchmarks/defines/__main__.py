"""DeFiNES's tables and figures (HPCA 2023), ours next to them.

    PYTHONPATH=benchmarks python -m defines [points|depfin|case1|sweep|case2|case3|figure18|schedules ...]
        [--mappers loma uneven exact] [--networks unpadded real] [--workers 2] [--seconds 20] [--results FILE.json]

`points`: nine points of DeFiNES's program. `depfin`: figure 11. `case1`: figure 12, 108 points. `sweep`: 110 tile
sizes, three modes and any fuse depth, searched. `case2`: five networks, five strategies. `case3`: ten machines; both
with networks as DeFiNES has them (`unpadded`) and as they are. `figure18`: factors that other models leave out.
`schedules`: the best points of FSRCNN and MC-CNN, and what `schedule` finds in as many seconds. `loma` is DeFiNES's
mapper with its accounting, and in all but `sweep` its conventions; `uneven` is the best mapper of that accounting,
`exact` that of ours. The command ends with 1 if a point differs from DeFiNES's, or a search finds worse than a
strategy that it includes.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final

from defines import published
from defines.depfin import depfin
from defines.factors import figure_18
from defines.fsrcnn import case_study_1, points, sweep
from defines.mappers import MAPPERS, TileMapper, warm
from defines.networks import case_study
from defines.schedules import schedules
from shared.runner import Row, asked_of, options_of, report

MACHINES: Final = [one for pair in published.MACHINES.items() for one in pair]
BY_MAPPER: Final[Mapping[str, Callable[[Namespace, TileMapper], Iterator[Row]]]] = {
    "points": lambda _, mapper: points(mapper),
    "depfin": lambda asked, mapper: depfin(mapper, asked.seconds),
    "case1": lambda asked, mapper: case_study_1(mapper, asked.workers),
    "sweep": lambda _, mapper: sweep(mapper),
    "case2": lambda asked, mapper: case_study(asked, mapper, [published.CASE_STUDY_MACHINE]),
    "case3": lambda asked, mapper: case_study(asked, mapper, MACHINES),
    "figure18": lambda asked, mapper: figure_18(mapper, asked.workers),
}


def rows(asked: Namespace, table: str) -> Iterator[Row]:
    """Yield the rows of a table, for each mapper."""
    if table == "schedules":
        yield from schedules(asked.seconds, asked.workers)
        return
    mappers = [TileMapper(name) for name in asked.mappers]
    warm(mappers)
    for mapper in mappers:
        yield from BY_MAPPER[table](asked, mapper)


def main() -> int:
    """Print each requested table."""
    parser = options_of(__doc__)
    tables = (*BY_MAPPER, "schedules")
    parser.add_argument("tables", nargs="*", metavar="TABLE", choices=tables, default=tables)
    parser.add_argument("--mappers", nargs="+", choices=MAPPERS, default=["loma", "uneven"])
    parser.add_argument("--networks", nargs="+", choices=("unpadded", "real"), default=["unpadded", "real"])
    parser.add_argument("--seconds", type=float, default=20.0, help="for each search")
    parser.add_argument("--workers", type=int, default=2)
    asked = asked_of(parser)
    found = report(asked, {table: partial(rows, asked, table) for table in asked.tables})
    every = [row for own in found.values() for row in own]
    return int(any(row.get("worse") or row.get("is_met") is False for row in every))


if __name__ == "__main__":
    raise SystemExit(main())
