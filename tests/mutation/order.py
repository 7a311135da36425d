"""The order in which tests run against a mutant: what probably kills it in little time comes first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate

from support.mutants import Mutant

SECONDS_MORE = 0.002
"""Seconds that each test takes beside its own."""

OF_MODULE = 0.1
"""Weight of a mutant elsewhere in the module, compared with one in the same function."""


class TestOrder:
    """Orders tests by their seconds, divided by the share of mutants nearby that they killed."""

    __test__ = False  # no class of tests

    def __init__(self, seconds: Mapping[str, float]) -> None:
        self._seconds = seconds
        self._tried, self._killed = Counter[tuple[str, str]](), Counter[tuple[str, str]]()

    def promising_first(self, mutant: Mutant, tests: Iterable[str], killer: str | None) -> list[str]:
        """Return the tests in order; the killer of the same mutant in an earlier run comes first."""
        known = list(tests)

        def cost(name: str) -> float:
            tried, killed = self._nearby(self._tried, mutant, name), self._nearby(self._killed, mutant, name)
            return (self._seconds[name] + SECONDS_MORE) * (tried + 1) / (killed + 1 / len(known))

        return sorted(known, key=lambda name: (name != killer, cost(name)))

    def within(self, seconds: float, tests: Sequence[str]) -> Sequence[str]:
        """Return the first tests, which take that many seconds together, and at least one."""
        taken = accumulate(self._seconds[name] + SECONDS_MORE for name in tests)
        return tests[: max(sum(end <= seconds for end in taken), 1)]

    def learn(self, mutant: Mutant, tests: Sequence[str], killer: str | None) -> None:
        """Count the tests that ran, up to the killer, which may also be the collection of tests."""
        ran = tests[: tests.index(killer) + 1] if killer in tests else tests if killer is None else ()
        for place in _places(mutant):
            self._tried.update((place, name) for name in ran)
            if ran and killer is not None:
                self._killed[place, killer] += 1

    def _nearby(self, counts: Counter[tuple[str, str]], mutant: Mutant, name: str) -> float:
        function, module = _places(mutant)
        return counts[function, name] + OF_MODULE * counts[module, name]


def _places(mutant: Mutant) -> tuple[str, str]:
    return f"{mutant.module}:{mutant.place.function}", mutant.module
