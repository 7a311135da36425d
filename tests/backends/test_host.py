"""The host's machine, and times predicted for it."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from host.machine import HostCache, HostCompiler, HostRates, host_accelerator, host_caches, host_compiler, host_rates
from host.measuring import predicted_cycles

from onchip.answer.layer_mapping import Kept, LayerMapping, Loop
from onchip.answer.layer_problem import LayerProblem
from onchip.arch.memory import Operand
from onchip.errors import InputError
from onchip.ir.layer import LOOPS, Layer

# A CPU as an accelerator: its caches as the system lists them, and its measured rates


CACHES = (HostCache(1, 48 * 1024, 12), HostCache(2, 2 * 1024 * 1024, 16))
RATES = HostRates(64, 32, 3000.0, 6000.0, ((380_000.0, 190_000.0), (150_000.0, 60_000.0), (12_000.0, 6_000.0)))


def _list(folder: Path, index: int, **said: str) -> None:
    entry = folder / f"index{index}"
    entry.mkdir()
    for name, value in said.items():
        (entry / name).write_text(f"{value}\n")


def test_caches_of_data_are_read_nearest_first(tmp_path: Path) -> None:
    _list(tmp_path, 0, type="Unified", level="2", size="2048K", ways_of_associativity="16")
    _list(tmp_path, 1, type="Instruction", level="1", size="64K", ways_of_associativity="16")
    _list(tmp_path, 2, type="Data", level="1", size="48K", ways_of_associativity="12")
    assert host_caches(tmp_path) == CACHES


def test_a_system_that_lists_no_caches_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no caches"):
        host_caches(tmp_path)


def test_a_core_is_lanes_registers_caches_and_dram() -> None:
    host = host_accelerator(CACHES, RATES)
    assert RATES.units == 2
    assert host.clock_mhz == 6000.0
    assert host.array is not None
    assert dict(host.array.dimensions) == {"lane": 16}
    names = [level.memory.name for level in host.levels]
    assert names == ["weight_register", "input_register", "sum_register", "l1", "l2"]
    sums = host.levels[2].memory
    assert (sums.holds, sums.capacity_bytes) == ((Operand.OUTPUT,), 28 * 4)  # 28 of 32 registers, in each lane


def test_the_nearest_cache_moves_whole_vectors_and_others_what_was_measured() -> None:
    host = host_accelerator(CACHES, RATES)
    read = [level.ports[0].bits_per_cycle for level in host.levels[3:]]
    assert read == [512, 200]
    assert host.dram is not None
    assert [port.bits_per_cycle for port in host.dram.ports] == [16, 8]


def test_an_access_is_a_whole_vector_or_line_and_its_energy_its_cycles() -> None:
    host = host_accelerator(CACHES, RATES)
    accesses = [level.access for level in host.levels[3:]] + [host.dram.access if host.dram else None]
    found = [(one.access_bits, one.shortest_access_bits, one.read_energy_pj) for one in accesses if one]
    assert found == [(512, None, 1.0), (512, None, 2.56), (512, None, 32.0)]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_the_probe_measures_a_rate_for_each_cache_and_dram() -> None:
    rates = host_rates(CACHES, host_compiler())
    assert rates.vector_bytes in (16, 32, 64)
    assert len(rates.moved) == 3
    assert min(rates.clock_mhz, rates.multiplied, *(rate for pair in rates.moved for rate in pair)) > 0


def test_a_compiler_that_is_named_and_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(InputError, match="no-such-compiler"):
        host_compiler()


def test_a_source_that_does_not_compile_is_refused_with_its_first_error(tmp_path: Path) -> None:
    source = tmp_path / "wrong.c"
    source.write_text("int main(void) { return nothing; }\n")
    with pytest.raises(InputError, match="nothing"):
        host_compiler().build(source, tmp_path / "wrong", is_library=False)


def test_a_compiler_that_cannot_be_started_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        HostCompiler((str(tmp_path / "none"),)).build(tmp_path / "a.c", tmp_path / "a", is_library=False)


# Predicted time of a mapping on the host: the model's cycles with its registers and caches


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
