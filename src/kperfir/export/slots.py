"""Places of CTAs on one SM, as a timeline shows them."""

from __future__ import annotations


class Slots:
    """Gives every CTA the lowest slot that no earlier one holds while it runs."""

    def __init__(self) -> None:
        self._free_from_ns: list[int] = []

    def take(self, start_ns: int, end_ns: int) -> int:
        """Slot of a CTA that runs from `start_ns` to `end_ns`; CTAs come by start within a launch."""
        for slot, free_ns in enumerate(self._free_from_ns):
            if free_ns <= start_ns:
                self._free_from_ns[slot] = end_ns
                return slot
        self._free_from_ns.append(end_ns)
        return len(self._free_from_ns) - 1
