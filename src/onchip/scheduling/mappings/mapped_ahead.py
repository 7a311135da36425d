"""Mappings of nests that workers find together, before they are asked for one by one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.result import Result
from onchip.errors import InputError
from onchip.mapping.methods.cache import MappingCache
from onchip.mapping.methods.layer_at import best_mapping_at
from onchip.search.budget.limits import Limits, Run
from onchip.search.strategy.pool import Pending, TaskPool

SECONDS_BETWEEN_LOOKS: Final = 0.05
NestQuestion: TypeAlias = tuple[LayerProblem, MappingObjective]


@dataclass(frozen=True, slots=True)
class NestSearch:
    """What a worker does: it looks for the best mapping of a nest, and keeps what it proves where it is."""

    uses_cache: bool

    def answer(self, question: tuple[NestQuestion, Limits]) -> Result[LayerMapping] | InputError:
        """Return what is found within limits that begin now, or what is wrong with a nest that is refused."""
        (problem, objective), limits = question
        cache = MappingCache.opened() if self.uses_cache else None
        try:
            return best_mapping_at(problem, objective, Run(limits), cache)
        except InputError as error:
            return error


@dataclass(slots=True)
class MappedAhead:
    """Asks a pool for mappings, and hands each out once; of what no worker has answered in time there is none."""

    pool: TaskPool
    search: NestSearch
    _answers: dict[NestQuestion, Result[LayerMapping] | InputError] = field(default_factory=dict, init=False)

    def ask(self, questions: Iterable[NestQuestion], run: Run, seconds: float) -> None:
        """Wait until all are answered, or the run is to stop; what was answered before is forgotten.

        In limited time each may take so many seconds of one worker, more where few are asked, at most what is left.
        A single question is not asked: it is answered as soon here.
        """
        self._answers.clear()
        distinct = list(dict.fromkeys(questions))
        if len(distinct) < 2:
            return
        left = max(0.0, min(seconds * self.pool.room, run.seconds_left)) if run.deadline.is_set else None
        limits = replace(run.limits, time_limit_seconds=left, workers=1)
        pending = {one: self.pool.submit(self.search.answer, (one, limits)) for one in distinct}
        while pending and run.stop is None:
            self._take(pending)

    def taken(self, question: NestQuestion) -> Result[LayerMapping] | None:
        """Return what a worker has found; None where none has answered. Raises InputError for a nest it refuses."""
        found = self._answers.pop(question, None)
        if isinstance(found, InputError):
            raise found
        return found

    def _take(self, pending: dict[NestQuestion, Pending[Result[LayerMapping] | InputError]]) -> None:
        """Take the answers that there are, waiting a moment for one."""
        for question in [question for question, one in pending.items() if one.ready()]:
            self._answers[question] = pending.pop(question).get()
        for one in [*pending.values()][:1]:
            one.wait(SECONDS_BETWEEN_LOOKS)
