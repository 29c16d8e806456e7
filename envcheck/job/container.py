"""The container of a job: the least privileges that work, or the published document's own options.  Pure.

A container is made once and serves all jobs of its recipe: it has the cards of the job that asks, and as many more of
those that are present as another job of the recipe takes.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from envcheck.core.facts import Engine, Facts
from envcheck.core.vendor import Vendor
from envcheck.job.cards import card_node, card_numbers, count_cards, has_device, select_card_ids
from envcheck.vendors import VENDORS
from installers.recipes.by_hand import reference
from installers.recipes.container_spec import Spec, as_written, capability, node, placed
from installers.recipes.docker_cli import device_word
from installers.recipes.recipe import Container, Mount, Recipe
from probes.host import schemas

# What gives the host away, and comes with the document's own options alone: lint's container.privileges names the same.
HOST_DEVICES, HOST_PIDS = "/dev", "host"
HOST_CAPABILITIES = frozenset({"ALL", "SYS_ADMIN"})


@dataclass(frozen=True)
class CardGrant:
    """How the cards come into a container; `words` says it for people."""

    words: str
    devices: tuple[str, ...] = ()
    cdi: tuple[str, ...] = ()
    runtime: str = ""
    is_privileged: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class JobContainer:
    """`grant` says how the cards come in; `own_folders` are the user's among the sources of mounts.

    `as_published`: with the document's own options.  `is_verified` is False for a container with cards that the
    document does not have like this: nobody here has run it on that hardware.
    """

    spec: Spec
    grant: CardGrant
    own_folders: tuple[str, ...] = ()
    as_published: bool = False
    is_verified: bool = True


def derive_container(
    recipe: Recipe,
    facts: Facts,
    device: str,
    ids: Sequence[int],
    architecture: str,
    folder: str,
    as_published: bool = False,
) -> JobContainer | None:
    """The container in which the recipe's jobs run on the machine of `facts`; None for a recipe without one.

    `device` is the vendor's name, `ids` are the cards of the job by the numbers of their device nodes
    (`envcheck.job.cards.select_card_ids`), `architecture` is the host's, in uname's words.  Relative sources of mounts
    start at `folder`.  It is never privileged unless `as_published`.  Cards come in by CDI names where the engine has
    all of them; by their device nodes and the vendor's control nodes where these suffice; else by the vendor's runtime
    where the engine has it, and by the nodes where it has not.  On a machine without such cards its facts do not count.
    """
    box = recipe.container
    image = recipe.image and reference(recipe.image, architecture)
    if box is None or not image:
        return None
    vendor = VENDORS[device]
    facts = facts if has_device(facts, device) else Facts()
    numbers = _cards_of_all_jobs(recipe, facts, device, ids)
    least = _grant_least(box, vendor, facts.engine, numbers)
    published = _grant_published(recipe, box, least)
    written = _found_mounts(replace(as_written(box, image, folder), recipe=recipe.name), vendor, facts)
    by_document = _granted(written, published)
    own = tuple(placed(mount.source, folder) for mount in box.mounts if not mount.source.startswith("/"))
    if as_published:
        return JobContainer(by_document, published, own, as_published=True)
    spec = _without_host(_granted(written, least), vendor, len(numbers))
    return JobContainer(spec, least, own, is_verified=spec == by_document or not vendor.node_pattern)


def describe_doubt(container: JobContainer | None, recipe: str) -> str:
    """That nobody has run a derived container on such hardware, and what to do where it sees no device; "" where the
    document itself has it."""
    if container is None or container.is_verified:
        return ""
    published = f"envcheck provision --recipe {recipe} --as-published --recreate"
    return f"this container is not verified on hardware; if it sees no device: {published}"


def as_values(container: JobContainer) -> dict[str, Any]:
    """The container in the document of a job; `devices` are nodes or CDI names, none where a runtime brings them."""
    spec = container.spec
    return {
        "privileged": spec.privileged,
        "devices": [*map(device_word, spec.devices), *spec.cdi],
        "mounts": [f"{m.source}:{m.target}{':ro' if m.read_only else ''}" for m in spec.mounts],
        "network": spec.network or "bridge",
        "ipc": spec.ipc or "private",
        "runtime": spec.runtime,
    }


def is_published_privileged(recipe: Recipe) -> bool:
    """A recipe may say otherwise than its document: then the note holds what the document says."""
    note = recipe.notes.get("container.privileged")
    published = note.seed_value if note else None
    return published if isinstance(published, bool) else bool(recipe.container and recipe.container.privileged)


def _cards_of_all_jobs(recipe: Recipe, facts: Facts, device: str, ids: Sequence[int]) -> tuple[int, ...]:
    """On a machine without such cards those of a machine that has enough."""
    most = count_cards(recipe, device)
    there = select_card_ids(recipe, facts, device, None) or select_card_ids(recipe, facts, device, most)
    others = [number for number in there if number not in ids]
    return tuple(sorted((*ids, *others)[: None if most is None else max(most, len(ids))]))


def _grant_least(box: Container, vendor: Vendor, engine: Engine | None, numbers: tuple[int, ...]) -> CardGrant:
    own = {*vendor.control_nodes, *(card_node(number, vendor) for number in card_numbers(box.devices, vendor))}
    others = tuple(path for path in box.devices if path not in own)
    if not numbers:
        return CardGrant("the listed device nodes" if others else "no cards", others)
    names = tuple(f"{vendor.cdi_kind}={number}" for number in numbers) if vendor.cdi_kind else ()
    if names and engine and set(names) <= set(engine.cdi):
        return CardGrant("CDI names", others, cdi=names)
    if vendor.runtime and engine and vendor.runtime in engine.runtimes and not vendor.nodes_suffice:
        chosen = {vendor.runtime_env: ",".join(map(str, numbers))}
        return CardGrant(f"the runtime {vendor.runtime}", others, runtime=vendor.runtime, environment=chosen)
    cards = (card_node(number, vendor) for number in numbers)
    return CardGrant("the device nodes", (*cards, *vendor.control_nodes, *others))


def _grant_published(recipe: Recipe, box: Container, least: CardGrant) -> CardGrant:
    """A privileged container sees all devices whatever its list says: then there is none."""
    if is_published_privileged(recipe):
        return CardGrant("privileged, as the document has it: all of the host's devices", is_privileged=True)
    return CardGrant("the listed device nodes", box.devices) if box.devices else least


def _granted(spec: Spec, grant: CardGrant) -> Spec:
    return replace(
        spec,
        devices=tuple(map(node, grant.devices)),
        cdi=grant.cdi,
        runtime=grant.runtime,
        privileged=grant.is_privileged,
        environment={**spec.environment, **grant.environment},
    )


def _without_host(spec: Spec, vendor: Vendor, count: int) -> Spec:
    """Without what gives the host away; the variable that selects cards counts those that the container has."""
    selected = {vendor.visible_env: ",".join(map(str, range(count)))} if vendor.visible_env in spec.environment else {}
    return replace(
        spec,
        mounts=tuple(mount for mount in spec.mounts if mount.source != HOST_DEVICES),
        pid="" if spec.pid == HOST_PIDS else spec.pid,
        capabilities=tuple(name for name in spec.capabilities if capability(name) not in HOST_CAPABILITIES),
        environment={**spec.environment, **selected},
    )


def _found_mounts(spec: Spec, vendor: Vendor, facts: Facts) -> Spec:
    return replace(spec, mounts=tuple(_found_mount(mount, vendor, facts) for mount in spec.mounts))


def _found_mount(mount: Mount, vendor: Vendor, facts: Facts) -> Mount:
    """A file of the driver from where this host has it: npu-smi is in /usr/local/bin or in /usr/local/sbin."""
    seen = schemas.paths(facts)
    if seen is None or mount.source not in vendor.driver_files or mount.source in seen.paths:
        return mount
    same_name = (path for path in vendor.driver_files if posixpath.basename(path) == posixpath.basename(mount.source))
    return replace(mount, source=next((path for path in same_name if path in seen.paths), mount.source))
