"""Recipe + facts of the host → the container that is to be.  Pure: looks at nothing but its arguments."""

from __future__ import annotations

import enum
import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from envcheck.core.vendor import Vendor
from envcheck.vendors import VENDORS
from installers.plan.requirement import Obstacle
from installers.recipes.container_spec import Spec, as_written, node, placed
from installers.recipes.recipe import Container, Mount, Recipe

_ALL_DEVICES = "/dev"  # mounted whole it is a privilege of its own
_SHOWN = 3


class Mode(str, enum.Enum):
    """How much a container may: what the vendor's document gives it, or only what the recipe lists."""

    DOCUMENT = "document"
    LEAST = "least-privilege"


class PathKind(str, enum.Enum):
    FILE = "file"
    FOLDER = "folder"


@dataclass(frozen=True)
class ContainerHostFacts:
    """What of the host decides: `kinds` of the paths that are there, absent ones are not in it.

    `folder` is where relative sources start; `nodes` are the vendor's device nodes in the order of their numbers;
    `cdi` the names that the engine itself lists, `runtimes` those it has registered.
    """

    folder: str
    kinds: Mapping[str, PathKind] = field(default_factory=dict)
    nodes: tuple[str, ...] = ()
    runtimes: tuple[str, ...] = ()
    cdi: tuple[str, ...] = ()


@dataclass(frozen=True)
class Grant:
    """How the cards come in; `how` says it for people."""

    how: str
    devices: tuple[str, ...] = ()
    cdi: tuple[str, ...] = ()
    runtime: str = ""
    privileged: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ContainerPlan:
    """`folders` are ours, missing, and to be made before the container; an obstacle forbids to begin."""

    spec: Spec
    cards: str
    folders: tuple[str, ...] = ()
    obstacles: tuple[Obstacle, ...] = ()


def draw(recipe: Recipe, ground: ContainerHostFacts, image: str, mode: Mode = Mode.DOCUMENT) -> ContainerPlan | None:
    """None for a recipe that runs on the host; `image` by digest or id."""
    box = recipe.container
    if box is None:
        return None
    grant = _grant(recipe, box, ground, mode)
    spec = replace(
        as_written(box, image, ground.folder),
        recipe=recipe.name,
        mounts=tuple(_mounts(box, ground, mode)),
        devices=tuple(map(node, grant.devices)),
        cdi=grant.cdi,
        runtime=grant.runtime,
        privileged=grant.privileged,
        environment={**box.environment, **grant.environment},
    )
    own = own_sources(box, ground.folder)
    folders = tuple(source for source in own if source not in ground.kinds)
    obstacles = (*_sources(recipe, spec, own, ground), *_cards(recipe, box, grant, ground))
    return ContainerPlan(spec, grant.how, folders, obstacles)


def own_sources(box: Container, folder: str) -> tuple[str, ...]:
    """The user's own folders among the mounts, from the root down."""
    return tuple(placed(m.source, folder) for m in box.mounts if not m.source.startswith("/"))


def privileged_by_document(recipe: Recipe) -> bool:
    """The recipe may say otherwise than the document: then its note holds what the document says."""
    note = recipe.notes.get("container.privileged")
    said = note.seed_value if note else None
    return said if isinstance(said, bool) else bool(recipe.container and recipe.container.privileged)


def beside(path: str) -> str:
    """Where a tool stands on hosts that have it elsewhere: npu-smi is in /usr/local/bin or /usr/local/sbin."""
    folder, name = posixpath.split(path)
    parent, last = posixpath.split(folder)
    other = {"bin": "sbin", "sbin": "bin"}.get(last)
    return posixpath.join(parent, other, name) if other else path


def _grant(recipe: Recipe, box: Container, ground: ContainerHostFacts, mode: Mode) -> Grant:
    """A privileged container sees all devices whatever its list says: then there is none."""
    vendor = VENDORS[recipe.device]
    if mode is Mode.DOCUMENT and privileged_by_document(recipe):
        return Grant("privileged, as the document has it: all of the host's devices", privileged=True)
    if mode is Mode.DOCUMENT and box.devices:
        return Grant("the listed device nodes", devices=box.devices)
    ids = _ids(recipe, box, ground, vendor)
    names = tuple(f"{vendor.cdi_kind}={number}" for number in ids) if vendor.cdi_kind else ()
    if names and set(names) <= set(ground.cdi):
        return Grant("CDI names", cdi=names)
    if vendor.runtime in ground.runtimes and vendor.runtime and ids:
        return Grant(
            f"the runtime {vendor.runtime}", runtime=vendor.runtime, environment={vendor.runtime_env: ",".join(ids)}
        )
    nodes = box.devices or ground.nodes[: recipe.hardware.cards]
    return Grant("the device nodes" if nodes else "no cards", devices=nodes)


def _ids(recipe: Recipe, box: Container, ground: ContainerHostFacts, vendor: Vendor) -> tuple[str, ...]:
    """The cards' numbers in /dev: those that the recipe lists, else the first that are there."""
    pattern = re.escape(vendor.node_pattern).replace(re.escape("[0-9]*"), r"(\d+)")
    listed = [m[1] for path in box.devices if vendor.node_pattern and (m := re.fullmatch(pattern, path))]
    there = [m[1] for path in ground.nodes if (m := re.fullmatch(pattern, path))]
    return tuple(listed or there[: recipe.hardware.cards])


def _mounts(box: Container, ground: ContainerHostFacts, mode: Mode) -> Iterator[Mount]:
    for written, mount in zip(as_written(box, "", ground.folder).mounts, box.mounts, strict=True):
        if mode is Mode.LEAST and written.source == _ALL_DEVICES:
            continue
        elsewhere = beside(written.source)
        moved = mount.source.startswith("/") and written.source not in ground.kinds and elsewhere in ground.kinds
        yield replace(written, source=elsewhere) if moved else written


def _sources(recipe: Recipe, spec: Spec, own: tuple[str, ...], ground: ContainerHostFacts) -> Iterator[Obstacle]:
    doctor = f"envcheck doctor --device {recipe.device}"
    absent = [m.source for m in spec.mounts if m.source not in ground.kinds and m.source not in own]
    if absent:
        are, come, a = ("is", "it comes", "an empty folder in its place")
        if len(absent) > 1:
            are, come, a = ("are", "they come", "empty folders in their place")
        yield Obstacle(
            f"{' and '.join(filter(None, (', '.join(absent[:-1]), absent[-1])))} {are} not on this host, and the engine"
            f" would make {a}",
            f"{come} with the vendor's driver: {doctor}; a folder of yours is yours to make",
        )
    for source in (m.source for m in spec.mounts):
        kind = ground.kinds.get(source)
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


def _cards(recipe: Recipe, box: Container, grant: Grant, ground: ContainerHostFacts) -> Iterator[Obstacle]:
    vendor = VENDORS[recipe.device]
    doctor = f"envcheck doctor --device {recipe.device}"
    missing = [path for path in (d.split(":")[0] for d in box.devices) if path not in ground.kinds]
    if missing:
        more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
        are = "is" if len(missing) == 1 else "are"
        yield Obstacle(f"{', '.join(missing[:_SHOWN])}{more} {are} not on this host", doctor)
    by_nodes = not (grant.privileged or grant.cdi or grant.runtime)
    if by_nodes and vendor.node_pattern and not box.devices and not (grant.devices and vendor.nodes_suffice):
        why = f"no way leads {vendor.title}'s cards into a container: no CDI name, no runtime {vendor.runtime}"
        yield Obstacle(why + ("" if not vendor.nodes_suffice else f", no {vendor.node_pattern}"), doctor)
