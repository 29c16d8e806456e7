"""pip's answer to "what would you install?", judged before anything is: pins, numpy and protobuf, plugins, sources.

Pure.  The answer is the report of pip 22.2 and newer as installers.programs.solve passes it on.
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
from envcheck.core.secrets import redact
from envcheck.vendors import VENDORS
from installers.locks.lockfile import Wheel
from installers.recipes.recipe import Package
from installers.state.environment import fits, within

# Others are compiled against these, and crash or fail to import with a version that they do not know.
TOUCHY = ("numpy", "protobuf")
# A plugin fits the very build of its framework (undefined symbols else: PaddleCustomDevice#1460, Paddle#69403, #74020).
# True: pre-releases must agree, too.  Those of torch count their own: 2.7.1rc1 and 2.7.1.post2 are for torch 2.7.1.
PLUGINS = {
    **{vendor.plugin: ("paddlepaddle", True) for vendor in VENDORS.values() if vendor.plugin},
    **{vendor.torch_plugin: ("torch", False) for vendor in VENDORS.values() if vendor.torch_plugin},
}
RANGE = "name a version that fits in the recipe, or look at the index"


@dataclass(frozen=True)
class ResolvedPackage:
    """A file that pip would install; `url` is where it comes from, `yanked` the reason, None where it is not.

    `compiles` names a file of a source archive that wants a compiler; `direct`: asked for by its address.
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
        return self.file.endswith(".whl")


@dataclass(frozen=True)
class PipAnswer:
    """`there`: what is installed, with what it asks for; `kept`: files already fetched; `markers`: of that Python."""

    pip: str
    found: tuple[ResolvedPackage, ...] | None = None  # None: this pip cannot say
    there: tuple[ResolvedPackage, ...] = ()
    kept: tuple[str, ...] = ()
    markers: Mapping[str, str] = field(default_factory=dict)

    @property
    def local(self) -> bool:
        """Whether all of it can be installed without the index: wheels, and all of them fetched."""
        return all(f.is_wheel and (f.file in self.kept or f.url.startswith("file:")) for f in self.found or ())


@dataclass(frozen=True)
class PipProblem:
    why: str
    remedy: str


