"""Which version of a package the script uses: the one that it installs, otherwise that of the machine."""

from __future__ import annotations

import re

from envcheck.core.lint.context import LintContext


def find_installed_version(context: LintContext, package: str) -> str | None:
    """Return the version that the script pins exactly, otherwise that of the machine; None if unknown."""
    for install in context.installs:
        for name, _, specifier, _ in install.packages:
            found = re.match(r"==\s*([\w.+!-]+)$", specifier)
            if name == package and found:
                return found[1]
    return context.machine.packages.get(package)
