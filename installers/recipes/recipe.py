"""What a recipe says, as frozen data; recipes_file.py loads it, catalogue.py chooses.

A TOML value may stand alone or as {value, source, seed_value, reason}: the dataclass holds the plain value, and
`Recipe.notes["hardware.memory_gib"]` where it comes from and what the published document said instead.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from envcheck.core import toml_file
from envcheck.core.facts import Wanted


@dataclass(frozen=True)
class Note:
    """Where a value comes from; `seed_value` is the published document's own when it was a trap, `reason` why."""

    source: str
    seed_value: Any = None
    reason: str = ""


@dataclass(frozen=True)
class Trap:
    """An error of the published document that no single value carries; `where` is document:line."""

    where: str
    seed_value: str
    instead: str
    reason: str = ""


@dataclass(frozen=True)
class Hardware:
    """Per node; `cards` counts what the vendor's tool lists (chips on Iluvatar, dies on A3)."""

    product: str
    cards: int | None = None
    memory_gib: float | None = None
    architectures: tuple[str, ...] = ()
    host_memory_gib: float | None = None
    shm_gib: float | None = None
    disk_gib: float | None = None


@dataclass(frozen=True)
class Image:
    """`references` by architecture (x86_64, aarch64); `alternates` are other registries' names of the same image."""

    references: Mapping[str, str]
    alternates: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Mount:
    source: str
    target: str
    read_only: bool = False


@dataclass(frozen=True)
class Container:
    """`ulimits` hold "soft:hard" or one number for both by the limit's name; -1 is unlimited."""

    name: str
    workdir: str = ""
    mounts: tuple[Mount, ...] = ()
    devices: tuple[str, ...] = ()
    privileged: bool = False
    network: str = ""
    ipc: str = ""
    pid: str = ""
    shm_size: str = ""
    ports: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()
    ulimits: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Package:
    """One requirement; `index` is the URL of its own index, "" for the configured one; installed in order."""

    name: str
    specifier: str = ""
    index: str = ""


@dataclass(frozen=True)
class Library:
    """A system library that a package needs and a bare machine lacks: `name` as the loader knows it.

    Where the loader does not find it, `package` is installed for the copy that its wheel carries at `pattern`, and
    `link` is made to lead there; both are relative to site-packages.
    """

    name: str
    package: str
    specifier: str
    pattern: str
    link: str


@dataclass(frozen=True)
class Checkout:
    """A project that is cloned, not pip-installed from an index."""

    url: str
    ref: str
    directory: str
    editable: bool = False


@dataclass(frozen=True)
class Tool:
    """A program or a file that a build needs; `remedy` is how one gets it."""

    program: str = ""
    file: str = ""
    remedy: str = ""


