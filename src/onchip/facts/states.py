"""Which states may stay on the chip for life, and what it costs where one does not."""

from __future__ import annotations

from onchip.answer.problem import Order, Problem
from onchip.arch.memory import DRAM, Memory, Operand
from onchip.ir.operator import InPlace
from onchip.ir.state import State


def loaded_cost(problem: Problem, state: State) -> int:
    """Return what loading a state, if it is read, and writing it back cost at their cheapest."""
    old, new = problem.graph.tensor[state.old], problem.graph.tensor[state.new]
    names = [memory.name for memory in problem.memories]
    store = min(problem.transfer_cost(new, name, DRAM) for name in names)
    if not problem.graph.readers[state.old]:
        return store
    return store + min(problem.transfer_cost(old, DRAM, name) for name in names)


def memories_of_state(problem: Problem, state: State) -> tuple[Memory, ...]:
    """Return the scratchpads in which the state may lie for life: those that hold what the array does with it.

    There is none where its next value is also an output of the network, where its writer reads the old one and cannot
    overwrite it, or where the old one is read after the new one is written.
    """
    if set(problem.graph.tensor[state.new].aliases) - {state.alias} or not _may_be_overwritten(problem, state):
        return ()
    is_read = bool(problem.graph.readers[state.old] or problem.graph.readers[state.new])
    operands = {Operand.OUTPUT, Operand.INPUT} if is_read else {Operand.OUTPUT}
    return tuple(memory for memory in problem.memories if operands <= set(memory.holds))


def _may_be_overwritten(problem: Problem, state: State) -> bool:
    """Whether all that is read of the old one may be read before the new one is there."""
    graph = problem.graph
    writer = graph.producer[state.new]
    readers = graph.readers[state.old]
    if writer in readers and not state.in_place and InPlace(state.old, state.new) not in writer.in_place:
        return False
    others = {reader.name for reader in readers} - {writer.name}
    if problem.order is Order.GIVEN:
        before = graph.operators[: graph.operators.index(writer)]
        return others <= {operator.name for operator in before}
    return others.isdisjoint(_followers(problem, writer.name))


def _followers(problem: Problem, name: str) -> frozenset[str]:
    """Return the operators that cannot run before another, by their names."""
    graph, found, waiting = problem.graph, set[str](), [name]
    while waiting:
        for output in graph.operator[waiting.pop()].outputs:
            for reader in graph.readers[output]:
                if reader.name not in found:
                    found.add(reader.name)
                    waiting.append(reader.name)
    return frozenset(found)
