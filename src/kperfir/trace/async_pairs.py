"""Starts and ends of events: by CTA, name and id in the order of time, whatever warp wrote them."""

from __future__ import annotations

import numpy as np

from kperfir.trace.decode import I64, Flags


def event_partners(key: tuple[I64, ...], clock: I64, opens: Flags) -> tuple[I64, I64]:
    """Indices of starts and of their ends: of one key, each end has the oldest start before it that has none yet.

    Args:
        key: columns that both have in common. clock: of one CTA, so of one SM. opens: starts; at one
            moment they come before ends.
    """
    order = np.lexsort((~opens, clock, *key))
    opening = opens[order]
    group = _groups(tuple(column[order] for column in key))
    # within a group, an end at which fewer starts than ends have been has none; groups lie far below each other
    step = np.where(opening, 1, -1)
    total = np.cumsum(step)
    first = np.flatnonzero(np.diff(group, prepend=-1))
    height = total - (total - step)[first][group]
    floor = -group * (len(order) + 1)
    least = np.minimum.accumulate(np.minimum(height + floor, floor))
    before = np.minimum(np.append(0, least)[: len(order)], floor)
    ends = np.flatnonzero(~opening & (height + floor >= before))
    starts = np.flatnonzero(opening)
    return order[starts[_numbered(group, starts, ends)]], order[ends]


def _groups(columns: tuple[I64, ...]) -> I64:
    """Number of each entry's group, from 0, where equal entries lie together."""
    changes = [np.diff(column, prepend=column[:1]) != 0 for column in columns]
    found: I64 = np.cumsum(np.any(changes, axis=0)) if len(columns[0]) else columns[0]
    return found


def _numbered(group: I64, starts: I64, ends: I64) -> I64:
    """For the n-th end of a group the place of its n-th start."""
    first_start = np.searchsorted(group[starts], group[ends])
    first_end = np.searchsorted(group[ends], group[ends])
    found: I64 = first_start + np.arange(len(ends)) - first_end
    return found
