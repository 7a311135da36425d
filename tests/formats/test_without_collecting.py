from __future__ import annotations

import gc
from pathlib import Path

import pytest

from onchip.errors import InputError
from onchip.formats.own.schedule_json import read_schedule
from onchip.without_collecting import without_collecting


def test_the_collector_rests_and_then_works_as_before() -> None:
    assert gc.isenabled()
    with without_collecting():
        assert not gc.isenabled()
        with without_collecting():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


def test_the_collector_works_again_after_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        read_schedule(tmp_path / "no.json")
    assert gc.isenabled()
