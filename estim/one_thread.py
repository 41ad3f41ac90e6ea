"""What one thread of a process may do at a time."""

import os
import threading
from collections.abc import Callable
from contextlib import ContextDecorator


class OneThread(ContextDecorator):
    """A block that one thread is in at a time, which may enter it again.

    A process forked while another thread is inside does not have that thread, which would never leave: it starts with
    nobody inside, and `undo` puts back what that thread had changed.
    """

    def __init__(self, undo: Callable[[], None]) -> None:
        self._lock, self._undo = threading.RLock(), undo
        if hasattr(os, "register_at_fork"):  # there are no forks on Windows
            os.register_at_fork(after_in_child=self._start_forked)

    def __enter__(self) -> None:
        """Wait until no other thread is inside."""
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        """Leave."""
        self._lock.release()

    def _start_forked(self) -> None:
        if self._lock.acquire(blocking=False):  # nobody is inside, or the thread that forked, which goes on
            self._lock.release()
            return
        self._lock = threading.RLock()
        self._undo()
