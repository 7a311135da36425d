"""Runs of stages, whose figures must not be reported as those of the whole question."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from onchip.search.budget.clock import Deadline
from onchip.search.budget.limits import Limits, Run
from onchip.search.strategy.start import RunStarter


def without_bound(run: Run) -> Run:
    """Return the same run for a stage over a subset of the answers: its answers are valid, its bound is not."""
    return replace(run, listener=lambda heard: run.listener(replace(heard, lower_bound=0)))


def with_bound(run: Run, least: int) -> Run:
    """Return the same run for a stage, with `least` as a lower bound on all of its values."""
    return replace(run, listener=lambda heard: run.listener(replace(heard, lower_bound=max(heard.lower_bound, least))))


def without_figures(run: Run) -> Run:
    """Return the same run for a stage of a different question: only its phase is reported."""
    return replace(run, listener=lambda heard: run.listener(replace(heard, best=None, lower_bound=0)))


def of_one_worker(run: Run) -> Run:
    """Return the same run with one worker; CP-SAT then bounds by its full linear relaxation."""
    return replace(run, limits=replace(run.limits, workers=1))


def started_as_stage(start: RunStarter) -> RunStarter:
    """Return a starter of runs that report only their phase."""

    @contextmanager
    def started(limits: Limits, deadline: Deadline) -> Iterator[Run]:
        with start(limits, deadline) as run:
            yield without_figures(run)

    return started
