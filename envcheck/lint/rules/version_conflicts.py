"""Packages that a script installs, against each other, the image and the machine, by the tables of versions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from envcheck.compat import detect, judging, loading, version_findings
from envcheck.compat.components import components
from envcheck.compat.model import Confidence, Standing, Verdict
from envcheck.core.lint.context import LintContext
from envcheck.core.lint.model import Remark, Word
from envcheck.core.lint.pip_install import PipInstall
from envcheck.core.lint.remarks import fail, graded, near, warn
from envcheck.lint.context import tables
from envcheck.lint.rules.packages import PLUGINS, meant
from envcheck.scripts.vendor_words import words_of
from envcheck.vendors import VENDORS

# Of the machine: what a container has of its host.  The rest is the image's, or what the script installs.
_HOST = (
    "architecture",
    *(
        name
        for vendor in VENDORS.values()
        for name in (vendor.driver_component, vendor.firmware_component, vendor.chip_component)
        if name
    ),
)
# and where nothing is said of a container
_OWN = tuple(vendor.toolkit_component for vendor in VENDORS.values() if vendor.toolkit_component)


def together(context: LintContext) -> Iterator[Remark]:
    """A version that the script pins, and one that is known to fail with it."""
    pins = {name: pin for name, pin in _pins(context).items() if name in components()}
    if not pins:
        return
    known = {**_around(context), **{name: version for name, (version, _) in pins.items()}}
    for verdict in judging.judge(known):
        mine = [name for name in (verdict.left, verdict.right) if name in pins]
        told = PLUGINS.get(verdict.left) == verdict.right and len(mine) == 2  # by packages.pair
        if "paddlepaddle-gpu" in mine and words_of(meant(context)).instead_of_cuda:
            told = True  # by packages.gpu_list
        if verdict.standing is Standing.BAD and mine and not told:
            yield _bad(verdict, pins[mine[0]][1])


def _pins(context: LintContext) -> dict[str, tuple[str, Word]]:
    found: dict[str, tuple[str, Word]] = {}
    for install in context.installs:
        for name, _, specifier, word in install.packages:
            exact = re.match(r"==\s*([\w.+!-]+)$", specifier)
            if exact:
                found[name] = (exact[1], word)
    return found


def _around(context: LintContext) -> Mapping[str, str]:
    """The versions that are there before: of the image, and of the machine where it is the one that is meant."""
    images = {container.image.text for container in context.containers if container.image is not None}
    held = [dict(image.holds) for image in loading.table().images if images & set(image.references)]
    if context.machine.facts is None or context.here is False:
        return held[0] if held else {}
    names = _HOST if context.containers else (*_HOST, *_OWN)
    machine = {name: version for name, version in detect.installed(context.machine.facts).items() if name in names}
    return {**(held[0] if held else {}), **machine}


def _bad(verdict: Verdict, word: Word) -> Remark:
    """In doctor's words."""

    finding = version_findings.finding(verdict, ())
    sure = verdict.confidence in (Confidence.TRIED, Confidence.DOCUMENTED)
    return graded(sure, word, finding.seen, finding.remedy.words if finding.remedy else "")


def project(context: LintContext) -> Iterator[Remark]:
    """A project of which only the list of packages is installed, or a wheel that wants the project's files."""
    for row in tables.projects().projects:
        own = [install for install in context.installs if _of(install, row.name)]
        for install in context.installs:
            list_ = install.has("-r", "--requirement")
            if not own and list_ is not None and _entered(install, row) and not _on_path(context):
                seen = f"the packages of {row.name}'s list are installed, and {row.name} itself is not"
                yield warn(list_, seen, "pip install -e . in its folder; --no-deps keeps the versions that are there.")
        if row.clone and not any(re.search(row.pattern, word) for word in _words(context)):
            yield from _lone_wheel(own, row.name)


def _of(install: PipInstall, name: str) -> bool:
    """The project itself: as a package, or as the folder that was entered."""
    folder = any(re.match(r"\.(/|\[|$)", word.text.strip("'\"")) for word in install.command.words)
    return folder or any(package == name for package, *_ in install.packages)


def _entered(install: PipInstall, row: tables.Project) -> bool:
    folder = install.command.cwd.rstrip("/").rpartition("/")[2].lower()
    return bool(folder) and bool(near(folder, frozenset((row.folder.lower(), row.name)), 0.8))


def _on_path(context: LintContext) -> bool:
    """By PYTHONPATH, told in full."""
    return any(a.name == "PYTHONPATH" and ".." not in a.word.text for s in context.scripts for a in s.assigns)


def _words(context: LintContext) -> list[str]:
    return [word.text.rstrip("/") for _, command in context.commands() for word in command.words if "/" in word.text]


def _lone_wheel(found: list[PipInstall], name: str) -> Iterator[Remark]:
    row = next(judging.bad(name), None)
    for install in found:
        for package, _, _, word in install.packages:
            if package == name and row is not None:
                do = f"{row.remedy[:1].upper()}{row.remedy[1:]} ({row.date})."
                yield fail(word, f"{name}: {row.symptom}", do)
