"""Lets Ctrl-C end a query of DuckDB.

DuckDB looks for signals only between the parts of a query that its first thread computes. While
that thread waits for the others, it does not look, and Python cannot run a handler. So another
thread hears of the signal and interrupts the query; Python's handler runs once the query has ended.
"""

import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_TRIES: Final = 10
_PAUSE_S: Final = 0.1


@contextmanager
def interruptible(connection: "DuckDBPyConnection") -> Iterator[None]:
    """Let SIGINT end the queries of a connection; without effect outside the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    hearing, heard = socket.socketpair()
    heard.setblocking(False)
    ended = threading.Event()

    def listen() -> None:
        while numbers := hearing.recv(1):
            if numbers[0] != signal.SIGINT:
                continue
            for _ in range(_TRIES):  # a query that has just begun forgets an interrupt
                connection.interrupt()
                if ended.wait(_PAUSE_S):
                    return

    before = signal.set_wakeup_fd(heard.fileno(), warn_on_full_buffer=False)
    listener = threading.Thread(target=listen, name="interrupts", daemon=True)
    listener.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        ended.set()
        heard.close()
        listener.join()
        hearing.close()
