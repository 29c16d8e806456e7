"""__main__ of envcheck.pyz: begins envcheck, or says why it cannot.  Any Python must be able to read this file."""
# ruff: noqa: UP031

import os
import sys

MACHINES = ("x86_64", "aarch64")


def refusal():  # type: () -> tuple[str, str]
    """One sentence and what to do; empty where envcheck runs."""
    if not sys.platform.startswith("linux"):
        return "envcheck.pyz needs Linux; this is %s" % sys.platform, "use it on Linux"
    if tuple(sys.version_info) < (3, 10):
        here = "%d.%d" % tuple(sys.version_info[:2])
        return (
            "envcheck.pyz needs Python 3.10 or newer; this is Python " + here,
            "run it with another: python3.11 envcheck.pyz",
        )
    if os.uname()[4] not in MACHINES:
        known = " or ".join(MACHINES)
        return "envcheck.pyz needs a machine of type %s; this is %s" % (known, os.uname()[4]), "use it on one of these"
    return "", ""


if __name__ == "__main__":
    message, next_step = refusal()
    if message:
        from envcheck.payload.refusal import refuse

        refuse(message, next_step)
    from envcheck.payload import unpack

    unpack.start(sys.path[0])
