"""The check of an ONNX model's plan metadata against the plan in the model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from onchip.api.phases import phase
from onchip.formats.onnx.metadata import differing_places, metadata_of
from onchip.reports.program.outcome import Check
from onchip.verify.rules import Rule, Violation


@phase("verifying")
def with_metadata_checked(file: Path, check: Check) -> Check:
    """Return the check with a violation for each place where the model's metadata contradict its plan."""
    if not check.is_legal:
        return check
    metadata = metadata_of(check.document, check.problem.graph)
    wrong = [
        Violation(Rule.FIGURE_DIFFERS, place, f"the {key} is not what the plan in the model says")
        for place, key in differing_places(file, metadata)
    ]
    return replace(check, verdict=replace(check.verdict, violations=(*check.verdict.violations, *wrong)))
