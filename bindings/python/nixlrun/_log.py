# SPDX-License-Identifier: Apache-2.0
"""The library's log lines, sent to the logging module."""

from __future__ import annotations

import atexit
import sys
import threading

from . import _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    import logging
    from typing import Optional

_LEVELS = (40, 30, 20, 10, 5)  # of logging: ERROR, WARNING, INFO, DEBUG, and trace below that
_lock = threading.Lock()
_thread: Optional[threading.Thread] = None


def _run(logger: logging.Logger) -> None:
    while True:
        lines = _core.log_wait()
        if lines is None:
            return
        for level, subsystem, text in lines:
            try:
                logger.getChild(subsystem).log(_LEVELS[level], "%s", text)
            except BaseException:  # of a filter or handler; later lines must have their chance
                threading.excepthook(
                    threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread()))
                )


def log_to(logger: Optional[logging.Logger]) -> None:
    """Send the library's log lines to a logger, instead of stderr; None: to stderr again.

    Each subsystem is a child of the logger, such as "nixlrun.shm". NIXLRUN_LOG decides which lines
    there are (by default warnings and errors), the logger which of them it passes on. A thread,
    which sleeps when there is nothing to log, takes them from a queue: the library never
    waits for a handler. What a filter or handler raises goes to threading.excepthook.
    """
    global _thread
    if logger is not None and not hasattr(logger, "getChild"):
        raise TypeError(f"logger must be a logging.Logger or None, not {type(logger).__name__}")
    with _lock:
        if _thread is not None:
            _core.log_stop()
            _thread.join()
            _thread = None
        if logger is not None:
            _core.log_start()
            _thread = threading.Thread(
                target=_run, args=(logger,), name="nixlrun-log", daemon=True
            )  # fmt: skip
            _thread.start()


def _stop_at_exit() -> None:
    if not _core.is_forked():
        log_to(None)


atexit.register(_stop_at_exit)
