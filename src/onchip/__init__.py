"""onchip schedules neural networks on accelerators with software-managed memories.

Examples
--------
>>> import onchip as oc
>>> net = oc.load_network("lenet5", bits=8)
>>> plan = oc.plan(net, oc.Memory("sram", "48KiB"), minimize="traffic")
>>> oc.check(plan).is_legal
True

"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onchip.answer.operator_tiles import TilesOption
    from onchip.answer.options.verb_options import (
        CapacityOptions,
        FusionOptions,
        MapOptions,
        PackOptions,
        Placements,
        PlanOptions,
        ScheduleOptions,
    )
    from onchip.answer.packing import Buffer
    from onchip.answer.problem import Count, Order, Placement, Recompute
    from onchip.answer.program import Plan
    from onchip.answer.result import Status
    from onchip.answer.schedule import Schedule
    from onchip.answer.stacks import OverlapMode
    from onchip.api.answers import audit, check, explain, load, run, time
    from onchip.api.inputs import conv, from_torch, gemm, load_accelerator, load_network
    from onchip.api.results import Report, Result
    from onchip.api.verbs import fuse, info, map_layer, map_network, pack, pareto, plan, schedule
    from onchip.arch.accelerator import Accelerator
    from onchip.arch.memory import Memory
    from onchip.arch.sharing import Share
    from onchip.backends.exports import export
    from onchip.errors import OnchipError
    from onchip.ir.graph import Graph
    from onchip.ir.layer import Layer
    from onchip.ir.operator import Operator
    from onchip.ir.tensor import Role, Tensor
    from onchip.search.budget.limits import Progress
    from onchip.sweeps.library import capacity, diff, report, sweep

__all__ = [
    "Accelerator",
    "Buffer",
    "CapacityOptions",
    "Count",
    "FusionOptions",
    "Graph",
    "Layer",
    "MapOptions",
    "Memory",
    "OnchipError",
    "Operator",
    "Order",
    "OverlapMode",
    "PackOptions",
    "Placement",
    "Placements",
    "Plan",
    "PlanOptions",
    "Progress",
    "Recompute",
    "Report",
    "Result",
    "Role",
    "Schedule",
    "ScheduleOptions",
    "Share",
    "Status",
    "Tensor",
    "TilesOption",
    "audit",
    "capacity",
    "check",
    "conv",
    "diff",
    "explain",
    "export",
    "from_torch",
    "fuse",
    "gemm",
    "info",
    "load",
    "load_accelerator",
    "load_network",
    "map_layer",
    "map_network",
    "pack",
    "pareto",
    "plan",
    "report",
    "run",
    "schedule",
    "sweep",
    "time",
]

_NAMES_OF_MODULES = {
    "answer.operator_tiles": "TilesOption",
    "answer.options.verb_options": (
        "CapacityOptions FusionOptions MapOptions PackOptions Placements PlanOptions ScheduleOptions"
    ),
    "answer.packing": "Buffer",
    "answer.problem": "Count Order Placement Recompute",
    "answer.program": "Plan",
    "answer.result": "Status",
    "answer.schedule": "Schedule",
    "answer.stacks": "OverlapMode",
    "api.answers": "audit check explain load run time",
    "api.inputs": "conv from_torch gemm load_accelerator load_network",
    "api.results": "Report Result",
    "api.verbs": "fuse info map_layer map_network pack pareto plan schedule",
    "arch.accelerator": "Accelerator",
    "arch.memory": "Memory",
    "arch.sharing": "Share",
    "backends.exports": "export",
    "errors": "OnchipError",
    "ir.graph": "Graph",
    "ir.layer": "Layer",
    "ir.operator": "Operator",
    "ir.tensor": "Role Tensor",
    "search.budget.limits": "Progress",
    "sweeps.library": "capacity diff report sweep",
}
_MODULE_OF = {name: f"onchip.{module}" for module, names in _NAMES_OF_MODULES.items() for name in names.split()}


def __dir__() -> list[str]:
    return [*globals(), *_MODULE_OF]


def __getattr__(name: str) -> object:
    """Import a public name or a subpackage on first use, so that `import onchip` stays fast.

    Raises AttributeError for an unknown name.
    """
    from importlib import import_module
    from importlib.util import find_spec

    if name in _MODULE_OF:
        return getattr(import_module(_MODULE_OF[name]), name)
    if name.startswith("_") or find_spec(f"onchip.{name}") is None:
        raise AttributeError(f"module 'onchip' has no attribute {name!r}")
    return import_module(f"onchip.{name}")
