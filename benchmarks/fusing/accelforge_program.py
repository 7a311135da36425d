"""Runs AccelForge on a chain of products on its one-MAC machine, by its own Python: `fusing` starts it.

python accelforge_program.py ROWS COLUMNS PRODUCTS BUFFER_BYTES DRAM_ENERGY
"""

from __future__ import annotations

import json
import sys
import time
from importlib import import_module
from typing import Any

BITS = 8


def main() -> None:
    """Print the bytes of DRAM, the energy and the seconds of the processor of its best mapping as JSON."""
    rows, columns, products, buffer_bytes, dram_energy = map(int, sys.argv[1:])
    forge: Any = import_module("accelforge")
    forge.set_n_parallel_jobs(1)
    start = time.process_time()
    sizes = {"M": rows, "KN": columns, "N_EINSUMS": products}
    machine = {"MainMemoryEnergy": dram_energy, "GlobalBufferSize": BITS * buffer_bytes}
    files = (forge.examples.arches.simple, forge.examples.workloads.matmuls)
    spec = forge.Spec.from_yaml(*files, jinja_parse_data={**sizes, **machine})
    spec.mapper.metrics = forge.Metrics.ENERGY
    found = spec.map_workload_to_arch(print_progress=False).data.iloc[0].to_dict()
    moved = [found[name] for name in found if "<SEP>action<SEP>MainMemory<SEP>" in name]
    print(
        json.dumps(
            {
                "dram_bytes": sum(moved) / BITS,
                "energy": found["Total<SEP>energy"],
                "seconds": time.process_time() - start,
            }
        )
    )


if __name__ == "__main__":
    main()
