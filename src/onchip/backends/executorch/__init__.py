"""Memory planning for ExecuTorch (extra `executorch`).

`memory_planner` makes an algorithm for `MemoryPlanningPass`. `import onchip` imports none of these modules, and they
import ExecuTorch only inside its passes.
"""

from __future__ import annotations

from onchip.backends.executorch.planner import (
    ExecutorchPlanner,
    FallbackWarning,
    PlannedMemory,
    PlannedModule,
    PlannerObjective,
    memory_planner,
)

__all__ = [
    "ExecutorchPlanner",
    "FallbackWarning",
    "PlannedMemory",
    "PlannedModule",
    "PlannerObjective",
    "memory_planner",
]
