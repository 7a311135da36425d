"""Stacks costed in several processes; each has a mapper of its own that remembers what it has mapped."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from multiprocessing.pool import Pool

from onchip.analysis.fusable import FusableNetwork
from onchip.arch.accelerator import Accelerator
from onchip.cost.fused import StackCost
from onchip.cost.fused_mapper import Memoized
from onchip.errors import InputError
from onchip.solve.fusion.costs import StackCosts
from onchip.solve.fusion.ledger import CostingStoppedError
from onchip.solve.fusion.mappers import LayerMapper
from onchip.solve.fusion.objective import Criteria, FusionObjective
from onchip.solve.fusion.space import StackChoice
from onchip.solve.limits import Limits, Run
from onchip.solve.mapping.cache import MappingCache, cache_folder
from onchip.solve.mapping.registry import method_named

SECONDS_BETWEEN_LOOKS = 0.1


@dataclass(frozen=True, slots=True)
class Costing:
    """What is costed, and which method maps the layers of tiles."""

    network: FusableNetwork
    accelerator: Accelerator
    objective: FusionObjective
    mapper: str
    use_cache: bool = True

    def costs(self, run: Run) -> StackCosts:
        """In this process."""
        cache = MappingCache(cache_folder()) if self.use_cache else None
        mapper = LayerMapper(method_named(self.mapper), self.objective.of_layers, run, cache)
        return StackCosts(self.network, self.accelerator, self.objective, Memoized(mapper))


@contextmanager
def costs_of(costing: Costing, run: Run) -> Iterator[StackCosts]:
    """In as many processes as the run has workers; they end with the context."""
    costs = costing.costs(run)
    if run.limits.workers == 1:
        yield costs
        return
    left = run.limits.time_limit_seconds and run.seconds_left
    limits = replace(run.limits, time_limit_seconds=left)
    with get_context("spawn").Pool(run.limits.workers, _begin, (costing, limits)) as pool:
        yield _CostsOfProcesses(
            costing.network, costing.accelerator, costing.objective, costs.mapper, pool=pool, run=run
        )


@dataclass(slots=True)
class _CostsOfProcesses(StackCosts):
    """As `StackCosts`, but several at a time."""

    pool: Pool = field(kw_only=True)
    run: Run = field(kw_only=True)

    def costs(self, choices: Sequence[StackChoice]) -> list[Criteria | None]:
        """Raises CostingStoppedError where the run has to stop first."""
        pending = [self.pool.apply_async(_costed, (choice,)) for choice in choices]
        for one in pending:
            while not one.ready():
                if self.run.stop is not None:
                    raise CostingStoppedError
                one.wait(SECONDS_BETWEEN_LOOKS)
        found: list[Criteria | None] = []
        for choice, one in zip(choices, pending, strict=True):
            cost = one.get()
            if isinstance(cost, InputError):
                self.refusals[choice] = cost
                found.append(None)
            else:
                self.found[choice] = cost
                found.append(self.criteria_of(cost))
        return found


_here: list[StackCosts] = []
"""What a process of the pool costs with."""


def _begin(costing: Costing, limits: Limits) -> None:
    """Ctrl-C is for the process that has the pool."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _here[:] = [costing.costs(Run(limits))]


def _costed(choice: StackChoice) -> StackCost | InputError:
    try:
        return _here[0].cost(choice)
    except InputError as error:
        return error
