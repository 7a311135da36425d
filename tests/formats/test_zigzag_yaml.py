"""ZigZag's hardware and workload files."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest

from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import Access, Direction, Operand, Port
from onchip.errors import InputError, NetworkWarning
from onchip.formats.zigzag import read_zigzag_hardware, zigzag_hardware, zigzag_workload
from onchip.ir.layer import Layer

SYSTOLIC = Path(__file__).parents[1] / "data" / "zigzag-systolic.yaml"
WORKLOAD = """\
- id: 0
  name: strided
  operator_type: Conv
  equation: O[b][k][oy][ox]+=W[k][c][fy][fx]*I[b][c][iy][ix]
  dimension_relations: [ix=2*ox+1*fx, iy=1*oy+3*fy]
  loop_dims: [B, K, C, OY, OX, FY, FX]
  loop_sizes: [1, 64, 3, 20, 30, 5, 7]
  operand_precision: {O: 16, O_final: 8, W: 4, I: 8}
  operand_source: {W: 0, I: 0}
  pr_loop_dims: [IX, IY]
  padding: [[1, 2], [3, 4]]
- id: 7
  operator_type: Add
  equation: O[b][g][oy][ox]=X[b][g][oy][ox]+Y[b][g][oy][ox]
  loop_dims: [B, G, OY, OX]
  loop_sizes: [1, 64, 20, 30]
  operand_precision: {O: 16, O_final: 8}
