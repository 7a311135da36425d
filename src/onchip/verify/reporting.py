"""The violations found so far, and the current position of the replay in the plan."""

from __future__ import annotations

from onchip.verify.rules import Rule, Violation


class Reporting:
    """A collector of violations with their positions; each mistake is reported once."""

    def __init__(self) -> None:
        self.violations: list[Violation] = []
        self.step = 0
        self.instruction: int | None = None
        self._excused: set[str] = set()  # reported as not resident, and neither allocated nor freed since
        self._said_once: set[tuple[Rule, str]] = set()

    def violation(self, rule: Rule, subject: str, detail: str) -> None:
        """Report a violation by the current instruction."""
        self.violations.append(Violation(rule, subject, detail, self.instruction, self.step))

    def of_plan(self, rule: Rule, subject: str, detail: str) -> None:
        """Report a violation of the whole plan."""
        self.violations.append(Violation(rule, subject, detail))

    def once(self, rule: Rule, subject: str, detail: str) -> None:
        """Report a wrong name at its first use only."""
        if (rule, subject) not in self._said_once:
            self._said_once.add((rule, subject))
            self.violation(rule, subject, detail)

    def not_resident(self, rule: Rule, tensor: str, detail: str) -> None:
        """Report a missing tensor at its first use only, until it is allocated or freed."""
        if tensor not in self._excused:
            self._excused.add(tensor)
            self.violation(rule, tensor, detail)

    def excuse(self, tensor: str) -> None:
        """Suppress reports that the tensor is missing, because they follow from a violation already reported."""
        self._excused.add(tensor)

    def no_excuse(self, tensor: str) -> None:
        """End the suppression for a tensor: an Allocate or Free makes its location known again."""
        self._excused.discard(tensor)
