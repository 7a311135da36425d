"""A run within a run: what a stage tells of another question is not taken for what was asked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from onchip.search.budget.clock import Deadline
from onchip.search.budget.limits import Limits, Run
from onchip.search.strategy.start import RunStarter


def without_bound(run: Run) -> Run:
    """Return the same run for a stage whose answers are answers, while its bound is that of fewer of them."""
    return replace(run, listener=lambda heard: run.listener(replace(heard, lower_bound=0)))


def with_bound(run: Run, least: int) -> Run:
    """Return the same run for a stage of which nothing is below that value."""
    return replace(run, listener=lambda heard: run.listener(replace(heard, lower_bound=max(heard.lower_bound, least))))


def without_figures(run: Run) -> Run:
    """Return the same run for a stage that answers another question: only its phase is told."""
    return replace(run, listener=lambda heard: run.listener(replace(heard, best=None, lower_bound=0)))


def of_one_worker(run: Run) -> Run:
    """Return the same run for a stage that has one worker: CP-SAT then bounds by all of its linear relaxation."""
    return replace(run, limits=replace(run.limits, workers=1))


def started_as_stage(start: RunStarter) -> RunStarter:
    """Return what starts runs of which only the phase is told."""

    @contextmanager
    def started(limits: Limits, deadline: Deadline) -> Iterator[Run]:
        with start(limits, deadline) as run:
            yield without_figures(run)

    return started
