"""A schedule file held against its network, as it is shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rich.box import SIMPLE
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from onchip.answer.document import Claim, ScheduleDocument
from onchip.arch.energies import unknown_energy
from onchip.ir.graph import Graph
from onchip.reports.program.json_view import violation_object
from onchip.reports.shared.words import amount, counted, printable
from onchip.transform.groups.tile_graph import TileGraph
from onchip.verify.schedule.verdict import ScheduleVerdict, VerifiedFigures

UNITS = {"energy": "fJ", "latency": "cycles", "edp": "fJ x cycles", "traffic": "bytes"}


@dataclass(frozen=True, slots=True)
class ScheduleCheck:
    """What the verifier found of a schedule file and the network that was given, whose graph has the hash `sha256`.

    `tiles` is the network in tiles, None where the stacks make none.
    """

    document: ScheduleDocument
    network: Graph
    sha256: str
    verdict: ScheduleVerdict
    tiles: TileGraph | None = None

    @property
    def is_legal(self) -> bool:
        """Whether nothing at all is to be said against the schedule."""
        return self.verdict.is_legal


def schedule_check_object(check: ScheduleCheck) -> dict[str, object]:
    """Say what is wrong with a schedule, and its figures beside what its maker claims."""
    document, figures, verdict = check.document, check.verdict.figures, check.verdict
    planned = document.graph.sha256
    return {
        "network": check.network.name,
        "accelerator": document.accelerator.name,
        "legal": check.is_legal,
        "graph": {
            "planned_sha256": planned,
            "sha256": check.sha256,
            "differs": planned not in (None, check.sha256),
        },
        "violations": [violation_object(violation) for violation in verdict.violations],
        "recomputed": figures and _figures_object(figures, document.claim),
        "claimed": document.claim and _claim_object(document.claim),
        "not_modelled": list(document.accelerator.notes),
        "not_checked": list(verdict.not_checked),
    }


def schedule_check_tables(check: ScheduleCheck) -> Iterator[RenderableType]:
    """Yield a line for each violation, or the figures beside the claims, and what was not checked."""
    for violation in check.verdict.violations:
        yield Text(printable(str(violation)))
    if check.verdict.figures is not None:
        yield _figures_table(check.verdict.figures, check.document.claim)
        if check.verdict.figures.energy_fj is None:
            yield Text(unknown_energy(check.document.accelerator))
    yield from (Text(printable(note)) for note in check.document.accelerator.notes)
    for what in check.verdict.not_checked:
        yield Text(f"not checked: {what}")
    count = len(check.verdict.violations)
    yield Text("the schedule is legal" if check.is_legal else counted(count, "violation"))


def _figures_table(figures: VerifiedFigures, claim: Claim | None) -> Table:
    table = Table("", box=SIMPLE)
    table.add_column("recomputed", justify="right")
    table.add_column("claimed", justify="right")
    claimed = dict(claim.figures) if claim else {}
    rows: list[tuple[str, str, float | None, str]] = [
        ("energy", "-" if figures.energy_pj is None else f"{figures.energy_pj:,} pJ", claimed.get("energy_pj"), "pJ"),
        ("latency", f"{figures.latency_cycles:,} cycles", claimed.get("latency_cycles"), "cycles"),
        ("traffic", f"{figures.traffic_bytes:,} bytes", claimed.get("traffic_bytes"), "bytes"),
        ("peak", f"{figures.peak_bytes:,} bytes", None, ""),
        *((f"arena of {printable(name)}", f"{size:,} bytes", None, "") for name, size in figures.arenas),
    ]
    for name, recomputed, said, unit in rows:
        table.add_row(name, recomputed, "-" if said is None else f"{said:,} {unit}")
    if claim is not None:
        unit = UNITS[claim.objective]
        value = figures.objective_value(claim.objective)
        shown = "-" if value is None else amount(value, unit)
        table.add_row(f"objective ({claim.objective})", shown, amount(int(claim.objective_value), unit))
        table.add_row("lower bound", "not checked", amount(int(claim.lower_bound), unit))
        table.add_row("status", "not checked", f"{claim.status}, as claimed")
    return table


def _figures_object(figures: VerifiedFigures, claim: Claim | None) -> Mapping[str, object]:
    return {
        "objective": claim and claim.objective,
        "objective_unit": claim and UNITS[claim.objective],
        "objective_value": claim and figures.objective_value(claim.objective),
        "energy_pj": figures.energy_pj,
        "latency_cycles": figures.latency_cycles,
        "traffic_bytes": figures.traffic_bytes,
        "peak_bytes": figures.peak_bytes,
        "arenas": dict(figures.arenas),
    }


def _claim_object(claim: Claim) -> Mapping[str, object]:
    return {
        "method": claim.method,
        "status": claim.status,
        "objective": claim.objective,
        "objective_value": claim.objective_value,
        "lower_bound": claim.lower_bound,
        **claim.figures,
        "space": dict(claim.space),
    }
