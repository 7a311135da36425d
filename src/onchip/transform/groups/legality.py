"""Which stacks a schedule may have: every operator in one, in an order in which they can run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from onchip.answer.schedule import ScheduledStack, ScheduleError
from onchip.ir.graph import Graph
from onchip.ir.tensor import Role


def check_stacks(graph: Graph, stacks: Sequence[ScheduledStack]) -> None:
    """Raises ScheduleError unless they are the network's operators, once each, in an order in which they can run.

    Of several operators, all but the last have to be read inside their stack, and nowhere else.
    """
    _are_the_operators(graph, stacks)
    for number, stack in enumerate(stacks):
        _is_left_by_its_last_output_alone(graph, number, stack)
    _run_after_what_they_read(graph, stacks)


def place_of_stack(number: int, stack: ScheduledStack) -> str:
    """How errors call a stack."""
    first, last = stack.operators[0], stack.operators[-1]
    return f"stack {number} ({first!r})" if first == last else f"stack {number} ({first!r} to {last!r})"


def _are_the_operators(graph: Graph, stacks: Sequence[ScheduledStack]) -> None:
    for number, stack in enumerate(stacks):
        for name in stack.operators:
            if name not in graph.operator:
                what, place = f"operator {name!r} is unknown", place_of_stack(number, stack)
                raise ScheduleError(what, file=graph.name, place=place, expected="operators of the network")
    times = Counter(name for stack in stacks for name in stack.operators)
    for name in graph.operator:
        if times[name] != 1:
            what = f"operator {name!r} is in {times[name] or 'no'} {'stacks' if times[name] else 'stack'}"
            raise ScheduleError(what, file=graph.name, place="stacks", expected="each operator in one")


def _is_left_by_its_last_output_alone(graph: Graph, number: int, stack: ScheduledStack) -> None:
    inside = set(stack.operators)
    for name in stack.operators[:-1]:
        for written in graph.operator[name].outputs:
            outside = [one.name for one in graph.readers[written] if one.name not in inside]
            what = None
            if graph.tensor[written].role is Role.OUTPUT:
                what = f"{written!r}, which {name!r} writes, is an output of the network"
            elif outside:
                what = f"{written!r}, which {name!r} writes, is read outside by {outside[0]!r}"
            elif not graph.readers[written]:
                what = f"{written!r}, which {name!r} writes, is read by nobody"
            if what is not None:
                place = place_of_stack(number, stack)
                raise ScheduleError(what, file=graph.name, place=place, expected="only the last output to leave")


def _run_after_what_they_read(graph: Graph, stacks: Sequence[ScheduledStack]) -> None:
    has_run = set[str]()
    for number, stack in enumerate(stacks):
        for name in stack.operators:
            for read in graph.operator[name].inputs:
                before = graph.producer.get(read)
                if before is not None and before.name not in has_run:
                    what, place = f"{name!r} runs before {before.name!r}, which it reads", place_of_stack(number, stack)
                    expected = "stacks, and operators in them, in an order in which they can run"
                    raise ScheduleError(what, file=graph.name, place=place, expected=expected)
            has_run.add(name)
