"""Three clocks agree: the timeline, the verifier's and one that knows every byte."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onchip.answer.problem import Problem, Transfers
from onchip.cost.timeline.timeline import latency_of_plan
from onchip.lower.split.channel_bands import ChannelBands
from onchip.verify.latency import latency_cycles
from onchip.verify.verifier import verify
from oracles.byte_clock import clocked
from support.timed_problems import timed_graph, timed_problem
from support.timed_programs import random_program


def problem_of(seed: int) -> tuple[Problem, Random]:
    random = Random(seed)
    graph = timed_graph(random, random.randint(1, 5))
    splits = {one.name: one.stated.splits for one in graph.operators}
    parts = {name: one.ways[0][0] for name, one in splits.items() if one is not None and random.random() < 0.5}
    return timed_problem(ChannelBands(parts)(graph), random.randint(6, 14), random), random


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 10**9))
def test_three_clocks_agree_on_random_programs(seed: int) -> None:
    problem, random = problem_of(seed)
    plan = random_program(problem, random)
    if plan is None:
        return
    verdict = verify(problem, plan)
    assert verdict.is_legal, verdict.violations
    latency = clocked(problem, plan.instructions)
    assert problem.durations is not None
    assert latency_of_plan(problem, plan) == latency
    assert latency_cycles(problem, problem.durations, plan) == latency
    assert verdict.figures.latency_cycles == latency


@pytest.mark.slow
@pytest.mark.parametrize("thousand", range(10))
def test_three_clocks_agree_on_ten_thousand_programs(thousand: int) -> None:
    programs = 0
    for seed in range(2_000 * thousand, 2_000 * (thousand + 1)):
        problem, random = problem_of(seed)
        plan = random_program(problem, random)
        if plan is None:
            continue
        programs += 1
        assert (
            verify(problem, plan).figures.latency_cycles
            == clocked(problem, plan.instructions)
            == latency_of_plan(problem, plan)
        )
    assert programs >= 1_000


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 10**9))
def test_no_program_is_slower_where_dram_is_faster_or_the_scratchpad_larger(seed: int) -> None:
    problem, random = problem_of(seed)
    plan = random_program(problem, random)
    if plan is None:
        return
    rates = {
        way: replace(rate, terms=tuple((2 * unit_bits, cost) for unit_bits, cost in rate.terms))
        for way, rate in problem.transfers.rates.items()
    }
    faster = replace(problem, transfers=Transfers((), rates))
    assert latency_of_plan(faster, plan) <= latency_of_plan(problem, plan)
    memory = problem.memories[0]
    larger = replace(problem, memories=(replace(memory, capacity_bytes=2 * memory.capacity_bytes),))
    assert verify(larger, plan).figures.latency_cycles == latency_of_plan(problem, plan)
