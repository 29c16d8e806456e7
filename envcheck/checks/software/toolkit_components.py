"""Checks of the toolkit's libraries and paths."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.core.check import Check, vendor_check
from envcheck.core.derived.toolkit_path import find_active_toolkits
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import (
    local_severity,
    ok,
    quote_values,
    report_missing_rule,
    report_unanswered,
    requires_fact,
    skip,
    skipped_because,
    vendor_commands,
    warn,
    warn_or_fail,
)
from envcheck.core.messages import _, join
from envcheck.core.model import Finding, fix
from probes.host import schemas
from probes.host.schemas import PathStates


def check_copies(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The library path contains each toolkit library once; two releases mix their symbols."""
    seen = schemas.read_loader(facts)
    names = {name for name, _unused in v.vendor.libraries} | {"libruntime.so"}
    double = {name: paths for name, paths in seen.copies.items() if name in names and len(paths) > 1} if seen else {}
    if not v.vendor.libraries:
        yield report_missing_rule(v, "libraries")
    elif facts.environment is None or seen is None:
        yield report_unanswered(facts, "ask loader")
    elif len(find_active_toolkits(facts, v)) > 1:
        yield skipped_because("toolkit.single")
    elif double:
        name, paths = next(iter(double.items()))
        words = _("Keep only one toolkit on the library path: programs otherwise mix libraries of both.")
        shown = quote_values("LD_LIBRARY_PATH", first=paths[0], second=paths[1])
        yield warn_or_fail(
            local_severity(facts),
            _("{name} is in {paths}", name=name, paths=join(", ", paths[:3])),
            fix(words, "unset LD_LIBRARY_PATH", *vendor_commands(v, "toolkit")),
            evidence=shown,
        )
    elif "LD_LIBRARY_PATH" in facts.environment:
        yield ok(_("no toolkit library is on the library path twice"))
    else:
        yield skip(_("LD_LIBRARY_PATH is not set"))


@requires_fact(schemas.read_paths, "ask paths")
def check_paths(seen: PathStates, facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The toolkit directories in environment variables exist; after an upgrade, profiles often keep old paths."""
    folder = v.vendor.toolkit_folder
    if not folder:
        yield report_missing_rule(v, _("toolkit folder"))
        return
    named = [(name, path, there) for name, listed in seen.named.items() for path, there in listed.items()]
    mine = [(name, path, there) for name, path, there in named if path.startswith(folder)]
    gone = [(name, path) for name, path, there in mine if not there]
    if gone:
        words = _("Open a new shell, and source the set_env.sh of the installed toolkit.")
        listed = join(", ", [_("{path} in {name}", name=name, path=path) for name, path in gone[:3]])
        shown = quote_values("environment", **{gone[0][0]: gone[0][1]})
        yield warn(
            _("folder does not exist: {listed}", listed=listed),
            fix(words, *vendor_commands(v, "toolkit")),
            evidence=shown,
        )
    elif mine:
        yield ok(_("{mine_count} toolkit paths in the environment exist", mine_count=len(mine)))
    else:
        yield skipped_because("toolkit.environment", _("the environment contains no toolkit path"))


CHECKS: tuple[Check, ...] = (
    vendor_check(
        "toolkit.copies",
        check_copies,
        reads="directories in LD_LIBRARY_PATH",
        source="PaddleX#4749",
        rule="FAIL if a library is found twice; WARN on hosts that run jobs in containers",
        fix="Keep the directories of one release.",
    ),
    vendor_check(
        "toolkit.paths",
        check_paths,
        reads="ASCEND_HOME_PATH, LD_LIBRARY_PATH, PYTHONPATH and similar",
        source="llama.cpp#22784, gpustack#1101",
        rule="WARN if a toolkit directory in them does not exist",
        fix="Source the set_env.sh of the installed toolkit.",
    ),
)
