"""A CPU as an accelerator: its caches as the system lists them, and its measured rates."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from host.machine import HostCache, HostCompiler, HostRates, host_accelerator, host_caches, host_compiler, host_rates

from onchip.arch.memory import Operand
from onchip.errors import InputError

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
