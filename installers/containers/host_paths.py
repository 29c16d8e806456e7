"""The paths of this host that a container needs: which are missing, and what stands in the way of it.  Pure."""

from __future__ import annotations

import enum
import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from envcheck.job.container import JobContainer
from envcheck.vendors import VENDORS
from installers.plan.requirement import Obstacle
from installers.recipes.container_spec import Spec
from installers.recipes.recipe import Recipe

_SHOWN = 3


class PathKind(str, enum.Enum):
    FILE = "file"
    FOLDER = "folder"


@dataclass(frozen=True)
class ContainerPlan:
    """The container that is to be, of a certain image; `folders` are ours, missing, and to be made before it.

    An obstacle forbids to begin.
    """

    container: JobContainer
    folders: tuple[str, ...] = ()
    obstacles: tuple[Obstacle, ...] = ()

    @property
    def spec(self) -> Spec:
        return self.container.spec


def plan_container(recipe: Recipe, found: JobContainer, image: str, kinds: Mapping[str, PathKind]) -> ContainerPlan:
    """`image` is a name with its digest, or an id; `kinds` of the paths that are there, absent ones are not in it."""
    made = replace(found, spec=replace(found.spec, image=image))
    folders = tuple(source for source in found.own_folders if source not in kinds)
    return ContainerPlan(made, folders, (*_sources(recipe, made, kinds), *_cards(recipe, made, kinds)))


def _sources(recipe: Recipe, found: JobContainer, kinds: Mapping[str, PathKind]) -> Iterator[Obstacle]:
    doctor, own = f"envcheck doctor --device {recipe.device}", found.own_folders
    absent = [m.source for m in found.spec.mounts if m.source not in kinds and m.source not in own]
    if absent:
        are, come, a = ("is", "it comes", "an empty folder in its place")
        if len(absent) > 1:
            are, come, a = ("are", "they come", "empty folders in their place")
        yield Obstacle(
            f"{' and '.join(filter(None, (', '.join(absent[:-1]), absent[-1])))} {are} not on this host, and the engine"
            f" would make {a}",
            f"{come} with the vendor's driver: {doctor}; a folder of yours is yours to make",
        )
    for source in (m.source for m in found.spec.mounts):
        kind = kinds.get(source)
        if kind is PathKind.FOLDER and _names_a_file(source):
            yield Obstacle(
                f"{source} is a folder where a file belongs: an engine once made it for a container",
                f"rmdir {source}; then install the file, or let {doctor} say how",
            )
        elif kind is PathKind.FILE and source in own:
            yield Obstacle(f"{source} is a file, and the container wants a folder there", "move it, or start elsewhere")


def _names_a_file(path: str) -> bool:
    """Programs, and names with an ending (/etc/ascend_install.info)."""
    folder, name = posixpath.split(path)
    return posixpath.basename(folder) in ("bin", "sbin") or bool(re.fullmatch(r".+\.[a-z]{2,5}", name))


def _cards(recipe: Recipe, found: JobContainer, kinds: Mapping[str, PathKind]) -> Iterator[Obstacle]:
    vendor, grant = VENDORS[recipe.device], found.grant
    doctor = f"envcheck doctor --device {recipe.device}"
    missing = [path for path in (device.split(":")[0] for device in found.spec.devices) if path not in kinds]
    if missing:
        more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
        are = "is" if len(missing) == 1 else "are"
        yield Obstacle(f"{', '.join(missing[:_SHOWN])}{more} {are} not on this host", doctor)
    by_nodes = not (grant.is_privileged or grant.cdi or grant.runtime)
    if by_nodes and vendor.node_pattern and not vendor.nodes_suffice:
        why = f"no way leads {vendor.title}'s cards into a container: no CDI name, no runtime {vendor.runtime}"
        yield Obstacle(why, doctor)
