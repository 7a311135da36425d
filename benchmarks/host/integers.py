"""Products and convolutions of int8 as mapped by `exact`, compiled, against onnxruntime: one thread each, int32 sums.

    PYTHONPATH=benchmarks python -m host.integers [--seconds 1] [--layers LAYER ...] [--results FILE]

MatMulInteger of uint8 by int8 (the zero point makes them the same numbers) and ConvInteger, in turn with ours in one
process; without onnxruntime numpy, whose products of integers are no BLAS's. Time is that of the processor, and every
value must be numpy's. `error` is how far the model's cycles are from those measured.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import median
from typing import Final

from host.rows import mapped, run
from shared.results import write_results

LAYERS: Final = (
    *("gemm:m256n256k256", "gemm:m768n768k768", "gemm:m128n3072k768", "gemm:m16n4096k1024", "gemm:m2048n128k256"),
    *(f"cosa:resnet50:_outputs_input.{number}" for number in (5, 36, 73)),
    "conv:n1k128c128p28q28r3s3",
    "conv:k256c64p56q56",
)


def main() -> None:
    """Print a row for each layer."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--layers", nargs="*", default=LAYERS)
    parser.add_argument("--results", type=Path)
    arguments = parser.parse_args()
    rows: list[dict[str, object]] = []
    ratios, errors = [], []
    print(
        f"{'layer':32} {'GOP/s':>8} {'peer':>8} {'ratio':>6} {'predicted':>12} {'measured':>12} {'error':>6}  mapping"
    )
    for name in arguments.layers:
        one = mapped(name, bits=8)
        found = run(one, arguments.seconds)
        if not found.is_right:
            raise SystemExit(f"{name}: its values are wrong by {found.error}")
        measured = found.measured_cycles or 0.0
        error = found.predicted_cycles / measured - 1 if measured else 0.0
        ratios.append(found.ratio)
        errors.append(abs(error))
        print(
            f"{name:32} {found.gflops:8.1f} {found.peer_gflops:8.1f} {found.ratio:6.2f} {found.predicted_cycles:12,.0f}"
            f" {measured:12,.0f} {error:+6.0%}  {' '.join(map(str, one.mapping.nest))}",
            flush=True,
        )
        rows.append(
            {"layer": name, "peer": found.peer, "gops": found.gflops, "peer_gops": found.peer_gflops}
            | {"ratio": found.ratio, "predicted_cycles": found.predicted_cycles, "measured_cycles": measured}
        )
    print(
        f"ratio: least {min(ratios):.2f}, median {median(ratios):.2f}; error of the model: median {median(errors):.0%}"
    )
    if arguments.results is not None:
        write_results(arguments.results, rows)


if __name__ == "__main__":
    main()
