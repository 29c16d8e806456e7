"""Which version of a package the script meets: what it installs itself, else what the machine has."""

from __future__ import annotations

import re

from envcheck.core.lint.context import LintContext


def installed(context: LintContext, package: str) -> str | None:
    """A version that the script pins exactly, else that of the machine; None: nobody says."""
    for install in context.installs:
        for name, _, specifier, _ in install.packages:
            found = re.match(r"==\s*([\w.+!-]+)$", specifier)
            if name == package and found:
                return found[1]
    return context.machine.packages.get(package)


def wanted(context: LintContext, package: str) -> str | None:
    """What the script asks of a package: "" for any version; None where it installs none."""
    for install in context.installs:
        for name, _, specifier, _ in install.packages:
            if name == package:
                return specifier
    return None
