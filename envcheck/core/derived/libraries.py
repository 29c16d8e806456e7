"""Whether libraries can be loaded, as findings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import figures, follows, graded, here, not_told, ok
from envcheck.core.model import Finding, Outcome, Status

NOT_FOUND = "cannot open shared object file"


class Loaded(Protocol):
    """How it went to load a library: `error` is the loader's words, `path` where it was found when not by name."""

    @property
    def loads(self) -> bool | None: ...
    @property
    def error(self) -> str: ...
    @property
    def path(self) -> str | None: ...


def judge_libraries(facts: Facts, v: VendorFacts, said: Mapping[str, Loaded] | None, names: tuple[str, ...]) -> Finding:
    """Whether those of `names` that were tried can be loaded; `said` is None where none could be tried."""
    if said is None or not any(name in said for name in names):
        silent = v.tool is not None and v.tool.outcome is Outcome.ABSENT
        return follows("driver.tool") if silent and said is not None else not_told(facts, "ask libraries")
    found = {name: said[name] for name in names if name in said}
    bad = next((name for name, one in found.items() if one.loads is not True), None)
    if bad:
        return unloadable(facts, v, bad, found[bad])
    by_path = [one.path for one in found.values() if one.path]
    return ok(f"{', '.join(found)}{f', by its path {by_path[0]}' if by_path else ''}")


def unloadable(facts: Facts, v: VendorFacts, name: str, one: Loaded) -> Finding:
    """A library that is missing on a host may be one that images bring."""
    missing = NOT_FOUND in one.error and one.error.startswith(name)
    grade = here(facts) if missing or name not in v.vendor.driver_libraries else Status.FAIL
    words = (
        "Mount the driver's folders into the container, or source the vendor's set_env.sh."
        if missing
        else "Keep one version of driver and toolkit on the library path; the loader names what does not fit."
    )
    fix = (f"ldconfig -p | grep {name}", "echo $LD_LIBRARY_PATH")
    return graded(
        grade,
        f"{name} cannot be loaded: {one.error}"[:300],
        words,
        *fix,
        evidence=figures("dlopen", **{name: one.error}),
    )
