"""Runs Stream on a network on a machine, by its own Python: `fusing` starts it.

python stream_program.py MACHINE.yaml NETWORK.onnx FOLDER SECONDS fused|layers
"""

from __future__ import annotations

import json
import logging
import sys
import time
from importlib import import_module
from typing import Any


def main() -> None:
    """Print the cycles of its allocation, the groups that it fused, and the seconds of the processor as JSON."""
    logging.disable(logging.CRITICAL)
    machine, network, folder, seconds, fusing = sys.argv[1:]
    stream: Any = import_module("stream.api")
    start = time.process_time()
    stages = {"fusion_cut_points": "per-layer"} if fusing == "layers" else {}
    options = stream.SolveOptions(time_limit_s=float(seconds), artifacts=False, stage_options=stages)
    found = stream.evaluate_mapping(machine, network, folder, None, options)
    groups = len(found.group_cycles)
    print(json.dumps({"cycles": found.cycles, "groups": groups, "seconds": time.process_time() - start}))


if __name__ == "__main__":
    main()
