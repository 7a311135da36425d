"""`onchip audit` through its files: rulings, exit codes, the better answer, and bad input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from onchip.cli import run

SIZES = {"x": (2, "input"), "a": (4, "activation"), "b": (1, "activation"), "c": (3, "activation"), "y": (1, "output")}
READS = {"o1": (("x",), "a"), "o2": (("x",), "b"), "o3": (("b",), "c"), "o4": (("a", "c"), "y")}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with a graph whose given order spills in eight bytes (another does not), and four buffers."""
    tensors = [{"name": name, "bytes": size, "role": role} for name, (size, role) in SIZES.items()]
    operators = [
        {"name": name, "kind": "Op", "inputs": list(inputs), "outputs": [output]}
        for name, (inputs, output) in READS.items()
    ]
    graph = {"format": "onchip-graph", "version": 1, "name": "g", "tensors": tensors, "operators": operators}
    (tmp_path / "g.json").write_text(json.dumps(graph))
    (tmp_path / "b.csv").write_text("id,lower,upper,size\na,0,2,3\nb,1,3,4\nc,2,5,3\nd,0,5,1\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def plan(*options: str) -> None:
    assert run(["plan", "g.json", "--sram", "8", "-o", "p.json", *options]) == 0


def answered(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    capsys.readouterr()
    code = run([*arguments, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_a_true_optimum_is_confirmed_whole(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan()

    code, answer = answered(capsys, "audit", "p.json", "g.json")

    assert (code, answer["ruling"]) == (0, "confirmed")
    assert answer["claims"][0]["optimum_confirmed"] is True


def test_a_bound_that_is_not_attained_is_confirmed_alone(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan("--method", "naive", "--order", "given")

    code, answer = answered(capsys, "audit", "p.json", "g.json", "--bound", "0")

    assert (code, answer["claims"][0]["optimum_confirmed"]) == (0, False)


def test_a_bound_that_is_too_high_is_refuted_by_a_plan_that_passes(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan("--method", "naive", "--order", "given")
    worst = json.loads((folder / "p.json").read_text())["result"]["objective_value"]

    code, answer = answered(capsys, "audit", "p.json", "g.json", "--bound", str(worst), "-o", "better.json")

    assert (code, answer["ruling"], answer["written"]) == (1, "refuted", "better.json")
    assert answer["claims"][0]["better_value"] < worst
    checked, verdict = answered(capsys, "check", "better.json", "g.json")
    assert checked == 0
    assert json.loads((folder / "better.json").read_text())["order"] == "given"
    assert verdict is not None


def test_a_bound_above_the_answer_is_refuted_by_the_answer(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan()
    fields = json.loads((folder / "p.json").read_text())
    fields["result"]["lower_bound"] = fields["result"]["objective_value"] + 1
    (folder / "p.json").write_text(json.dumps(fields))

    code, answer = answered(capsys, "audit", "p.json", "g.json")

    assert (code, answer["ruling"]) == (1, "refuted")


def test_a_file_says_which_orders_its_claim_is_about(folder: Path) -> None:
    for order, said in (("given", "given"), ("min-peak", "min-peak"), ("free", None)):
        plan("--order", order)
        assert json.loads((folder / "p.json").read_text()).get("order") == said
        assert run(["audit", "p.json", "g.json"]) == 0


def test_a_plan_in_another_order_than_it_says_is_a_violation(folder: Path) -> None:
    plan("--order", "given")
    text = (folder / "p.json").read_text()
    swapped = text.replace('"o1"', '"?"').replace('"o2"', '"o1"').replace('"?"', '"o2"')
    (folder / "p.json").write_text(swapped)

    assert run(["check", "p.json", "g.json"]) == 1


@pytest.mark.parametrize(("question", "value"), [(["--minimize"], 8), (["--overflow", "--capacity", "6"], 4)])
def test_packings_are_ruled_on(
    folder: Path, capsys: pytest.CaptureFixture[str], question: list[str], value: int
) -> None:
    assert run(["pack", "b.csv", "-o", "o.csv", *question]) == 0

    code, answer = answered(capsys, "audit", "o.csv", "b.csv", *question)
    assert (code, answer["claims"][0]["lower_bound"]) == (0, value)

    raised = ["--bound", str(value + 1), "-o", "better.csv"]
    code, answer = answered(capsys, "audit", "o.csv", "b.csv", *question, *raised)
    assert (code, answer["claims"][0]["better_value"]) == (1, value)
    assert run(["audit", "better.csv", "b.csv", *question]) == 0


REFUSED = {
    "no answer": (["nothing.json", "g.json"], "nothing.json does not exist"),
    "a strategy": (["s.json", "g.json"], "not strategies"),
    "mappings": (["m.yaml", "g.json"], "not mappings"),
    "no claim": (["bare.json", "g.json"], "the answer claims no bound"),
    "an illegal plan": (["illegal.json", "g.json"], "violations"),
    "another graph": (["p.json", "other.json"], "another graph"),
    "no capacity": (["o.csv", "b.csv", "--overflow"], "--capacity: "),
    "two questions": (["o.csv", "b.csv", "--overflow", "--minimize"], "--overflow"),
    "an illegal packing": (["o.csv", "b.csv", "--capacity", "7"], "violations"),
    "no offsets": (["b.csv", "b.csv"], "column 'offset' is missing"),
    "other buffers": (["other.csv", "b.csv"], "not in both files"),
    "no time": (["p.json", "g.json", "--time-limit", "0"], "a number of seconds above 0"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_one_line(folder: Path, capsys: pytest.CaptureFixture[str], case: str) -> None:
    plan()
    assert run(["pack", "b.csv", "--minimize", "-o", "o.csv"]) == 0
    fields = json.loads((folder / "p.json").read_text())
    (folder / "bare.json").write_text(json.dumps({key: value for key, value in fields.items() if key != "result"}))
    (folder / "illegal.json").write_text(json.dumps({**fields, "instructions": fields["instructions"][1:]}))
    (folder / "s.json").write_text(json.dumps({"format": "onchip-strategy", "version": 1}))
    (folder / "m.yaml").write_text("format: onchip-mapping\nversion: 1\n")
    (folder / "other.json").write_text((folder / "g.json").read_text().replace('"bytes": 4', '"bytes": 5'))
    (folder / "other.csv").write_text("id,lower,upper,size,offset\nz,0,2,3,0\n")
    capsys.readouterr()
    arguments, expected = REFUSED[case]

    assert run(["audit", *arguments]) == 2

    said = capsys.readouterr().err.strip()
    assert expected in said
    assert said.count("\n") == 0
