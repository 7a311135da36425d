"""The effort that a search may spend: seconds until a deadline, or nodes."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

from onchip.answer.result import Stop
from onchip.search.budget.limits import Run


@dataclass(slots=True)
class Budget:
    """The seconds or nodes left of a run; a node is about one step of an exact search.

    Nodes are counted if the run has a node limit, or no time limit. The same seed and node limit then give the same
    answer, unless the deadline ends the search earlier.
    """

    run: Run
    nodes: float = field(default=0.0, init=False)

    @property
    def counts_nodes(self) -> bool:
        """True if effort is counted in nodes, not in seconds."""
        return self.run.limits.node_limit is not None or not self.run.deadline.is_set

    @property
    def nodes_left(self) -> float:
        """Number of nodes that may still be spent; infinite without a node limit."""
        limit = self.run.limits.node_limit
        return inf if limit is None else limit - self.nodes

    @property
    def is_limited(self) -> bool:
        """True if there is a node limit or a time limit."""
        return self.run.limits.node_limit is not None or self.run.deadline.is_set

    @property
    def spent(self) -> float:
        """Return the nodes spent, or the seconds since the deadline was set."""
        return self.nodes if self.counts_nodes else self.run.deadline.seconds

    @property
    def stop(self) -> Stop | None:
        """Reason why the search has to stop now, or None."""
        return self.run.stop or (Stop.NODE_LIMIT if self.nodes_left <= 0 else None)
