"""Parameters of the schedule search."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ScheduleParams:
    """Effort of the joint search. Shares are of the time that is left when the part begins.

    Attributes
    ----------
    share_of_residencies
        Share for the residencies of a start. Small networks end far below it; in large ones groups matter more.
    share_of_plan
        Share for the plan from which a start is made.
    share_of_blocks
        Share for fused groups that grow by merging blocks of the network.
    share_of_counting
        Share of a group search for groups with counted tiles; the remainder composes those that are chosen.
    times_as_long
        Ratio of the time for full descents to a tiling to that for coarse ones.
    share_of_refining
        Share of the time left for better tilings of the chosen groups; the remainder composes them.
    reserved
        Shares of each memory that stay free when tiles are counted again, since those before found no offsets.
    times_as_counted
        Ratio of the price of a composed group to its counted price, up to which no smaller tiles are tried.
    repairs
        Repairs of chosen groups that do not fit, until they are given up.
    share_of_looks
        Share of a move of groups for the evaluation of options; the remainder composes schedules with them.
    compositions
        Compositions of the schedule for which time is left after the evaluation.
    least_gain
        Share of the latency. Equal layers that cannot gain this much together are not tried in tiles.
    most_tilings
        Tilings tried for an operator alone, those with the smallest lower bounds.
    times_as_many_pixels
        Factors by which strips have more pixels than the tiles of a known group.
    parts_of_a_row
        Parts of a row in the tiles of these strips.
    share_of_groups
        Share for the search of fused groups.
    share_of_others
        Share for the searches for the other objectives, whose answers are starts, too.
    share_of_move
        Share of each kind of move in a round, so that every kind has a turn.
    labels
        Sets of residents kept between two groups when all residencies are chosen at once; twice as many after each
        round in vain.
    rounds_in_vain
        Rounds without a better schedule after which the search ends. Perturbations differ from round to round.
    rounds_without_limit
        The same for a search without a time limit.
    most_stacks_to_reorder
        Stacks up to which all orders near the best one are tried: a trial composes the whole schedule again.
    most_tiles_to_merge
        Tiles of a group that comes from merging two stacks; each tile is composed.
    seconds_to_compose
        Processor seconds to compose a tile operator, until that is measured on the machine.
    times_with_offsets
        Ratio of the time to compose a schedule with offsets and figures to that without.
    times_to_finish
        Ratio of the time to price, verify and write a schedule to that for composing it once, about the same for all.
    operators_to_time
        Tile operators of a schedule from which its time tells the pace: a first composition does much else.

    """

    share_of_residencies: float = 0.3
    share_of_plan: float = 0.1
    share_of_blocks: float = 0.6
    share_of_counting: float = 0.7
    times_as_long: float = 4.0
    share_of_refining: float = 0.5
    reserved: tuple[float, ...] = (0.1, 0.3)
    times_as_counted: float = 1.05
    repairs: int = 16
    share_of_looks: float = 0.7
    compositions: float = 2.0
    least_gain: float = 0.001
    most_tilings: int = 4
    times_as_many_pixels: tuple[int, ...] = (16, 4)
    parts_of_a_row: tuple[int, ...] = (2, 1, 4)
    share_of_groups: float = 0.6
    share_of_others: float = 0.2
    share_of_move: float = 0.3
    labels: int = 8
    rounds_in_vain: int = 4
    rounds_without_limit: int = 2
    most_stacks_to_reorder: int = 24
    most_tiles_to_merge: int = 32
    seconds_to_compose: float = 0.00014
    times_with_offsets: float = 1.3
    times_to_finish: float = 2.0
    operators_to_time: int = 4_000
