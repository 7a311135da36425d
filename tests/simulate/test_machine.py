"""The machine on small plans: legal plans run, and physically impossible ones have a named error."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onchip.answer.problem import Count, Order, Problem
from onchip.api.plan import plan_problem
from onchip.arch.memory import Memory
from onchip.errors import OnchipError
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.model.capacity.bounds import greatest_need
from onchip.simulate.kernel_protocol import Bytes, SeededKernels
from onchip.simulate.machine import MachineError, WrongBytes, run_in_given_order, run_plan_on_machine
from onchip.verify.verifier import verify
from support.plan_tables import LEGAL
from support.programs import (
    CHAIN,
    CHAIN_WITH_PARAMETER,
    HELD,
    MOVED,
    SPILLED,
    TWO_OUTPUTS,
    TWO_SCRATCHPADS,
    Case,
    graph,
    linked,
    sram,
)
from support.runs import inputs_of, run_seeded
from support.strategies import graphs


@pytest.mark.parametrize("name", LEGAL)
def test_a_legal_plan_runs_and_moves_what_the_verifier_says(name: str) -> None:
    case = LEGAL[name]
    run = run_seeded(case.problem, case.plan)
    figures = verify(case.problem, case.plan).figures
    assert run.difference is None
    assert (run.loads, run.write_backs, run.moved) == (figures.loads, figures.write_backs, figures.moved)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(graphs(), st.sampled_from(Count), st.integers(0, 3), st.sampled_from((1, 4)))
def test_whatever_is_planned_runs(graph: Graph, count: Count, extra: int, alignment: int) -> None:
    roomy = Problem(graph, (Memory("sram", 10**6, alignment),), count=count)
    capacity = greatest_need(roomy).need_bytes + extra
    problem = Problem(graph, (Memory("sram", capacity, alignment),), order=Order.GIVEN, count=count)
    result = plan_problem(problem)
    if result.answer is None:  # a capacity equal to the largest working set does not always pack
        return
    run = run_seeded(problem, result.answer)
    figures = verify(problem, result.answer).figures
    assert run.difference is None
    assert (run.loads, run.write_backs, run.moved) == (figures.loads, figures.write_backs, figures.moved)


def test_every_tensor_is_compared_and_the_outputs_are_handed_out() -> None:
    run = run_seeded(SPILLED.problem, SPILLED.plan)
    assert run.compared == 4
    assert {name: len(content) for name, content in run.outputs.items()} == {"y": 4}


IMPOSSIBLE = {
    "ends beyond the capacity": (CHAIN.edited(2, "allocate a sram 10"), "outside its 12 bytes"),
    "starts below address 0": (CHAIN.edited(2, "allocate a sram -1"), "outside its 12 bytes"),
    "is misaligned": (CHAIN.of(memories=sram(16, 2)).edited(2, "allocate a sram 5"), "at no multiple of 2"),
    "is allocated twice": (CHAIN.edited(2, "allocate a sram 4", "allocate a sram 4"), "'a' has a place"),
    "is freed where it is not": (CHAIN.edited(4, "free y sram"), "'y' has no place"),
    "is loaded without a copy in DRAM": (SPILLED.edited(4), "DRAM has no 'a'"),
    "is loaded without a place": (CHAIN.edited(0), "'x' has no place"),
    "is copied out of nowhere": (CHAIN.edited(8, "copy y sram dram", "copy a sram dram"), "'a' has no place"),
    "is copied past DRAM": (TWO_SCRATCHPADS.edited(1, "copy x left right"), "no link leads from 'left' to 'right'"),
    "is copied from DRAM to itself": (CHAIN.edited(1, "copy x dram dram"), "no link leads"),
    "is moved against a link": (linked(MOVED, ("right", "left")), "no link leads from 'left' to 'right'"),
    "is written into two scratchpads": (
        TWO_SCRATCHPADS.edited(7, "compute g", "free y left").without(6),
        "'g' writes 'y', which has places in 'left', 'right'",
    ),
    "is moved to where it has no place": (MOVED.without(3), "'x' has no place in 'right'"),
    "is moved from where it has no place": (MOVED.without(0, 1), "'x' has no place in 'left'"),
    "is read as input among the outputs": (
        HELD.without(6, 7, 8),
        "'g' needs 'a', which is in no scratchpad that holds in",
    ),
    "is read as weight among the inputs": (
        HELD.edited(2, "allocate w inputs 8").edited(3, "copy w dram inputs"),
        "'f' needs 'w', which is in no scratchpad that holds weights",
    ),
    "is written among the inputs": (
        HELD.without(6, 7, 8).edited(4, "allocate a inputs 4"),
        "'f' needs 'a', which is in no scratchpad that holds outputs",
    ),
    "is read but nowhere": (CHAIN.edited(3, "free x sram", "compute f"), "'f' needs 'x', which is in no"),
    "is written but nowhere": (CHAIN.edited(2), "'f' needs 'a', which is in no"),
    "is unknown": (CHAIN.edited(2, "allocate ghost sram 4"), "no tensor 'ghost'"),
    "is not counted": (CHAIN.edited(2, "allocate w sram 4"), "no tensor 'w'"),
    "is run but unknown": (CHAIN.edited(3, "compute ghost"), "no operator 'ghost'"),
    "is placed in an unknown scratchpad": (CHAIN.edited(2, "allocate a attic 4"), "no scratchpad 'attic'"),
    "is copied to an unknown scratchpad": (CHAIN.edited(1, "copy x dram attic"), "no scratchpad 'attic'"),
    "is placed in DRAM": (CHAIN.edited(2, "allocate a dram 4"), "no scratchpad 'dram'"),
    "is never written to DRAM": (CHAIN.edited(8), "DRAM has no network output 'y'"),
}


@pytest.mark.parametrize("what", IMPOSSIBLE)
def test_the_machine_refuses_what_cannot_be(what: str) -> None:
    case, message = IMPOSSIBLE[what]
    assert verify(case.problem, case.plan).violations
    with pytest.raises(MachineError, match=re.escape(message)):
        run_seeded(case.problem, case.plan)


def test_an_impossible_instruction_is_named_by_step_and_index() -> None:
    case = SPILLED.edited(9, "allocate a sram 9")
    with pytest.raises(MachineError, match="step 2, instruction 9: "):
        run_seeded(case.problem, case.plan)


DIFFERENT = {
    "reads what was never loaded": (CHAIN.edited(1), "x", WrongBytes.READ),
    "reads what was freed and allocated again": (
        CHAIN.edited(3, "free x sram", "allocate x sram 0", "compute f"),
        "x",
        WrongBytes.READ,
    ),
    "reads what another tensor was allocated over": (CHAIN.edited(2, "allocate a sram 3"), "x", WrongBytes.READ),
    "moves what was never loaded": (MOVED.without(1), "x", WrongBytes.READ),
    "reads what only waits": (
        HELD.edited(0, "allocate x inputs 0", "allocate x outputs 8").edited(2, "copy x dram outputs"),
        "x",
        WrongBytes.READ,
    ),
    "reads what was never moved to where it is read": (
        HELD.without(7),
        "a",
        WrongBytes.READ,
    ),
    "writes out what was never computed": (TWO_OUTPUTS.edited(3), "y", WrongBytes.AT_THE_END),
    "reloads at the place of a live tensor": (SPILLED.edited(9, "allocate a sram 4"), "b", WrongBytes.READ),
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_the_machine_finds_bytes_that_are_not_the_tensors(what: str) -> None:
    case, tensor, found = DIFFERENT[what]
    assert verify(case.problem, case.plan).violations
    difference = run_seeded(case.problem, case.plan).difference
    assert difference is not None
    assert (difference.tensor, difference.found) == (tensor, found)


def test_a_copy_that_was_overwritten_is_found_although_another_scratchpad_has_a_good_one() -> None:
    moved = linked(TWO_SCRATCHPADS, ("right", "left"))
    case = moved.edited(4, "allocate a left 4", "copy a right left", "allocate y left 4")  # y overlaps a
    difference = run_seeded(case.problem, case.plan).difference
    assert difference is not None
    assert (difference.tensor, difference.found, difference.operator) == ("a", WrongBytes.READ, "g")


def test_outputs_on_top_of_each_other_are_found() -> None:
    case = Case(
        Problem(graph("x:input:4 y:output:4 z:output:4", f="x -> y z"), sram(12)),
        """
        allocate x sram 0
        copy x dram sram
        allocate y sram 4
        allocate z sram 7
        compute f
        copy y sram dram
        copy z sram dram
        """,
    )
    difference = run_seeded(case.problem, case.plan).difference
    assert difference is not None
    assert (difference.tensor, difference.found) == ("y", WrongBytes.WRITTEN)


def test_after_a_difference_the_machine_stops() -> None:
    case = CHAIN.edited(1)
    run = run_seeded(case.problem, case.plan)
    assert str(run.difference) == "step 0, instruction 2: 'x', read by an operator 'f', differs from the unplanned run"
    assert (run.loads, run.write_backs, run.outputs) == (0, 0, {})


def test_what_waits_where_it_is_not_read_may_be_anything() -> None:
    """x waits without data among the outputs while f reads it among the inputs."""
    case = HELD.edited(0, "allocate x inputs 0", "allocate x outputs 8")
    assert run_seeded(case.problem, case.plan).difference is None


def test_parameters_are_bytes_like_others_where_they_count() -> None:
    never_loaded = CHAIN_WITH_PARAMETER.edited(3)
    difference = run_seeded(never_loaded.problem, never_loaded.plan).difference
    assert difference is not None
    assert difference.tensor == "w"


def test_kernels_that_write_too_much_are_refused() -> None:
    class TooMuch(SeededKernels):
        def run(self, operator: Operator, operands: Mapping[str, Bytes]) -> Mapping[str, Bytes]:
            return {name: np.append(content, np.uint8(0)) for name, content in super().run(operator, operands).items()}

    kernels = SeededKernels(CHAIN.problem.graph)
    inputs = inputs_of(CHAIN.problem.graph, kernels)
    reference = run_in_given_order(CHAIN.problem, kernels, inputs)
    with pytest.raises(OnchipError, match="'f' wrote 4 bytes of 'a'; expected 3"):
        run_plan_on_machine(CHAIN.problem, CHAIN.plan, TooMuch(CHAIN.problem.graph), inputs, reference)
