"""ResNet-50's 3x3 convolutions as mapped by `exact`, compiled, against onnxruntime: one thread each, float32.

    PYTHONPATH=benchmarks python -m host.convolutions [--seconds 1] [--all] [--results FILE]

Each in the layout of its own: channels last here, first in onnxruntime, which arranges its weights before it is timed;
ours are copied as the mapping says each time. To be shown: at least 0.6 of onnxruntime's each. `--all` are all layers
of the table.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from host.rows import mapped, run
from shared.results import write_results

from onchip.formats.own.graph_json import layer_table

LEAST_EACH: Final = 0.6


def main() -> None:
    """Print a row for each layer."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--results", type=Path)
    arguments = parser.parse_args()
    rows: list[dict[str, object]] = []
    print(f"{'layer':22} {'K C P stride':>16} {'GFLOP/s':>8} {'peer':>8} {'ratio':>6}  mapping")
    for name, layer in layer_table("resnet50").items():
        if layer.r != 3 and not arguments.all:
            continue
        one = mapped(f"cosa:resnet50:{name}")
        found = run(one, arguments.seconds)
        shape = f"{layer.k} {layer.c} {layer.p} {layer.stride[0]}"
        nest = " ".join(map(str, one.mapping.nest))
        print(f"{name:22} {shape:>16} {found.gflops:8.1f} {found.peer_gflops:8.1f} {found.ratio:6.2f}  {nest}")
        rows.append(
            {"layer": name, "peer": found.peer, "gflops": found.gflops, "peer_gflops": found.peer_gflops}
            | {"ratio": found.ratio}
        )
        if not found.is_right:
            raise SystemExit(f"{name}: its values are wrong by {found.error}")
    if arguments.results is not None:
        write_results(arguments.results, rows)


if __name__ == "__main__":
    main()
