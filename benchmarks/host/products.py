"""Products of float32 matrices as mapped by `exact`, compiled, against OpenBLAS in numpy: one thread each.

    PYTHONPATH=benchmarks python -m host.products [--seconds 1] [--shapes 768x768x768 ...] [--results FILE]

A shape is rows x columns x what is added up. Both run in turn in one process, and time is that of the processor. To be
shown: at least 0.8 of OpenBLAS each, a median of at least 0.95.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import median
from typing import Final

from host.rows import mapped, run
from shared.results import write_results

SHAPES: Final = (
    *("768x768x768", "1024x1024x1024", "512x512x512"),  # square
    *("4096x64x512", "2048x128x256", "100x1000x300"),  # tall, and awkward
    *("128x3072x768", "512x768x3072", "16x4096x1024", "128x128x64"),  # of language models
    *("64x64x64", "33x127x65"),  # small
)
LEAST_EACH, LEAST_MEDIAN = 0.8, 0.95


def main() -> None:
    """Print a row for each shape, and whether the requirements are met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", nargs="*", default=SHAPES)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--results", type=Path)
    arguments = parser.parse_args()
    rows: list[dict[str, object]] = []
    ratios = []
    print(
        f"{'rows x columns x sum':22} {'GFLOP/s':>8} {'OpenBLAS':>8} {'ratio':>6} {'predicted / measured':>21}  mapping"
    )
    for shape in arguments.shapes:
        m, n, k = shape.split("x")
        one = mapped(f"gemm:m{m}n{n}k{k}")
        found = run(one, arguments.seconds)
        ratios.append(found.ratio)
        share = found.predicted_of_measured or 0.0
        nest = " ".join(map(str, one.mapping.nest))
        print(f"{shape:22} {found.gflops:8.1f} {found.peer_gflops:8.1f} {found.ratio:6.2f} {share:21.2f}  {nest}")
        rows.append({"shape": shape, "gflops": found.gflops, "numpy_gflops": found.peer_gflops, "ratio": found.ratio})
        if not found.is_right:
            raise SystemExit(f"{shape}: its values are wrong by {found.error}")
    print(f"least {min(ratios):.2f} (to show: {LEAST_EACH}), median {median(ratios):.2f} (to show: {LEAST_MEDIAN})")
    if arguments.results is not None:
        write_results(arguments.results, rows)


if __name__ == "__main__":
    main()
