"""Accelerator files: fields, hashes, refusals, and energies that depend on the capacity."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings

from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import Access, Direction, Dma, Dram, Memory, MemoryLevel, Operand, Port
from onchip.errors import AcceleratorError, InputError
from onchip.formats.own.accelerator_yaml import (
    accelerator_fields,
    accelerator_from_yaml,
    accelerator_sha256,
    accelerator_to_yaml,
    load_accelerator,
    read_accelerator,
)
from onchip.ir.layer import Layer
from onchip.mapping.methods.registry import method_named
from onchip.model.layer.cost import layer_cost
from onchip.search.budget.limits import Run
from support.answer_files import accelerators

EXAMPLE = Path(__file__).parents[2] / "examples" / "single.accelerator.yaml"
FULL = """\
format: onchip-accelerator
version: 1
name: small
clock_mhz: 200
array: {dimensions: {K: 4, C: 2}, mac_energy_pj: 0.04}
memories:
  - {name: register, capacity: 1B, holds: [weight], serves: [C], access_bits: 8, read_energy_pj: 0.01,
     write_energy_pj: 0.02, ports: [{direction: read, bits_per_cycle: 8}, {direction: write, bits_per_cycle: 8}]}
  - {name: buffer, capacity: 1MiB, scratchpad: true, alignment: 16, double_buffered: true}
dram: {access_bits: 64, read_energy_pj: 700, write_energy_pj: 750, ports: [{direction: read_write, bits_per_cycle: 64}]}
dma: {queues: 2, setup_cycles: 10}
"""


def test_the_example_is_rewritten_byte_for_byte() -> None:
    assert accelerator_to_yaml(read_accelerator(EXAMPLE)) == EXAMPLE.read_text(encoding="utf-8")


def test_every_field_arrives() -> None:
    register, buffer = Memory("register", 1, holds=(Operand.WEIGHT,)), Memory("buffer", 2**20, 16)
    ports = (Port(Direction.READ, 8), Port(Direction.WRITE, 8))
    assert accelerator_from_yaml(FULL, "small.yaml") == Accelerator(
        "small",
        (buffer,),
        (
            MemoryLevel(register, ("C",), access=Access(8, 0.01, 0.02), ports=ports),
            MemoryLevel(buffer, is_scratchpad=True, double_buffered=True),
        ),
        200.0,
        ComputeArray({"K": 4, "C": 2}, mac_energy_pj=0.04),
        Dram(Access(64, 700, 750), (Port(Direction.READ_WRITE, 64),)),
        Dma(2, 10),
    )


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(accelerators())
def test_a_round_trip_loses_nothing(accelerator: Accelerator) -> None:
    read = accelerator_from_yaml(accelerator_to_yaml(accelerator), "random.yaml")
    assert read == accelerator
    assert accelerator_sha256(read) == accelerator_sha256(accelerator)


def test_the_hash_is_of_what_is_said_not_of_how() -> None:
    single = read_accelerator(EXAMPLE)
    memory = replace(single.scratchpads[0], capacity_bytes=10241)
    assert accelerator_sha256(single) == accelerator_sha256(Accelerator("single", single.scratchpads))
    assert accelerator_sha256(single) != accelerator_sha256(Accelerator("single", (memory,)))


def test_an_accelerator_is_a_name_or_a_file() -> None:
    assert load_accelerator(str(EXAMPLE)).name == "single"
    with pytest.raises(InputError, match=r"no accelerator is called 'tpu'"):
        load_accelerator("tpu")
    with pytest.raises(InputError, match=r"absent\.yaml does not exist"):
        load_accelerator("absent.yaml")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("version: 1", "version: 2", "line 2: version is 2, newer than this onchip reads"),
        ("name: small", "name: small\nname: x", "line 4: name: the field stands twice"),
        ("clock_mhz: 200", "clock_mhz: 0", "accelerator 'small': clock_mhz is 0"),
        ("clock_mhz: 200", 'clock_mhz: "200"', 'line 4: clock_mhz is "200"'),
        ("K: 4", "K: 0", "line 5: array: 'K' has 0 units"),
        ("K: 4", f"K: {2**40}", "line 5: array has 2,199,023,255,552 units"),
        ("array: {", "array: {free: 8, ", "line 5: array: an array has either"),
        ("capacity: 1B", "capacity: 1Kb", "line 7: memories[0].capacity: '1Kb' is not a size"),
        ("capacity: 1B", "capacity: 0", "line 7: memories[0].capacity: '0' is out of range"),
        ("capacity: 1B", "capacity: 1.5", "line 7: memories[0].capacity is 1.5"),
        ("[weight]", "[]", "line 7: memories[0] (memory 'register') holds nothing"),
        ("[C]", "[OX]", "memory 'register': unknown array dimension 'OX'"),
        ("write_energy_pj: 0.02, ", "", "line 7: memories[0] has access_bits and read_energy_pj alone"),
        ("read_energy_pj: 0.01", "read_energy_pj: -1", "line 7: memories[0]: read_energy_pj is -1"),
        ("bits_per_cycle: 8", "bits_per_cycle: 0", "line 7: memories[0]: bits_per_cycle of a port is 0"),
        ("name: buffer", "name: register", "memory 'register': 2 memories have this name"),
        ("name: buffer", "name: dram", "line 9: memories[1] (memory 'dram'): the name is reserved"),
        ("scratchpad: true, ", "", "accelerator 'small' has no scratchpad"),
        ("queues: 2", "queues: 0", "line 11: dma: queues is 0"),
        ("queues: 2", f"queues: {2**60}", "line 11: dma: queues is 1152921504606846976"),
    ],
)
def test_a_wrong_field_is_named_with_its_line(old: str, new: str, message: str) -> None:
    assert old in FULL
    with pytest.raises(AcceleratorError) as raised:
        accelerator_from_yaml(FULL.replace(old, new, 1), "bad.yaml")
    assert str(raised.value).startswith("bad.yaml: ")
    assert message in str(raised.value)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "x", "a: &x [*x]", "a: [" + "[" * 2000, "---\na: 1\n---\na: 1", b"\xff", "- &a [1]\n- *a", "? [a]\n: 1"],
)
def test_what_is_no_accelerator_is_refused(text: str | bytes) -> None:
    with pytest.raises(AcceleratorError):
        accelerator_from_yaml(text, "bad.yaml")


def test_unrolls_says_which_loops_run_along_a_dimension_of_the_array() -> None:
    text = FULL.replace("dimensions: {K: 4, C: 2}", "dimensions: {K: 4, C: 2}, unrolls: {K: [K, P]}")
    accelerator = accelerator_from_yaml(text, "small.yaml")
    assert accelerator.array is not None
    assert accelerator.array.unrolls == {"K": ("K", "P")}


def test_unrolls_of_a_dimension_that_is_not_there_is_refused_with_its_name() -> None:
    text = FULL.replace("dimensions: {K: 4, C: 2}", "dimensions: {K: 4, C: 2}, unrolls: {pe: [K]}")
    with pytest.raises(AcceleratorError, match="unrolls lists K for 'pe'"):
        accelerator_from_yaml(text, "small.yaml")


def test_loops_that_are_unrolled_may_bear_the_names_that_other_works_give_them() -> None:
    text = FULL.replace("dimensions: {K: 4, C: 2}", "dimensions: {K: 4, C: 2}, unrolls: {K: [OX, FY]}")
    accelerator = accelerator_from_yaml(text, "small.yaml")
    assert accelerator.array is not None
    assert accelerator.array.unrolls == {"K": ("Q", "R")}


CHIP = """\
format: onchip-accelerator
version: 1
name: chip
array: {dimensions: {K: 2}, mac_energy_pj: 1}
memories:
  - {name: buffer, capacity: 64KiB, scratchpad: true, access_bits: 64, shortest_access_bits: 8, energy_per_access: LAW}
