"""An earlier schedule file as the start of a search, for the same network on any machine."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from onchip.answer.schedule import Schedule
from onchip.api.check_schedule import ScheduleFile, check_schedule_file
from onchip.api.networks import Network
from onchip.api.phases import phase
from onchip.errors import InputError
from onchip.formats.own.graph_json import graph_sha256
from onchip.ir.graph import Graph

SAME: Final = "a schedule of this network, read with the same options"


@phase("reading the start")
def start_from_file(path: Path, source: Network, network: Graph) -> Schedule:
    """Return the schedule in a file, verified on the accelerator in the file.

    `network` is `source` as the search reads it. Raises InputError for an unreadable file, a schedule of another
    network or of the same network read with other options, and an illegal schedule.
    """
    check = check_schedule_file(ScheduleFile(path, source))
    if check.sha256 != graph_sha256(network):
        what = f"the schedule is for {check.network.name!r} read otherwise"
        raise InputError(what, file=str(path), place="graph", expected=SAME)
    if not check.is_legal:
        violations = check.verdict.violations
        what = f"the schedule has {len(violations)} violations, the first: {violations[0]}"
        raise InputError(what, file=str(path), expected=SAME)
    return check.document.answer
