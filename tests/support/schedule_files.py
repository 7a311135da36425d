"""A schedule file written by hand, and changed by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeAlias

Json: TypeAlias = Any
TEXT = """\
{"format": "onchip-schedule", "version": 1, "graph": {"name": "net"},
 "accelerator": {"format": "onchip-accelerator", "version": 1, "name": "chip",
  "array": {"dimensions": {"lane": 4, "row": 2}, "mac_energy_pj": 0.5}, "memories": [
  {"name": "register", "capacity": 4, "holds": ["weight"], "serves": []},
  {"name": "weights", "capacity": "1KiB", "holds": ["weight"]},
  {"name": "maps", "capacity": 2048, "scratchpad": true, "alignment": 4, "holds": ["input", "output"]}]},
 "reading": {"bits": 8, "partial_bits": 20},
 "stacks": [
  {"operators": ["a", "b"], "tile": {"columns": 4, "rows": 72}, "mode": "fully-cached"},
  {"operators": ["c"], "tile": null}],
 "mappings": [
  {"stack": 1, "layer": {"loops": {"K": 8, "C": 4}}, "homes": {"input": "maps", "weight": "weights"},
   "nest": ["K4@lane", "C4", "K2"], "weight": [{"memory": "register", "loops": 1}]}],
 "instructions": [
  {"allocate": {"tensor": "x", "memory": "maps", "offset_bytes": 4}},
  {"copy": {"tensor": "x", "source": "dram", "target": "maps"}},
  {"compute": "a#0"}],
 "result": {"method": "composed", "status": "FEASIBLE", "objective": "edp", "objective_value": 3000, "lower_bound": 1,
  "energy_pj": 1.5, "latency_cycles": 2, "traffic_bytes": 64, "space": {"order": "given", "stacks": "any",
   "tilings": "any", "homes": "any", "mappings": "any", "residencies": "any", "prefetch": "none"}}}
"""


def changed(change: Callable[[Json], object]) -> str:
    """Return the text after `change` of its fields."""
    document = json.loads(TEXT)
    change(document)
    return json.dumps(document)
