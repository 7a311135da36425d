from __future__ import annotations

from pathlib import Path

import pytest

from support.diamond import Program
from support.toy_chip import CHIP


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONCHIP_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def chip(tmp_path: Path) -> Path:
    path = tmp_path / "chip.yaml"
    path.write_text(CHIP)
    return path


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("serves: []", "serves: [column]", "chip.yaml: memory 'register': unknown array dimension 'column'"),
        ("read_energy_pj: 5", "read_energy_pj: -5", "chip.yaml: line 8: memories[1]"),
        ("{lane: 4, row: 2}", "{lane: 4, row: 0}", "chip.yaml: line"),
        ("capacity: 4B", "capacity: 4B, double_buffered: 3", "chip.yaml: line 6: memories[0].double_buffered"),
        ("scratchpad: true,", "scratchpad: true, serves: [row],", None),
        ("serves: []", "serves: [lane, row]", None),
        ("array: {dimensions: {lane: 4, row: 2}, mac_energy_pj: 0.5}\n", "", "has no array"),
        (
            "access_bits: 64, read_energy_pj: 5, write_energy_pj: 6,",
            "",
            "read_energy_pj and write_energy_pj of memory 'buffer'",
        ),
    ],
)
def test_a_bad_machine_ends_in_one_line(
    onchip: Program, tmp_path: Path, old: str, new: str, message: str | None
) -> None:
    assert old in CHIP
    path = tmp_path / "chip.yaml"
    path.write_text(CHIP.replace(old, new, 1))
    ended = onchip("map", "gemm:m2n2k2", "--accelerator", path)
    if message is None:
        assert ended.code == 0
    else:
        assert (ended.code, ended.out) == (2, "")
        assert message in ended.err
        assert ended.err.count("\n") == 1


def test_a_memory_that_nothing_can_reach(onchip: Program, tmp_path: Path) -> None:
    """The buffer exists once per row, and the register below it serves all rows."""
    text = CHIP.replace("serves: []", "serves: [lane, row]").replace(
        "scratchpad: true,", "scratchpad: true, serves: [row],"
    )
    path = tmp_path / "chip.yaml"
    path.write_text(text)
    ended = onchip("map", "gemm:m2n2k2", "--accelerator", path)
    assert ended.code == 2
    assert "chip.yaml: weight: memory 'register' cannot be filled from memory 'buffer'" in ended.err


@pytest.mark.parametrize(
    ("bits", "buffer", "keepers"),
    [("32", "2KiB", ["register", "buffer"]), ("64", "2KiB", ["buffer"]), ("64", "4B", [])],
)
def test_elements_wider_than_a_memory_are_no_refusal(
    onchip: Program, tmp_path: Path, bits: str, buffer: str, keepers: list[str]
) -> None:
    """Mappings bypass that memory; if no memory has room, all operands come from DRAM."""
    path = tmp_path / "chip.yaml"
    path.write_text(CHIP.replace("2KiB", buffer))
    ended = onchip("map", "gemm:m2n2k2", "--accelerator", path, "--bits", bits, "--json")
    assert (ended.code, ended.json["status"]) == (0, "OPTIMAL")
    assert [kept["memory"] for kept in ended.json["mapping"]["weight"]] == keepers


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("conv:n1z2",), "conv:n1z2: 'n1z2' gives no sizes"),
        (("pool:n1",), "pool:n1: unknown layer or network"),
        (("gemm:m2n2k2", "--method", "best"), "--method: there is no method 'best'"),
        (("gemm:m99999999n99999999k99999999",), "multiply-accumulates"),
        (("gemm:m2n2k2", "--time-limit", "-1"), "--time-limit"),
        (("gemm:m2n2k2", "-o", "nowhere/m.yaml"), "there is no directory"),
        (("gemm:m2n2k2", "--report", "nowhere/m.html"), "there is no directory"),
    ],
)
def test_bad_arguments_end_in_one_line(onchip: Program, chip: Path, arguments: tuple[str, ...], message: str) -> None:
    ended = onchip("map", *arguments, "--accelerator", chip)
    assert (ended.code, ended.out) == (2, "")
    assert message in ended.err
    assert ended.err.count("\n") == 1


@pytest.mark.parametrize("verb", ["map", "schedule", "fuse"])
def test_sums_narrower_than_elements_are_named_by_their_option(onchip: Program, chip: Path, verb: str) -> None:
    ended = onchip(verb, "lenet5", "--accelerator", chip, "--bits", 16, "--partial-bits", 8)
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert ended.err.startswith("onchip: --partial-bits: ")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("problem: {N: 1,\n  K: 2\n", "line 3: malformed YAML: "),
        ("loops:\n\t- N", "line 2: malformed YAML: "),
        ("format: onchip-mapping\n", "the whole file describes no layer"),
    ],
)
def test_a_layer_file_that_is_no_yaml_is_named_with_its_line(
    onchip: Program, chip: Path, tmp_path: Path, content: str, message: str
) -> None:
    path = tmp_path / "layer.yaml"
    path.write_text(content)
    ended = onchip("map", path, "--accelerator", chip)
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert ended.err.startswith(f"onchip: {path}: {message}")


def test_a_memory_without_the_port_that_a_layer_needs_is_named_with_its_file(onchip: Program, tmp_path: Path) -> None:
    path = tmp_path / "chip.yaml"
    of_buffer = "ports: [{direction: read_write, bits_per_cycle: 64}]}\ndram"
    assert of_buffer in CHIP
    path.write_text(CHIP.replace(of_buffer, of_buffer.replace("read_write", "read")))
    ended = onchip("map", "gemm:m2n2k2", "--accelerator", path)
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert ended.err.startswith(f"onchip: {path}: layer 'gemm:m2n2k2': memory 'buffer': no port can write")
