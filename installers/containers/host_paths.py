"""The paths of this host that a container needs: missing folders, and obstacles to creating the container.  Pure."""

from __future__ import annotations

import enum
import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from envcheck.core.messages import Message, _, join, ngettext, verbatim
from envcheck.job.container_privileges import JobContainer
from envcheck.vendors import VENDORS
from installers.plan.requirement import Obstacle
from installers.recipes.container_spec import ContainerSpec
from installers.recipes.recipe import Recipe

_SHOWN = 3
OF_KERNEL = {"/lib/modules", "/usr/src"}


class PathKind(str, enum.Enum):
    """The kind of an existing path; FILE is everything but a folder."""

    FILE = "file"
    FOLDER = "folder"


@dataclass(frozen=True)
class ContainerPlan:
    """The container to create; `folders` are the missing folders of the user to create before it.

    With an obstacle it cannot be created.
    """

    container: JobContainer
    folders: tuple[str, ...] = ()
    obstacles: tuple[Obstacle, ...] = ()

    @property
    def spec(self) -> ContainerSpec:
        return self.container.spec


def plan_container(recipe: Recipe, found: JobContainer, image: str, kinds: Mapping[str, PathKind]) -> ContainerPlan:
    """Return the plan for a container of `image` (a name with digest, or an id); `kinds` has the existing paths."""
    pinned = replace(found, spec=replace(found.spec, image=image))
    folders = tuple(source for source in found.own_folders if source not in kinds)
    obstacles = (
        *_check_targets(pinned.spec),
        *_check_sources(recipe, pinned, kinds),
        *_check_devices(recipe, pinned, kinds),
    )
    return ContainerPlan(pinned, folders, obstacles)


def _check_targets(spec: ContainerSpec) -> Iterator[Obstacle]:
    """Two mounts cannot have one target: the engine would refuse the container after the pull."""
    sources: dict[str, list[str]] = {}
    for mount in spec.mounts:
        sources.setdefault(posixpath.normpath(mount.target), []).append(mount.source)
    for target, several in sources.items():
        if len(several) > 1:
            yield Obstacle(
                _(
                    "{target} in the container is the target of several mounts: {sources}",
                    target=target,
                    sources=join(", ", several),
                ),
                _("remove all but one from the recipe and from [site] of envcheck.toml"),
            )


def _check_sources(recipe: Recipe, found: JobContainer, kinds: Mapping[str, PathKind]) -> Iterator[Obstacle]:
    doctor, own, site = f"envcheck doctor --device {recipe.device}", found.own_folders, found.spec.site_sources
    missing = [m.source for m in found.spec.mounts if m.source not in kinds and m.source not in own]
    if of_site := [source for source in missing if source in site]:
        yield Obstacle(
            _describe_absent(of_site), _("[site] of envcheck.toml names it: create it, or correct the settings")
        )
    if absent := [source for source in missing if source not in site]:
        yield Obstacle(
            _describe_absent(absent),
            _("the kernel's packages provide it: on Debian and Ubuntu, linux-image and linux-headers of `uname -r`")
            if set(absent) <= OF_KERNEL
            else ngettext(
                "the vendor's driver provides it: {command}; if it is your own folder, create it",
                "the vendor's driver provides them: {command}; if they are your own folders, create them",
                len(absent),
                command=doctor,
            ),
        )
    for source in (m.source for m in found.spec.mounts):
        kind = kinds.get(source)
        if kind is PathKind.FOLDER and source not in site and _names_a_file(source):
            yield Obstacle(
                _(
                    "{source} is a folder but should be a file: a container engine created it as a mount point",
                    source=source,
                ),
                _("run `rmdir {source}`, then install the file; {doctor} shows how", source=source, doctor=doctor),
            )
        elif kind is PathKind.FILE and source in own:
            yield Obstacle(
                _("{source} is a file, but the container needs a folder there", source=source),
                _("move the file, or run the command in another folder"),
            )


def _describe_absent(sources: list[str]) -> Message:
    paths = verbatim(sources[-1])
    if len(sources) > 1:
        paths = _("{paths} and {last_path}", paths=join(", ", sources[:-1]), last_path=sources[-1])
    return ngettext(
        "{paths} does not exist on this host; the engine would create an empty folder there",
        "{paths} do not exist on this host; the engine would create empty folders there",
        len(sources),
        paths=paths,
    )


def _names_a_file(path: str) -> bool:
    """Return whether the path looks like a file: in bin or sbin, or with an extension (/etc/ascend_install.info)."""
    folder, name = posixpath.split(path)
    return posixpath.basename(folder) in ("bin", "sbin") or bool(re.fullmatch(r".+\.[a-z]{2,5}", name))


def _check_devices(recipe: Recipe, found: JobContainer, kinds: Mapping[str, PathKind]) -> Iterator[Obstacle]:
    vendor, grant = VENDORS[recipe.device], found.grant
    doctor = verbatim(f"envcheck doctor --device {recipe.device}")
    missing = [path for path in (device.split(":")[0] for device in found.spec.devices) if path not in kinds]
    if missing:
        paths = verbatim(", ".join(missing[:_SHOWN]))
        if len(missing) > _SHOWN:
            paths = _("{names} and {count} more", names=paths, count=len(missing) - _SHOWN)
        yield Obstacle(
            ngettext(
                "{paths} does not exist on this host",
                "{paths} do not exist on this host",
                len(missing),
                paths=paths,
            ),
            doctor,
        )
    by_nodes = not (grant.is_privileged or grant.cdi or grant.runtime)
    if by_nodes and vendor.node_pattern and not vendor.nodes_suffice:
        why = _(
            "cannot pass {title} devices to a container: no CDI name and no runtime {runtime}",
            title=vendor.title,
            runtime=vendor.runtime,
        )
        yield Obstacle(why, doctor)
