"""`python -m streaming.cli`, and the script `dlx` of the package: start, and run the command line.

Nothing has happened yet while the modules load, so Ctrl-C just ends the process then. A stream that
the shell has closed is opened on nothing: the next file or connection would take its number.
"""

import os
import signal
import sys


def start() -> None:
    """Run the command line and exit; never returns."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))
    interrupt = signal.getsignal(signal.SIGINT)
    if interrupt is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from streaming.cli.main import main

    signal.signal(signal.SIGINT, interrupt)
    main()


if __name__ == "__main__":
    start()
