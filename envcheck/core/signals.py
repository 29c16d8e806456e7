"""Being asked to stop by a signal, and going on where nobody listens any more."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator

Handler = Callable[[int, object], object]
# Ctrl-C, a polite kill, a closed terminal, and Ctrl-\, which would end us alone and leave the others on the cards.
ASKING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


@contextlib.contextmanager
def heard_by(handler: Handler, numbers: tuple[signal.Signals, ...] = ASKING) -> Iterator[None]:
    """`handler` gets these signals meanwhile, but for those that are ignored: nohup, or a script's `&`, means it."""
    try:
        heard = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
        before = {number: signal.signal(number, handler) for number in heard}
    except ValueError:  # not the main thread: a program that uses us as a library
        before = {}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


@contextlib.contextmanager
def held(numbers: tuple[signal.Signals, ...] = (signal.SIGINT, signal.SIGTERM)) -> Iterator[Callable[[], None]]:
    """Signals wait until the body calls what it gets, at a point of its own choice: then they do what they did before.

    For libraries that an exception in the middle of a step leaves half undone, as a closed descriptor closed again.
    """
    waiting: list[int] = []
    usual = {number: signal.getsignal(number) for number in numbers}

    def deliver() -> None:
        while waiting:
            number = waiting.pop(0)
            then = usual[signal.Signals(number)]
            if callable(then):
                then(number, None)
            else:
                signal.signal(number, then or signal.SIG_DFL)
                os.kill(os.getpid(), number)

    with heard_by(lambda number, _frame: waiting.append(number), numbers):
        yield deliver
    deliver()


def interrupt(number: int, frame: object) -> None:
    """A handler: end as Ctrl-C does, so that children are ended and what was begun is written down."""
    if number == signal.SIGHUP:
        mute()
    raise KeyboardInterrupt


def mute() -> None:
    """What is said from now on goes nowhere: the terminal, or whoever read us, is gone, and the work is not over."""
    null = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stderr, sys.stdout):
        with contextlib.suppress(OSError, ValueError):  # no file behind it, as in a test
            if stream is sys.stderr or stream.isatty():
                os.dup2(null, stream.fileno())
    os.close(null)


@contextlib.contextmanager
def unheard() -> Iterator[None]:
    """Words that may fail to reach anybody: then there are no more of them, and nothing else happens."""
    try:
        yield
    except OSError:
        mute()
