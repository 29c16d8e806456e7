"""__main__ of envcheck.pyz: begins envcheck, or says why it cannot.  Any Python must be able to read this file."""
# ruff: noqa: UP031

import os
import sys

MACHINES = ("x86_64", "aarch64")


def refusal():  # type: () -> str
    """One sentence, or "" where envcheck runs."""
    if not sys.platform.startswith("linux"):
        return "envcheck.pyz needs Linux; this is %s" % sys.platform
    if tuple(sys.version_info) < (3, 10):
        return "envcheck.pyz needs Python 3.10 or newer; this is Python %d.%d" % tuple(sys.version_info[:2])
    if os.uname()[4] not in MACHINES:
        return "envcheck.pyz needs a machine of type %s; this is %s" % (" or ".join(MACHINES), os.uname()[4])
    return ""


if __name__ == "__main__":
    if refusal():
        sys.stderr.write("envcheck: %s\n" % refusal())
        sys.exit(2)
    from envcheck.payload import unpack

    unpack.start(sys.path[0])
