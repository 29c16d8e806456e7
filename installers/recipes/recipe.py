"""The data classes of a recipe; loader.py reads them, catalogue.py selects one.

A TOML value is plain or {value, source, published, reason}.  The data class holds the plain value;
`Recipe.notes["hardware.memory_gib"]` holds its source and the wrong value of the published document.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from envcheck.core import toml_file
from envcheck.core.facts import MachineRequirements

CONTAINER, HOST = "container", "host"  # where a recipe runs


@dataclass(frozen=True)
class SourceNote:
    """The source of a value; `published` is the wrong value of the published document, `reason` why it is wrong."""

    source: str
    published: Any = None
    reason: str = ""


@dataclass(frozen=True)
class Trap:
    """An error of the published document that belongs to no single value; `where` is the document and line."""

    where: str
    published: str
    instead: str
    reason: str = ""


@dataclass(frozen=True)
class Hardware:
    """The hardware of one node; `cards` counts what the vendor's tool lists (chips on Iluvatar, dies on A3)."""

    product: str
    cards: int | None = None
    memory_gib: float | None = None
    architectures: tuple[str, ...] = ()
    host_memory_gib: float | None = None
    shm_gib: float | None = None
    disk_gib: float | None = None


@dataclass(frozen=True)
class RecipeImage:
    """Image names by architecture (x86_64, aarch64); `alternates` are names of the same image in other registries.

    `roles` has the names for node roles that need another image than `references`, by role and architecture.
    """

    references: Mapping[str, str]
    alternates: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    roles: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Mount:
    """A bind mount; `source` is on the host (relative: below the start folder), `target` in the container."""

    source: str
    target: str
    read_only: bool = False


@dataclass(frozen=True)
class RecipeContainer:
    """`ulimits` are "soft:hard", or one number for both, by name of the limit; -1 means unlimited."""

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
    """One requirement; `index` is the URL of its index, "" for the configured one.  Packages are installed in order."""

    name: str
    specifier: str = ""
    index: str = ""


@dataclass(frozen=True)
class SystemLibrary:
    """A system library that a package needs and a minimal system may lack; `name` is its soname.

    If the loader does not find it, `package` is installed for the copy that its wheel contains at `pattern`, and
    `link` is created as a symbolic link to it; both are relative to site-packages.
    """

    name: str
    package: str
    specifier: str
    pattern: str
    link: str


@dataclass(frozen=True)
class Checkout:
    """A git repository that is cloned at `ref` into `directory`; `editable` installs the clone with pip."""

    url: str
    ref: str
    directory: str
    editable: bool = False


@dataclass(frozen=True)
class BuildTool:
    """A program or a file that a build needs; `remedy` describes how to get it."""

    program: str = ""
    file: str = ""
    remedy: str = ""


