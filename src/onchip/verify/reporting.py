"""What has been wrong so far, and where in the plan the replay is."""

from __future__ import annotations

from onchip.verify.rules import Rule, Violation


class Reporting:
    """Collects violations, each with the place in which it is found; one mistake is said once."""

    def __init__(self) -> None:
        self.violations: list[Violation] = []
        self.step = 0
        self.instruction: int | None = None
        self._excused: set[str] = set()  # reported as not resident; until allocated or freed, not again
        self._said_once: set[tuple[Rule, str]] = set()

    def violation(self, rule: Rule, subject: str, detail: str) -> None:
        """Report a violation of the instruction that is executed."""
        self.violations.append(Violation(rule, subject, detail, self.instruction, self.step))

    def of_plan(self, rule: Rule, subject: str, detail: str) -> None:
        """Report a violation of the whole plan."""
        self.violations.append(Violation(rule, subject, detail))

    def once(self, rule: Rule, subject: str, detail: str) -> None:
        """A wrong name is one mistake, however often it stands in the plan."""
        if (rule, subject) not in self._said_once:
            self._said_once.add((rule, subject))
            self.violation(rule, subject, detail)

    def not_resident(self, rule: Rule, tensor: str, detail: str) -> None:
        """A tensor that is missing once is missing wherever it is used, until it is allocated or freed."""
        if tensor not in self._excused:
            self._excused.add(tensor)
            self.violation(rule, tensor, detail)

    def excuse(self, tensor: str) -> None:
        """What is missing of it follows from what has been reported."""
        self._excused.add(tensor)

    def no_excuse(self, tensor: str) -> None:
        """It is allocated or freed: where it is is known again."""
        self._excused.discard(tensor)
