"""Judge pip's solution before anything is installed: pins, numpy and protobuf, plugin versions, source builds.

The solution is the report of pip 22.2 or newer, passed on by installers.programs.solve.
"""

from __future__ import annotations

import json
import posixpath
import re
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from packaging.markers import UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from envcheck.core.errors import StepError
from envcheck.core.messages import NOTHING, Message, _, fill
from envcheck.core.secrets import redact_text
from envcheck.vendors import VENDORS
from installers.locks.lockfile import LockedWheel
from installers.recipes.recipe import Package
from installers.state.environment import is_allowed_version, is_satisfied

# Other packages are compiled against these and crash or fail to import with an incompatible version.
ABI_SENSITIVE = ("numpy", "protobuf")
# A plugin needs its framework's exact version (else undefined symbols: PaddleCustomDevice#1460, Paddle#69403, #74020).
# True: pre-releases must match too.  torch plugins number their own: 2.7.1rc1 and 2.7.1.post2 are for torch 2.7.1.
PLUGINS = {
    **{vendor.plugin: ("paddlepaddle", True) for vendor in VENDORS.values() if vendor.plugin},
    **{vendor.torch_plugin: ("torch", False) for vendor in VENDORS.values() if vendor.torch_plugin},
}
RANGE = _("set a suitable version in the recipe, or check the index")


@dataclass(frozen=True)
class ResolvedPackage:
    """A file that pip would install from `url`; `yanked` is the reason, None if it was not yanked.

    `compiles` names a file of a source archive that needs a compiler; `direct`: requested by URL.
    """

    name: str
    version: str
    file: str = ""
    sha256: str = ""
    url: str = ""
    yanked: str | None = None
    requires: tuple[str, ...] = ()
    compiles: str = ""
    direct: bool = False

    @property
    def is_wheel(self) -> bool:
        """Whether the file is a wheel."""
        return self.file.endswith(".whl")


@dataclass(frozen=True)
class PipAnswer:
    """pip's solution; `there`: installed packages and their requirements; `kept`: downloaded files; `markers`: the
    Python's.
    """

    pip: str
    found: tuple[ResolvedPackage, ...] | None = None  # None: this pip is too old to report it
    there: tuple[ResolvedPackage, ...] = ()
    kept: tuple[str, ...] = ()
    markers: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_local(self) -> bool:
        """Whether everything can be installed without the index: all wheels, all downloaded."""
        return all(f.is_wheel and (f.file in self.kept or f.url.startswith("file:")) for f in self.found or ())


@dataclass(frozen=True)
class PipProblem:
    """Why a solution must not be installed, and what to do."""

    why: Message
    remedy: Message


