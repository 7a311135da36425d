"""Slices and memrefs in the text of MLIR: read, packed, proven, written back."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import onchip as oc
from onchip.answer.result import Status
from onchip.errors import InputError
from onchip.formats.mlir import read_mlir, with_offsets
from support.diamond import Program
from support.mlir_files import iree_pack_file, memref_file

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
