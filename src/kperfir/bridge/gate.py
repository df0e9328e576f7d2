"""Lets launches in while a recording is in place, and lets it step aside when none is inside."""

from __future__ import annotations

import os
import threading
from collections import Counter


class Gate:
    """Closed until it is opened. A forked process has none of its parent's launches inside."""

    def __init__(self) -> None:
        self._is_open = False
        self._own()

    def _own(self) -> None:
        """Belong to this process; a lock that another thread held at a fork is never given back."""
        self._process = os.getpid()
        self._changed = threading.Condition()
        self._inside: Counter[int] = Counter()  # by thread

    def _condition(self) -> threading.Condition:
        if os.getpid() != self._process:
            self._own()
        return self._changed

    def enter(self) -> bool:
        """Whether the caller is in; then it has to leave."""
        with self._condition():
            self._inside[threading.get_ident()] += self._is_open
            return self._is_open

    def leave(self) -> None:
        """Call once for each `enter` that let you in."""
        with self._condition():
            self._inside[threading.get_ident()] -= 1
            self._changed.notify_all()

    def open(self) -> None:
        """Let launches in."""
        with self._condition():
            self._is_open = True

    def close(self) -> None:
        """Let nobody in any more, and wait until those of other threads have left.

        The thread that closes it may be inside itself, in a hook of a launch, and cannot wait for that.
        """
        own = threading.get_ident()
        with self._condition():
            self._is_open = False
            self._changed.wait_for(lambda: all(n <= 0 for thread, n in self._inside.items() if thread != own))
