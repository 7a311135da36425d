"""Made-up kernels: any byte read from a wrong place shows, and every bundled network runs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from onchip.answer.document import Reading
from onchip.answer.problem import Problem
from onchip.api.networks import read_network
from onchip.api.plan import plan_problem
from onchip.arch.memory import Memory
from onchip.errors import InputError
from onchip.formats.own.graph_json import bundled_networks
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.model.capacity.bounds import greatest_need
from onchip.search.budget.limits import Limits
from onchip.simulate.kernel_protocol import Bytes, SeededKernels
from onchip.verify.verifier import verify
from support.runs import run_seeded

SIZES = st.integers(1, 40)
QUICKLY_PLANNED = ("darts_v2", "densenet121", "lenet5", "lstm", "minerva", "mobilenetv1", "transformer", "vgg_cifar")


def graph(kind: str, read_bytes: tuple[int, ...], written_bytes: int) -> Graph:
    inputs = tuple(Tensor(f"x{index}", size, Role.INPUT) for index, size in enumerate(read_bytes))
    operator = Operator("op", kind, tuple(tensor.name for tensor in inputs), ("y",))
    return Graph("one", (*inputs, Tensor("y", written_bytes, Role.OUTPUT)), (operator,))


def run(network: Graph, operands: dict[str, Bytes], seed: int = 0) -> Bytes:
    return SeededKernels(network, seed).run(network.operators[0], operands)["y"]


def operands_of(network: Graph) -> dict[str, Bytes]:
    kernels = SeededKernels(network)
    return {tensor.name: kernels.network_input(tensor).copy() for tensor in network.with_role(Role.INPUT)}


@st.composite
def networks(draw: st.DrawFn) -> Graph:
    kind = draw(st.sampled_from(("Conv", "Add", "Concat", "Unheard")))
    sizes = draw(st.lists(SIZES, min_size=1, max_size=3))
    if kind == "Add":
        return graph(kind, tuple(sizes[:1] * len(sizes)), sizes[0])
    if kind == "Concat":
        return graph(kind, tuple(sizes), sum(sizes))
    return graph(kind, tuple(sizes), draw(st.integers(8, 40)))


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(networks(), st.data())
def test_any_byte_changed_shows(network: Graph, data: st.DataObject) -> None:
    operands = operands_of(network)
    before = run(network, operands)
    name = data.draw(st.sampled_from(sorted(operands)))
    at = data.draw(st.integers(0, len(operands[name]) - 1))
    operands[name][at] ^= data.draw(st.integers(1, 255))
    if network.tensor["y"].size_bytes >= 8:  # two results with fewer bytes may well be equal
        assert not np.array_equal(before, run(network, operands))


@settings(max_examples=100, deadline=None)
@given(networks())
def test_bytes_from_one_place_on_show(network: Graph) -> None:
    assume(network.tensor["y"].size_bytes >= 8)
    operands = operands_of(network)
    shifted = {name: np.roll(content, 1) for name, content in operands.items()}
    assume(any(not np.array_equal(shifted[name], operands[name]) for name in operands))
    assert not np.array_equal(run(network, operands), run(network, shifted))


def test_the_same_seed_gives_the_same_values_and_another_seed_others() -> None:
    network = graph("Conv", (16,), 16)
    operands = operands_of(network)
    assert np.array_equal(run(network, operands), run(network, operands))
    assert not np.array_equal(run(network, operands), run(network, operands, seed=1))


@pytest.mark.parametrize("kind", ["float16", "float32", "float64"])
def test_values_are_finite_numbers_and_never_the_fill(kind: str) -> None:
    network = graph("Conv", (64,), 64 * 1024)
    written = run(network, operands_of(network))
    assert np.isfinite(written.view(kind)).all()
    assert (np.abs(written.view(kind)) < 2).all()
    assert 0xFF not in written


def test_an_input_handed_in_must_have_the_tensors_bytes() -> None:
    network = graph("Conv", (16,), 16)
    kernels = SeededKernels(network)
    assert len(kernels.given_input(network.tensor["x0"], np.zeros((2, 2), np.float32))) == 16
    with pytest.raises(InputError, match="holds 4 bytes"):
        kernels.given_input(network.tensor["x0"], np.zeros(4, np.uint8))


@pytest.mark.parametrize(
    "network",
    [pytest.param(name, marks=[] if name in QUICKLY_PLANNED else [pytest.mark.slow]) for name in bundled_networks()],
)
def test_a_plan_of_each_bundled_network_at_its_least_capacity_runs(network: str) -> None:
    plan_runs(read_network(network, Reading(bits=8)))


def plan_runs(network: Graph) -> None:
    need = greatest_need(Problem(network, (Memory("sram", 2**40),))).need_bytes
    problem = Problem(network, (Memory("sram", need),))
    plan = plan_problem(problem, limits=Limits(time_limit_seconds=2)).answer
    assert plan is not None
    machine = run_seeded(problem, plan)
    figures = verify(problem, plan).figures
    assert machine.difference is None
    assert (machine.loads, machine.write_backs) == (figures.loads, figures.write_backs)
