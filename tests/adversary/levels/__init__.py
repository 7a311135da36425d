"""The levels that the adversary looks at, one a file; a new one is added to LEVELS."""

from __future__ import annotations

from typing import Final

from adversary.frame import Level
from adversary.levels.arena import ArenaLevel
from adversary.levels.audit import AuditLevel
from adversary.levels.baselines import BaselinesLevel
from adversary.levels.fuse import FuseLevel
from adversary.levels.latency import LatencyLevel
from adversary.levels.map import MapLevel
from adversary.levels.map_limits import MapLimitsLevel
from adversary.levels.mutants import MutantsLevel
from adversary.levels.pack import PackFixedLevel, PackLevel
from adversary.levels.plan import PlanLevel
from adversary.levels.recompute import RecomputeLevel
from adversary.levels.schedule import ScheduleLevel
from adversary.levels.scratchpads import ScratchpadsLevel
from adversary.levels.share import SHARE
from adversary.levels.state import STATE
from adversary.levels.tiles import TilesLevel

LEVELS: Final[tuple[Level, ...]] = (
    PackLevel(),
    PackFixedLevel(),
    ArenaLevel(),
    MutantsLevel(),
    PlanLevel(),
    RecomputeLevel(),
    SHARE,
    STATE,
    BaselinesLevel(),
    MapLevel(),
    MapLimitsLevel(),
    FuseLevel(),
    ScratchpadsLevel(),
    LatencyLevel(),
    TilesLevel(),
    AuditLevel(),
    ScheduleLevel(),
)
