"""Files of a small network on a small machine, and schedules of it: layer by layer, and fused in tiles."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from onchip.answer.document import ScheduleDocument
from onchip.answer.options.schedule_options import ScheduleOptions
from onchip.answer.stacks import OverlapMode
from onchip.api.schedule import ScheduleRequest, schedule_network
from onchip.formats.own.schedule_json import schedule_to_json
from onchip.reports.schedule.outcome import ScheduleOutcome
from support.fused_files import CHIP, three_convolutions

IN_TILES = ScheduleOptions("one", (4, 4), OverlapMode.FULLY_CACHED)
LAYER_BY_LAYER = ScheduleOptions("layers")


@cache
def folder() -> Path:
    """Return a folder with `three.json` and `chip.yaml`."""
    found = Path(mkdtemp(prefix="schedules-"))
    (found / "three.json").write_text(three_convolutions())
    (found / "chip.yaml").write_text(CHIP)
    return found


def three() -> str:
    """Return the path of the network's file."""
    return str(folder() / "three.json")


def chip() -> str:
    """Return the path of the machine's file."""
    return str(folder() / "chip.yaml")


@cache
def outcome(*, in_tiles: bool) -> ScheduleOutcome:
    """Return the best schedule found without a limit."""
    options = IN_TILES if in_tiles else LAYER_BY_LAYER
    return schedule_network(ScheduleRequest(three(), chip(), options=options, uses_cache=False, bits=8))


def document(*, in_tiles: bool) -> ScheduleDocument:
    """Return the same schedule as the document of a file."""
    found = outcome(in_tiles=in_tiles).document
    assert found is not None
    return found


@cache
def schedule_text(*, in_tiles: bool) -> str:
    """Return the text of the file."""
    return schedule_to_json(document(in_tiles=in_tiles))
