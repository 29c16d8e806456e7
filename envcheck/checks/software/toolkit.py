"""The vendor's toolkit: there, one tree, in force, and of a version that the driver carries."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.compat import version_findings
from envcheck.core import versions
from envcheck.core.check import Check, of_vendor
from envcheck.core.derived.toolkit import in_force
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import (
    commands,
    fail,
    figures,
    follows,
    in_container,
    no_rule,
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


def present(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The toolkit is installed."""
    keys = _tree_keys(v)
    if not keys:
        yield no_rule(v, "folders of a toolkit")
    elif all(facts.answers.get(key) is None for key in keys):
        yield not_told(facts, *keys)
    elif found := toolkit_trees(facts, v):
        yield ok(f"{v.vendor.toolkit} in {', '.join(found)}")
    elif in_container(facts):
        words = "Start from an image that holds it."
        yield fail(f"no {v.vendor.toolkit} in this container", words, _ls(v), evidence=_no_tree(v))
    elif any(_ended(facts, key) not in (Outcome.EMPTY, Outcome.ABSENT) for key in keys):
        yield not_told(facts, *keys)
    else:
        words = "Install it to train on this host; training in a container needs none here."
        yield warn(f"no {v.vendor.toolkit} on this host", words, _ls(v), evidence=_no_tree(v))


def single(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """One toolkit tree is in force: two on the library path mix their symbols."""
    found = toolkit_trees(facts, v)
    if facts.environment is None:
        yield not_told(facts, "ask environment")
        return
    used = in_force(facts, v)
    if len(used) > 1:
        seen = f"LD_LIBRARY_PATH names {len(used)}: {', '.join(sorted(used))}"
        words = "Keep one: open a new shell and source one set_env.sh."
        shown = figures("environment", LD_LIBRARY_PATH=facts.environment.get("LD_LIBRARY_PATH", ""))
        yield fail(seen, words, "echo $LD_LIBRARY_PATH | tr : '\\n'", evidence=shown)
    elif len(found) > 1 and not used:
        shown = quote(
            next((facts.answers.get(key) for key in _tree_keys(v) if facts.answers.get(key)), None), found[-1]
        )
        words = "Source the one that you mean."
        yield warn(f"{len(found)} trees: {', '.join(found)}", words, *commands(v, "toolkit"), evidence=shown)
    elif found:
        yield ok(f"one in force: {next(iter(used), found[0])}")
    else:
        yield follows("toolkit.present")


def version(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The toolkit's version is known."""
    found = toolkit_version(facts, v)
    if found is None:
        yield not_told(facts, *_link_keys(v)[:1]) if toolkit_trees(facts, v) else follows("toolkit.present")
    elif versions.key(found) is None:
        yield unknown(f"{v.vendor.toolkit} {found}: not a version that envcheck can order")
    elif (oldest := version_findings.oldest(v.vendor.toolkit_pair)) and versions.at_least(found, oldest[0]) is False:
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
    toolkit, driver = v.vendor.toolkit_component, v.vendor.driver_component
    verdict = version_findings.pair(toolkit, driver, {toolkit: found, driver: running})
    if verdict is None:
        yield follows("driver.version")
    else:
        own = version_findings.finding(verdict, quote(_told_by(facts, v), found), *commands(v, "list"))
        yield version_findings.wants_newer(v, own)


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


def _told_by(facts: Facts, v: VendorFacts) -> Answer | None:
    """The answer that the toolkit's version is read from."""
    keys = [*(key for key in v.documents if key in _link_keys(v)), *_tree_keys(v)]
    return next((a for key in keys if (a := facts.answers.get(key)) and a.ok), None)


def _tree_keys(v: VendorFacts) -> tuple[str, ...]:
    """The keys of the answers that list the toolkit's folders."""
    return tuple(question.key for question in v.vendor.toolkit_trees)


def _link_keys(v: VendorFacts) -> list[str]:
    """The keys of the answers about the toolkit that is in force, the file that is its version's first."""
    link = v.vendor.toolkit_link
    return [q.key for q in v.vendor.details if link and link in q.key]


def _ls(v: VendorFacts) -> str:
    return " ".join(("ls -d", *(key.removeprefix("list ") for key in _tree_keys(v))))


def _no_tree(v: VendorFacts) -> tuple[str, ...]:
    return nothing(*_tree_keys(v))


def _ended(facts: Facts, key: str) -> Outcome:
    answer = facts.answers.get(key)
    return Outcome.ABSENT if answer is None else answer.outcome


CHECKS: tuple[Check, ...] = (
    of_vendor(
        "toolkit.present",
        present,
        reads="toolkit folders",
        source="vllm-ascend#262, llama.cpp#22784",
        rule="FAIL in a container, WARN on a host, when there is none",
        fix="An image that holds it.",
    ),
    of_vendor(
        "toolkit.single",
        single,
        reads="toolkit folders, LD_LIBRARY_PATH",
        source="PaddleX#4749",
        rule="FAIL when the library path names two; WARN when two are installed and none is in force",
        fix="One set_env.sh in a new shell.",
    ),
    of_vendor(
        "toolkit.version",
        version,
        reads="toolkit version files",
        source="CANN release notes",
        rule="WARN below the oldest that the plugins name",
        fix="Install a newer one.",
    ),
    of_vendor(
        "toolkit.driver",
        driver_pair,
        reads="toolkit and driver versions",
        source="envcheck's tables of versions, docs/versions.md",
        rule="FAIL for a pair that is known bad; UNKNOWN for one that no table names; follows from driver.version "
        "where that tells of the driver",
        fix="Upgrade the driver, or an older image.",
    ),
    of_vendor(
        "toolkit.environment",
        environment,
        reads="the environment",
        source="vllm-ascend#262, gpustack#1101",
        rule="WARN when the library path names no toolkit; follows from engine.reachable where images would bring it",
        fix="Source set_env.sh in the shell or service that trains.",
    ),
)