@dataclass(frozen=True)
class Build:
    """What is built from source in a checkout (`checkout` is its directory), on the nodes of one `role`, "" for all.

    `commands` run in the checkout, in order; their {tokens} are installers.recipes.build_rules.TOKENS.  `yields` is the
    pattern of what they make, below the checkout; `installs`: it is a wheel for pip.  `prepend` goes in front of path
    variables; `after` names the builds whose results go into this one.
    """

    name: str
    checkout: str
    commands: tuple[tuple[str, ...], ...]
    yields: str
    role: str = ""
    installs: bool = False
    prerequisites: tuple[Tool, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    prepend: Mapping[str, str] = field(default_factory=dict)
    after: tuple[str, ...] = ()
    deadline_s: int = 4 * 3600
    space_gib: float | None = None
    caution: tuple[str, ...] = ()


@dataclass(frozen=True)
class Weights:
    """A model's repository on the hubs, of which `first` is tried first; `size_gib` is what it takes on the disk.

    `folder` is where it is put, seen from the recipe's `workdir`; "" leaves it in the hub's own cache.
    """

    huggingface: str = ""
    modelscope: str = ""
    folder: str = ""
    size_gib: float | None = None
    first: str = "huggingface"
    revision: str = ""


@dataclass(frozen=True)
class RecipeJob:
    """One method of a recipe, or one variant (zero3, ddp) or one node role of it.

    `launcher` and `arguments` are ordered; their {tokens} (installers.recipes.recipe_rules.TOKENS) are filled in by
    envcheck.job.command.  `processes` is per node, `rank` this role's node in a job of several roles.
    `parallel` holds tensor, pipeline, sharding, data; `steps` max, warmup, save, eval.  `requires` are files without
    which the job cannot run, `caution` is what to know beforehand.  `own_data` are the options that --data sets,
    and `own_files` what it wants beside them (name → text; {data} is written as JSON has it); `config` names the YAML
    file into which the arguments go, where the program takes one.
    """

    method: str
    title: str
    launcher: tuple[str, ...]
    arguments: tuple[str, ...] = ()
    variant: str = ""
    role: str = ""
    device: str = ""
    nodes: int = 1
    cards: int | None = None
    processes: int = 1
    parallel: Mapping[str, int] = field(default_factory=dict)
    steps: Mapping[str, int] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    unset: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    port: int | None = None
    rank: int | None = None
    caution: tuple[str, ...] = ()
    data: tuple[str, ...] = ()
    own_data: tuple[str, ...] = ()
    own_files: Mapping[str, str] = field(default_factory=dict)
    config: str = ""
    outputs: tuple[str, ...] = ()
    product: str = ""
    driver_minimum: str | None = None
    memory_gib: float | None = None
    host_memory_gib: float | None = None
    disk_gib: float | None = None


@dataclass(frozen=True)
class Prompt:
    """A question of an installer: `pattern` is found in its last line (* stands for anything, case does not count).

    `answer` is typed, and Enter where `enter`; `licence`: a person says yes first, and `refusal` is typed for a no.
    """

    pattern: str
    answer: str
    meaning: str
    licence: bool = False
    refusal: str = ""
    enter: bool = True


@dataclass(frozen=True)
class VersionQuery:
    """Where the installed version is told: in a file, or in a command's answer, on the line that `says` describes."""

    says: str
    read: str = ""
    run: tuple[str, ...] = ()


@dataclass(frozen=True)
class DriverFile:
    """A file that the vendor publishes; `sha256_url` leads to the vendor's own list of sums."""

    version: str
    url: str
    architecture: str = ""
    sha256: str = ""
    sha256_url: str = ""


@dataclass(frozen=True)
class Driver:
    """A vendor's installer (.run) and how it is driven; ready-made ones stand in installers/drivers.

    `files` describe the names of its files, with {version} and {architecture}; `licence_arguments` are given once a
    person has said yes to `licence`; `silence_s` is the longest that it may say nothing, `deadline_s` that it may take.
    `reboot` are texts of its own that ask for one.  `modules` must not be in use, `conflicts` not be loaded;
    `builds_module`: compiled for the running kernel.  `users` must exist, and `tools` be there.
    """

    name: str
    title: str
    files: tuple[str, ...]
    arguments: tuple[str, ...] = ()
    licence: str = ""
    licence_arguments: tuple[str, ...] = ()
    prompts: tuple[Prompt, ...] = ()
    published: tuple[DriverFile, ...] = ()
    exit_codes: tuple[int, ...] = (0,)
    versions: tuple[VersionQuery, ...] = ()
    reboot: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    builds_module: bool = False
    tools: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    space_mib: int = 0
    silence_s: int = 600
    deadline_s: int = 3600
    log: str = ""
    undo: tuple[str, ...] = ()
    caution: tuple[str, ...] = ()


@dataclass(frozen=True)
class Recipe:
    """Everything that one set-up wants; `file` is where it was read.

    `prepend` goes in front of path variables (PYTHONPATH), after `scripts` were sourced; `interpreter` is {python}
    where nobody says better; `model_path` is where the weights stand, seen from `workdir`; below `runs` stand the
    folders of the runs, where only one place outlives the container; `documents` explains the sources' short names.
    `drivers` replace the ready-made ones of the same name; `usual`: what the device alone means; `like`: the recipe
    from which it has what its file does not say.
    """

    name: str
    title: str
    device: str
    framework: str
    models: tuple[str, ...]
    hardware: Hardware
    jobs: tuple[RecipeJob, ...]
    driver_minimum: str | None = None
    firmware_minimum: str | None = None
    toolkit_minimum: str | None = None
    python: str = ""
    image: Image | None = None
    container: Container | None = None
    packages: tuple[Package, ...] = ()
    libraries: tuple[Library, ...] = ()
    checkouts: tuple[Checkout, ...] = ()
    builds: tuple[Build, ...] = ()
    drivers: tuple[Driver, ...] = ()
    weights: Weights | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    prepend: Mapping[str, str] = field(default_factory=dict)
    unset: tuple[str, ...] = ()
    scripts: tuple[str, ...] = ()
    interpreter: str = "python3"
    documents: Mapping[str, str] = field(default_factory=dict)
    traps: tuple[Trap, ...] = ()
    workdir: str = ""
    runs: str = ""
    model_path: str = ""
    verify: tuple[tuple[str, ...], ...] = ()
    usual: bool = False
    like: str = ""
    notes: toml_file.Given[Mapping[str, Note]] = field(default_factory=dict)
    file: toml_file.Given[str] = ""


def wanted(recipe: Recipe, job: RecipeJob) -> Wanted:
    """What the job asks of one machine; the job's own figures win over the recipe's."""
    hardware = recipe.hardware
    return Wanted(
        recipe=recipe.name,
        method=job.method,
        device=job.device or recipe.device,
        nodes=job.nodes,
        processes=job.processes,
        cards=hardware.cards if job.cards is None else job.cards,
        memory_gib=hardware.memory_gib if job.memory_gib is None else job.memory_gib,
        free_gib=None if hardware.memory_gib is None else job.memory_gib,  # else it is the size of the job's cards
        architectures=hardware.architectures,
        driver_minimum=job.driver_minimum or recipe.driver_minimum,
        toolkit_minimum=recipe.toolkit_minimum,
        firmware_minimum=recipe.firmware_minimum,
        host_memory_gib=hardware.host_memory_gib if job.host_memory_gib is None else job.host_memory_gib,
        shm_gib=hardware.shm_gib,
        disk_gib=hardware.disk_gib if job.disk_gib is None else job.disk_gib,
        image=next(iter(recipe.image.references.values()), None) if recipe.image else None,
        packages=tuple((p.name, p.specifier) for p in recipe.packages),
        environment={**recipe.environment, **job.environment},
    )


def by_index(packages: Iterable[Package]) -> list[tuple[str, tuple[Package, ...]]]:
    """Index and packages: neighbours of one index go to pip together, so that it can weigh them against each other."""
    found = itertools.groupby(packages, key=lambda package: package.index)
    return [(index, tuple(group)) for index, group in found]
