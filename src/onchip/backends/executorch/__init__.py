"""ExecuTorch told where tensors lie, and in which order its operators run (extra `executorch`).

`memory_planner` makes what `MemoryPlanningPass` takes as its algorithm. Nothing here is imported by `import onchip`,
and ExecuTorch itself only where one of its passes is asked for.
"""

from __future__ import annotations

from onchip.backends.executorch.operator_order import OrderedMethod, ReorderedProgram, reorder_operators
from onchip.backends.executorch.planned import PlannedMemory, PlannedModule
from onchip.backends.executorch.planner import ExecutorchPlanner, FallbackWarning, PlannerObjective, memory_planner

__all__ = [
    "ExecutorchPlanner",
    "FallbackWarning",
    "OrderedMethod",
    "PlannedMemory",
    "PlannedModule",
    "PlannerObjective",
    "ReorderedProgram",
    "memory_planner",
    "reorder_operators",
]
