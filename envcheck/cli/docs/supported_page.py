"""supported.md: hardware, drivers, toolkits and frameworks, from the recipes and the tables of versions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from envcheck.cli.docs.markdown_table import NOTE, cell, code, table
from envcheck.compat import solver, table_loader
from envcheck.compat.components import load_components
from envcheck.vendors import VENDORS
from envcheck.vendors.names import PADDLE_PACKAGES
from installers.recipes import catalogue
from installers.recipes.recipe import Recipe

ARCHITECTURES = ("x86_64", "aarch64")
FRAMEWORK_PACKAGES = (
    *PADDLE_PACKAGES,
    *(vendor.plugin for vendor in VENDORS.values() if vendor.plugin),
    *("paddleformers", "llamafactory", "ms-swift", "torch", "torch-npu", "deepspeed"),
)

WIDE = "---\nhide: [navigation, toc]\n---\n"

HEAD = """\
# Supported hardware, drivers and frameworks

The first table lists the set-ups that have a recipe: `envcheck provision` installs them, `envcheck train` starts them.
`envcheck doctor` reads every card that the vendor's tool lists, also those without a recipe.

envcheck was developed without accelerator cards: its parsers were tested on published and recorded outputs of the
vendors' tools, its training paths on the CPU and on simulated machines. No recipe was run on a real Ascend or Iluvatar
card yet.
Run `envcheck doctor --deep` on your machine before you rely on a set-up.
"""

SETS = """\
## Version sets

The newest set for each driver whose links are all documented or tested. `envcheck solve` prints the set for the driver
of your machine, with sources and container images. A driver that is missing here has no set that is documented as a
whole.
"""

DEVICES = """\
## Device names

`--device` takes the name or an alias, in any case. `gpu` is ambiguous and refused.
"""

SOFTWARE = """\
## Hosts

| | supported |
| --- | --- |
| Operating system | Linux |
| Processor | x86_64, aarch64 |
| Python for envcheck | 3.10 or newer |
| Python on hosts that `--hosts` only examines | 3.6 or newer |
| Container engine | Docker Engine 20.10.10 or newer; Podman 4.0 or newer (no CDI, no vendor's runtime) |
| Schedulers | Slurm (tested with 22.05); Kubernetes with Kubeflow Training Operator v1 and Volcano |
"""


def page() -> str:
    """Return the page."""
    head = ("hardware", "device", "driver", "toolkit", "framework", "Python", "processor", "recipes")
    lines = [WIDE, NOTE, "", HEAD, *table(head, _setups()), "", SOFTWARE, SETS]
    lines += table(("device", "driver", "processor", "set"), _sets())
    lines += ["", DEVICES, *table(("`--device`", "aliases", "cards", "tool"), devices())]
    return "\n".join(lines) + "\n"


def devices() -> Iterator[tuple[str, ...]]:
    """Yield a row for each vendor, with the aliases that no other vendor claims."""
    claimed = [alias for vendor in VENDORS.values() for alias in vendor.aliases]
    for name, vendor in VENDORS.items():
        own = ", ".join(f"`{alias}`" for alias in vendor.aliases if claimed.count(alias) == 1)
        yield f"`{name}`", own, vendor.title, code(vendor.tool)


def _setups() -> Iterator[tuple[str, ...]]:
    """One row for recipes that differ in their model alone."""
    rows: dict[tuple[str, ...], list[str]] = {}
    for recipe in catalogue.load_all():
        rows.setdefault(_needs(recipe), []).append(f"`{recipe.name}`")
    return ((*needs, ", ".join(names)) for needs, names in sorted(rows.items(), key=lambda row: (row[0][1], row[0][4])))


def _needs(recipe: Recipe) -> tuple[str, ...]:
    vendor = VENDORS.get(recipe.device)
    least = f"{vendor.toolkit if vendor else ''} ≥ {recipe.toolkit_minimum}" if recipe.toolkit_minimum else ""
    pinned = {p.name: p.specifier.removeprefix("==") for p in recipe.packages if p.specifier}
    versions = [f"{name} {found}" for name, found in (_held(recipe) | pinned).items() if name in FRAMEWORK_PACKAGES]
    return (
        cell(recipe.hardware.product),
        ", ".join(f"`{device}`" for device in dict.fromkeys(job.device or recipe.device for job in recipe.jobs)),
        f"≥ {recipe.driver_minimum}" if recipe.driver_minimum else "",
        least,
        cell(f"{recipe.framework}: {', '.join(versions)}" if versions else recipe.framework),
        cell(recipe.python),
        ", ".join(recipe.hardware.architectures) or "any",
    )  # fmt: skip


def _held(recipe: Recipe) -> dict[str, str]:
    """Return the versions in the recipe's image, as the tables have them."""
    references = set(recipe.image.references.values()) if recipe.image else set()
    return {
        name: found
        for image in table_loader.own_version_table().images
        if references & set(image.references)
        for name, found in image.holds.items()
    }


def _sets() -> Iterator[tuple[str, ...]]:
    known, titles = table_loader.own_version_table(), load_components()
    for (device, _), goal in known.goals.items():
        for driver in solver.candidate_versions(goal.driver, known):
            found = {a: c.versions for a in ARCHITECTURES if (c := solver.solve_versions(goal, driver, a, known).best)}
            for architectures, one in _grouped(found):
                rest = {name: version for name, version in one.items() if name not in (goal.driver, "architecture")}
                words = ", ".join(f"{titles[name].title or name} {version}" for name, version in rest.items())
                yield f"`{device}`", driver, ", ".join(architectures), cell(words)


def _grouped(found: Mapping[str, Mapping[str, str]]) -> Iterator[tuple[list[str], Mapping[str, str]]]:
    """Yield each set with the processors that have it."""
    sets = {a: {name: version for name, version in one.items() if name != "architecture"} for a, one in found.items()}
    for versions in {tuple(one.items()): one for one in sets.values()}.values():
        yield [name for name, one in sets.items() if one == versions], versions
