"""Fields of machines by path: the file contains the value that was set, and no other change."""

from __future__ import annotations

import pytest

from onchip.errors import InputError
from onchip.formats.own.accelerator_yaml import accelerator_fields, accelerator_from_yaml, load_accelerator
from onchip.sweeps.point import Scalar
from onchip.sweeps.study import changed, is_capacity, machine_of

CHIP = load_accelerator("meta-prototype-df")


@pytest.mark.parametrize(
    ("path", "value", "there"),
    [
        ("memories.activation_local_buffer.capacity", "128KiB", 131072),
        ("memories.0.capacity", 7, 7),
        ("array.dimensions.K", 64, 64),
        ("dram.ports.0.bits_per_cycle", 128, 128),
        ("clock_mhz", 500, 500.0),
        ("dram.read_energy_pj", 12, 12.0),
        ("name", "other", "other"),
    ],
)
def test_a_field_has_the_value_that_is_set(path: str, value: Scalar, there: object) -> None:
    before, after = accelerator_fields(CHIP), accelerator_fields(changed(CHIP, {path: value}))

    *parents, last = path.split(".")
    holders = []
    for fields in (before, after):
        holder: object = fields
        for part in parents:
            assert isinstance(holder, dict | list)
            if isinstance(holder, dict):
                holder = holder[part]
            else:
                named = [one for one in holder if one.get("name") == part]
                holder = named[0] if named else holder[int(part)]
        assert isinstance(holder, dict)
        holders.append(holder)
    assert holders[1][last] == there
    holders[1][last] = holders[0][last]
    assert after == before


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("memories.nowhere.capacity", 1),
        ("memories.99.capacity", 1),
        ("memories.activation_local_buffer.size", 1),
        ("memories.activation_local_buffer", 1),
        ("array.dimensions.K.more", 1),
        ("array.dimensions.K", "64KiB"),
        ("array.dimensions.K", 1.5),
        ("array.dimensions.K", 0),
        ("array.dimensions.K", True),
        ("memories.activation_local_buffer.capacity", "x"),
        ("memories.activation_local_buffer.capacity", 0),
        ("dram.ports.0.bits_per_cycle", "8B"),
        ("nothing", 1),
    ],
)
def test_a_field_that_there_is_not_or_a_value_that_does_not_fit_is_refused(path: str, value: Scalar) -> None:
    with pytest.raises(InputError) as refused:
        changed(CHIP, {path: value})
    assert "meta-prototype-df" in str(refused.value) or path in str(refused.value)


def test_a_machine_is_read_back_as_it_was() -> None:
    machine = machine_of(changed(CHIP, {"memories.activation_local_buffer.capacity": 4096}))
    assert machine_of(accelerator_from_yaml(machine.yaml, "machine")) == machine


def test_capacities_are_told_by_their_path() -> None:
    paths = ["memories.a.capacity", "memories.0.capacity", "memories.a.alignment", "dma.capacity", "memories.capacity"]
    assert [is_capacity(path) for path in paths] == [True, True, False, False, True]
