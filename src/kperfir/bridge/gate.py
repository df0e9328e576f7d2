"""Lets launches in while a recording is open, and lets it close when none is inside."""

from __future__ import annotations

import os
import threading


class Gate:
    """Open from the start; once closed it stays so. A forked process has none of its parent's launches inside."""

    def __init__(self) -> None:
        self._closed = False
        self._own()

    def _own(self) -> None:
        """Belong to this process; a lock that another thread held at a fork is never given back."""
        self._process = os.getpid()
        self._changed = threading.Condition()
        self._inside = 0

    def _condition(self) -> threading.Condition:
        if os.getpid() != self._process:
            self._own()
        return self._changed

    def enter(self) -> bool:
        """Whether the caller is in; then it has to leave."""
        with self._condition():
            self._inside += not self._closed
            return not self._closed

    def leave(self) -> None:
        """Call once for each `enter` that let you in."""
        with self._condition():
            self._inside -= 1
            self._changed.notify_all()

    def close(self) -> None:
        """Let nobody in any more, and wait until those inside have left."""
        with self._condition():
            self._closed = True
            self._changed.wait_for(lambda: self._inside <= 0)  # below: one came in before the fork
