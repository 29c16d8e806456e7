"""The vendor's toolkit: there, one tree, in force, and of a version that the driver carries."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.checks.software import compatibility
from envcheck.core import versions
from envcheck.core.check import ILUVATAR, NPU, Check, of_vendor
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import (
    commands,
    fail,
    figures,
    follows,
    in_container,
    not_told,
    nothing,
    ok,
    quote,
    skip,
    told_by,
    unknown,
    warn,
)
from envcheck.core.installed_versions import toolkit_trees, toolkit_version
from envcheck.core.key_value import driver_version
from envcheck.core.model import Answer, Finding, Outcome

TREES = {
    "npu": ("list /usr/local/Ascend/ascend-toolkit/[0-9]*", "list /usr/local/Ascend/cann-[0-9]*"),
    "iluvatar": ("list /usr/local/corex*",),
}
SET_ENV = "list /usr/local/Ascend/ascend-toolkit/set_env.sh"
ATB_SET_ENV = "list /usr/local/Ascend/nnal/atb/set_env.sh"
PRELOADS = "list /usr/local/corex*/lib64/libcuda.so.1"
CONFIG = "read /usr/local/Ascend/ascend-toolkit/latest/version.cfg"


def present(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The toolkit is installed."""
    if all(facts.answers.get(key) is None for key in TREES[v.name]):
        yield not_told(facts, *TREES[v.name])
    elif found := toolkit_trees(facts, v):
        yield ok(f"{v.vendor.toolkit} in {', '.join(found)}")
    elif in_container(facts):
        words = "Start from an image that holds it."
        yield fail(f"no {v.vendor.toolkit} in this container", words, _ls(v), evidence=_no_tree(v))
    elif any(_ended(facts, key) not in (Outcome.EMPTY, Outcome.ABSENT) for key in TREES[v.name]):
        yield not_told(facts, *TREES[v.name])
    else:
        words = "Install it to train on this host; training in a container needs none here."
        yield warn(f"no {v.vendor.toolkit} on this host", words, _ls(v), evidence=_no_tree(v))


