"""How long the transfers of the chain so far make ports wait, and how long the first and last of them take.

What `cost.layer_latency` counts, of a chain of tiles whose lower places may still be open: then it is the least.
"""

from __future__ import annotations

import numpy as np

from onchip.cost.layer.tables import Machine
from onchip.solve.mapping.exact.compiled import OUTPUT, READ_FOR_BELOW, WRITE_FROM_ABOVE, compiled, inlined
from onchip.solve.mapping.exact.room import DescentState
from onchip.solve.mapping.exact.tables import Space
from onchip.solve.mapping.exact.work import Work


@compiled
def account(space: Space, machine: Machine, w: Work, room: DescentState, place: int) -> None:
    """Of the units and the levels whose tiles stand at `place`, the lowest that is filled, or above."""
    room.alone[:] = 0.0
    room.busy[:] = 0.0
    room.first[:] = 0.0
    room.chained[:] = 0.0
    room.is_always_open[:] = False
    last = w.tiles[0] - 1
    for operand in range(3):
        for move in range(4):
            port, busy = w.port[operand, 0, move], w.unit_busy[operand, move]
            if port >= 0 and busy > 0:
                is_return = operand == OUTPUT and move == READ_FOR_BELOW
                times = w.volume[last] - (w.relevant[OUTPUT, last] if is_return else 0.0)
                room.alone[port] += max(busy - 1.0, 0.0) * times
                room.busy[port] += busy * times
                room.is_always_open[port] |= times > 0
        for level in range(max(place - 1, 0), w.fits.shape[0]):
            if space.holds[operand, level]:
                add_level(w, room, operand, level, window_of(machine, w, room, operand, level, place))


@inlined
def add_level(w: Work, room: DescentState, operand: int, level: int, window: float) -> None:
    """What the boundary above a level adds."""
    tile, last, slowest = room.cut[operand, level], w.tiles[0] - 1, 0.0
    episodes = w.volume[last] / w.volume[tile]
    returned = episodes - w.relevant[operand, last] / w.relevant[operand, tile]
    for move in range(4):
        port, busy = w.port[operand, level + 1, move], w.busy[operand, level, move, tile]
        if port < 0:
            continue
        is_return = operand == OUTPUT and move in (READ_FOR_BELOW, WRITE_FROM_ABOVE)
        times = returned if is_return else episodes - 1.0
        room.alone[port] += max(busy - window, 0.0) * times
        room.busy[port] += busy * times
        if not is_return:
            slowest = max(slowest, busy)
            room.first[port] += busy if operand != OUTPUT else 0.0
    room.chained[operand] += slowest


@inlined
def window_of(machine: Machine, w: Work, room: DescentState, operand: int, level: int, filled: int) -> float:
    """Of a tile's period the cycles in which the next may come; where loops are open, as if they left it wide."""
    if machine.double_buffered[level]:
        return float(w.volume[room.cut[operand, level]])
    window = w.volume[room.tile[level + 1]]
    for place in range(level, filled - 1, -1):
        lower, upper = room.tile[place], room.tile[place + 1]
        if lower == upper:
            continue
        if room.outer[place] != operand:
            break
        window /= w.of_class[operand, upper] / w.of_class[operand, lower]
        if lower - w.part[operand, lower] + w.part[operand, upper] != upper:
            break
    return float(window)


@compiled
def stall(space: Space, machine: Machine, w: Work, room: DescentState, place: int) -> float:
    """Of the port that waits longest; exact for the ports that serve no boundary further down."""
    loops, longest = w.volume[w.tiles[0] - 1], 0.0
    for port in range(room.alone.size):
        longest = max(longest, room.alone[port])
    for port in range(room.alone.size):
        if room.busy[port] > longest:
            covered = loops
            if not room.is_always_open[port] and room.lowest[port] >= place - 1:
                covered = float(covered_cycles(space, machine, w, room, port, place))
            longest = max(longest, room.busy[port] - covered)
    return longest


@compiled
def covered_cycles(space: Space, machine: Machine, w: Work, room: DescentState, port: int, place: int) -> int:
    """In the window of at least one transfer of a port that does not serve the units."""
    count = list_windows(space, machine, w, room, port, place)
    if count and room.period[0] == 1:
        return int(w.volume[w.tiles[0] - 1])
    room.whole[0] = 0
    for one in range(count):
        room.whole[one + 1] = covered(room, one + 1, room.period[one])
    total, cycles = 0, np.int64(w.volume[w.tiles[0] - 1])
    for one in range(count - 1, -1, -1):
        total += room.whole[one + 1] * (cycles // room.period[one] - 1)
        cycles = room.period[one]
    return int(total)


@compiled
def list_windows(space: Space, machine: Machine, w: Work, room: DescentState, port: int, place: int) -> int:
    """Of what comes more than once, ascending by period and window."""
    count, last = 0, w.tiles[0] - 1
    for operand in range(3):
        for level in range(max(place - 1, 0), w.fits.shape[0]):
            tile = room.cut[operand, level]
            if not space.holds[operand, level] or w.volume[tile] == w.volume[last]:
                continue
            if not uses(w, port, operand, level, tile):
                continue
            period = np.int64(w.volume[tile])
            window = np.int64(window_of(machine, w, room, operand, level, place))
            at = count
            while at and (room.period[at - 1], room.span[at - 1]) > (period, window):
                room.period[at], room.span[at] = room.period[at - 1], room.span[at - 1]
                at -= 1
            room.period[at], room.span[at] = period, window
            count += 1
    return count


@inlined
def uses(w: Work, port: int, operand: int, level: int, tile: int) -> bool:
    """Whether tiles that come again need the port."""
    last = w.tiles[0] - 1
    has_returns = w.volume[last] / w.volume[tile] > w.relevant[operand, last] / w.relevant[operand, tile]
    for move in range(4):
        is_return = operand == OUTPUT and move in (READ_FOR_BELOW, WRITE_FROM_ABOVE)
        is_used = w.port[operand, level + 1, move] == port and w.busy[operand, level, move, tile] > 0
        if is_used and (has_returns or not is_return):
            return True
    return False


@inlined
def covered(room: DescentState, count: int, cycles: int) -> int:
    """In the first `cycles` of a period of visit `count - 1`, by it and those with shorter periods."""
    total = 0
    while count and cycles:
        before = min(cycles, room.period[count - 1] - room.span[count - 1])
        total += cycles - before
        count -= 1
        if count:
            total += room.whole[count] * (before // room.period[count - 1])
            cycles = before % room.period[count - 1]
    return total
