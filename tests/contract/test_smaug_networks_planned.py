"""The thesis's networks on three scratchpads: proven in both orders, and run in tiles with the right values."""

from __future__ import annotations

import pytest

from onchip.answer.document import Granularity, Reading
from onchip.answer.problem import Count, Order, Problem
from onchip.answer.result import Status
from onchip.api.networks import fitted_to_scratchpads, read_network
from onchip.api.plan import plan_problem, tiled_one_by_one
from onchip.api.run import RunValues, kernels_of, network_inputs
from onchip.arch.memory import Memory
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.search.budget.limits import Limits
from onchip.simulate.machine import run_in_given_order, run_plan_on_machine
from support.series import with_slow

NETWORKS = ("elu_cifar100", "large_elu", "lenet5", "lstm", "minerva", "resnet50_smaug", "smaug_cnn", "vgg_cifar")
SMALL = ("lenet5", "lstm", "minerva", "smaug_cnn")
CAPPED = Reading(count=Count.ALL, granularity=Granularity.RAW, cap_tensors=True)
TILED = Reading(count=Count.ALL)
RESNET_AT_32_KIB = 1_310_720


def problem_of(network: str, reading: Reading, size_kib: int, order: Order = Order.GIVEN) -> Problem:
    memories = tuple(Memory(f"s{index}", size_kib * 1024) for index in range(3))
    problem = Problem(read_network(network, reading), memories, order=order, count=reading.count)
    if reading.cap_tensors:
        return fitted_to_scratchpads(problem, network, reading)
    return tiled_one_by_one(problem, network, reading).problem


@pytest.mark.parametrize("size_kib", [32, 512])
@pytest.mark.parametrize("network", with_slow(NETWORKS, {"lstm", "resnet50_smaug"}.__contains__))
def test_both_orders_are_proven_and_no_rival_moves_less(network: str, size_kib: int) -> None:
    given = problem_of(network, CAPPED, size_kib)
    exact = plan_problem(given)
    free = plan_problem(problem_of(network, CAPPED, size_kib, Order.FREE))
    assert exact.status is free.status is Status.OPTIMAL
    assert exact.objective_value is not None
    assert free.objective_value is not None
    assert free.objective_value <= exact.objective_value
    for method in ("naive", "onsram", "pinning"):
        rival = plan_problem(given, method, Limits(60)).objective_value
        assert rival is None or rival >= exact.objective_value, method


@pytest.mark.slow
def test_the_least_of_resnet_is_what_the_thesis_s_own_model_finds() -> None:
    """The thesis's model and ours have only the problem in common."""
    problem = problem_of("resnet50_smaug", CAPPED, 32)
    assert plan_problem(problem).objective_value == RESNET_AT_32_KIB
    assert plan_problem(problem, "pinning").objective_value == RESNET_AT_32_KIB


@pytest.mark.parametrize("network", with_slow(SMALL, {"smaug_cnn"}.__contains__))
def test_tiles_at_32_kib_give_the_right_values(network: str) -> None:
    problem = problem_of(network, TILED, 32)
    whole = read_network(network, TILED)
    assert max(tensor.size_bytes for tensor in problem.graph.tensors) <= 32 * 1024
    assert sum(t.size_bytes for t in problem.counted_tensors if t.part_of) <= sum(t.size_bytes for t in whole.tensors)
    result = plan_problem(problem, limits=Limits(4))
    assert result.answer is not None
    assert result.objective_value is not None
    assert 0 <= result.lower_bound <= result.objective_value
    kernels = kernels_of(network, TILED, problem.graph, RunValues())
    inputs = network_inputs(problem.graph, kernels, {})
    reference = run_in_given_order(problem, kernels, inputs)
    run = run_plan_on_machine(problem, result.answer, kernels, inputs, reference)
    assert run.difference is None
    if problem.graph != whole:
        assert kernels.difference_from_whole_model(inputs, run.outputs) == 0


def test_a_bundled_accelerator_can_be_resized() -> None:
    resized = load_accelerator("nvdla-like@64KiB")
    assert [memory.capacity_bytes for memory in resized.scratchpads] == [65536] * 3
    assert resized.name == "nvdla-like@64KiB"
