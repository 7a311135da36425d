"""The methods of `plan` by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from onchip.answer.problem import Objective, Order, Placement, Problem
from onchip.answer.program import Plan
from onchip.answer.result import SearchResult
from onchip.errors import UsageError
from onchip.memory.baselines.belady import solve_by_belady, solve_greedily
from onchip.memory.baselines.divide import solve_by_dividing
from onchip.memory.baselines.pinned import solve_as_onsram, solve_naively
from onchip.memory.published.paper import solve_as_paper
from onchip.memory.published.pinning import solve_as_thesis
from onchip.memory.remat.solve import solve_with_recomputation
from onchip.memory.spill.exact import solve_exactly
from onchip.memory.spill.states import solve_with_states, solve_with_states_loaded
from onchip.memory.timed.solve import solve_for_latency
from onchip.plugins import PluginGroup, guarded
from onchip.search.budget.limits import Run

COSTS_OF_TRANSFERS = frozenset(one for one in Objective if one.counts_transfers)


@dataclass(frozen=True, slots=True)
class Method:
    """A planning method and the problems that it supports; it refuses all others.

    The first of `orders` is the default. `scratchpads` is the greatest number it plans for, None for any. With
    `shares_bytes` outputs may lie in bytes of inputs, in one scratchpad. With `keeps_states` states may stay on the
    chip; other methods load all of them. `solve_again` plans problems in which operators may run again.
    """

    name: str
    summary: str
    solve: Callable[[Problem, Run], SearchResult[Plan]]
    objectives: frozenset[Objective]
    orders: tuple[Order, ...]
    scratchpads: int | None = 1
    placements: frozenset[Placement] = frozenset({Placement.DYNAMIC})
    shares_bytes: bool = False
    keeps_states: bool = False
    solve_again: Callable[[Problem, Run], SearchResult[Plan]] | None = None

    def __call__(self, problem: Problem, run: Run) -> SearchResult[Plan]:
        """Solve; raises UsageError for what the method does not support."""
        for refusal in self._refusals(problem):
            raise refusal
        if problem.recomputation is not None and self.solve_again is not None:
            return self.solve_again(problem, run)
        if self.keeps_states:
            return solve_with_states(problem, run, self.solve, self.name)
        return solve_with_states_loaded(problem, run, self.solve)

    def supports(self, problem: Problem) -> bool:
        """True if the method supports the problem."""
        return next(self._refusals(problem), None) is None

    def _refusals(self, problem: Problem) -> Iterator[UsageError]:
        for asked, supported, option in (
            (problem.objective, self.objectives, "minimize"),
            (problem.order, self.orders, "order"),
            (problem.placement, self.placements, "placement"),
        ):
            if asked not in supported:
                names = ", ".join(sorted(supported))
                what = f"method {self.name!r} does not support {asked}"
                yield UsageError(what, place=option, expected=names)
        if problem.recomputation is not None:
            yield from self._refusals_of_recomputation(problem)
        elif problem.objective is Objective.RECOMPUTATION:
            place = f"minimize {problem.objective}"
            yield UsageError("operators may not run again", place=place, expected="`recompute='allowed'`")
        if problem.objective is Objective.LATENCY and problem.graph.states:
            what = f"{problem.objective} of a network with state cannot be minimised yet"
            yield UsageError(what, place="minimize", expected="a network without state, or another objective")
        is_sharing = problem.graph.shares_bytes
        if is_sharing and not self.shares_bytes:
            what = f"method {self.name!r} lets no tensors share bytes"
            able = ", ".join(f"`method='{name}'`" for name, method in METHODS.items() if method.shares_bytes)
            yield UsageError(what, place="share", expected=f"`share='none'`, or {able}")
        elif is_sharing and problem.placement is Placement.STATIC:
            what = "tensors with static addresses cannot share bytes"
            yield UsageError(what, place="share, placement static", expected="`share='none'`, or dynamic placement")
        elif is_sharing and len(problem.memories) > 1:
            what = "bytes are shared within one scratchpad alone"
            yield UsageError(what, place="share", expected="`share='none'`, or one scratchpad")
        if self.scratchpads is not None and len(problem.memories) > self.scratchpads:
            names = ", ".join(memory.name for memory in problem.memories)
            yield UsageError(
                f"there are {len(problem.memories)} scratchpads: {names}",
                place=f"method {self.name}",
                expected=f"at most {self.scratchpads}",
            )

    def _refusals_of_recomputation(self, problem: Problem) -> Iterator[UsageError]:
        if self.solve_again is None:
            able = ", ".join(f"`method='{name}'`" for name, method in METHODS.items() if method.solve_again)
            what = f"method {self.name!r} does not run operators again"
            yield UsageError(what, place="recompute", expected=f"`recompute='never'`, or {able}")
        if problem.graph.states:
            what = "operators of a network with state cannot run again yet"
            yield UsageError(what, place="recompute", expected="a network without state")
        if problem.graph.shares_bytes:
            what = "tensors cannot share bytes if operators run again"
            yield UsageError(what, place="recompute, share", expected="`share='none'`")
        if len(problem.memories) > 1:
            names = ", ".join(memory.name for memory in problem.memories)
            what = f"operators run again in one scratchpad only, not in {len(problem.memories)}: {names}"
            yield UsageError(what, place="recompute", expected="one scratchpad")


METHODS: Mapping[str, Method] = {
    method.name: method
    for method in (
        Method(
            "exact",
            "best-first search over orders and residencies, addresses included; proves its optimum",
            solve_exactly,
            COSTS_OF_TRANSFERS | {Objective.PEAK, Objective.RECOMPUTATION},
            tuple(Order),
            scratchpads=None,
            placements=frozenset(Placement),
            shares_bytes=True,
            keeps_states=True,
            solve_again=solve_with_recomputation,
        ),
        Method(
            "paper",
            "the formulation of COSMA as one mixed-integer program, for small graphs; `solver` chooses the solver",
            solve_as_paper,
            COSTS_OF_TRANSFERS,
            tuple(Order),
        ),
        Method(
            "timed",
            "for the least latency: operators in bands, orders, and transfers beside computation; a proven bound",
            solve_for_latency,
            frozenset({Objective.LATENCY}),
            (Order.FREE, Order.GIVEN),
            scratchpads=None,
        ),
        Method(
            "divide",
            "the graph cut where little crosses, each part ordered by exact search, the whole joined again",
            solve_by_dividing,
            frozenset({Objective.TRAFFIC}),
            (Order.FREE,),
        ),
        Method(
            "belady",
            "what is needed again last leaves first; addresses by size",
            solve_by_belady,
            COSTS_OF_TRANSFERS,
            (Order.GIVEN, Order.MIN_PEAK),
        ),
        Method(
            "greedy",
            "the cheapest eviction at each step; addresses by size",
            solve_greedily,
            COSTS_OF_TRANSFERS,
            (Order.GIVEN, Order.MIN_PEAK),
        ),
        Method(
            "pinning",
            "the thesis's program of what is pinned in which scratchpad, then addresses; `solver` chooses the solver",
            solve_as_thesis,
            COSTS_OF_TRANSFERS,
            (Order.GIVEN, Order.MIN_PEAK),
            scratchpads=None,
        ),
        Method(
            "onsram",
            "tensors pinned for their whole life, greedily, what saves most first; all others streamed",
            solve_as_onsram,
            COSTS_OF_TRANSFERS,
            (Order.GIVEN, Order.MIN_PEAK),
            scratchpads=None,
            placements=frozenset(Placement),
        ),
        Method(
            "naive",
            "every operator loads what it reads and writes back what it wrote; nothing stays",
            solve_naively,
            COSTS_OF_TRANSFERS,
            (Order.GIVEN, Order.MIN_PEAK),
            scratchpads=None,
            placements=frozenset(Placement),
        ),
    )
}


METHOD_PLUGINS: Final = PluginGroup[[], Method]("onchip.methods", Method)
"""By name a function without arguments that returns the method."""


def method_named(name: str) -> Method:
    """Return the method of that name; raises UsageError for an unknown one, PluginError for one that is broken."""
    if name in METHODS:
        return METHODS[name]
    plugin = METHOD_PLUGINS.find(name)
    if plugin is None:
        expected = ", ".join((*METHODS, *METHOD_PLUGINS.names))
        raise UsageError(f"no method is called {name!r}", place="method", expected=expected)
    method = plugin()
    return replace(
        method, name=name, solve=guarded(method.solve, SearchResult, f"method {name!r} of {METHOD_PLUGINS.name}")
    )