"""


def test_a_hardware_file_is_an_accelerator_with_the_last_memory_as_dram() -> None:
    hardware = read_zigzag_hardware(SYSTOLIC)
    machine = hardware.accelerator
    assert hardware.systolic == ("D1", "D2")
    assert machine.array is not None
    assert (machine.array.dimensions, machine.array.mac_energy_pj) == ({"D1": 32, "D2": 32}, 0.04)
    weights, outputs, buffer = machine.levels
    assert (weights.memory.name, weights.memory.capacity_bytes, weights.serves) == ("weight_register", 128, ())
    assert weights.memory.holds == (Operand.WEIGHT,)
    assert outputs.access == Access(16, 0.021, 0.021, 16)
    assert buffer.access == Access(2048, 416.16, 378.4, 64)
    assert buffer.ports == (Port(Direction.READ, 2048), Port(Direction.WRITE, 2048))
    assert (buffer.serves, buffer.is_scratchpad, buffer.double_buffered) == (("D1", "D2"), True, False)
    assert machine.scratchpads == (buffer.memory,)
    assert machine.dram is not None
    assert machine.dram.access == Access(64, 700, 750, 64)
    assert machine.dram.ports == (Port(Direction.READ_WRITE, 64),)


def test_a_field_that_stands_twice_has_its_last_value_as_zigzag_reads_it() -> None:
    text = SYSTOLIC.read_text(encoding="utf-8")
    twice = text.replace("    size: 1024\n", "    size: 8\n    size: 1024\n")
    assert twice != text
    assert zigzag_hardware(twice, "twice.yaml") == zigzag_hardware(text, "once.yaml")
    with pytest.raises(InputError, match=r"twice.yaml: line 6: memories.weight_register.size is \"big\""):
        zigzag_hardware(twice.replace("size: 1024", "size: big"), "twice.yaml")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("size: 1024\n", "size: big\n", 'line 5: memories.weight_register.size is "big"'),
        ("size: 1024\n", "size: 7\n", "memory 'weight_register': size is 7 bits"),
        ("sizes: [32, 32]", "sizes: [32]", "operational_array: 2 dimensions have 1 sizes"),
        ("operands: [I1, I2, O]", "operands: [I1, I2]", "the outermost memory holds input, weight"),
        ("operands: [I2]", "operands: [I3]", 'memories.weight_register.operands[0] is "I3"'),
        ("served_dimensions: [D1, D2]", "served_dimensions: [D3]", "unknown array dimension 'D3'"),
        ('["I1, tl", "O, tl", "O, th"]', '["I1, up"]', "'I1, up' of port 'r_port_1'"),
        ("unit_energy: 0.04\n", "unit_energy: -1\n", "array: mac_energy_pj is -1.0"),
        ("latency: 1\n", "latency: 1\n    colour: red\n", "memories.weight_register.colour: the field is unknown"),
    ],
)
def test_a_hardware_file_that_is_none_is_refused_with_its_place(old: str, new: str, message: str) -> None:
    text = SYSTOLIC.read_text(encoding="utf-8")
    assert old in text
    with pytest.raises(InputError) as caught:
        zigzag_hardware(text.replace(old, new, 1), "machine.yaml")
    assert "machine.yaml" in str(caught.value)
    assert message in str(caught.value)


def read_with_remarks(old: str, new: str) -> tuple[Accelerator, list[str]]:
    text = SYSTOLIC.read_text(encoding="utf-8")
    assert old in text
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", NetworkWarning)
        machine = zigzag_hardware(text.replace(old, new, 1), "machine.yaml").accelerator
    return machine, [str(one.message).removeprefix("machine.yaml: ") for one in caught]


def test_ports_of_several_widths_keep_them_and_an_access_is_as_the_narrowest() -> None:
    machine, remarks = read_with_remarks(
        'bandwidth_min: 8, bandwidth_max: 8, allocation: ["I2, fh"]',
        'bandwidth_min: 8, bandwidth_max: 16, allocation: ["I2, fh"]',
    )
    weights = machine.levels[0]
    assert weights.ports == (Port(Direction.READ, 8), Port(Direction.WRITE, 16))
    assert weights.access is not None
    assert weights.access.access_bits == 8
    assert remarks == ["an access to memory 'weight_register' moves 8 bits, as its narrowest port, of 8, 16"]


def test_ports_of_different_operands_that_serve_one_way_are_one() -> None:
    text = SYSTOLIC.read_text(encoding="utf-8")
    (line,) = (
        one
        for one in text.splitlines()
        if '["I1, tl", "I2, tl", "O, tl", "O, th"]' in one or '["I1, tl", "O, tl", "O, th"]' in one
    )
    apart = "\n".join(
        line.replace("r_port_1", name).replace(line[line.index("allocation:") :], f"allocation: [{ways}]}}")
        for name, ways in (("r_port_1", '"I1, tl", "O, tl"'), ("r_port_2", '"I2, tl", "O, th", "O, tl"'))
    )
    machine, remarks = read_with_remarks(line, apart)
    assert machine.levels[-1].ports == (Port(Direction.READ, 4096), Port(Direction.WRITE, 2048))
    assert len(remarks) == 1
    assert remarks[0].startswith("ports r_port_1, r_port_2 of memory ")


def test_a_workload_file_is_layers_with_strides_dilations_and_padding_of_each_axis() -> None:
    strided, added = zigzag_workload(WORKLOAD, "work.yaml")
    assert (strided.name, strided.kind) == ("strided", "Conv")
    assert strided.layer == Layer(
        *(1, 64, 3, 20, 30, 5, 7), stride=(1, 2), dilation=(3, 1), padding=(3, 1, 4, 2), weight_bits=4, partial_bits=16
    )
    assert (added.name, added.kind) == ("7", "Add")
    assert added.layer == Layer(g=64 * 20 * 30, partial_bits=16)


def changed(**fields: object) -> Layer:
    plain = {
        "id": 0,
        "operator_type": "Other",
        "equation": "O[d0][d1]+=I[d0][d2]*W[d2][d1]",
        "loop_dims": ["D0", "D1", "D2"],
        "loop_sizes": [5, 6, 7],
        "operand_precision": {"I": 8, "W": 4, "O": 32, "O_final": 8},
    }
    (found,) = zigzag_workload(json.dumps([{**plain, **fields}]), "work.yaml")
    return found.layer


def test_loops_of_any_names_are_what_the_equation_makes_of_them() -> None:
    assert changed() == Layer(n=5, k=6, c=7, weight_bits=4, partial_bits=32)
    one_weight_each = changed(equation="O[d0][d1]=I[d0][d1]*W[d0][d1]", loop_dims=["D0", "D1"], loop_sizes=[5, 6])
    assert one_weight_each == Layer(g=30, weight_bits=4, partial_bits=32)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[B, K, C, OY, OX, FY, FX]", "[B, K, C, OY, OX, FY, Z]", "layer 'strided' (loop_dims): 'Z' is no loop of a"),
        ("[1, 64, 3, 20, 30, 5, 7]", "[1, 64]", "layer 'strided' (loop_sizes): 7 loops have 2 sizes"),
        ("ix=2*ox+1*fx", "ix=2*ox+1*fy", "dimension_relations) is 'ix=2*ox+1*fy'"),
        ("+=W[k][c][fy][fx]*I", ":W[k][c][fy][fx]*I", "layer 'strided' (equation) is 'O[b][k][oy][ox]:W[k]"),
        ("[[1, 2], [3, 4]]", "[[1], [3, 4]]", "layer 'strided' (padding): padding of IX is [1]"),
        ("id: 7", "id: seven", 'line 12: [1].id is "seven"'),
    ],
)
def test_a_workload_file_that_is_none_is_refused_with_its_place(old: str, new: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        zigzag_workload(WORKLOAD.replace(old, new), "work.yaml")
    assert "work.yaml" in str(caught.value)
    assert message in str(caught.value)
