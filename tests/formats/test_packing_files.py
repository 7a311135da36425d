"""Files of buffers: plans of TFLite Micro, programs, MLIR and onchip's own, packed and written back."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import onchip as oc
from onchip.answer.packing import Buffer
from onchip.answer.result import Status
from onchip.errors import InputError, OnchipError
from onchip.formats.mlir import read_mlir, with_offsets
from onchip.formats.packing_dumps import ALIGNMENT_BYTES
from onchip.formats.packing_files import read_packing_file
from support.diamond import Program
from support.mlir_files import iree_pack_file, memref_file

PLAN = """\
0 (id=0): size=64, offset=0, first_used=0 last_used=1
1 (id=1): size=32, offset=64, first_used=1 last_used=2
2 (id=2): size=0, offset=-1, first_used=0 last_used=0
3 (id=3): size=64, offset=96, first_used=2 last_used=3
 0: 00000000.......... (1k)
"""


def tensor(offset: int, *sizes: int, memory: int = 1, **more: Any) -> dict[str, Any]:  # noqa: ANN401
    where = {"memory_id": memory, "memory_offset_low": offset, "memory_offset_high": 0}
    return {"val_type": "Tensor", "val": {"scalar_type": "FLOAT", "sizes": [*sizes], "allocation_info": where, **more}}


def call(*args: int, kind: str = "KernelCall") -> dict[str, Any]:
    return {"instr_args_type": kind, "instr_args": {"op_index": 0, "args": [*args]}}


PROGRAM: dict[str, Any] = {
    "execution_plan": [
        {
            "name": "forward",
            "inputs": [0],
            "outputs": [4],
            "non_const_buffer_sizes": [0, 256],
            "values": [
                tensor(0, 4, 4),
                tensor(64, 2, 4),
                {"val_type": "Int", "val": {"int_val": 3}},
                tensor(64, 8),
                tensor(96, 16),
                {"val_type": "TensorList", "val": {"items": [0, 3]}},
                {"val_type": "Tensor", "val": {"scalar_type": 6, "sizes": [9], "data_buffer_idx": 1}},
            ],
            "chains": [{"instructions": [call(0, 6, 1), call(6, 2, 0), call(5, 2, 4)]}],
        }
    ]
}
GRAPH: dict[str, Any] = {
    "nodes": [
        {"op": "null", "name": "x", "inputs": []},
        {"op": "tvm_op", "name": "conv", "attrs": {"func_name": "f"}, "inputs": [[0, 0, 0]]},
        {"op": "tvm_op", "name": "shape", "attrs": {"func_name": "__nop"}, "inputs": [[1, 0, 0]]},
        {"op": "tvm_op", "name": "split", "attrs": {"func_name": "g"}, "inputs": [[2, 0, 0]]},
        {"op": "tvm_op", "name": "add", "attrs": {"func_name": "h"}, "inputs": [[3, 0, 0], [3, 1, 0]]},
    ],
    "arg_nodes": [0],
    "node_row_ptr": [0, 1, 2, 3, 5, 6],
    "heads": [[4, 0, 0]],
    "attrs": {
        "shape": ["list_shape", [[8], [2, 4], [8], [4], [4], [4]]],
        "dltype": ["list_str", ["float32", "float32", "float32", "int8", "int8", "float16"]],
        "storage_id": ["list_int", [0, 1, 1, 2, 3, 1]],
    },
}


def buffer(start: int, stop: int, size: int) -> Buffer:
    return Buffer(start, stop, size, alignment_bytes=ALIGNMENT_BYTES)


def saved(folder: Path, name: str, content: str | dict[str, Any]) -> Path:
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_a_micro_plan_is_packed_and_printed_again(onchip: Program, tmp_path: Path) -> None:
    table = read_packing_file(saved(tmp_path, "plan.txt", PLAN))
    assert table.ids == ("0", "1", "3")
    assert table.buffers == (buffer(0, 2, 64), buffer(1, 3, 32), buffer(2, 4, 64))
    assert onchip("pack", str(tmp_path / "plan.txt"), "--minimize", "-o", str(tmp_path / "out.txt")).code == 0
    assert read_packing_file(tmp_path / "out.txt") == table
    offsets = [int(line.split("offset=")[1].split(",")[0]) for line in (tmp_path / "out.txt").read_text().splitlines()]
    assert {offsets[0], offsets[2]} in ({0}, {32})
    assert abs(offsets[1] - offsets[0]) in (32, 64)


def test_a_program_has_a_buffer_for_a_tensor_and_its_view_and_takes_new_offsets(
    onchip: Program, tmp_path: Path
) -> None:
    source = saved(tmp_path, "model.json", PROGRAM)
    table = read_packing_file(source)
    assert dict(zip(table.ids, table.buffers, strict=True)) == {
        "forward.0": buffer(0, 4, 64),
        "forward.1": buffer(1, 4, 32),
        "forward.4": buffer(3, 5, 64),
    }
    assert onchip("pack", str(source), "--capacity", "160", "-o", str(tmp_path / "out.json")).code == 0
    assert read_packing_file(tmp_path / "out.json") == table
    (plan,) = json.loads((tmp_path / "out.json").read_text())["execution_plan"]
    offsets = [plan["values"][at]["val"]["allocation_info"]["memory_offset_low"] for at in (0, 1, 3, 4)]
    assert offsets[1] == offsets[2]
    assert sorted((offsets[0], offsets[1], offsets[3])) in ([0, 32, 96], [0, 64, 96], [0, 64, 128])
    assert plan["non_const_buffer_sizes"] == [0, 160]


def test_arenas_of_a_program_are_packed_one_by_one(tmp_path: Path) -> None:
    program = json.loads(json.dumps(PROGRAM))
    program["execution_plan"][0]["values"][4] = tensor(0, 16, memory=2)
    table = read_packing_file(saved(tmp_path, "model.json", program))
    assert table.parts == (range(2), range(2, 3))


def test_a_graph_of_tvm_has_the_results_of_its_operators(onchip: Program, tmp_path: Path) -> None:
    source = saved(tmp_path, "graph.json", GRAPH)
    table = read_packing_file(source)
    assert dict(zip(table.ids, table.buffers, strict=True)) == {
        "conv.0": Buffer(1, 4, 32),
        "split.0": Buffer(3, 5, 4),
        "split.1": Buffer(3, 5, 4),
        "add.0": Buffer(4, 6, 8),
    }
    out = tmp_path / "out.csv"
    assert onchip("pack", str(source), "--minimize", "-o", str(out)).code == 0
    assert [each.size_bytes for each in read_packing_file(out).buffers] == [32, 4, 4, 8]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("plan.txt", "no plan\n", "has no line of a TFLite Micro plan"),
        ("plan.txt", PLAN.replace("last_used=1", "last_used=0").replace("first_used=0", "first_used=9"), "lives over"),
        ("model.json", {"execution_plan": [{"name": "forward"}]}, "is no whole ExecuTorch program"),
        (
            "model.json",
            {
                "execution_plan": [
                    PROGRAM["execution_plan"][0] | {"chains": [{"instructions": [call(kind="JumpFalseCall")]}]}
                ]
            },
            "jumps",
        ),
        ("graph.json", GRAPH | {"attrs": {}}, "is no whole TVM graph"),
    ],
)
def test_what_is_damaged_is_refused(
    name: str, content: str | dict[str, Any], said: str, onchip: Program, tmp_path: Path
) -> None:
    ended = onchip("pack", str(saved(tmp_path, name, content)), "--minimize")
    assert ended.code == 2
    assert said in ended.err
    assert name in ended.err


def test_allocations_of_xla_are_packed_again(tmp_path: Path, onchip: Program) -> None:
    path, out = tmp_path / "allocinfo.csv", tmp_path / "packed.csv"
    path.write_text("buffer_id,size,offset,start_time,end_time\n4,64,0,-1,2\n-5,32,64,2,3\n4,64,128,4,6\n7,0,0,1,2\n")

    table = read_packing_file(path)

    assert table.ids == ("4#0", "-5#1", "4#2")
    assert [(one.start, one.stop, one.size_bytes) for one in table.buffers] == [(0, 4, 64), (3, 5, 32), (5, 8, 64)]
    assert {one.alignment_bytes for one in table.buffers} == {64}
    found = onchip("pack", str(path), "--minimize", "-o", str(out), "--json").json
    assert (found["status"], found["arena_bytes"]) == ("OPTIMAL", 96)
    assert read_packing_file(out).ids == table.ids


@pytest.mark.parametrize("line", ["a,64,0,1,2", "1,64,0,5,2", "1,-64,0,1,2", "1,64"])
def test_a_damaged_table_of_xla_is_refused(tmp_path: Path, onchip: Program, line: str) -> None:
    path = tmp_path / "allocinfo.csv"
    path.write_text(f"buffer_id,size,offset,start_time,end_time\n{line}\n")

    refused = onchip("pack", str(path), "--minimize")

    assert refused.code == 2
    assert "allocinfo.csv" in refused.err


STATIC = """
#config = #stream.resource_config<{min_buffer_offset_alignment = 16, min_buffer_range_alignment = 16}>
util.func public @layout() -> (index, index, index, index) attributes {stream.resources = #config} {
  %c100 = arith.constant 100 : index
  %c200 = arith.constant 200 : index
  %t:4 = stream.resource.pack slices({
    [0, 1] = %c100,  // the last step counts
    [1, 2] = %c100,
    [2, 4] = %c200,
  }) : index
  util.return %t#0, %t#1, %t#2, %t#3 : index, index, index, index
}
util.func public @other(%t: index) -> index {
  util.return %t : index
}
"""


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_slices_are_live_to_their_last_step_and_aligned(tmp_path: Path) -> None:
    (problem,) = read_mlir(written(tmp_path / "a.mlir", STATIC))
    lives = [(one.start, one.stop, one.size_bytes, one.alignment_bytes) for one in problem.buffers]
    assert lives == [(0, 2, 100, 16), (1, 3, 100, 16), (2, 5, 200, 16)]
    found = oc.pack(tmp_path / "a.mlir")
    assert (found.status, found.arena_bytes) == (Status.OPTIMAL, 308)


def test_offsets_replace_the_results_of_a_pack(tmp_path: Path) -> None:
    path = written(tmp_path / "a.mlir", STATIC)
    text = with_offsets(path, [[208, 0, 112]])
    assert "stream.resource.pack" not in text
    assert "%t_onchip_0 = arith.constant 320 : index" in text
    assert "util.return %t_onchip_0, %t_onchip_1, %t_onchip_2, %t_onchip_3 :" in text
    assert "%t_onchip_1 = arith.constant 208 : index" in text
    assert text.endswith("util.return %t : index\n}\n")


@pytest.mark.parametrize("seed", range(5))
def test_iree_files_are_packed_proven_and_written_back(seed: int, tmp_path: Path, onchip: Program) -> None:
    path, out = written(tmp_path / "a.mlir", iree_pack_file(seed)), tmp_path / "b.mlir"
    ended = onchip("pack", path, "--minimize", "-o", out, "--json")
    assert (ended.code, ended.json["status"]) == (0, "OPTIMAL")
    text = out.read_text()
    assert "stream.resource.pack" not in text
    assert text.count("_onchip_0 = arith.constant") == len(read_mlir(path))
    constants = {int(value) for value in re.findall(r"_onchip_[1-9]\d* = arith.constant (\d+)", text)}
    assert constants == set(ended.json["offsets"].values())


@pytest.mark.parametrize("seed", range(5))
def test_memref_files_are_packed_proven_and_written_back(seed: int, tmp_path: Path, onchip: Program) -> None:
    path, out = written(tmp_path / "a.mlir", memref_file(seed)), tmp_path / "b.mlir"
    ended = onchip("pack", path, "--minimize", "-o", out, "--json")
    assert (ended.code, ended.json["status"]) == (0, "OPTIMAL")
    text = out.read_text()
    assert (text.count("memref.alloc("), text.count("memref.dealloc")) == (1, 1)
    assert text.count("memref.view") == len(ended.json["offsets"])
    assert f"memref<{ended.json['arena_bytes']}xi8>" in text


def test_what_a_loop_or_an_alias_uses_stays_live(tmp_path: Path) -> None:
    text = """
