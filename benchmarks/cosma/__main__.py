"""COSMA's figures and tables, and what it could not prove, beside the paper's own figures.

    PYTHONPATH=benchmarks python -m cosma [--section NAME ...] [--network NAME ...] [--time-limit S] [--json]
                                          [--processor] [--results FILE.json]

Networks at one byte per element, batch 1. Every plan is verified. Figures 3 and 4 are bars without
numbers: of them the paper says the mean reductions, 84 % and 85 %. MiniMalloc's instances are in `packing.py`.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cosma.published import HUMAN_DESIGNED, NAS
from cosma.report import print_anytime, print_peaks, print_rivals, print_rows, print_summary
from cosma.rows import PeakRow, RivalRow, Row
from cosma.sections import SECTIONS, AnyRow, Asked
from cosma.sizes import SizeRow, size_lines
from shared.processor import count_processor_seconds
from shared.results import write_results


def print_section(name: str, rows: list[AnyRow]) -> None:
    """Print the table of a section and its totals."""
    print_peaks([row for row in rows if isinstance(row, PeakRow)])
    print_rivals([row for row in rows if isinstance(row, RivalRow)])
    print("\n".join(size_lines([row for row in rows if isinstance(row, SizeRow)])))
    planned = [row for row in rows if isinstance(row, Row)]
    print_rows(planned)
    print_summary(name, planned)


def as_fields(row: AnyRow) -> dict[str, Any]:
    """Return a row for JSON, with its derived figures."""
    fields = asdict(row)
    if isinstance(row, RivalRow):
        names = ("order_bytes", "eviction_bytes", "fragmentation_bytes")
        reductions = {"reduction": row.reduction, "published_reduction": row.published_reduction}
        fields |= reductions | dict(zip(names, row.shares, strict=True))
    return fields


def main() -> None:
    """Run, print, and end with 1 if something is not met."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    every = (*HUMAN_DESIGNED, *NAS)
    parser.add_argument("--section", nargs="+", choices=tuple(SECTIONS), default=tuple(SECTIONS), metavar="NAME")
    parser.add_argument("--network", nargs="+", choices=every, default=every, metavar="NAME")
    parser.add_argument("--time-limit", type=float, metavar="S", help="seconds per row, instead of each section's own")
    parser.add_argument("--seeds", type=int, metavar="N", help="so many generated networks and hard graphs")
    parser.add_argument("--processor", action="store_true", help="seconds are those of the processor")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    parser.add_argument("--results", type=Path, metavar="FILE.json", help="write the rows, with commit and machine")
    arguments = parser.parse_args()
    if arguments.processor:
        count_processor_seconds()
    asked = Asked(tuple(arguments.network), arguments.time_limit, arguments.seeds)
    found: dict[str, list[AnyRow]] = {}
    for name in arguments.section:
        if not arguments.json:
            print(f"\n{name}: {SECTIONS[name].__doc__}", flush=True)
        found[name] = list(SECTIONS[name](asked))
        if not arguments.json:
            print_section(name, found[name])
    fields = {name: [as_fields(row) for row in rows] for name, rows in found.items()}
    if arguments.json:
        print(json.dumps(fields, indent=2))
    if arguments.results is not None:
        write_results(arguments.results, fields)
    planned = [row for rows in found.values() for row in rows if isinstance(row, Row)]
    if not arguments.json and {"nas", "anytime"} <= set(found):
        print_anytime([row for row in planned if row.order == "free" and row.method == "exact"])
    sys.exit(0 if all(row.is_met for row in planned) else 1)


if __name__ == "__main__":
    main()
