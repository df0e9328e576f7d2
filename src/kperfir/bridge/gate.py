"""Lets launches in while a recording is open, and lets it close when none is inside."""

from __future__ import annotations

import threading


class Gate:
    """Open from the start; once closed it stays so."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0
        self._closed = False

    def enter(self) -> bool:
        """Whether the caller is in; then it has to leave."""
        with self._changed:
            self._inside += not self._closed
            return not self._closed

    def leave(self) -> None:
        """Call once for each `enter` that let you in."""
        with self._changed:
            self._inside -= 1
            self._changed.notify_all()

    def close(self) -> None:
        """Let nobody in any more, and wait until those inside have left."""
        with self._changed:
            self._closed = True
            self._changed.wait_for(lambda: self._inside == 0)
