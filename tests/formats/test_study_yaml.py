"""Study files: their contents, and the line of each error."""

from __future__ import annotations

from pathlib import Path

import pytest

from onchip.errors import InputError
from onchip.sweeps.point import Number
from onchip.sweeps.study import Study, read_study

WHOLE = """\
format: onchip-study
version: 1
name: arrays
verb: schedule
networks: [lenet5, resnet18]
accelerators: [simba]
parameters:
  K: {path: array.dimensions.K, values: [8, 16, 32]}
  C: {path: array.dimensions.C, range: 4..16, doubling: true}
  memories.global_buffer.capacity: 64KiB..256KiB
  memories.a.capacity: {range: 1KiB..3KiB, steps: 3}
objectives: [energy, edp]
options: {bits: [8, 16], time_limit: 10}
constraints: ["K * C <= 128", "memories.a.capacity < 3KiB"]
costs:
  area: 0.5 * K * C
  price: {by: accelerator, table: {simba: 3.5}}
limits: {memory: 2GiB, seconds: 60}
"""


def study_of(tmp_path: Path, text: str) -> Study:
    path = tmp_path / "study.yaml"
    path.write_text(text)
    return read_study(path)


def test_a_study_says_what_its_file_says(tmp_path: Path) -> None:
    study = study_of(tmp_path, WHOLE)
    combinations = list(study.combinations())

    assert study.name == "arrays"
    assert [len(parameter.values) for parameter in study.parameters] == [3, 3, 20, 3]
    assert [parameter.is_capacity for parameter in study.parameters] == [False, False, True, True]
    assert (study.limits.memory_bytes, study.limits.seconds) == (2**31, 60)
    assert len(combinations) == 2 * 2 * 2 * 20 * 2 * 6
    arrays = {(one.parameters["K"], one.parameters["C"]) for one in combinations}
    assert arrays == {(8, 4), (8, 8), (8, 16), (16, 4), (16, 8), (32, 4)}
    assert {one.options["bits"] for one in combinations} == {8, 16}
    costs: dict[str, Number] = {"area": 16.0, "price": 3.5}
    assert combinations[0].costs == costs


@pytest.mark.parametrize(
    ("before", "after", "place"),
    [
        ("version: 1", "version: 2", "line 2: version"),
        ("verb: schedule", "verb: dance", "line 4: verb"),
        ("[lenet5, resnet18]", "[lenet5, 3]", "line 5: networks[1]"),
        ("[lenet5, resnet18]", "[]", "line 5: networks"),
        ("accelerators: [simba]", "accelerator: [simba]", "line 6: accelerator"),
        ("values: [8, 16, 32]", "values: []", "line 8: parameters.K"),
        ("values: [8, 16, 32]", "values: [8, 64KiB]", "line 8: parameters.K"),
        ("values: [8, 16, 32]", "value: 8", "line 8: parameters.K.value"),
        ("range: 4..16", "range: 16..4", "line 9: parameters.C"),
        ("range: 4..16, doubling: true", "range: 4", "line 9: parameters.C"),
        ("64KiB..256KiB", "64KiB..many", "line 10: parameters.memories.global_buffer.capacity"),
        ("  K: {path: array.dimensions.K,", "  K: {", "line 8: parameters.K"),
        ("steps: 3", "steps: three", "line 11: parameters.memories.a.capacity.steps"),
        ("objectives: [energy, edp]", "objectives: [energy, beauty]", "line 12: objectives[1]"),
        ("bits: [8, 16]", "bits: [8, 99]", "line 13: options"),
        ("time_limit: 10", "time: 10", "line 13: options"),
        ("K * C <= 128", "K * L <= 128", "line 14: constraints[0]"),
        ("K * C <= 128", "K * C <=", "line 14: constraints[0]"),
        ("0.5 * K * C", "0.5 * K * Q", "line 16: costs.area"),
        ("by: accelerator", "by: colour", "line 17: costs.price"),
        ("memory: 2GiB", "memory: 2Gi", "line 18: limits.memory"),
        ("seconds: 60", "seconds: -1", "line 18: limits.seconds"),
        ("  K: {", "  status: {", "line 7: parameters"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, before: str, after: str, place: str) -> None:
    assert WHOLE.count(before) == 1
    with pytest.raises(InputError) as refused:
        study_of(tmp_path, WHOLE.replace(before, after))
    assert str(refused.value).startswith(f"{tmp_path / 'study.yaml'}: {place}: ") or place in str(refused.value)
    assert "\n" not in str(refused.value)
