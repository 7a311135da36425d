"""Runs KULeuven-MICAS/DeFiNES (commit 7097d60) on one point, by its own Python: `defines.against` starts it.

python peer_program.py WORKLOAD ACCELERATOR COLUMNS ROWS CACHES_COLUMNS CACHES_ROWS     in DeFiNES's folder
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Iterator
from importlib import import_module
from typing import Any

LIMIT = 6


def main() -> None:
    """Print energy in pJ, cycles and seconds of the processor as JSON."""
    logging.disable(logging.CRITICAL)
    sys.path.insert(0, ".")
    workload, accelerator, columns, rows, *cached = sys.argv[1:]
    stages: Any = import_module("classes.stages")
    found: list[Any] = []

    class Collected(stages.Stage):  # type: ignore[misc]
        """Keeps what the stages below yield; the last but the first two are latencies that its paper reports."""

        def run(self) -> Iterator[Any]:
            below = self.list_of_callables[0](self.list_of_callables[1:], **self.kwargs)
            found.extend(evaluation for evaluation, _ in below.run())
            return iter(())

    names = ("DepthFirst", "SpatialMappingConversion", "RemoveExtraInfo", "MinimalEnergy", "Loma", "ZigZagCostModel")
    start = time.process_time()
    stages.MainStage(
        [
            stages.WorkloadAndAcceleratorParserStage,
            stages.GeneralParameterIteratorStage,
            Collected,
            stages.DfStackCutIfWeightsOverflowStage,
            *(getattr(stages, f"{name}Stage") for name in names),
        ],
        loma_lpf_limit=LIMIT,
        workload_path=f"inputs.WL.{workload}",
        accelerator_path=f"inputs.HW.{accelerator}",
        df_tilesize_x=int(columns),
        df_tilesize_y=int(rows),
        general_parameter_iterations={
            ("df_horizontal_caching", "df_vertical_caching"): (tuple(one == "True" for one in cached),)
        },
    ).run()
    energy_pj = float(sum(one.energy_total for one in found))
    cycles = float(sum(one.latency_total1 for one in found))
    print(json.dumps({"energy_pj": energy_pj, "cycles": cycles, "seconds": time.process_time() - start}))


if __name__ == "__main__":
    main()
