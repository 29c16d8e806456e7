"""Stop signals, and output whose reader has disappeared."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator

Handler = Callable[[int, object], object]
# Ctrl-C, kill, a closed terminal, and Ctrl-\, which would end only envcheck and leave its children on the devices.
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
REPEAT_S = 0.01


@contextlib.contextmanager
def handle_signals(handler: Handler, numbers: tuple[signal.Signals, ...] = STOP_SIGNALS) -> Iterator[None]:
    """Handle these signals during the body, except ignored ones: nohup and a script's `&` ignore them on purpose."""
    try:
        heard = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
        before = {number: signal.signal(number, handler) for number in heard}
    except ValueError:  # not the main thread: a program uses envcheck as a library
        before = {}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


@contextlib.contextmanager
def defer_signals(
    numbers: tuple[signal.Signals, ...] = (signal.SIGINT, signal.SIGTERM),
) -> Iterator[Callable[[], None]]:
    """Defer signals until the body calls the yielded function, or ends; then the previous handlers receive them.

    For libraries that an exception in the middle of a step would leave in an inconsistent state, such as a descriptor
    closed twice.
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

    with handle_signals(lambda number, _frame: waiting.append(number), numbers):
        yield deliver
    deliver()


def raise_interrupt(number: int, frame: object) -> None:
    """Signal handler: raise KeyboardInterrupt like Ctrl-C, so that children are terminated and the state is written."""
    if number == signal.SIGHUP:
        silence_output()
    raise KeyboardInterrupt


def repeat_swallowed_signals() -> None:
    """Send a stop signal again if its exception was raised in a finalizer, where Python ignores exceptions."""
    usual = sys.unraisablehook

    def send_again(lost: sys.UnraisableHookArgs) -> None:
        number = _find_signal(lost.exc_value)
        if number is None:
            usual(lost)
        else:  # a little later: here the exception would be ignored as well
            threading.Timer(REPEAT_S, os.kill, (os.getpid(), number)).start()

    sys.unraisablehook = send_again


def _find_signal(raised: BaseException | None) -> signal.Signals | None:
    """Return the signal whose handler raised this, else None: a finalizer of a library may raise SystemExit, too."""
    if isinstance(raised, KeyboardInterrupt):
        return signal.SIGINT
    is_terminated = isinstance(raised, SystemExit) and raised.code == 128 + signal.SIGTERM
    return signal.SIGTERM if is_terminated else None


def silence_output() -> None:
    """Redirect further output to /dev/null: the terminal or the reader is gone, but the work must continue."""
    null = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stderr, sys.stdout):
        with contextlib.suppress(OSError, ValueError):  # no file behind it, as in a test
            if stream is sys.stderr or stream.isatty():
                os.dup2(null, stream.fileno())
    os.close(null)


@contextlib.contextmanager
def tolerate_lost_output() -> Iterator[None]:
    """Print in the body; if the reader is gone, silence all further output and continue."""
    try:
        yield
    except OSError:
        silence_output()
