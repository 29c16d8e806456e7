"""`python -m envcheck`, and the installed command."""

import os
import signal

INTERRUPTED = 130  # envcheck.core.errors, which is not imported yet


def run() -> None:
    """Ctrl-C while the first libraries are read ends it without a word; there is nothing to clean up yet."""
    ours = callable(signal.getsignal(signal.SIGINT))  # of Python or envcheck.pyz; not ignored, as by nohup
    if ours:
        signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    from envcheck.cli.main import entry

    if ours:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        entry()
    finally:
        # Python remembers a Ctrl-C within a compiled text, as in dataclass(), until it runs the next such text; without
        # this one `python -m` would end by SIGINT instead of the exit code.
        exec("")


if __name__ == "__main__":
    run()