def single(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """One toolkit tree is in force: two on the library path mix their symbols."""
    found = toolkit_trees(facts, v)
    if facts.environment is None:
        yield not_told(facts, "ask environment")
        return
    used = in_force(facts)
    if len(used) > 1:
        seen = f"LD_LIBRARY_PATH names {len(used)}: {', '.join(sorted(used))}"
        words = "Keep one: open a new shell and source one set_env.sh."
        shown = figures("environment", LD_LIBRARY_PATH=facts.environment.get("LD_LIBRARY_PATH", ""))
        yield fail(seen, words, "echo $LD_LIBRARY_PATH | tr : '\\n'", evidence=shown)
    elif len(found) > 1 and not used:
        shown = quote(
            next((facts.answers.get(key) for key in TREES[v.name] if facts.answers.get(key)), None), found[-1]
        )
        words = "Source the one that you mean."
        yield warn(f"{len(found)} trees: {', '.join(found)}", words, *commands(v, "toolkit"), evidence=shown)
    elif found:
        yield ok(f"one in force: {next(iter(used), found[0])}")
    else:
        yield follows("toolkit.present")


def in_force(facts: Facts) -> set[str]:
    """The trees that the library path names, by their folders' names."""
    pattern = r"/ascend-toolkit/(\d[^/:]*|latest)|/cann-(\d[^/:]*)|/(corex[^/:]*)"
    path = (facts.environment or {}).get("LD_LIBRARY_PATH", "")
    return {next(filter(None, m.groups())) for m in re.finditer(pattern, path)}


def version(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The toolkit's version is known."""
    found = toolkit_version(facts, v)
    if found is None:
        yield not_told(facts, CONFIG) if toolkit_trees(facts, v) else follows("toolkit.present")
    elif versions.key(found) is None:
        yield unknown(f"{v.vendor.toolkit} {found}: not a version that envcheck can order")
    elif (oldest := compatibility.oldest(compatibility.TOOLKITS.get(v.name))) and versions.at_least(
        found, oldest[0]
    ) is False:
        seen = f"{v.vendor.toolkit} {found} is older than any that the plugins name"
        shown = quote(_told_by(facts, v), found)
        yield warn(seen, f"Install {oldest[0]} or newer.", "envcheck solve", evidence=shown)
    else:
        yield ok(f"{v.vendor.toolkit} {found}")


def driver_pair(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The toolkit is named with the driver: by its release notes, or by who tried it."""
    found, running = toolkit_version(facts, v), driver_version(v)
    if not found:
        yield (
            follows("toolkit.present") if not toolkit_trees(facts, v) else unknown("the toolkit's version is not known")
        )
        return
    verdict = compatibility.pair("cann", "npu-driver", {"cann": found, "npu-driver": running})
    if verdict is None:
        yield follows("driver.version")
    else:
        own = compatibility.finding(verdict, quote(_told_by(facts, v), found), *commands(v, "list"))
        yield compatibility.wants_newer(v, own)


def environment(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """set_env.sh is in force: libraries are found by the process that trains."""
    if facts.environment is None:
        yield not_told(facts, "ask environment")
        return
    if not toolkit_trees(facts, v):
        yield follows("toolkit.present")
        return
    homes = [value for name in v.vendor.toolkit_variables if (value := facts.environment.get(name))]
    path = facts.environment.get("LD_LIBRARY_PATH", "")
    used = next((home for home in (*homes, v.vendor.toolkit_folder) if home and home.rstrip("/") in path), None)
    if used and (homes or not v.vendor.toolkit_variables):
        yield ok(f"{v.vendor.toolkit} is on the library path: {used}")
    elif not v.vendor.toolkit_variables and facts.engine and facts.engine.error is None:
        yield skip("not in force in this shell; an image brings its own")
    else:
        words = "Source it in the shell or service that trains; a non-login exec does not read .bashrc."
        seen = f"{v.vendor.toolkit}'s environment is not in force in this shell"
        shown = figures("environment", LD_LIBRARY_PATH=path or "not set")
        cause = "" if v.vendor.toolkit_variables else "engine.reachable"  # whose images would bring their own
        yield told_by(cause, warn(seen, words, *commands(v, "toolkit"), evidence=shown))


def atb(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """NNAL/ATB is installed: importing paddle's plugin fails without libatb.so."""
    answer = facts.answers.get(ATB_SET_ENV)
    if not toolkit_trees(facts, v):
        yield follows("toolkit.present")
    elif answer is None or answer.outcome not in (Outcome.ANSWERED, Outcome.EMPTY):
        yield not_told(facts, ATB_SET_ENV)
    elif answer.ok:
        yield ok("nnal/atb/set_env.sh is there")
    else:
        words = "Install the NNAL package of the same CANN release, and source its set_env.sh."
        shown = nothing(ATB_SET_ENV)
        yield warn("NNAL/ATB is not installed", words, "ls -d /usr/local/Ascend/nnal/atb", evidence=shown)


def preload(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The library that LD_PRELOAD names is there: the loader only warns, and symbols are missing later."""
    answer = facts.answers.get(PRELOADS)
    if facts.environment is None or answer is None or answer.outcome not in (Outcome.ANSWERED, Outcome.EMPTY):
        yield not_told(facts, "ask environment", PRELOADS)
        return
    wanted = [p for p in re.split(r"[\s:]+", facts.environment.get("LD_PRELOAD", "")) if p.endswith("libcuda.so.1")]
    missing = [path for path in wanted if path not in answer.out.split()]
    if missing:
        there = next(iter(answer.out.split()), "/usr/local/corex/lib64/libcuda.so.1")
        shown = figures("environment", LD_PRELOAD=facts.environment["LD_PRELOAD"])
        seen = f"LD_PRELOAD names {missing[0]}, which is not there"
        yield fail(seen, "Correct the path.", f"export LD_PRELOAD={there}", evidence=shown)
    elif wanted:
        yield ok(f"LD_PRELOAD names {wanted[0]}")
    else:
        yield skip("LD_PRELOAD is not set here; the launch sets it")


def _told_by(facts: Facts, v: VendorFacts) -> Answer | None:
    """The answer that the toolkit's version is read from."""
    keys = [*(key for key in v.documents if "ascend-toolkit/latest" in key), *TREES[v.name]]
    return next((a for key in keys if (a := facts.answers.get(key)) and a.ok), None)


def _ls(v: VendorFacts) -> str:
    return " ".join(("ls -d", *(key.removeprefix("list ") for key in TREES[v.name])))


def _no_tree(v: VendorFacts) -> tuple[str, ...]:
    return nothing(*TREES[v.name])


def _ended(facts: Facts, key: str) -> Outcome:
    answer = facts.answers.get(key)
    return Outcome.ABSENT if answer is None else answer.outcome


CHECKS: tuple[Check, ...] = (
    of_vendor(
        "toolkit.present",
        present,
        reads="toolkit folders",
        source="vllm-ascend#262, llama.cpp#22784",
        vendors=(*NPU, *ILUVATAR),
        rule="FAIL in a container, WARN on a host, when there is none",
        fix="An image that holds it.",
    ),
    of_vendor(
        "toolkit.single",
        single,
        reads="toolkit folders, LD_LIBRARY_PATH",
        source="PaddleX#4749",
        vendors=(*NPU, *ILUVATAR),
        rule="FAIL when the library path names two; WARN when two are installed and none is in force",
        fix="One set_env.sh in a new shell.",
    ),
    of_vendor(
        "toolkit.version",
        version,
        reads="toolkit version files",
        source="CANN release notes",
        vendors=(*NPU, *ILUVATAR),
        rule="WARN below the oldest that the plugins name",
        fix="Install a newer one.",
    ),
    of_vendor(
        "toolkit.driver",
        driver_pair,
        reads="toolkit and driver versions",
        source="envcheck's tables of versions, docs/versions.md",
        vendors=NPU,
        rule="FAIL for a pair that is known bad; UNKNOWN for one that no table names; follows from driver.version "
        "where that tells of the driver",
        fix="Upgrade the driver, or an older image.",
    ),
    of_vendor(
        "toolkit.environment",
        environment,
        reads="the environment",
        source="vllm-ascend#262, gpustack#1101",
        vendors=(*NPU, *ILUVATAR),
        rule="WARN when the library path names no toolkit; follows from engine.reachable where images would bring it",
        fix="Source set_env.sh in the shell or service that trains.",
    ),
    of_vendor(
        "toolkit.atb",
        atb,
        reads="/usr/local/Ascend/nnal",
        source="Paddle#68398, Paddle#70878",
        vendors=NPU,
        rule="WARN when it is not installed",
        fix="Install NNAL of the same CANN.",
    ),
    of_vendor(
        "toolkit.preload",
        preload,
        reads="LD_PRELOAD, /usr/local/corex*",
        source="ERNIE's Iluvatar page",
        vendors=ILUVATAR,
        rule="FAIL when LD_PRELOAD names a libcuda.so.1 that is not there",
        fix="Correct the path.",
    ),
)
