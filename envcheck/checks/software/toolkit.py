"""Checks of the vendor toolkit: installed, only one, active, and of a version that the driver supports."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.compat import version_findings
from envcheck.core import versions
from envcheck.core.check import Check, vendor_check
from envcheck.core.derived.installed_versions import toolkit_trees, toolkit_version
from envcheck.core.derived.key_value import driver_version
from envcheck.core.derived.toolkit_path import find_active_toolkits
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import (
    fail,
    is_in_container,
    ok,
    quote_answer,
    quote_nothing,
    quote_values,
    report_missing_rule,
    report_unanswered,
    skip,
    skipped_because,
    suppressed_by,
    unknown,
    vendor_commands,
    warn,
)
from envcheck.core.messages import _, join, mark, verbatim
from envcheck.core.model import Answer, Finding, Outcome, diagnose, fix


def check_present(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The toolkit is installed."""
    keys = _tree_question_keys(v)
    if not keys:
        yield report_missing_rule(v, _("toolkit folders"))
    elif all(facts.answers.get(key) is None for key in keys):
        yield report_unanswered(facts, *keys)
    elif found := toolkit_trees(facts, v):
        yield ok(_("{toolkit} in {folders}", toolkit=v.vendor.toolkit, folders=join(", ", found)))
    elif is_in_container(facts):
        words = _("Use an image that contains the toolkit.")
        yield fail(
            _("{toolkit} not found in this container", toolkit=v.vendor.toolkit),
            diagnose(words, _tree_list_command(v)),
            evidence=_quote_no_tree(v),
        )
    elif any(_answer_outcome(facts, key) not in (Outcome.EMPTY, Outcome.ABSENT) for key in keys):
        yield report_unanswered(facts, *keys)
    else:
        words = _("Install the toolkit to train on this host; training in a container does not need it on the host.")
        yield warn(
            _("{toolkit} not found on this host", toolkit=v.vendor.toolkit),
            diagnose(words, _tree_list_command(v)),
            evidence=_quote_no_tree(v),
        )


