"""onchip plans how a neural network uses an accelerator's on-chip memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onchip.answer.document import Reading
    from onchip.answer.problem import Count, Objective, Order, Problem
    from onchip.answer.program import Allocate, Compute, Copy, Free, Plan
    from onchip.answer.result import Result, Status
    from onchip.api.answer_library import check, explain, report, run
    from onchip.api.audit import audit
    from onchip.api.library import Elements, fuse, map_layer, pack, plan, schedule, schedule_front
    from onchip.api.networks import read_network
    from onchip.api.plan import plan_problem
    from onchip.arch.accelerator import Accelerator
    from onchip.arch.memory import Memory
    from onchip.errors import OnchipError
    from onchip.formats.networks import graph_from_torch
    from onchip.ir.graph import Graph
    from onchip.ir.operator import Operator
    from onchip.ir.tensor import Role, Tensor
    from onchip.search.budget.limits import Limits
    from onchip.sweeps.sweep_library import SweepChoices, capacity, diff, sweep
    from onchip.verify.verifier import verify as verify_plan

__all__ = [
    "Accelerator",
    "Allocate",
    "Compute",
    "Copy",
    "Count",
    "Elements",
    "Free",
    "Graph",
    "Limits",
    "Memory",
    "Objective",
    "OnchipError",
    "Operator",
    "Order",
    "Plan",
    "Problem",
    "Reading",
    "Result",
    "Role",
    "Status",
    "SweepChoices",
    "Tensor",
    "audit",
    "capacity",
    "check",
    "diff",
    "explain",
    "fuse",
    "graph_from_torch",
    "map_layer",
    "pack",
    "plan",
    "plan_problem",
    "read_network",
    "report",
    "run",
    "schedule",
    "schedule_front",
    "sweep",
    "verify_plan",
]

_IMPORTED_WHEN_USED = {
    "Accelerator": ("onchip.arch.accelerator", "Accelerator"),
    "Allocate": ("onchip.answer.program", "Allocate"),
    "Compute": ("onchip.answer.program", "Compute"),
    "Copy": ("onchip.answer.program", "Copy"),
    "Count": ("onchip.answer.problem", "Count"),
    "Elements": ("onchip.api.library", "Elements"),
    "Free": ("onchip.answer.program", "Free"),
    "Graph": ("onchip.ir.graph", "Graph"),
    "Limits": ("onchip.search.budget.limits", "Limits"),
    "Memory": ("onchip.arch.memory", "Memory"),
    "Objective": ("onchip.answer.problem", "Objective"),
    "OnchipError": ("onchip.errors", "OnchipError"),
    "Operator": ("onchip.ir.operator", "Operator"),
    "Order": ("onchip.answer.problem", "Order"),
    "Plan": ("onchip.answer.program", "Plan"),
    "Problem": ("onchip.answer.problem", "Problem"),
    "Reading": ("onchip.answer.document", "Reading"),
    "Result": ("onchip.answer.result", "Result"),
    "Role": ("onchip.ir.tensor", "Role"),
    "Status": ("onchip.answer.result", "Status"),
    "SweepChoices": ("onchip.sweeps.sweep_library", "SweepChoices"),
    "Tensor": ("onchip.ir.tensor", "Tensor"),
    "audit": ("onchip.api.audit", "audit"),
    "capacity": ("onchip.sweeps.sweep_library", "capacity"),
    "check": ("onchip.api.answer_library", "check"),
    "diff": ("onchip.sweeps.sweep_library", "diff"),
    "explain": ("onchip.api.answer_library", "explain"),
    "fuse": ("onchip.api.library", "fuse"),
    "graph_from_torch": ("onchip.formats.networks", "graph_from_torch"),
    "map_layer": ("onchip.api.library", "map_layer"),
    "pack": ("onchip.api.library", "pack"),
    "plan": ("onchip.api.library", "plan"),
    "plan_problem": ("onchip.api.plan", "plan_problem"),
    "read_network": ("onchip.api.networks", "read_network"),
    "report": ("onchip.api.answer_library", "report"),
    "run": ("onchip.api.answer_library", "run"),
    "schedule": ("onchip.api.library", "schedule"),
    "schedule_front": ("onchip.api.library", "schedule_front"),
    "sweep": ("onchip.sweeps.sweep_library", "sweep"),
    "verify_plan": ("onchip.verify.verifier", "verify"),
}


def __dir__() -> list[str]:
    return [*globals(), *_IMPORTED_WHEN_USED]


def __getattr__(name: str) -> object:
    """Import a public name or a subpackage on first use, so that `import onchip` stays fast.

    Raises AttributeError for an unknown name.
    """
    from importlib import import_module
    from importlib.util import find_spec

    if name in _IMPORTED_WHEN_USED:
        module, attribute = _IMPORTED_WHEN_USED[name]
        return getattr(import_module(module), attribute)
    if name.startswith("_") or find_spec(f"onchip.{name}") is None:
        raise AttributeError(f"module 'onchip' has no attribute {name!r}")
    return import_module(f"onchip.{name}")
