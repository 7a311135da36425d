"""COSMA's tables on the terminal."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence

from cosma.published import (
    HUMAN_DESIGNED,
    HUMAN_DESIGNED_MEAN_SECONDS,
    MEAN_REDUCTION_HUMAN_DESIGNED,
    MEAN_REDUCTION_NAS,
)
from cosma.rows import RIVALS, PeakRow, RivalRow, Row, mean

from onchip.api.budgets import CapacityBudget


def _clear_progress() -> None:
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def print_rows(rows: Sequence[Row]) -> None:
    """Print one line per planned problem."""
    _clear_progress()
    if rows:
        print(
            "network                   grain count        ops at       capacity order    method status"
            "       objective       bound   gap seconds  COSMA"
        )
    for row in rows:
        objective = "-" if row.objective_bytes is None else f"{row.objective_bytes:,}"
        gap = "-" if row.gap is None else f"{row.gap:.1%}"
        cosma = "" if row.cosma_seconds is None else f"{row.cosma_seconds:6.1f}"
        print(
            f"{row.network:25} {row.granularity:5} {row.count:11} {row.operators:4} {row.budget:4} "
            f"{row.capacity_bytes:12,} {row.order:8} {row.method:6} {row.status:9} {objective:>12} "
            f"{row.bound_bytes:11,} {gap:>5} {row.seconds:7.3f} {cosma:6} {'' if row.is_met else 'NOT MET'}",
            flush=True,
        )


def print_summary(section: str, rows: Sequence[Row]) -> None:
    """Print how many are proven, the times and the gaps."""
    if not rows:
        return
    proven = sum(row.status == "OPTIMAL" for row in rows)
    seconds = [row.seconds for row in rows]
    gaps = [row.gap for row in rows if row.gap is not None]
    print(
        f"{section}: {proven} of {len(rows)} OPTIMAL; seconds mean {statistics.mean(seconds):.3f}, "
        f"greatest {max(seconds):.3f}; "
        + (f"gap median {statistics.median(gaps):.1%}, greatest {max(gaps):.1%}" if gaps else "no plan")
    )
    if section == "human":
        print(f"COSMA: {HUMAN_DESIGNED_MEAN_SECONDS} s in the mean (nine of the ten), 17.2 s at most")


def print_anytime(rows: Sequence[Row]) -> None:
    """Print how far a row stopped early is from the best value known of the same case."""
    by_case: dict[tuple[str, str, str, int], list[int]] = {}
    for row in rows:
        if row.objective_bytes is not None:
            key = (row.network, row.granularity, row.count, row.capacity_bytes)
            by_case.setdefault(key, []).append(row.objective_bytes)
    worst = max(
        ((max(values) / min(values) - 1 if min(values) else float(max(values) > 0)), key[0])
        for key, values in by_case.items()
    )
    print(f"stopped early, the farthest from the best known: {worst[0]:.1%} ({worst[1]})")


def print_peaks(rows: Sequence[PeakRow]) -> None:
    """Print M_R and M_P."""
    _clear_progress()
    if rows:
        print("network                   grain          M_R          M_P        bound seconds")
    for row in rows:
        peak = "-" if row.min_peak_bytes is None else f"{row.min_peak_bytes:,}"
        print(
            f"{row.network:25} {row.granularity:5} {row.required_bytes:12,} {peak:>12} {row.lower_bound:12,} "
            f"{row.seconds:7.3f}"
        )
    if rows:
        print(f"{sum(row.min_peak_bytes is not None for row in rows)} of {len(rows)} proven")


def print_rivals(rows: Sequence[RivalRow]) -> None:
    """Print each rival's bytes next to the optimum, then the means per rival."""
    _clear_progress()
    if not rows:
        return
    print(
        "network                   grain count       at   order    rival         bytes      optimum  saved"
        "     by order  by eviction  by address as published  saved"
    )
    for row in rows:
        saved = "-" if row.reduction is None else f"{row.reduction:.1%}"
        published = "-" if row.published_reduction is None else f"{row.published_reduction:.1%}"
        order, eviction, fragmentation = row.shares
        print(
            f"{row.network:25} {row.granularity:5} {row.count:11} {row.budget:4} {row.order:8} {row.rival:6} "
            f"{row.rival_bytes:12,} {row.optimum:12,} {saved:>6} {order:12,} {eviction:12,} {fragmentation:11,} "
            f"{row.published_bytes:12,} {published:>6} "
            f"{'' if row.is_proven else 'not proven'}"
        )
    is_human_designed = rows[0].network in HUMAN_DESIGNED
    paper = MEAN_REDUCTION_HUMAN_DESIGNED if is_human_designed else MEAN_REDUCTION_NAS
    for collapse, words in ((False, "M_R < M_P"), (True, "M_R = M_P")):
        _print_means([row for row in rows if row.budgets_collapse is collapse], words, paper)
    _print_as_published(rows, paper)


def _print_means(rows: Sequence[RivalRow], words: str, published: float) -> None:
    for policy, order in RIVALS:
        of_rival = [row for row in rows if (row.rival, row.order) == (policy, order)]
        some = [row for row in of_rival if row.rival_bytes]
        _print_mean(f"{policy}, {order} order, networks with {words}", some, len(of_rival), published)
    _print_mean(f"all four, networks with {words}", [row for row in rows if row.rival_bytes], len(rows), published)


def _print_as_published(rows: Sequence[RivalRow], paper: float) -> None:
    """Print means as in the paper: its rivals at their published strength, at every budget and at M_R alone."""
    for words, some in (("all budgets", rows), ("M_R", [row for row in rows if row.budget == CapacityBudget.M_R])):
        reductions = [row.published_reduction for row in some if row.published_reduction is not None]
        told = mean(reductions)
        if told is not None:
            print(
                f"as published, {words}: {told:.1%} less in the mean of {len(reductions)} of {len(some)} cases where "
                f"it moves something, never more: {all(row.published_bytes >= row.optimum for row in some)}; "
                f"paper: {paper:.0%}"
            )


def _print_mean(what: str, some: Sequence[RivalRow], of: int, published: float) -> None:
    reduction = mean([row.reduction for row in some if row.reduction is not None])
    if reduction is None:
        print(f"{what}: the rival moves nothing in all {of} cases")
        return
    parts = [mean([row.shares[k] / row.rival_bytes for row in some]) or 0.0 for k in range(3)]
    print(
        f"{what}: {reduction:.1%} less in the mean of {len(some)} of {of} cases where it moves something "
        f"(order {parts[0]:.1%}, eviction {parts[1]:.1%}, addresses {parts[2]:.1%}); paper: {published:.0%}"
    )