@dataclass(frozen=True)
class RecipeBuild:
    """A build from source in a checkout (`checkout` is its directory), on the nodes of one `role`, "" for all.

    `commands` run in the checkout, in order; their {tokens} are installers.recipes.build_rules.TOKENS.  `yields` is the
    glob pattern of the result, relative to the checkout; with `installs` it is a wheel that pip installs.  `prepend`
    extends path variables at the front; `after` names the builds that must run before this one.
    """

    name: str
    checkout: str
    commands: tuple[tuple[str, ...], ...]
    yields: str
    role: str = ""
    installs: bool = False
    prerequisites: tuple[BuildTool, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    prepend: Mapping[str, str] = field(default_factory=dict)
    after: tuple[str, ...] = ()
    deadline_s: int = 4 * 3600
    space_gib: float | None = None
    caution: tuple[str, ...] = ()


@dataclass(frozen=True)
class Weights:
    """A model's repositories on the hubs; `first` names the hub to try first, `size_gib` is the size on disk.

    `folder` is the destination, relative to the recipe's `workdir`; "" keeps the model in the cache of the hub.
    """

    huggingface: str = ""
    modelscope: str = ""
    folder: str = ""
    size_gib: float | None = None
    first: str = "huggingface"
    revision: str = ""


@dataclass(frozen=True)
class RecipeJob:
    """One method of a recipe, or one variant (zero3, ddp) or one node role of a method.

    `launcher` and `arguments` are ordered; envcheck.job.command fills in their {tokens}
    (installers.recipes.validation.TOKENS).  `processes` is per node; `rank` is the node rank of this role.
    `parallel` has the keys tensor, pipeline, sharding, data; `steps` has max, warmup, save, eval.  `requires` are files
    without which the job cannot run, `caution` are warnings to show before it starts.  `own_data` are the options that
    --data sets, `own_files` the files to write for them (name to text; {data} is inserted as JSON); `config` is the
    name of the YAML file for the arguments, if the program takes one.  `numbers` are the cards as the launcher counts
    them where it runs; empty: the first ones.  `plan` are options of `envcheck plan`, which win over what the arguments
    say.
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
    numbers: toml_file.Given[tuple[int, ...]] = ()
    plan: Mapping[str, int | str] = field(default_factory=dict)


@dataclass(frozen=True)
class Prompt:
    """A question of an installer; `pattern` is searched in its last line (* matches anything, case is ignored).

    `answer` is sent, followed by Enter if `enter`.  With `licence` the user must accept first; if not, `refusal` is
    sent.
    """

    pattern: str
    answer: str
    meaning: str
    licence: bool = False
    refusal: str = ""
    enter: bool = True


@dataclass(frozen=True)
class VersionQuery:
    """How to read the installed version: from a file or a command's output, in the line that `pattern` matches."""

    pattern: str
    read: str = ""
    run: tuple[str, ...] = ()


@dataclass(frozen=True)
class PublishedDriverFile:
    """A file that the vendor publishes; `sha256_url` is the vendor's list of checksums."""

    version: str
    url: str
    architecture: str = ""
    sha256: str = ""
    sha256_url: str = ""


@dataclass(frozen=True)
class DriverInstaller:
    """A vendor's installer (.run) and how to run it; built-in ones are in envcheck/vendors/*/driver.toml.

    `files` are patterns of its file names, with {version} and {architecture}; `licence_arguments` are added after the
    user accepted `licence`; `silence_s` is the maximum time without output, `deadline_s` the maximum run time.
    `reboot` are texts in its output that ask for a reboot.  `modules` must not be in use, `conflicts` must not be
    loaded; `builds_module`: it compiles a module for the running kernel.  `users` and `tools` must exist.
    """

    name: str
    title: str
    files: tuple[str, ...]
    arguments: tuple[str, ...] = ()
    licence: str = ""
    licence_arguments: tuple[str, ...] = ()
    prompts: tuple[Prompt, ...] = ()
    published: tuple[PublishedDriverFile, ...] = ()
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
    """Everything that one set-up needs; `file` is the file that it was read from.

    `prepend` extends path variables (PYTHONPATH) at the front, after `scripts` were sourced; `interpreter` is the
    default for {python}; `model_path` is the folder of the weights, relative to `workdir`; `runs` is the folder for
    runs, set if only one folder outlives the container; `dimensions` describe a model without a name, as fields of
    config.json; `documents` are the titles of the sources by short name.
    `drivers` replace built-in ones of the same name; `usual`: the default recipe of its device; `like`: the recipe
    that it inherits from; `own_environment`: it runs in the environment of the user who starts it, not in one of
    envcheck's.  `prefers` is where the set-up runs best, "container" or "host", with the reason in its note;
    `alternative` is the recipe of the same set-up in the other place, which is chosen by its name only.
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
    image: RecipeImage | None = None
    container: RecipeContainer | None = None
    packages: tuple[Package, ...] = ()
    libraries: tuple[SystemLibrary, ...] = ()
    checkouts: tuple[Checkout, ...] = ()
    builds: tuple[RecipeBuild, ...] = ()
    drivers: tuple[DriverInstaller, ...] = ()
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
    dimensions: str = ""
    verify: tuple[tuple[str, ...], ...] = ()
    usual: bool = False
    own_environment: bool = False
    like: str = ""
    prefers: str = ""
    alternative: str = ""
    notes: toml_file.Given[Mapping[str, SourceNote]] = field(default_factory=dict)
    file: toml_file.Given[str] = ""


def is_preferred(recipe: Recipe) -> bool:
    """Return whether the recipe runs in the place that it prefers, or has no alternative."""
    return not recipe.alternative or (recipe.prefers == CONTAINER) == (recipe.image is not None)


def narrow_to_role(recipe: Recipe, job: RecipeJob) -> Recipe:
    """Return the recipe of a container with the image and the device of the job's node role."""
    image = recipe.image
    if image is None:
        return recipe
    if job.role in image.roles:
        image = RecipeImage(image.roles[job.role])
    return dataclasses.replace(recipe, image=image, device=job.device or recipe.device)


def list_driver_minimums(recipe: Recipe, device: str) -> list[str]:
    """Return the oldest drivers that the recipe's jobs on this device run with; mixed jobs have one per role."""
    found = (_find_driver_minimum(recipe, job) for job in recipe.jobs if (job.device or recipe.device) == device)
    return [minimum for minimum in dict.fromkeys(found) if minimum]


def _find_driver_minimum(recipe: Recipe, job: RecipeJob) -> str | None:
    return job.driver_minimum or recipe.driver_minimum


def derive_requirements(recipe: Recipe, job: RecipeJob) -> MachineRequirements:
    """Return what the job requires of one machine; values of the job override those of the recipe."""
    hardware = recipe.hardware
    return MachineRequirements(
        recipe=recipe.name,
        method=job.method,
        device=job.device or recipe.device,
        nodes=job.nodes,
        processes=job.processes,
        cards=hardware.cards if job.cards is None else job.cards,
        memory_gib=hardware.memory_gib if job.memory_gib is None else job.memory_gib,
        free_gib=None if hardware.memory_gib is None else job.memory_gib,  # else it is the size of the job's cards
        architectures=hardware.architectures,
        driver_minimum=_find_driver_minimum(recipe, job),
        toolkit_minimum=recipe.toolkit_minimum,
        firmware_minimum=recipe.firmware_minimum,
        host_memory_gib=hardware.host_memory_gib if job.host_memory_gib is None else job.host_memory_gib,
        shm_gib=hardware.shm_gib,
        disk_gib=hardware.disk_gib if job.disk_gib is None else job.disk_gib,
        image=next(iter(recipe.image.references.values()), None) if recipe.image else None,
        packages=tuple((p.name, p.specifier) for p in recipe.packages),
        environment={**recipe.environment, **job.environment},
    )


def group_by_index(packages: Iterable[Package]) -> list[tuple[str, tuple[Package, ...]]]:
    """Return (index, packages) groups: pip resolves consecutive packages of the same index together."""
    found = itertools.groupby(packages, key=lambda package: package.index)
    return [(index, tuple(group)) for index, group in found]
