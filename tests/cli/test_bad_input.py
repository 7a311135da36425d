from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.diamond import Program, diamond_fields

USAGE = [
    ("", "command"),
    ("nonsense", "nonsense"),
    ("plan", "NETWORK"),
    ("plan diamond.json --nonsense", "--nonsense"),
    ("plan diamond.json diamond.json --sram 130", "diamond.json"),
    ("plan diamond.json --sram", "--sram"),
    ("plan diamond.json --sram 130 --objective speed", "speed"),
    ("plan diamond.json --sram 130 --method divide --order given", "given"),
    ("plan diamond.json --sram 130 --count some", "some"),
    ("plan diamond.json --sram 130 --granularity fine", "fine"),
    ("plan diamond.json --sram 130 --method magic", "magic"),
    ("plan diamond.json --sram 130 --workers 0", "--workers"),
    ("plan diamond.json --sram 130 --workers many", "--workers"),
    ("plan diamond.json --sram 130 --seed -1", "--seed"),
    ("plan diamond.json --sram 130 --time-limit 0", "--time-limit"),
    ("plan diamond.json --sram 130 --time-limit -2", "--time-limit"),
    ("plan diamond.json --sram 130 --time-limit nan", "--time-limit"),
    ("plan diamond.json --sram 130 --time-limit inf", "--time-limit"),
    ("info diamond.json --time-limit 0", "--time-limit"),
    ("plan diamond.json --sram 130 --alignment 0", "--alignment"),
    ("plan diamond.json --sram 130 --bits 0", "--bits"),
    ("plan diamond.json --sram 0", "--sram"),
    ("plan diamond.json --sram -5", "--sram"),
    ("plan diamond.json --sram plenty", "--sram"),
    ("plan diamond.json --sram 130 --accelerator tiny", "--accelerator"),
    ("plan diamond.json --accelerator nonsense", "nonsense"),
    ("plan diamond.json --method belady --accelerator two_scratchpads.yaml", "2 scratchpads"),
    ("plan diamond.json --sram 130 --dim batch", "--dim"),
    ("plan diamond.json --sram 130 --dim batch=0", "--dim"),
    ("plan diamond.json --sram 130 --dim batch=1 --dim batch=2", "--dim"),
    ("plan diamond.json --sram 130 --dim batch=1", "--dim"),
    ("plan nonsense --sram 130", "nonsense"),
    ("plan missing.json --sram 130", "missing.json"),
    ("plan missing.onnx --sram 130", "missing.onnx"),
    ("plan . --sram 130", "."),
    ("plan text.json --sram 130", "text.json"),
    ("plan text.onnx --sram 130", "text.onnx"),
    ("plan empty.json --sram 130", "empty.json"),
    ("plan cycle.json --sram 130", "cycle.json"),
    ("plan in_bytes.json --sram 130 --bits 8", "in_bytes.json"),
    ("plan diamond.json --sram 130 -o nowhere/plan.json", "nowhere"),
    ("plan diamond.json --sram 130 -o .", "directory"),
    ("plan diamond.json --sram 130 -o diamond.json", "diamond.json"),
    ("plan diamond.json --sram 130 -o diamond.json/plan.json", "diamond.json"),
    ("check missing.json diamond.json", "missing.json"),
    ("check text.json diamond.json", "text.json"),
    ("check diamond.json diamond.json", "diamond.json"),
    ("info missing.json", "missing.json"),
]


TWO_SCRATCHPADS = """\
format: onchip-accelerator
version: 1
name: pair
memories:
  - {name: left, capacity: 1KiB, scratchpad: true}
  - {name: right, capacity: 1KiB, scratchpad: true}
"""


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    cycle = diamond_fields()
    cycle["operators"][0]["inputs"] = ["x", "y"]
    in_bytes = diamond_fields()
    for tensor in in_bytes["tensors"]:
        del tensor["shape"], tensor["bits"]
        tensor["bytes"] = 10
    networks = {
        "diamond": diamond_fields(),
        "cycle": cycle,
        "in_bytes": in_bytes,
        "empty": {**diamond_fields(), "tensors": [], "operators": []},
    }
    for name, fields in networks.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(fields))
    for name in ("text.json", "text.onnx"):
        (tmp_path / name).write_text("this is no network")
    (tmp_path / "two_scratchpads.yaml").write_text(TWO_SCRATCHPADS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("arguments", "named"), USAGE, ids=[arguments or "nothing" for arguments, _ in USAGE])
def test_bad_input_ends_in_one_line_and_one_object(
    onchip: Program, directory: Path, arguments: str, named: str
) -> None:
    before = sorted(directory.iterdir())
    ended = onchip(*arguments.split())

    assert ended.code == 2
    assert ended.out == ""
    assert ended.err.count("\n") == 1
    assert named in ended.err
    assert sorted(directory.iterdir()) == before

    as_json = onchip(*arguments.split(), "--json")

    assert as_json.code == 2
    assert as_json.json.keys() == {"error", "file", "place", "expected"}
    assert as_json.json["error"]
    assert as_json.json["expected"]


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="there is no directory that even root cannot write to")
def test_a_directory_that_may_not_be_written_is_found_before_solving(onchip: Program, directory: Path) -> None:
    ended = onchip("plan", "diamond.json", "--sram", "10", "-o", "/proc/plan.json")  # code 3 if solved

    assert ended.code == 2
    assert "/proc/plan.json" in ended.err


def test_an_existing_plan_survives_a_plan_that_is_not_found(onchip: Program, directory: Path) -> None:
    (directory / "plan.json").write_text("precious")

    assert onchip("plan", "diamond.json", "--sram", "10", "-o", "plan.json").code == 3
    assert (directory / "plan.json").read_text() == "precious"


def test_sizes_no_file_and_no_solver_could_hold_are_refused(onchip: Program, tmp_path: Path) -> None:
    fields = diamond_fields()
    fields["tensors"] = [{"name": t["name"], "bytes": 2**49, "role": t["role"]} for t in fields["tensors"]]
    path = tmp_path / "huge.json"
    path.write_text(json.dumps(fields))
    ended = onchip("plan", path, "--sram", "m_r")

    assert ended.code == 2
    assert "huge.json: " in ended.err
    assert onchip("plan", path, "--sram", "m_r", "--alignment", 2**31).code == 2


def test_names_cannot_steer_a_terminal(onchip: Program, tmp_path: Path) -> None:
    fields = diamond_fields()
    fields["name"] = "two\nlines\x1b[2J\u202e"
    path = tmp_path / "odd.json"
    path.write_text(json.dumps(fields))

    for verb in (("plan", path, "--sram", "130"), ("info", path)):
        assert r"two\nlines\x1b[2J\u202e" in onchip(*verb).out
