"""A start for schedules: the order and the residencies of a plan in which every operand is resident."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from onchip.answer.problem import Count, Order, Problem
from onchip.answer.program import Allocate, Compute, Free, Plan
from onchip.arch.accelerator import Accelerator
from onchip.ir.graph import Graph
from onchip.memory.spill.exact import solve_exactly
from onchip.model.capacity.infeasible_operator import operators_that_do_not_fit
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.ops.views import JoinedMaps, joined_maps, seeing_parts
from onchip.scheduling.program.places import Places
from onchip.search.budget.limits import Run


@dataclass(frozen=True, slots=True)
class PlannedStart:
    """Operators in the order of a plan, and the places of their tensors if each operator is a separate stack."""

    order: tuple[str, ...]
    places: Places


def planned_start(
    network: Graph, accelerator: Accelerator, run: Run, views: Collection[str] = ()
) -> PlannedStart | None:
    """Plan the whole operators of a network for minimum traffic; None if an operator does not fit, or time is over.

    Parameters count as tensors. The scratchpads are the machine's addressed memories. Concatenations that are `views`
    are not materialised: an operator needs all parts of each input.
    """
    joined = joined_maps(network, views)
    seen = seeing_parts(network, joined)
    memories = tuple(level.memory for level in accelerator.addressed)
    problem = Problem(seen, memories, order=Order.FREE, count=Count.ALL)
    if operators_that_do_not_fit(IndexedProblem.of(problem)):
        return None
    plan = solve_exactly(problem, replace(run, listener=lambda _: None)).answer
    return None if plan is None else _with_views(start_of_plan(plan, seen), network, joined)


def _with_views(start: PlannedStart, network: Graph, joined: JoinedMaps) -> PlannedStart:
    """Return the start with concatenations that are not materialised, before their first readers.

    A concatenation is read from the memory of its first part.
    """
    order = list(start.order)
    for whole in reversed(list(joined)):
        readers = {reader.name for reader in network.readers[whole]}
        order.insert(next(at for at, name in enumerate(order) if name in readers), network.producer[whole].name)
    at = {name: number for number, name in enumerate(order)}
    places = start.places.renumbered({number: at[name] for number, name in enumerate(start.order)})
    read = dict(places.read)
    for whole, parts in joined.items():
        for number in (at[reader.name] for reader in network.readers[whole]):
            memory = places.read.get((number, parts[0].part))
            if memory is not None:
                read[number, whole] = memory
    return PlannedStart(tuple(order), replace(places, read=read))


def start_of_plan(plan: Plan, network: Graph) -> PlannedStart:
    """Return the order of a plan and, stack by stack, the memories in which operands are resident."""
    computes = [one.operator for one in plan.instructions if isinstance(one, Compute)]
    stack_of: Mapping[str, int] = {name: at for at, name in enumerate(computes)}
    held: dict[str, list[str]] = {}
    read: dict[tuple[int, str], str] = {}
    written: dict[tuple[int, str], str] = {}
    leaving: set[tuple[int, str]] = set()
    last_use: dict[str, int] = {}
    for one in plan.instructions:
        match one:
            case Allocate(tensor, memory):
                held.setdefault(tensor, []).append(memory)
            case Free(tensor, memory):
                held[tensor].remove(memory)
                at = last_use.get(tensor)
                later = (
                    any(stack_of[reader.name] > at for reader in network.readers[tensor]) if at is not None else False
                )
                if at is not None and later and not held[tensor]:
                    leaving.add((at, tensor))
            case Compute(name):
                at, operator = stack_of[name], network.operator[name]
                for tensor in operator.reads:
                    if held.get(tensor):
                        read[at, tensor] = held[tensor][-1]
                for tensor in operator.outputs:
                    if held.get(tensor):
                        written[at, tensor] = held[tensor][-1]
                last_use |= dict.fromkeys((*operator.reads, *operator.outputs), at)
    return PlannedStart(tuple(computes), Places(read, written, {}, frozenset(leaving)))