def check_single(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """Only one toolkit is active; two on the library path mix their symbols."""
    found = toolkit_trees(facts, v)
    if facts.environment is None:
        yield report_unanswered(facts, "ask environment")
        return
    used = find_active_toolkits(facts, v)
    if len(used) > 1:
        seen = _(
            "LD_LIBRARY_PATH contains {used_count} toolkits: {used}",
            used_count=len(used),
            used=join(", ", sorted(used)),
        )
        words = _("Open a new shell, and source only one set_env.sh.")
        shown = quote_values("environment", LD_LIBRARY_PATH=facts.environment.get("LD_LIBRARY_PATH", ""))
        yield fail(seen, fix(words, "unset LD_LIBRARY_PATH", *vendor_commands(v, "toolkit")), evidence=shown)
    elif len(found) > 1 and not used:
        shown = quote_answer(
            next((facts.answers.get(key) for key in _tree_question_keys(v) if facts.answers.get(key)), None), found[-1]
        )
        words = _("Source the set_env.sh of the toolkit to use.")
        yield warn(
            _(
                "{found_count} toolkits installed, none active: {found}",
                found_count=len(found),
                found=join(", ", found),
            ),
            fix(words, *vendor_commands(v, "toolkit")),
            evidence=shown,
        )
    elif found:
        yield ok(_("active toolkit: {used}", used=next(iter(used), found[0])))
    else:
        yield skipped_because("toolkit.present")


def check_version(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The toolkit version is known and not older than the plugins support."""
    found = toolkit_version(facts, v)
    if found is None:
        yield (
            report_unanswered(facts, *_link_question_keys(v)[:1])
            if toolkit_trees(facts, v)
            else skipped_because("toolkit.present")
        )
    elif versions.sort_key(found) is None:
        yield unknown(_("{toolkit} {found}: unknown version format", toolkit=v.vendor.toolkit, found=found))
    elif (oldest := version_findings.find_oldest_documented(v.vendor.toolkit_pair)) and versions.is_at_least(
        found, oldest[0]
    ) is False:
        seen = _(
            "{toolkit} {found} is older than all versions that the plugins support",
            toolkit=v.vendor.toolkit,
            found=found,
        )
        shown = quote_answer(_find_version_answer(facts, v), found)
        yield warn(
            seen, diagnose(_("Install version {oldest} or newer.", oldest=oldest[0]), "envcheck solve"), evidence=shown
        )
    else:
        yield ok(verbatim(f"{v.vendor.toolkit} {found}"))


def check_driver(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The toolkit is documented or tested with this driver."""
    found, running = toolkit_version(facts, v), driver_version(v)
    if not found:
        yield (
            skipped_because("toolkit.present")
            if not toolkit_trees(facts, v)
            else unknown(_("the toolkit version is unknown"))
        )
        return
    toolkit, driver = v.vendor.toolkit_component, v.vendor.driver_component
    verdict = version_findings.evaluate_known_pair(toolkit, driver, {toolkit: found, driver: running})
    if verdict is None:
        yield skipped_because("driver.version")
    else:
        own = version_findings.make_version_finding(
            verdict, quote_answer(_find_version_answer(facts, v), found), *vendor_commands(v, "list")
        )
        yield version_findings.suppress_if_driver_too_old(v, own)


def check_environment(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """set_env.sh is sourced: the training process finds the libraries."""
    if facts.environment is None:
        yield report_unanswered(facts, "ask environment")
        return
    if not toolkit_trees(facts, v):
        yield skipped_because("toolkit.present")
        return
    homes = [value for name in v.vendor.toolkit_variables if (value := facts.environment.get(name))]
    path = facts.environment.get("LD_LIBRARY_PATH", "")
    used = next((home for home in (*homes, v.vendor.toolkit_folder) if home and home.rstrip("/") in path), None)
    if used and (homes or not v.vendor.toolkit_variables):
        yield ok(_("{toolkit} is on the library path: {used}", toolkit=v.vendor.toolkit, used=used))
    elif not v.vendor.toolkit_variables and facts.engine and facts.engine.error is None:
        yield skip(_("not active in this shell; images have their own"))
    else:
        words = _(
            "Source set_env.sh in the shell or service that runs the training; `docker exec` does not read .bashrc."
        )
        seen = _("the {toolkit} environment is not active in this shell", toolkit=v.vendor.toolkit)
        shown = quote_values("environment", LD_LIBRARY_PATH=path or _("not set"))
        cause = "" if v.vendor.toolkit_variables else "engine.reachable"  # images would bring their own toolkit
        yield suppressed_by(cause, warn(seen, fix(words, *vendor_commands(v, "toolkit")), evidence=shown))


def _find_version_answer(facts: Facts, v: VendorFacts) -> Answer | None:
    """The answer that contains the toolkit version."""
    keys = [*(key for key in v.documents if key in _link_question_keys(v)), *_tree_question_keys(v)]
    return next((a for key in keys if (a := facts.answers.get(key)) and a.ok), None)


def _tree_question_keys(v: VendorFacts) -> tuple[str, ...]:
    """The keys of the answers that list the toolkit's folders."""
    return tuple(question.key for question in v.vendor.toolkit_trees)


def _link_question_keys(v: VendorFacts) -> list[str]:
    """The keys of the answers about the active toolkit, that of its version file first."""
    link = v.vendor.toolkit_link
    return [q.key for q in v.vendor.details if link and link in q.key]


def _tree_list_command(v: VendorFacts) -> str:
    return " ".join(("ls -d", *(key.removeprefix("list ") for key in _tree_question_keys(v))))


def _quote_no_tree(v: VendorFacts) -> tuple[str, ...]:
    return quote_nothing(*_tree_question_keys(v))


def _answer_outcome(facts: Facts, key: str) -> Outcome:
    answer = facts.answers.get(key)
    return Outcome.ABSENT if answer is None else answer.outcome


CHECKS: tuple[Check, ...] = (
    vendor_check(
        "toolkit.present",
        check_present,
        reads="toolkit directories",
        source="vllm-ascend#262, llama.cpp#22784",
        rule="FAIL in a container, WARN on a host, if none is found",
        fix="Use an image with the toolkit.",
    ),
    vendor_check(
        "toolkit.single",
        check_single,
        reads="toolkit directories, LD_LIBRARY_PATH",
        source="PaddleX#4749",
        rule="FAIL if the library path contains two; WARN if two are installed and none is active",
        fix="Source one set_env.sh in a new shell.",
    ),
    vendor_check(
        "toolkit.version",
        check_version,
        reads="toolkit version files",
        source=mark("CANN release notes"),
        rule="WARN if older than the oldest version that the plugins name",
        fix="Install a newer version.",
    ),
    vendor_check(
        "toolkit.driver",
        check_driver,
        reads="toolkit and driver versions",
        source=mark("version tables of envcheck, docs/supported.md"),
        rule=(
            "FAIL for a known bad pair; UNKNOWN if no table names the pair; blocked by driver.version if that reports"
            " the driver"
        ),
        fix="Upgrade the driver, or use an older image.",
    ),
    vendor_check(
        "toolkit.environment",
        check_environment,
        reads="environment variables",
        source="vllm-ascend#262, gpustack#1101",
        rule="WARN if the library path contains no toolkit; blocked by engine.reachable if images would provide it",
        fix="Source set_env.sh in the shell or service that trains.",
    ),
)