def read(text: str) -> PipAnswer:
    """The program's line among what it wrote; StepError when there is none that can be understood."""
    line = next((x for x in reversed(text.splitlines()) if x.startswith("ENVCHECK ")), "")
    try:
        said = json.loads(line.removeprefix("ENVCHECK "))
        if "install" not in said:
            return PipAnswer(str(said["pip_version"]))
        sources = {str(k): str(v) for k, v in said["sources"].items()}
        withdrawn = _withdrawn(text)
        return PipAnswer(
            str(said["pip_version"]),
            tuple(_found(item, sources, withdrawn) for item in said["install"]),
            tuple(
                ResolvedPackage(str(d["name"]), str(d["version"]), requires=tuple(d["requires"])) for d in said["there"]
            ),
            tuple(str(name) for name in said["kept"]),
            {str(k): str(v) for k, v in said["environment"].items()},
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as err:
        why = f"{type(err).__name__} {err}"[:100]
        raise StepError(f"pip's report cannot be understood: {why}", "look at pip.log; another pip may help") from None


def _found(item: Mapping[str, Any], sources: Mapping[str, str], withdrawn: Mapping[str, str]) -> ResolvedPackage:
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


def _withdrawn(text: str) -> dict[str, str]:
    """Reasons by name, from pip's warning: older pips do not say it in the report."""
    pattern = r"install is a yanked version: '([^']+)' candidate.*\n(?:Reason for being yanked: ([^\n]*))?"
    return {str(canonicalize_name(m[1])): m[2] or "" for m in re.finditer(pattern, text)}


def wheels(answer: PipAnswer, index: str = "") -> tuple[Wheel, ...]:
    """What the lock says of it."""
    return tuple(Wheel(f.name, f.version, f.file, f.sha256, index) for f in answer.found or () if f.sha256)


def judge(answer: PipAnswer, wanted: Iterable[Package]) -> Iterator[PipProblem]:
    """Why this answer must not be installed, the first reason first; `wanted` are all packages of the recipe."""
    packages = list(wanted)
    after = {_bare(f.name): f for f in (*answer.there, *(answer.found or ()))}
    for found in answer.found or ():
        yield from _of_itself(found)
    yield from _pins(packages, {name: f.version for name, f in after.items()})
    yield from pairs({name: f.version for name, f in after.items()})
    yield from _moved(answer)


def added(answer: PipAnswer) -> Iterator[PipProblem]:
    """The same of what something that is asked for by its place needs: that may be compiled, as it may itself."""
    for found in answer.found or ():
        yield from _of_itself(replace(found, compiles=""))
    yield from _moved(answer)


def _moved(answer: PipAnswer) -> Iterator[PipProblem]:
    """Touchy packages that would not suit others any more."""
    after = {_bare(f.name): f for f in (*answer.there, *(answer.found or ()))}
    before = {_bare(f.name): f for f in answer.there}
    changed = {_bare(f.name) for f in answer.found or ()}
    for name, needs, why in _broken(after, answer.markers):
        old = before.get(name)
        if (name in changed or needs.name in changed) and not (old and old == after[name] and _was(before, needs)):
            there = after[_bare(needs.name)].version
            words = f"{after[name].name} {after[name].version} wants {needs.name}{needs.specifier}{why}"
            yield PipProblem(f"{needs.name} {there} would be there, and {words}", _bound(needs))


def _of_itself(found: ResolvedPackage) -> Iterator[PipProblem]:
    what = f"{found.name} {found.version}"
    if found.yanked is not None:
        reason = f": {redact(found.yanked)[:200]}" if found.yanked else ""
        yield PipProblem(f"{what} was withdrawn by its makers{reason}", "name another version in the recipe")
    if found.direct:
        yield PipProblem(
            f"{what} comes from an address of its own, {redact(found.url)[:200]}, not from an index", RANGE
        )
    if found.compiles:
        why = f"{what} has no wheel for this Python here, and its source would have to be compiled ({found.compiles})"
        yield PipProblem(why, f"name a version of {found.name} that has a wheel, or another Python")


def _pins(wanted: Iterable[Package], versions: Mapping[str, str]) -> Iterator[PipProblem]:
    for package in wanted:
        version = versions.get(_bare(package.name))
        if version is not None and not fits(package, versions):
            why = f"{package.name} {version} would be there, and the recipe wants {package.specifier}"
            yield PipProblem(why, RANGE)


def pairs(versions: Mapping[str, str]) -> Iterator[PipProblem]:
    """Plugins that are not of their framework's version, nor in any table with it; `versions` by canonical name."""
    from envcheck.compat import judging
    from envcheck.compat.model import Standing

    for plugin, (framework, strict) in PLUGINS.items():
        ours, theirs = versions.get(plugin), versions.get(framework)
        if not ours or not theirs:
            continue
        known = judging.pair(plugin, framework, versions)
        tested = known is not None and known.standing is Standing.TESTED
        if not tested and not _same(ours, theirs, strict):
            why = f"{plugin} {ours} is made for {framework} {ours.partition('+')[0]}, and {framework} is {theirs}"
            yield PipProblem(why, f"name the same version of {plugin} and {framework} in the recipe")


def _same(one: str, other: str, strict: bool) -> bool:
    try:
        a, b = Version(one), Version(other)
    except InvalidVersion:
        return one == other
    return a.base_version == b.base_version and (not strict or (a.pre, a.dev) == (b.pre, b.dev))


def _equal(one: str, other: str) -> bool:
    try:
        return Version(one) == Version(other)
    except InvalidVersion:
        return one == other


def _broken(after: Mapping[str, ResolvedPackage], markers: Mapping[str, str]) -> Iterator[tuple[str, Requirement, str]]:
    """Whose wish for a touchy package does not come true: by metadata, and by what they do not say."""
    told = set()
    for name, needs in ((name, needs) for name, found in after.items() for needs in _needs(found, markers)):
        there = after.get(_bare(needs.name))
        if there and not within(there.version, str(needs.specifier)):
            told.add((name, _bare(needs.name)))
            yield name, needs, ""
    for name, needs, why in (each for touchy in TOUCHY for each in _unsaid(touchy, after)):
        if (name, needs.name) not in told:
            yield name, needs, why


def _unsaid(touchy: str, after: Mapping[str, ResolvedPackage]) -> Iterator[tuple[str, Requirement, str]]:
    """What envcheck's tables know to fail because it was tried; what metadata say is pip's own to judge."""
    from envcheck.compat import judging, patterns
    from envcheck.compat.model import Confidence

    there = after.get(touchy)
    for row in judging.bad(touchy) if there else ():
        allowed = patterns.outside(row.version)
        tried = row.confidence is Confidence.TRIED
        if not (there and tried and allowed and patterns.fits(touchy, there.version, row.version)):
            continue
        for name, versions in row.others.items():
            if name in after and patterns.fits(name, after[name].version, versions):
                yield name, Requirement(touchy + allowed), f": {row.symptom}"


def _needs(found: ResolvedPackage, markers: Mapping[str, str]) -> Iterator[Requirement]:
    for text in found.requires:
        try:
            needs = Requirement(text)
            if _bare(needs.name) in TOUCHY and (not needs.marker or needs.marker.evaluate({**markers, "extra": ""})):
                yield needs
        except (InvalidRequirement, UndefinedEnvironmentName):
            continue  # what pip itself did not stumble over


def _was(before: Mapping[str, ResolvedPackage], needs: Requirement) -> bool:
    """It was as wrong before: not ours to refuse."""
    there = before.get(_bare(needs.name))
    return bool(there) and not within(there.version if there else "", str(needs.specifier))


def _bound(needs: Requirement) -> str:
    return f"put {needs.name}{needs.specifier} into the recipe before the others"


def changes(answer: PipAnswer) -> list[str]:
    """What is there in another version and would be replaced, in words."""
    before = {_bare(f.name): f.version for f in answer.there}
    pairs_ = [(f, before.get(_bare(f.name))) for f in answer.found or ()]
    return [f"{f.name} {old} becomes {f.version}" for f, old in pairs_ if old and old != f.version]


def difference(found: Iterable[ResolvedPackage | Wheel], versions: Mapping[str, str]) -> str | None:
    """After the installation: the first one that is not there as it was announced; `versions` by canonical name."""
    for each in found:
        version = versions.get(_bare(each.name))
        if version is None or not _equal(version, each.version):
            return f"{each.name} {each.version} was to be installed, and there is {version or 'none'}"
    return None


def _bare(name: str) -> str:
    return str(canonicalize_name(name.partition("[")[0]))