func.func @main(%n: index) -> memref<4xf32> {
  %c0 = arith.constant 0 : index
  %a = memref.alloc() : memref<4xf32>
  %b = memref.alloc() : memref<4x!llvm.ptr>
  %v = memref.cast %a : memref<4xf32> to memref<?xf32>
  %d = memref.alloc() : memref<2xi8>
  scf.for %i = %c0 to %n step %c0 {
    %inside = memref.alloc() : memref<4xf32>
    %x = memref.load %d[%i] : memref<2xi8>
  }
  %y = memref.load %v[%c0] : memref<?xf32>
  %out = memref.alloc() : memref<4xf32>
  return %out : memref<4xf32>
}
"""
    (problem,) = read_mlir(written(tmp_path / "a.mlir", text))
    assert problem.ids == ("main.a", "main.d")
    first, second = problem.buffers
    assert (first.start, first.stop, second.start, second.stop) == (1, 7, 4, 6)
    assert (first.size_bytes, second.size_bytes) == (16, 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (STATIC.replace("%c200 = arith.constant 200", "%c201 = arith.constant 200"), "%c200 is no constant"),
        (STATIC.replace("%t:4", "%t:3"), "3 results stand for 3 slices"),
        ("func.func @f() {\n  return\n}\n", "no static allocation"),
    ],
)
def test_what_cannot_be_packed_is_refused(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        read_mlir(written(tmp_path / "a.mlir", text))


PROBLEM: dict[str, Any] = {
    "format": "onchip-packing",
    "version": 1,
    "memories": [{"name": "fast", "capacity": 8}, {"name": "slow", "capacity": 16, "alignment": 4}],
    "buffers": [
        {"id": "a", "start": 0, "stop": 9, "size": 8, "gaps": [[3, 5]]},
        {"id": "b", "start": 3, "stop": 5, "size": 8, "alignment": 2},
        {"id": "c", "start": 0, "stop": 9, "size": 6, "memories": ["slow"]},
    ],
}


def problem_file(path: Path, **changes: object) -> Path:
    path.write_text(json.dumps(PROBLEM | changes))
    return path


def test_memories_are_filled_and_written(tmp_path: Path, onchip: Program) -> None:
    out = tmp_path / "out.json"
    ended = onchip("pack", problem_file(tmp_path / "in.json"), "-o", out, "--json")
    assert (ended.code, ended.json["status"], ended.json["objective_value"]) == (0, "OPTIMAL", 0)
    assert ended.json["memories"] == {"a": "fast", "b": "fast", "c": "slow"}
    buffers = json.loads(out.read_text())["buffers"]
    assert [(one["memory"], one["offset"]) for one in buffers] == [("fast", 0), ("fast", 0), ("slow", 0)]


def test_groups_lie_together_or_apart(tmp_path: Path, onchip: Program) -> None:
    apart = onchip("pack", problem_file(tmp_path / "in.json", apart=[["a", "b"]]), "--json").json
    assert {apart["memories"]["a"], apart["memories"]["b"]} == {"fast", "slow"}
    together = onchip("pack", problem_file(tmp_path / "in.json", together=[["a", "c"]]), "--json").json
    assert together["memories"]["a"] == together["memories"]["c"] == "slow"


def test_a_file_without_memories_has_one_capacity(tmp_path: Path, onchip: Program) -> None:
    path = problem_file(tmp_path / "in.json", memories=[], buffers=PROBLEM["buffers"][:2])
    assert onchip("pack", path, "--minimize", "--json").json["arena_bytes"] == 8
    ended = onchip("pack", path, "--capacity", "7")
    assert ended.code == 3
    assert "conflict" in ended.out
    assert onchip("pack", path, "--capacity", "8", "--split", "--json").json["objective_value"] == 1
    assert oc.pack(path).arena_bytes == 8


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"buffers": [{"id": "a", "start": 3, "stop": 3, "size": 8}]}, r"buffers\[0\]"),
        ({"buffers": PROBLEM["buffers"][:1] * 2}, "two buffers have one id"),
        ({"colour": 3}, "colour"),
        ({"apart": [["a", "z"]]}, "no buffer 'z'"),
    ],
)
def test_a_bad_file_is_refused(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = problem_file(tmp_path / "in.json", **changes)
    with pytest.raises(OnchipError, match=message):
        oc.pack(path, memories=[oc.Memory("fast", 8), oc.Memory("slow", 16)])
