"""What `--json` prints: one object per verb."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TypeAlias

from onchip.answer.problem import Placement, Problem
from onchip.answer.result import Status
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import Memory
from onchip.ir.tensor import Role, Tensor
from onchip.reports.program.infeasible import infeasible_object
from onchip.reports.program.outcome import Check, Description, Outcome
from onchip.verify.figures import Figures
from onchip.verify.rules import Violation

Json: TypeAlias = "Mapping[str, object]"

LARGEST_TENSORS = 10


def outcome_object(outcome: Outcome) -> Json:
    """Say what `plan` found; fields of a plan are null where there is none."""
    problem, result, figures, seconds = outcome.problem, outcome.result, outcome.figures, outcome.seconds
    found = {
        "network": problem.graph.name,
        "method": result.method,
        "order": problem.order,
        "count": problem.count,
        "seed": outcome.seed,
        "status": result.status,
        "stopped_by": result.stopped_by,
        "operators": len(problem.graph.operators),
        "tensors": len(problem.counted_tensors),
        "memories": [memory_object(memory) for memory in problem.memories],
        "links": links_object(problem),
        "placement": problem.placement,
        "capacity_bytes": outcome.capacity_bytes,
        "objective": problem.objective,
        "objective_unit": problem.objective.unit,
        "objective_value": result.objective_value,
        "lower_bound": result.bound,
        "gap": result.gap,
        "space": result.space,
        "optimal_among": result.optimal_among,
        "why_not": result.why_not,
        "traffic": None if figures is None else traffic_object(figures),
        "recomputation": None if figures is None else recomputation_object(figures),
        "states": None if figures is None else states_object(figures),
        "peak_bytes": None if figures is None else figures.peak_bytes,
        "arena_bytes": None if figures is None else figures.arena_bytes,
        "peaks": _peaks(outcome),
        "arenas": None if figures is None else dict(figures.arenas),
        "outside_bytes": _outside_bytes(outcome),
        "required_bytes": outcome.required.need_bytes,
        "min_peak_bytes": outcome.min_peak_bytes,
        "seconds": {"read": seconds.read, "budget": seconds.budget, "solve": seconds.solve, "verify": seconds.verify},
    }
    if outcome.latency_parts is not None:
        found["latency_parts"] = outcome.latency_parts.by_name
    return {**found, **infeasible_object(outcome)} if result.status is Status.INFEASIBLE else found


def _peaks(outcome: Outcome) -> Json | None:
    """The most bytes resident at once in each scratchpad."""
    history = outcome.history
    if history is None:
        return None
    return {memory.name: history.peak_bytes(memory.name) for memory in outcome.problem.memories}


def _outside_bytes(outcome: Outcome) -> int | None:
    """Of the tensors without a place for life; None where placement is dynamic, or there is no plan."""
    if outcome.history is None or outcome.problem.placement is Placement.DYNAMIC:
        return None
    return sum(tensor.size_bytes for tensor in outcome.history.without_place_for_life)


def check_object(check: Check) -> Json:
    """Say what is wrong with a plan, and its figures beside what its maker claims."""
    claim, figures, graph = check.document.claim, check.verdict.figures, check.document.graph
    objective = check.problem.objective
    return {
        "network": check.problem.graph.name,
        "legal": check.is_legal,
        "graph": {"planned_sha256": graph.sha256, "sha256": check.sha256, "differs": check.graph_differs},
        "violations": [violation_object(violation) for violation in check.verdict.violations],
        "memories": [memory_object(memory) for memory in check.problem.memories],
        "links": links_object(check.problem),
        "placement": check.problem.placement,
        "recomputed": {
            "objective": objective,
            "objective_unit": objective.unit,
            "objective_value": figures.objective_value(objective),
            "traffic": traffic_object(figures),
            "recomputation": recomputation_object(figures),
            "peak_bytes": figures.peak_bytes,
            "arena_bytes": figures.arena_bytes,
            "arenas": dict(figures.arenas),
            "states": states_object(figures),
        },
        "claimed": claim
        and {
            "method": claim.method,
            "status": claim.status,
            "objective": claim.objective,
            "objective_value": claim.objective_value,
            "lower_bound": claim.lower_bound,
        },
    }


def violation_object(violation: Violation) -> Json:
    """Say which rule is broken where."""
    return {
        "rule": violation.rule,
        "step": violation.step,
        "instruction": violation.instruction,
        "subject": violation.subject,
        "detail": violation.detail,
    }


def description_object(description: Description) -> Json:
    """Say what is in a network."""
    graph, peak = description.problem.graph, description.least_peak
    return {
        "network": graph.name,
        "count": description.problem.count,
        "operators": len(graph.operators),
        "tensors": {role.value: role_object(graph.with_role(role)) for role in Role},
        "required_bytes": description.required.need_bytes,
        "required_by": description.required.operator.name,
        "min_peak_bytes": description.min_peak_bytes,
        "min_peak_range": [peak.lower_bound, peak.objective_value],
        "compulsory_bytes": description.compulsory_bytes,
        "shared": [asdict(one) for one in description.needs],
        "states": [{"old": state.old, "new": state.new} for state in graph.states],
        "largest_tensors": [
            {"name": tensor.name, "role": tensor.role, "shape": tensor.shape, "bytes": tensor.size_bytes}
            for tensor in largest_tensors(description)
        ],
    }


def largest_tensors(description: Description) -> tuple[Tensor, ...]:
    """Return the largest counted tensors, the first of equals first."""
    by_size = sorted(description.problem.counted_tensors, key=lambda tensor: -tensor.size_bytes)
    return tuple(by_size[:LARGEST_TENSORS])


def role_object(tensors: tuple[Tensor, ...]) -> Json:
    """Say how many tensors of a role there are and what they take together."""
    return {"count": len(tensors), "bytes": sum(tensor.size_bytes for tensor in tensors)}


def traffic_object(figures: Figures) -> Json:
    """Say what moves to and from DRAM, in bytes; `moved` from scratchpad to scratchpad, which is no traffic."""
    return {
        "total": figures.total,
        "compulsory": figures.compulsory,
        "non_compulsory": figures.non_compulsory,
        "loads": figures.loads,
        "write_backs": figures.write_backs,
        "moved": figures.moved,
    }


def recomputation_object(figures: Figures) -> Json:
    """Say how many Computes are of operators that have run before, and what they cost, in the objective's unit."""
    return {"runs_again": figures.runs_again, "cost": figures.recomputation_cost}


def states_object(figures: Figures) -> Json:
    """Say which states are on the chip for life, and which are loaded and written back, by their old tensors."""
    return {"on_chip": list(figures.states_on_chip), "loaded": list(figures.states_loaded)}


def memory_object(memory: Memory) -> Json:
    """Say what a scratchpad is."""
    return {
        "name": memory.name,
        "capacity_bytes": memory.capacity_bytes,
        "alignment_bytes": memory.alignment_bytes,
        "holds": list(memory.holds),
    }


def links_object(problem: Problem) -> list[Json]:
    """Say what leads from one scratchpad to another."""
    return [{"source": source, "target": target} for source, target in problem.transfers.links]


def accelerator_object(accelerator: Accelerator) -> Json:
    """Say which scratchpads an accelerator has."""
    return {"name": accelerator.name, "memories": [memory_object(memory) for memory in accelerator.scratchpads]}