def parse_answer(text: str) -> PipAnswer:
    """Return the solution from the program's output; StepError if it contains none that can be parsed."""
    line = next((x for x in reversed(text.splitlines()) if x.startswith("ENVCHECK ")), "")
    try:
        said = json.loads(line.removeprefix("ENVCHECK "))
        if "install" not in said:
            return PipAnswer(str(said["pip_version"]))
        sources = {str(k): str(v) for k, v in said["sources"].items()}
        withdrawn = _yanked_reasons(text)
        return PipAnswer(
            str(said["pip_version"]),
            tuple(_parse_package(item, sources, withdrawn) for item in said["install"]),
            tuple(
                ResolvedPackage(str(d["name"]), str(d["version"]), requires=tuple(d["requires"])) for d in said["there"]
            ),
            tuple(str(name) for name in said["kept"]),
            {str(k): str(v) for k, v in said["environment"].items()},
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as err:
        why = f"{type(err).__name__} {err}"[:100]
        raise StepError(
            _("cannot parse pip's report: {why}", why=why), _("check pip.log; another version of pip may help")
        ) from None


def _parse_package(
    item: Mapping[str, Any], sources: Mapping[str, str], withdrawn: Mapping[str, str]
) -> ResolvedPackage:
    about, source = item["metadata"], item["download_info"]
    name, version, archive = str(about["name"]), str(about["version"]), source.get("archive_info", {})
    digest = archive.get("hashes", {}).get("sha256") or str(archive.get("hash", "")).removeprefix("sha256=")
    file = posixpath.basename(urllib.parse.unquote(urllib.parse.urlsplit(source["url"]).path))
    marked = "" if item.get("is_yanked") else None
    return ResolvedPackage(
        name,
        version,
        file,
        digest if re.fullmatch(r"[0-9a-f]{64}", digest) else "",
        str(source["url"]),
        withdrawn.get(canonicalize_name(name), marked),
        tuple(map(str, about.get("requires_dist", ()))),
        sources.get(file, ""),
        bool(item.get("is_direct")),
    )


def _yanked_reasons(text: str) -> dict[str, str]:
    """Return the reasons by package from pip's warnings: older pips omit them from the report."""
    pattern = r"install is a yanked version: '([^']+)' candidate.*\n(?:Reason for being yanked: ([^\n]*))?"
    return {str(canonicalize_name(m[1])): m[2] or "" for m in re.finditer(pattern, text)}


def lock_wheels(answer: PipAnswer, index: str = "") -> tuple[LockedWheel, ...]:
    """Return the solution's wheels as lock entries."""
    return tuple(LockedWheel(f.name, f.version, f.file, f.sha256, index) for f in answer.found or () if f.sha256)


def judge_answer(answer: PipAnswer, wanted: Iterable[Package]) -> Iterator[PipProblem]:
    """Yield why this solution must not be installed; `wanted` are all packages of the recipe."""
    packages = list(wanted)
    after = {_bare_name(f.name): f for f in (*answer.there, *(answer.found or ()))}
    for found in answer.found or ():
        yield from _check_package(found)
    yield from _check_pins(packages, {name: f.version for name, f in after.items()})
    yield from check_plugin_pairs({name: f.version for name, f in after.items()})
    yield from _check_abi_sensitive(answer)


def judge_additions(answer: PipAnswer) -> Iterator[PipProblem]:
    """Yield the same for dependencies of a local file or folder; these may be compiled."""
    for found in answer.found or ():
        yield from _check_package(replace(found, compiles=""))
    yield from _check_abi_sensitive(answer)


def _check_abi_sensitive(answer: PipAnswer) -> Iterator[PipProblem]:
    """Yield ABI-sensitive packages that would no longer satisfy others."""
    after = {_bare_name(f.name): f for f in (*answer.there, *(answer.found or ()))}
    before = {_bare_name(f.name): f for f in answer.there}
    changed = {_bare_name(f.name) for f in answer.found or ()}
    for name, needs, symptom in _find_broken(after, answer.markers):
        old = before.get(name)
        if (name in changed or needs.name in changed) and not (
            old and old == after[name] and _was_broken(before, needs)
        ):
            why = _(
                "{package} {own_version} requires {needed}{specifier}, but {needed} {version} would be installed",
                needed=needs.name,
                version=after[_bare_name(needs.name)].version,
                package=after[name].name,
                own_version=after[name].version,
                specifier=needs.specifier,
            )
            if symptom:
                why = _("{problem}: {symptom}", problem=why, symptom=symptom)
            yield PipProblem(why, _suggest_bound(needs))


def _check_package(found: ResolvedPackage) -> Iterator[PipProblem]:
    what = f"{found.name} {found.version}"
    if found.yanked is not None:
        why = (
            _("{package} was yanked by its maintainers: {reason}", package=what, reason=redact_text(found.yanked)[:200])
            if found.yanked
            else _("{package} was yanked by its maintainers", package=what)
        )
        yield PipProblem(why, _("set another version in the recipe"))
    if found.direct:
        yield PipProblem(
            _(
                "{package} is installed from a direct URL ({url}), not from an index",
                package=what,
                url=redact_text(found.url)[:200],
            ),
            RANGE,
        )
    if found.compiles:
        why = _(
            "{package} has no wheel for this Python version and would have to be compiled from source ({file})",
            package=what,
            file=found.compiles,
        )
        yield PipProblem(why, _("set a version of {name} that has a wheel, or use another Python", name=found.name))


def _check_pins(wanted: Iterable[Package], versions: Mapping[str, str]) -> Iterator[PipProblem]:
    for package in wanted:
        version = versions.get(_bare_name(package.name))
        if version is not None and not is_satisfied(package, versions):
            why = _(
                "the recipe requires {package}{specifier}, but {package} {version} would be installed",
                package=package.name,
                version=version,
                specifier=package.specifier,
            )
            yield PipProblem(why, RANGE)


def check_plugin_pairs(versions: Mapping[str, str]) -> Iterator[PipProblem]:
    """Yield plugins whose version neither matches their framework nor is in a table of tested pairs.

    `versions` are by canonical name.
    """
    from envcheck.compat import pair_verdicts
    from envcheck.compat.version_records import PairStatus

    for plugin, (framework, strict) in PLUGINS.items():
        ours, theirs = versions.get(plugin), versions.get(framework)
        if not ours or not theirs:
            continue
        known = pair_verdicts.evaluate_pair(plugin, framework, versions)
        tested = known is not None and known.standing is PairStatus.TESTED
        if not tested and not _is_same_base(ours, theirs, strict):
            why = _(
                "{plugin} {version} requires {framework} {wanted}; {framework} {there} found",
                plugin=plugin,
                version=ours,
                framework=framework,
                wanted=ours.partition("+")[0],
                there=theirs,
            )
            yield PipProblem(
                why,
                _(
                    "set the same version of {plugin} and {framework} in the recipe",
                    plugin=plugin,
                    framework=framework,
                ),
            )


def _is_same_base(one: str, other: str, strict: bool) -> bool:
    try:
        a, b = Version(one), Version(other)
    except InvalidVersion:
        return one == other
    return a.base_version == b.base_version and (not strict or (a.pre, a.dev) == (b.pre, b.dev))


def _is_equal_version(one: str, other: str) -> bool:
    try:
        return Version(one) == Version(other)
    except InvalidVersion:
        return one == other


def _find_broken(
    after: Mapping[str, ResolvedPackage], markers: Mapping[str, str]
) -> Iterator[tuple[str, Requirement, Message]]:
    """Yield unmet requirements on ABI-sensitive packages: from metadata, and from envcheck's tables."""
    told = set()
    for name, needs in (
        (name, needs) for name, found in after.items() for needs in _sensitive_requirements(found, markers)
    ):
        there = after.get(_bare_name(needs.name))
        if there and not is_allowed_version(there.version, str(needs.specifier)):
            told.add((name, _bare_name(needs.name)))
            yield name, needs, NOTHING
    for name, needs, why in (each for sensitive in ABI_SENSITIVE for each in _find_known_failures(sensitive, after)):
        if (name, needs.name) not in told:
            yield name, needs, why


def _find_known_failures(
    sensitive: str, after: Mapping[str, ResolvedPackage]
) -> Iterator[tuple[str, Requirement, Message]]:
    """Yield requirements from combinations that envcheck's tables list as tested and failing."""
    from envcheck.compat import pair_verdicts, version_patterns
    from envcheck.compat.version_records import Confidence

    there = after.get(sensitive)
    for row in pair_verdicts.list_bad_rows(sensitive) if there else ():
        allowed = version_patterns.invert_bounds(row.version)
        tried = row.confidence is Confidence.TRIED
        if not (there and tried and allowed and version_patterns.fits_any(sensitive, there.version, row.version)):
            continue
        for name, versions in row.others.items():
            if name in after and version_patterns.fits_any(name, after[name].version, versions):
                yield name, Requirement(sensitive + allowed), fill(row.symptom)


def _sensitive_requirements(found: ResolvedPackage, markers: Mapping[str, str]) -> Iterator[Requirement]:
    for text in found.requires:
        try:
            needs = Requirement(text)
            if _bare_name(needs.name) in ABI_SENSITIVE and (
                not needs.marker or needs.marker.evaluate({**markers, "extra": ""})
            ):
                yield needs
        except (InvalidRequirement, UndefinedEnvironmentName):
            continue  # pip accepts such lines too


def _was_broken(before: Mapping[str, ResolvedPackage], needs: Requirement) -> bool:
    """Return whether the requirement was unmet before: then it does not block this installation."""
    there = before.get(_bare_name(needs.name))
    return bool(there) and not is_allowed_version(there.version if there else "", str(needs.specifier))


def _suggest_bound(needs: Requirement) -> Message:
    return _(
        "add {name}{specifier} to the recipe, before its other packages", name=needs.name, specifier=needs.specifier
    )


def describe_changes(answer: PipAnswer) -> list[Message]:
    """Return the installed packages that would change their version, as text."""
    before = {_bare_name(f.name): f.version for f in answer.there}
    pairs_ = [(f, before.get(_bare_name(f.name))) for f in answer.found or ()]
    return [
        _("{name} {old} changes to {new}", name=f.name, old=old, new=f.version)
        for f, old in pairs_
        if old and old != f.version
    ]


def find_difference(found: Iterable[ResolvedPackage | LockedWheel], versions: Mapping[str, str]) -> Message | None:
    """Return the first package that is not installed as planned; `versions` are by canonical name."""
    for each in found:
        version = versions.get(_bare_name(each.name))
        if version is None or not _is_equal_version(version, each.version):
            return _(
                "expected {name} {version}, got {there}",
                name=each.name,
                version=each.version,
                there=version or _("none"),
            )
    return None


def _bare_name(name: str) -> str:
    return str(canonicalize_name(name.partition("[")[0]))
