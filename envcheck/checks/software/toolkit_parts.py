"""The toolkit's parts: libraries that load, packages of one release, kernels for the chip, Python's side of it."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.core.check import Check, of_vendor
from envcheck.core.derived.toolkit import in_force
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import (
    commands,
    figures,
    follows,
    graded,
    here,
    no_rule,
    not_told,
    ok,
    reading,
    skip,
    warn,
)
from envcheck.core.model import Finding
from probes.host import schemas
from probes.host.schemas import Paths


def copies(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """Each of the toolkit's libraries is on the library path once: two releases mix their symbols."""
    seen = schemas.loader(facts)
    names = {name for name, _ in v.vendor.libraries} | {"libruntime.so"}
    double = {name: paths for name, paths in seen.copies.items() if name in names and len(paths) > 1} if seen else {}
    if not v.vendor.libraries:
        yield no_rule(v, "libraries")
    elif facts.environment is None or seen is None:
        yield not_told(facts, "ask loader")
    elif len(in_force(facts, v)) > 1:
        yield follows("toolkit.single")
    elif double:
        name, paths = next(iter(double.items()))
        words = (
            "Keep one folder on the path: programs take a library from the first, and others that belong to the second."
        )
        shown = figures("LD_LIBRARY_PATH", first=paths[0], second=paths[1])
        yield graded(
            here(facts), f"{name} is in {', '.join(paths[:3])}", words, "echo $LD_LIBRARY_PATH", evidence=shown
        )
    elif "LD_LIBRARY_PATH" in facts.environment:
        yield ok("no library of the toolkit is on the path twice")
    else:
        yield skip("LD_LIBRARY_PATH is not set")


@reading(schemas.paths, "ask paths")
def paths(seen: Paths, facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The toolkit's folders that the environment names are there: an upgrade leaves the old names in profiles."""
    folder = v.vendor.toolkit_folder
    if not folder:
        yield no_rule(v, "folder of a toolkit")
        return
    named = [(name, path, there) for name, listed in seen.named.items() for path, there in listed.items()]
    mine = [(name, path, there) for name, path, there in named if path.startswith(folder)]
    gone = [(name, path) for name, path, there in mine if not there]
    if gone:
        words = "Open a new shell, and source the set_env.sh of the toolkit that is there."
        seen_words = ", ".join(f"{name} names {path}" for name, path in gone[:3])
        shown = figures("environment", **{gone[0][0]: gone[0][1]})
        yield warn(f"not there: {seen_words}", words, *commands(v, "toolkit"), evidence=shown)
    elif mine:
        yield ok(f"{len(mine)} paths of the environment are there")
    else:
        yield follows("toolkit.environment", "the environment names none")


CHECKS: tuple[Check, ...] = (
    of_vendor(
        "toolkit.copies",
        copies,
        reads="the folders of LD_LIBRARY_PATH",
        source="PaddleX#4749",
        rule="FAIL when it has two files of one library; WARN where containers can be started",
        fix="One folder of one release.",
    ),
    of_vendor(
        "toolkit.paths",
        paths,
        reads="ASCEND_HOME_PATH, LD_LIBRARY_PATH, PYTHONPATH and their like",
        source="llama.cpp#22784, gpustack#1101",
        rule="WARN when a folder of the toolkit's that they name is not there",
        fix="Source the set_env.sh that is there.",
    ),
)
