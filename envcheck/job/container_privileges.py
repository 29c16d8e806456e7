"""The container of a job: with the least privileges that work, or with the options of the published document.  Pure.

One container serves all jobs of its recipe: it has the cards of the requested job, and as many more of the present ones
as the largest job of the recipe uses.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from envcheck.core.facts import EngineFacts, Facts
from envcheck.core.messages import NOTHING, Message, _
from envcheck.core.vendor import Vendor
from envcheck.job.card_ids import count_cards, format_card_node, has_device, parse_card_numbers, select_card_ids
from envcheck.vendors import VENDORS
from installers.recipes.container_spec import (
    ContainerSpec,
    build_spec,
    normalize_capability,
    normalize_device,
    resolve_source,
)
from installers.recipes.docker_cli import device_word
from installers.recipes.manual_steps import find_reference
from installers.recipes.recipe import Mount, Recipe, RecipeContainer
from probes.host import schemas

# Access to the host, granted only with the published options; lint's container.privileges reports the same.
HOST_DEVICES, HOST_PIDS = "/dev", "host"
HOST_CAPABILITIES = frozenset({"ALL", "SYS_ADMIN"})


@dataclass(frozen=True)
class CardGrant:
    """How a container gets access to the cards; `words` describes it to users."""

    words: str
    devices: tuple[str, ...] = ()
    cdi: tuple[str, ...] = ()
    runtime: str = ""
    is_privileged: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class JobContainer:
    """`grant`: how it gets the cards; `own_folders`: mount sources that belong to the user.

    `as_published`: with the options of the published document.  `is_verified` is False for a container whose options
    differ from the document: it has not been run on that hardware.  `cards` are the device node numbers in it.
    """

    spec: ContainerSpec
    grant: CardGrant
    own_folders: tuple[str, ...] = ()
    as_published: bool = False
    is_verified: bool = True
    cards: tuple[int, ...] = ()

    def number_nodes(self, nodes: Sequence[int]) -> tuple[int, ...]:
        """Return the numbers in the container of these cards of the host; a privileged one counts as the host does."""
        if self.spec.privileged or not set(nodes) <= set(self.cards):
            return tuple(nodes)
        return tuple(self.cards.index(node) for node in nodes)


def derive_container(
    recipe: Recipe,
    facts: Facts,
    device: str,
    ids: Sequence[int],
    architecture: str,
    folder: str,
    as_published: bool = False,
    only: bool = False,
) -> JobContainer | None:
    """Return the container for the recipe's jobs on the machine of `facts`; None for a recipe without a container.

    `device` is the vendor's name, `ids` are the device node numbers of the job's cards, `architecture` is that of
    `uname -m`.  Relative mount sources start at `folder`.  The container that exists keeps its cards if the job's are
    among them; a new one gets those of the job and, unless `only`, as many more as the recipe's other jobs use.  It is
    privileged only if `as_published`.  It gets the cards by CDI if the engine knows all of them; else by the vendor's
    runtime if the device nodes do not suffice and the engine has it; else by the device nodes and the vendor's
    control nodes.  The facts of a machine without such cards are ignored.
    """
    box = recipe.container
    image = recipe.image and find_reference(recipe.image, architecture)
    if box is None or not image:
        return None
    vendor = VENDORS[device]
    facts = facts if has_device(facts, device) else Facts()
    numbers = _choose_container_cards(recipe, facts, device, ids, only)
    least = _grant_least(box, vendor, facts.engine, numbers)
    published = _grant_published(recipe, box, least)
    written = _locate_mounts(replace(build_spec(box, image, folder), recipe=recipe.name), vendor, facts)
    by_document = _apply_grant(written, published)
    own = tuple(resolve_source(mount.source, folder) for mount in box.mounts if not mount.source.startswith("/"))
    if as_published:
        return JobContainer(by_document, published, own, as_published=True, cards=numbers)
    spec = _drop_host_access(_apply_grant(written, least), vendor, len(numbers))
    return JobContainer(spec, least, own, is_verified=spec == by_document or not vendor.node_pattern, cards=numbers)


def describe_doubt(container: JobContainer | None, recipe: str) -> Message:
    """Return a note that a derived container is not verified, and what to do if it sees no device; "" if it is."""
    if container is None or container.is_verified:
        return NOTHING
    published = f"envcheck provision --recipe {recipe} --as-published --recreate"
    return _("this container is not verified on hardware; if it sees no device: {published}", published=published)


def as_values(container: JobContainer) -> dict[str, Any]:
    """Return the container for JSON; `devices` are nodes or CDI names, empty if a runtime provides them."""
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
    """Whether the published document uses --privileged; where the recipe differs, its note has the published value."""
    note = recipe.notes.get("container.privileged")
    published = note.published if note else None
    return published if isinstance(published, bool) else bool(recipe.container and recipe.container.privileged)


def _choose_container_cards(
    recipe: Recipe, facts: Facts, device: str, ids: Sequence[int], only: bool
) -> tuple[int, ...]:
    there = facts.container_cards.get(recipe.name, ())
    if there and set(ids) <= set(there):
        return there
    return tuple(sorted(ids)) if only and ids else _cards_of_all_jobs(recipe, facts, device, ids)


def _cards_of_all_jobs(recipe: Recipe, facts: Facts, device: str, ids: Sequence[int]) -> tuple[int, ...]:
    """Return the cards that the container needs; on a machine without cards, those of one that has enough."""
    most = count_cards(recipe, device)
    there = select_card_ids(recipe, facts, device, None) or select_card_ids(recipe, facts, device, most)
    others = [number for number in there if number not in ids]
    return tuple(sorted((*ids, *others)[: None if most is None else max(most, len(ids))]))


def _grant_least(
    box: RecipeContainer, vendor: Vendor, engine: EngineFacts | None, numbers: tuple[int, ...]
) -> CardGrant:
    own = {
        *vendor.control_nodes,
        *(format_card_node(number, vendor) for number in parse_card_numbers(box.devices, vendor)),
    }
    others = tuple(path for path in box.devices if path not in own)
    if not numbers:
        return CardGrant(_("the listed device nodes") if others else _("no devices"), others)
    names = tuple(f"{vendor.cdi_kind}={number}" for number in numbers) if vendor.cdi_kind else ()
    if names and engine and set(names) <= set(engine.cdi):
        return CardGrant(_("CDI device names"), others, cdi=names)
    if vendor.runtime and engine and vendor.runtime in engine.runtimes and not vendor.nodes_suffice:
        chosen = {vendor.runtime_env: ",".join(map(str, numbers))}
        return CardGrant(
            _("runtime {runtime}", runtime=vendor.runtime), others, runtime=vendor.runtime, environment=chosen
        )
    cards = (format_card_node(number, vendor) for number in numbers)
    return CardGrant(_("device nodes"), (*cards, *vendor.control_nodes, *others))


def _grant_published(recipe: Recipe, box: RecipeContainer, least: CardGrant) -> CardGrant:
    """Return the published grant; a privileged container sees all devices, so its device list is empty."""
    if is_published_privileged(recipe):
        return CardGrant(_("privileged, as published by the vendor: all devices of the host"), is_privileged=True)
    return CardGrant(_("the listed device nodes"), box.devices) if box.devices else least


def _apply_grant(spec: ContainerSpec, grant: CardGrant) -> ContainerSpec:
    return replace(
        spec,
        devices=tuple(map(normalize_device, grant.devices)),
        cdi=grant.cdi,
        runtime=grant.runtime,
        privileged=grant.is_privileged,
        environment={**spec.environment, **grant.environment},
    )


def _drop_host_access(spec: ContainerSpec, vendor: Vendor, count: int) -> ContainerSpec:
    """Remove access to the host; number the selected cards as the container sees them, from 0."""
    selected = {vendor.visible_env: ",".join(map(str, range(count)))} if vendor.visible_env in spec.environment else {}
    return replace(
        spec,
        mounts=tuple(mount for mount in spec.mounts if mount.source != HOST_DEVICES),
        pid="" if spec.pid == HOST_PIDS else spec.pid,
        capabilities=tuple(name for name in spec.capabilities if normalize_capability(name) not in HOST_CAPABILITIES),
        environment={**spec.environment, **selected},
    )


def _locate_mounts(spec: ContainerSpec, vendor: Vendor, facts: Facts) -> ContainerSpec:
    return replace(spec, mounts=tuple(_locate_mount(mount, vendor, facts) for mount in spec.mounts))


def _locate_mount(mount: Mount, vendor: Vendor, facts: Facts) -> Mount:
    """Return the mount of a driver file from its location on this host: npu-smi is in /usr/local/bin or sbin."""
    known = schemas.read_paths(facts)
    if known is None or mount.source not in vendor.driver_files or mount.source in known.paths:
        return mount
    same_name = (path for path in vendor.driver_files if posixpath.basename(path) == posixpath.basename(mount.source))
    return replace(mount, source=next((path for path in same_name if path in known.paths), mount.source))
