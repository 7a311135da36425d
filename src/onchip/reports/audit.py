"""Results of `audit` as lines and JSON objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from onchip.answer.words import amount, picked, printable

Number: TypeAlias = "int | float"
CONFIRMED, REFUTED, UNDECIDED = "confirmed", "refuted", "undecided"


@dataclass(frozen=True, slots=True)
class AuditedClaim:
    """A claim and the second prover's ruling on its bound.

    `objective_value`, in `unit`, belongs to the answer about `subject`. `better_value` belongs to a better answer, None
    if none was found.
    """

    subject: str
    objective: str
    unit: str
    objective_value: Number
    lower_bound: Number
    ruling: str
    better_value: Number | None
    detail: str
    seconds: float

    @property
    def is_whole(self) -> bool:
        """True if the answer attains a confirmed bound, and so is optimal."""
        return self.ruling == CONFIRMED and self.objective_value == self.lower_bound

    @property
    def words(self) -> str:
        """Say in one line what the audit found."""
        bound, value = self._amount(self.lower_bound), self._amount(self.objective_value)
        if self.ruling == CONFIRMED:
            whole = "the answer attains the bound and is optimal" if self.is_whole else f"the answer has {value}"
            said = f"the bound of {bound} holds; {whole}"
        elif self.ruling == REFUTED:
            said = f"the bound of {bound} does not hold: {self._amount(self.better_value or 0)} is possible"
        else:
            said = f"the bound of {bound} could not be decided in time; the answer has {value}"
        return f"{self.ruling}: {printable(self.subject)}: {said} ({self.detail}; {self.seconds:.3f} seconds)"

    def _amount(self, value: Number) -> str:
        return amount(value, self.unit) if isinstance(value, int) else f"{value:,} {self.unit}"

    @property
    def as_object(self) -> dict[str, object]:
        """Return what `--json` prints of the finding."""
        return {
            **picked(self, "subject", "objective", "unit", "objective_value", "lower_bound", "ruling"),
            "optimum_confirmed": self.is_whole,
            **picked(self, "better_value", "detail", "seconds"),
        }


@dataclass(frozen=True, slots=True)
class AuditOutcome:
    """The claims of a file; `written` is the file with the better answer, if one was found."""

    answer: Path
    claims: Sequence[AuditedClaim]
    written: Path | None = None

    @property
    def ruling(self) -> str:
        """Refuted if one claim is refuted, else undecided if one is undecided, else confirmed."""
        rulings = [claim.ruling for claim in self.claims]
        return next((ruling for ruling in (REFUTED, UNDECIDED) if ruling in rulings), CONFIRMED)

    @property
    def words(self) -> str:
        """Return a line for each claim, and one for the written file."""
        lines = [claim.words for claim in self.claims]
        return "\n".join([*lines, f"a better answer: {self.written}"] if self.written else lines)

    @property
    def as_object(self) -> dict[str, object]:
        """Return what `--json` prints of the audit."""
        return {
            "answer": str(self.answer),
            "ruling": self.ruling,
            "claims": [claim.as_object for claim in self.claims],
            "written": None if self.written is None else str(self.written),
        }
