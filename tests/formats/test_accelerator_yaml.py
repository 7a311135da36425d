from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings

from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import Access, Direction, Dma, Dram, Memory, MemoryLevel, Operand, Port
from onchip.errors import AcceleratorError, InputError
from onchip.formats.own.accelerator_yaml import (
    accelerator_from_yaml,
    accelerator_sha256,
    accelerator_to_yaml,
    load_accelerator,
    read_accelerator,
)
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
