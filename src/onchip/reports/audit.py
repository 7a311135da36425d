"""The result of `audit` as a line and a JSON object."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from onchip.answer.words import amount, picked, printable
from onchip.audits.finding import Finding, Ruling


@dataclass(frozen=True, slots=True)
class AuditOutcome:
    """The finding about the bound of an answer; `written` is the file with the better answer, if one was written.

    `objective_value`, in `unit`, belongs to the answer about `subject`.
    """

    answer: Path
    subject: str
    objective: str
    unit: str
    objective_value: int
    finding: Finding
    written: Path | None = None

    @property
    def ruling(self) -> Ruling:
        """Ruling of the second prover on the bound."""
        return self.finding.ruling

    @property
    def is_whole(self) -> bool:
        """True if the answer attains a confirmed bound, and so is optimal."""
        return self.ruling is Ruling.CONFIRMED and self.objective_value == self.finding.claimed_bound

    @property
    def words(self) -> str:
        """Return a line about the bound, and one about the written file."""
        finding = self.finding
        bound, value = amount(finding.claimed_bound, self.unit), amount(self.objective_value, self.unit)
        if self.ruling is Ruling.CONFIRMED:
            whole = "the answer attains the bound and is optimal" if self.is_whole else f"the answer has {value}"
            said = f"the bound of {bound} holds; {whole}"
        elif self.ruling is Ruling.REFUTED:
            better = amount(finding.better_value or 0, self.unit)
            said = f"the bound of {bound} does not hold: {better} is possible"
        else:
            said = f"the bound of {bound} could not be decided in time; the answer has {value}"
        details = f"({finding.detail}; {finding.seconds:.3f} seconds)"
        line = f"{self.ruling}: {printable(self.subject)}: {said} {details}"
        return f"{line}\na better answer: {self.written}" if self.written else line

    @property
    def as_object(self) -> dict[str, object]:
        """Return what `--json` prints of the audit."""
        claim = {
            **picked(self, "subject", "objective", "unit", "objective_value"),
            "lower_bound": self.finding.claimed_bound,
            "ruling": self.ruling,
            "optimum_confirmed": self.is_whole,
            **picked(self.finding, "better_value", "detail", "seconds"),
        }
        written = None if self.written is None else str(self.written)
        return {"answer": str(self.answer), "ruling": self.ruling, "claims": [claim], "written": written}
