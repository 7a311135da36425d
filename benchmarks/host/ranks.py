"""Whether the model ranks mappings as the machine does, and the proven mapping is the fastest of all methods'.

    PYTHONPATH=benchmarks python -m host.ranks [--layer LAYER] [--mappings 100] [--methods-only] [--results FILE]

Random mappings of one layer (the best of five for each seed) are compiled and timed; Spearman's rank correlation of
their measured time with what is predicted, by the model of the mapping as it is written and as this machine runs it.
Then the mapping of each method on the same layer. To be shown: at least 0.8, and `exact` the fastest.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
from host.rows import mapped, run
from shared.results import write_results

from onchip.errors import InputError

METHODS: Final = ("exact", "loma", "hybrid", "random", "cosa")
LEAST_CORRELATION: Final = 0.8


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Spearman's, without equal values in mind: measured times have none."""
    one, other = (np.argsort(np.argsort(values)) for values in (first, second))
    return float(np.corrcoef(one, other)[0, 1])


def main() -> None:
    """Print what each method reaches, and the correlation."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layer", default="gemm:m256n256k256")
    parser.add_argument("--mappings", type=int, default=100)
    parser.add_argument("--methods-only", action="store_true")
    parser.add_argument("--results", type=Path)
    arguments = parser.parse_args()
    rows: list[dict[str, object]] = []
    for method in METHODS:
        try:
            one = mapped(arguments.layer, method)
        except InputError as error:
            print(f"{method:8} {error.what}", flush=True)
            continue
        found = run(one, 0.5)
        nest = " ".join(map(str, one.mapping.nest))
        print(f"{method:8} {found.gflops:7.1f} GFLOP/s, {found.ratio:.2f} of its peer  {nest}", flush=True)
        rows.append({"method": method, "gflops": found.gflops, "peer_gflops": found.peer_gflops, "ratio": found.ratio})
    if not arguments.methods_only:
        random = [run(mapped(arguments.layer, "random", seed=seed), 0.0, 2) for seed in range(arguments.mappings)]
        measured = [one.measured_cycles or 0.0 for one in random]
        as_run = rank_correlation(measured, [one.predicted_cycles for one in random])
        as_written = rank_correlation(measured, [one.model_cycles for one in random])
        print(f"{len(random)} random mappings, {min(measured):.3g} to {max(measured):.3g} cycles: rank correlation")
        print(f"as run {as_run:.3f} (to show: {LEAST_CORRELATION}), as written {as_written:.3f}")
        rows.append({"layer": arguments.layer, "mappings": len(random), "as_run": as_run, "as_written": as_written})
    if arguments.results is not None:
        write_results(arguments.results, rows)


if __name__ == "__main__":
    main()