dram: {access_bits: 64, read_energy_pj: 700, write_energy_pj: 750, ports: [{direction: read_write, bits_per_cycle: 64}]}
"""
ROOT = "{base: 2.5, per_sqrt_capacity: 0.125}"
TABLE = "{table: {16KiB: 8, 64KiB: 20, 256KiB: 80.5}}"


def chip(law: str) -> Accelerator:
    return accelerator_from_yaml(CHIP.replace("LAW", law), "chip.yaml")


def access_of(accelerator: Accelerator) -> Access:
    access = accelerator.levels[0].access
    assert access is not None
    return access


def energies(accelerator: Accelerator) -> tuple[float, float]:
    access = access_of(accelerator)
    return access.read_energy_pj, access.write_energy_pj


@pytest.mark.parametrize(
    ("law", "capacity_bytes", "expected"),
    [
        (ROOT, 1 << 16, (34.5, 34.5)),
        (ROOT, 1 << 18, (66.5, 66.5)),
        (ROOT, 1, (2.625, 2.625)),
        (TABLE, 1 << 14, (8, 8)),
        (TABLE, 1 << 16, (20, 20)),
        (TABLE, 40 << 10, (14, 14)),
        (TABLE, 1 << 18, (80.5, 80.5)),
        (f"{{read: {ROOT}, write: {TABLE}}}", 1 << 16, (34.5, 20)),
    ],
)
def test_a_law_gives_the_energy_of_each_capacity(law: str, capacity_bytes: int, expected: tuple[float, float]) -> None:
    resized = chip(law).resized({"buffer": capacity_bytes})
    assert energies(resized) == expected
    assert resized.scratchpads[0].capacity_bytes == capacity_bytes
    assert resized.levels[0].access == access_of(chip(law)).at(capacity_bytes)


def test_energies_without_a_law_do_not_follow_the_capacity() -> None:
    simba = load_accelerator("simba")
    small = simba.resized({"global_buffer": 1 << 16, "weight_buffer": 1 << 11})
    assert [level.access for level in small.levels] == [level.access for level in simba.levels]
    assert [one.memory.capacity_bytes for one in small.levels[2:]] == [1 << 11, 8 << 10, 1 << 16]
    assert load_accelerator("simba@64KiB").levels[-1] == small.levels[-1]


@pytest.mark.parametrize(
    ("law", "message"),
    [
        ("{base: 1}", "memories[0] (energy_per_access) has base"),
        ("{}", "memories[0] (energy_per_access) has no fields"),
        ("{base: 1, per_sqrt_capacity: 1, table: {1KiB: 2}}", "has base and per_sqrt_capacity and table"),
        (f"{{read: {ROOT}}}", "has read"),
        ("{read: {base: 1}, write: {base: 1}}", "memories[0] (energy_per_access.read) has base"),
        ("{base: -1, per_sqrt_capacity: 1}", "memories[0] (energy_per_access): base is -1.0"),
        ("{base: 1, per_sqrt_capacity: -1}", "per_sqrt_capacity is -1.0"),
        ("{base: 1e15, per_sqrt_capacity: 1}", "memories[0]: read_energy_pj is"),
        ("{base: 1, per_sqrt_capacity: 1, per_byte: 2}", "memories[0].energy_per_access.per_byte"),
        ("{table: {}}", "memories[0] (energy_per_access): the table is empty"),
        ("{table: {64KiB: -1}}", "the energy at 65536 bytes is -1.0"),
        ("{table: {64KiB: 1, 65536: 1}}", "memories[0] (energy_per_access): the table has a capacity twice"),
        ("{table: {64 apples: 1}}", "memories[0] (energy_per_access.table): '64 apples' is not a size"),
        ("{table: {128KiB: 1, 1MiB: 2}}", "the table gives no energy for 65536 bytes"),
        (f"{ROOT}, read_energy_pj: 1", "memories[0] has read_energy_pj, and energy_per_access"),
    ],
)
def test_a_law_that_cannot_be_is_refused_with_its_place(law: str, message: str) -> None:
    with pytest.raises(AcceleratorError) as raised:
        chip(law)
    assert str(raised.value).startswith("chip.yaml: ")
    assert message in str(raised.value)


def test_a_law_needs_the_bits_of_an_access_and_dram_has_no_capacity_to_follow() -> None:
    text = CHIP.replace("LAW", ROOT)
    with pytest.raises(AcceleratorError, match="has energy_per_access alone"):
        accelerator_from_yaml(text.replace("access_bits: 64, shortest_access_bits: 8, ", "", 1), "chip.yaml")
    with pytest.raises(AcceleratorError, match=r"dram\.energy_per_access"):
        accelerator_from_yaml(
            text.replace("read_energy_pj: 700, write_energy_pj: 750", f"energy_per_access: {ROOT}"), "x"
        )


@pytest.mark.parametrize(("law", "place"), [(ROOT, None), (TABLE, "memory 'buffer': energy_per_access")])
def test_a_capacity_outside_of_a_table_is_refused(law: str, place: str | None) -> None:
    if place is None:
        assert energies(chip(law).resized({"buffer": 1 << 30})) == (2.5 + 0.125 * 2**15,) * 2
        return
    with pytest.raises(AcceleratorError, match=f"{place}: the table gives no energy for 1073741824 bytes"):
        chip(law).resized({"buffer": 1 << 30})


@pytest.mark.parametrize("law", [ROOT, TABLE, f"{{read: {ROOT}, write: {TABLE}}}"])
def test_laws_are_written_back_and_hashed(law: str) -> None:
    accelerator = chip(law)
    text = accelerator_to_yaml(accelerator)
    again = accelerator_from_yaml(text, "again.yaml")
    assert again == accelerator
    assert accelerator_to_yaml(again) == text
    assert "read_energy_pj: 700.0" in text
    assert "read_energy_pj: 34.5" not in text
    assert accelerator_sha256(again) == accelerator_sha256(accelerator)
    assert accelerator_sha256(chip(ROOT)) != accelerator_sha256(chip("{base: 2.5, per_sqrt_capacity: 0.25}"))
    json.dumps(accelerator_fields(accelerator))


def test_a_mapping_costs_what_the_law_says_of_the_new_capacity() -> None:
    layer = Layer(k=4, c=4, p=4)
    small, large = chip(ROOT), chip(ROOT).resized({"buffer": 1 << 18})
    result = method_named("exact")(LayerProblem(layer, small), MappingObjective.ENERGY, Run())
    assert result.answer is not None
    costs = [layer_cost(LayerProblem(layer, one), result.answer).memory_energy_pj for one in (small, large)]
    for key, energy_pj in costs[0].items():
        ratio = 66.5 / 34.5 if key[0] == "buffer" else 1
        assert costs[1][key] == pytest.approx(energy_pj * ratio)
