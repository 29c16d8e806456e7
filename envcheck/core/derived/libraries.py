"""Findings on whether libraries can be loaded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import (
    local_severity,
    ok,
    quote_values,
    report_unanswered,
    skipped_because,
    vendor_commands,
    warn_or_fail,
)
from envcheck.core.messages import _, join
from envcheck.core.model import Finding, Outcome, Status, diagnose

NOT_FOUND = "cannot open shared object file"


class LoadAttempt(Protocol):
    """The result of loading a library."""

    @property
    def loads(self) -> bool | None:
        """Whether it can be loaded; None if the child process crashed or hung."""

    @property
    def error(self) -> str:
        """The loader's message."""

    @property
    def path(self) -> str | None:
        """The documented path, if the library was only found there and not by name."""


def evaluate_libraries(
    facts: Facts, v: VendorFacts, attempts: Mapping[str, LoadAttempt] | None, names: tuple[str, ...]
) -> Finding:
    """Return the finding on those of `names` that were tried; `attempts` is None if none could be tried."""
    if attempts is None or not any(name in attempts for name in names):
        silent = v.tool is not None and v.tool.outcome is Outcome.ABSENT
        return (
            skipped_because("driver.tool")
            if silent and attempts is not None
            else report_unanswered(facts, "ask libraries")
        )
    found = {name: attempts[name] for name in names if name in attempts}
    bad = next((name for name, attempt in found.items() if attempt.loads is not True), None)
    if bad:
        return unloadable_library_finding(facts, v, bad, found[bad])
    by_path = [attempt.path for attempt in found.values() if attempt.path]
    names_found = join(", ", found)
    return ok(_("{libraries}, by path {path}", libraries=names_found, path=by_path[0]) if by_path else names_found)


def unloadable_library_finding(facts: Facts, v: VendorFacts, name: str, attempt: LoadAttempt) -> Finding:
    """Return the finding on a library that cannot be loaded. A library missing on a host may be in the image."""
    missing = NOT_FOUND in attempt.error and attempt.error.startswith(name)
    grade = local_severity(facts) if missing or name not in v.vendor.driver_libraries else Status.FAIL
    in_image = missing and v.vendor.images_have_libraries
    words = (
        _(
            "Add the libraries of {toolkit} to the library path, or use an image that contains {toolkit}.",
            toolkit=v.vendor.toolkit,
        )
        if in_image
        else _("Mount the driver folders into the container, or source the vendor's set_env.sh.")
        if missing
        else _(
            "Keep only one version of the driver and toolkit on the library path; the error names "
            "the incompatible library."
        )
    )
    path = vendor_commands(v, "toolkit") if in_image else ()
    commands = (*path, f"ldconfig -p | grep {name}", "echo $LD_LIBRARY_PATH")
    return warn_or_fail(
        grade,
        _("{name} cannot be loaded: {error}", name=name, error=attempt.error[:300]),
        diagnose(words, *commands),
        evidence=quote_values("dlopen", **{name: attempt.error}),
    )
