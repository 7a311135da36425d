"""onchip plans how a neural network uses an accelerator's on-chip memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import Memory
from onchip.errors import OnchipError
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.plan.document import Reading
from onchip.plan.plan import Allocate, Compute, Copy, Free, Plan
from onchip.plan.problem import Count, Objective, Order, Problem
from onchip.plan.result import Result, Status

if TYPE_CHECKING:
    from onchip.auditing import audit
    from onchip.pipeline import plan_problem
    from onchip.solve.limits import Limits
    from onchip.verify.verifier import verify as verify_plan
    from onchip.workloads.source import read_network

__all__ = [
    "Accelerator",
    "Allocate",
    "Compute",
    "Copy",
    "Count",
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
    "Tensor",
    "audit",
    "plan_problem",
    "read_network",
    "verify_plan",
]

_IMPORTED_WHEN_USED = {
    "Limits": ("onchip.solve.limits", "Limits"),
    "audit": ("onchip.auditing", "audit"),
    "plan_problem": ("onchip.pipeline", "plan_problem"),
    "read_network": ("onchip.workloads.source", "read_network"),
    "verify_plan": ("onchip.verify.verifier", "verify"),
}


def __getattr__(name: str) -> object:
    if name not in _IMPORTED_WHEN_USED:
        raise AttributeError(f"module 'onchip' has no attribute {name!r}")
    from importlib import import_module

    module, attribute = _IMPORTED_WHEN_USED[name]
    return getattr(import_module(module), attribute)
