"""__main__ of envcheck.pyz: starts envcheck, or prints why it cannot.  Every Python version must be able to parse this
file."""
# ruff: noqa: UP031

import os
import signal
import sys

INTERRUPTED = 130  # envcheck.core.errors
MACHINES = ("x86_64", "aarch64")


def find_obstacle():  # type: () -> tuple[str, str]
    """Return (error, next step); both empty if envcheck can run."""
    if not sys.platform.startswith("linux"):
        return "envcheck.pyz requires Linux; this is %s" % sys.platform, "run it on Linux"
    if tuple(sys.version_info) < (3, 10):
        here = "%d.%d" % tuple(sys.version_info[:2])
        return (
            "envcheck.pyz requires Python 3.10 or newer; this is Python " + here,
            "run it with another interpreter: python3.11 envcheck.pyz",
        )
    if os.uname()[4] not in MACHINES:
        known = " or ".join(MACHINES)
        return "envcheck.pyz requires %s; this host is %s" % (known, os.uname()[4]), "run it on one of these"
    return "", ""


def exit_silently(*_):  # type: (object) -> None
    """Handle Ctrl-C while envcheck is unpacked and read: what is half unpacked is removed on the way out."""
    sys.exit(INTERRUPTED)


if __name__ == "__main__":
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not ignored, as by nohup
        signal.signal(signal.SIGINT, exit_silently)
    message, next_step = find_obstacle()
    if message:
        from envcheck.payload.refusal import exit_with_refusal

        exit_with_refusal(message, next_step)
    from envcheck.payload import unpack

    unpack.start_envcheck(sys.path[0])
