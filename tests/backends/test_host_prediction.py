"""Predicted time of a mapping on the host: the model's cycles with its registers and caches."""

from __future__ import annotations

from dataclasses import replace

import pytest
from host.machine import HostCache, HostRates, host_accelerator
from host.measuring import predicted_cycles

from onchip.answer.layer_mapping import Kept, LayerMapping, Loop
from onchip.answer.layer_problem import LayerProblem
from onchip.ir.layer import LOOPS, Layer

CACHES = (HostCache(1, 48 * 1024, 12), HostCache(2, 2 * 1024 * 1024, 16))
RATES = HostRates(64, 32, 3000.0, 6000.0, ((380_000.0, 190_000.0), (150_000.0, 60_000.0), (12_000.0, 6_000.0)))
HOST = host_accelerator(CACHES, RATES)
LANES = Loop("K", 16, "lane")
AROUND = (Loop("C", 64), Loop("N", 8), Loop("K", 4), Loop("C", 2))


def _problem(n: int = 64, k: int = 128, c: int = 128) -> LayerProblem:
    bits = {"input_bits": 32, "weight_bits": 32, "output_bits": 32, "partial_bits": 32}
    return LayerProblem(replace(Layer(n=n, k=k, c=c), **bits), HOST)  # type: ignore[arg-type]


def _mapping(*nest: Loop, sums: int, near: int = 0, far: int = 0) -> LayerMapping:
    """Return a mapping: sums span `sums` loops in registers; `near` and `far` count the loops in the two caches."""
    cuts = Kept("l1", max(near, sums)), Kept("l2", max(near, far, sums))
    return LayerMapping(nest, cuts, cuts, (Kept("sum_register", sums), *cuts))


def test_a_product_in_registers_takes_its_iterations_and_a_little_more() -> None:
    mapping = _mapping(LANES, Loop("K", 2), Loop("N", 8), *AROUND, sums=3)
    ideal = 64 * 128 * 128 // 16
    assert ideal <= predicted_cycles(_problem(), mapping) <= 1.2 * ideal


def test_the_order_of_loops_in_registers_and_cuts_at_caches_change_nothing() -> None:
    problem = _problem()
    columns_first = _mapping(LANES, Loop("K", 2), Loop("N", 8), *AROUND, sums=3)
    rows_first = _mapping(LANES, Loop("N", 8), Loop("K", 2), *AROUND, sums=3)
    cut_elsewhere = _mapping(LANES, Loop("N", 8), Loop("K", 2), *AROUND, sums=3, near=5, far=6)
    assert predicted_cycles(problem, columns_first) == predicted_cycles(problem, rows_first)
    assert predicted_cycles(problem, rows_first) == predicted_cycles(problem, cut_elsewhere)


def test_few_lanes_take_as_many_cycles_as_they_have_turns() -> None:
    wide = _mapping(LANES, Loop("K", 2), Loop("N", 8), *AROUND, sums=3)
    narrow = _mapping(Loop("K", 4, "lane"), Loop("K", 2), Loop("N", 8), *AROUND, Loop("K", 4), sums=3)
    times = predicted_cycles(_problem(), narrow) / predicted_cycles(_problem(), wide)
    assert times == pytest.approx(4, rel=0.15)


def test_sums_that_leave_after_few_steps_cost_more() -> None:
    long = _mapping(LANES, Loop("K", 2), Loop("N", 8), Loop("C", 128), Loop("N", 8), Loop("K", 4), sums=3)
    short = _mapping(LANES, Loop("K", 2), Loop("N", 8), Loop("C", 2), Loop("N", 8), Loop("K", 4), Loop("C", 64), sums=3)
    assert predicted_cycles(_problem(), short) > 1.3 * predicted_cycles(_problem(), long)


def test_operands_beyond_the_caches_come_from_dram() -> None:
    """A product with one row reads each weight once: DRAM sets the pace unless a cache holds all weights."""
    problem = _problem(n=1, k=1024, c=2048)
    mapping = _mapping(LANES, Loop("K", 4), Loop("C", 2048), Loop("K", 16), sums=2)
    assert predicted_cycles(problem, mapping) >= 1024 * 2048 * 32 / 16
    small = _mapping(LANES, Loop("K", 4), Loop("C", 64), Loop("K", 2), sums=2)
    assert predicted_cycles(_problem(n=1, k=128, c=64), small) < 128 * 64 * 32 / 16


def test_loops_that_end_short_count_as_if_they_did_not() -> None:
    whole = _mapping(LANES, Loop("K", 2), Loop("N", 8), *AROUND, sums=3)
    short = replace(whole, ragged=LOOPS[:1])
    assert predicted_cycles(_problem(n=60), short) == predicted_cycles(_problem(), whole)
