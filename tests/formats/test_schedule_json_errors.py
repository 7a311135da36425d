from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from onchip.answer.document import Source
from onchip.answer.schedule import ScheduleError
from onchip.errors import InputError
from onchip.formats.own.schedule_json import read_schedule, schedule_from_json, schedule_to_json, write_schedule
from support.schedule_files import TEXT, Json, changed


def test_a_program_over_other_memories_than_those_that_the_accelerator_addresses_is_not_written() -> None:
    document = schedule_from_json(TEXT, "s.json")
    program = replace(document.answer.program, memories=document.answer.program.memories[1:])
    with pytest.raises(ScheduleError, match="the program is over maps"):
        schedule_to_json(replace(document, answer=replace(document.answer, program=program)))


def test_a_name_that_is_no_unicode_text_cannot_be_written() -> None:
    document = replace(schedule_from_json(TEXT, "s.json"), graph=Source("\ud800"))
    with pytest.raises(ScheduleError, match="cannot be written"):
        schedule_to_json(document)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.update(version=2), "version is 2, newer than this onchip reads"),
        (lambda s: s.update(format="onchip-plan"), 'format is "onchip-plan"'),
        (lambda s: s["accelerator"].update(version=2), "accelerator.version is 2"),
        (lambda s: s["accelerator"]["memories"][2].update(capacity="2XB"), "accelerator.memories[2].capacity: '2XB'"),
        (lambda s: s["accelerator"]["memories"][0].update(serves=["x"]), "accelerator (memory 'register'): unknown"),
        (lambda s: s["reading"].update(partial_bits=-1), "reading.partial_bits is -1"),
        (lambda s: s["stacks"][0].update(operators=[]), "stacks[0] (stacks): a stack has no operators"),
        (lambda s: s["stacks"][0].update(tile=None), "stacks[0] has a mode and no tile"),
        (lambda s: s["stacks"][0].pop("mode"), "stacks[0] has a tile and no mode"),
        (lambda s: s["stacks"][0]["tile"].update(rows=0), "stacks[0] (tile): a tile has 0 rows"),
        (lambda s: s["stacks"][1].update(operators=["c", "d"]), "stacks[1] (stack of 'c'): 2 operators run without"),
        (lambda s: s["stacks"][1].update(operators=["b"]), "stacks: operator 'b' is in 2 stacks"),
        (lambda s: s["mappings"][0].update(stack=2), "mappings[0].stack: there is no stack 2"),
        (lambda s: s.update(stacks=[]), "mappings[0].stack: there is no stack 1"),
        (lambda s: s["mappings"].append(s["mappings"][0]), "mappings of stack 1: 2 mappings are of the same layer and"),
        (lambda s: s["mappings"][0]["layer"]["loops"].update(K=0), "mappings[0].layer (layer): K is 0"),
        (lambda s: s["mappings"][0].update(nest=["4K"]), 'mappings[0].nest[0]: "4K" is no loop'),
        (lambda s: s["mappings"][0].update(nest=[]), "mappings[0] (mapping): the tiles of weight span [1] of 0 loops"),
        (lambda s: s["mappings"][0].update(ragged=["C", "K"]), "mappings[0] (mapping): loops C, K end short"),
        (
            lambda s: s["mappings"][0].update(ragged=["OX"]),
            "mappings[0] (mapping): loops OX end short",
        ),
        (lambda s: s["instructions"][2].update(free={"tensor": "x", "memory": "maps"}), "[2] has compute and free"),
        (lambda s: s["result"].update(objective="dram"), 'result.objective is "dram"'),
        (lambda s: s["result"].update(lower_bound=2**63), "result.lower_bound: the integer is too large"),
    ],
)
def test_a_wrong_field_is_named_in_one_line(change: Callable[[Json], object], message: str) -> None:
    with pytest.raises(InputError) as raised:
        schedule_from_json(changed(change), "bad.json")
    assert str(raised.value).startswith("bad.json: ")
    assert message in str(raised.value)
    assert raised.value.hint
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "malformed JSON"), (b"{", "line 1 column 2"), (b"[]", "expected an object"), (b"\xff", "is not UTF-8")],
)
def test_what_is_no_json_object_is_refused(content: bytes, message: str, tmp_path: Path) -> None:
    file = tmp_path / "bad.json"
    file.write_bytes(content)
    with pytest.raises(ScheduleError, match=message) as raised:
        read_schedule(file)
    assert raised.value.file == str(file)


def test_a_packed_file_that_is_cut_short_cannot_be_read(tmp_path: Path) -> None:
    file = tmp_path / "s.json.gz"
    write_schedule(schedule_from_json(TEXT, "s.json"), file)
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(InputError, match="cannot be read"):
        read_schedule(file)
