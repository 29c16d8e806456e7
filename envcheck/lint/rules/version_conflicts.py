"""Rules about versions that a script installs, compared with each other, the image and the machine."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from envcheck.compat import detect, pair_verdicts, table_loader, version_findings
from envcheck.compat.components import load_components
from envcheck.compat.version_records import Confidence, PairStatus, PairVerdict
from envcheck.core.lint.context import LintContext
from envcheck.core.lint.pip_install import PipInstall
from envcheck.core.lint.remark_builders import fail, find_similar_name, warn, warn_or_fail
from envcheck.core.lint.script_model import Remark, ShellWord
from envcheck.core.messages import NOTHING, _
from envcheck.lint.context import name_tables
from envcheck.lint.rules.pip_installs import PLUGINS, guess_device
from envcheck.scripts.vendor_words import find_vendor_words
from envcheck.vendors import VENDORS

# Of the machine: what a container gets from its host.  The rest is in the image, or installed by the script.
_HOST = (
    "architecture",
    *(
        name
        for vendor in VENDORS.values()
        for name in (vendor.driver_component, vendor.firmware_component, vendor.chip_component)
        if name
    ),
)
# and without a container
_OWN = tuple(vendor.toolkit_component for vendor in VENDORS.values() if vendor.toolkit_component)


def find_conflicting_versions(context: LintContext) -> Iterator[Remark]:
    """Find pinned versions that are known to fail with another version."""
    pins = {name: pin for name, pin in _list_pins(context).items() if name in load_components()}
    if not pins:
        return
    known = {**_collect_known_versions(context), **{name: version for name, (version, _unused) in pins.items()}}
    for verdict in pair_verdicts.evaluate_pairs(known):
        mine = [name for name in (verdict.left, verdict.right) if name in pins]
        told = PLUGINS.get(verdict.left) == verdict.right and len(mine) == 2  # reported by packages.pair
        if "paddlepaddle-gpu" in mine and find_vendor_words(guess_device(context)).instead_of_cuda:
            told = True  # reported by packages.gpu_list
        if verdict.standing is PairStatus.BAD and mine and not told:
            yield _remark_conflict(verdict, pins[mine[0]][1])


def _list_pins(context: LintContext) -> dict[str, tuple[str, ShellWord]]:
    found: dict[str, tuple[str, ShellWord]] = {}
    for install in context.installs:
        for name, _unused, specifier, word in install.packages:
            exact = re.match(r"==\s*([\w.+!-]+)$", specifier)
            if exact:
                found[name] = (exact[1], word)
    return found


def _collect_known_versions(context: LintContext) -> Mapping[str, str]:
    """Versions that exist before: of the image, and of the machine if it is the target."""
    images = {container.image.text for container in context.containers if container.image is not None}
    held = [dict(image.holds) for image in table_loader.own_version_table().images if images & set(image.references)]
    if context.machine.facts is None or context.is_for_this_machine is False:
        return held[0] if held else {}
    names = _HOST if context.containers else (*_HOST, *_OWN)
    machine = {
        name: version for name, version in detect.detect_versions(context.machine.facts).items() if name in names
    }
    return {**(held[0] if held else {}), **machine}


def _remark_conflict(verdict: PairVerdict, word: ShellWord) -> Remark:
    """Use doctor's wording."""

    finding = version_findings.make_version_finding(verdict, ())
    sure = verdict.confidence in (Confidence.TRIED, Confidence.DOCUMENTED)
    return warn_or_fail(sure, word, finding.seen, finding.remedy.words if finding.remedy else NOTHING)


def find_incomplete_project(context: LintContext) -> Iterator[Remark]:
    """Find projects of which only the requirements are installed, or a wheel that needs the project's files."""
    for row in name_tables.load_projects().projects:
        own = [install for install in context.installs if _installs_project(install, row.name)]
        for install in context.installs:
            list_ = install.find_option("-r", "--requirement")
            if (
                not own
                and list_ is not None
                and _enters_project_folder(install, row)
                and not _is_on_python_path(context)
            ):
                seen = _("the packages in {name}'s list are installed, but {name} itself is not", name=row.name)
                yield warn(
                    list_,
                    seen,
                    _("Run pip install -e . in its directory. Add --no-deps to keep the installed versions."),
                )
        if row.clone and not any(re.search(row.pattern, word) for word in _list_path_words(context)):
            yield from _find_lone_wheel(own, row.name)


def _installs_project(install: PipInstall, name: str) -> bool:
    """Whether the project itself is installed: as a package, or from the current folder."""
    folder = any(re.match(r"\.(/|\[|$)", word.text.strip("'\"")) for word in install.command.words)
    return folder or any(package == name for package, *_unused in install.packages)


def _enters_project_folder(install: PipInstall, row: name_tables.KnownProject) -> bool:
    folder = install.command.cwd.rstrip("/").rpartition("/")[2].lower()
    return bool(folder) and bool(find_similar_name(folder, frozenset((row.folder.lower(), row.name)), 0.8))


def _is_on_python_path(context: LintContext) -> bool:
    """Whether PYTHONPATH contains it, as a complete path."""
    return any(a.name == "PYTHONPATH" and ".." not in a.word.text for s in context.scripts for a in s.assigns)


def _list_path_words(context: LintContext) -> list[str]:
    return [
        word.text.rstrip("/")
        for _unused, command in context.find_commands()
        for word in command.words
        if "/" in word.text
    ]


def _find_lone_wheel(found: list[PipInstall], name: str) -> Iterator[Remark]:
    row = next(pair_verdicts.list_bad_rows(name), None)
    for install in found:
        for package, _unused, _unused, word in install.packages:
            if package == name and row is not None:
                do = _("{remedy} ({source}).", remedy=version_findings.table_sentence(row.remedy), source=row.date)
                yield fail(
                    word, _("{name}: {symptom}", name=name, symptom=version_findings.table_text(row.symptom)), do
                )
