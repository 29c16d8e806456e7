"""What recipes train with: its names of the vendors' devices, how it is launched, and the Python that has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from envcheck.core.vendor import Vendor
from envcheck.deep.interpreter import CommandTarget, PythonInterpreter
from envcheck.vendors import VENDORS
from installers.recipes.recipe import Recipe


@dataclass(frozen=True)
class DeviceNames:
    """What a library calls a vendor's devices; the package that brings them ("": the library itself has them), its
    module ("": the library finds it by itself), and the backend of their collectives ("": the library chooses)."""

    type: str
    plugin: str = ""
    module: str = ""
    backend: str = ""


def _by_torch(vendor: Vendor) -> DeviceNames:
    module = vendor.torch_plugin.replace("-", "_")
    return DeviceNames(vendor.torch_device or vendor.name, vendor.torch_plugin, module, vendor.torch_backend)


@dataclass(frozen=True)
class Kit:
    """A library that trains: the packages that bring it, the frameworks that stand on it (whose images hold it), its
    names of the vendors' devices, how it is launched."""

    name: str
    packages: tuple[str, ...]
    frameworks: tuple[str, ...]
    devices: Mapping[str, DeviceNames]
    module: str

    def names_of(self, device: str) -> DeviceNames:
        return self.devices.get(device) or DeviceNames(device)


KITS = (
    Kit(
        "paddle",
        ("paddlepaddle", "paddlepaddle-gpu"),
        ("erniekit", "flagcx"),
        {name: DeviceNames(vendor.device_type or name, vendor.plugin or "") for name, vendor in VENDORS.items()},
        "paddle.distributed.launch",
    ),
    Kit(
        "torch",
        ("torch",),
        ("llamafactory", "swift", "ms-swift"),
        {name: _by_torch(vendor) for name, vendor in VENDORS.items()},
        "torch.distributed.run",
    ),
)


def kit_of(recipe: Recipe) -> Kit | None:
    """What the recipe installs, builds, or has in its image; None where it trains with nothing that we know."""
    names = {package.name.partition("[")[0] for package in recipe.packages} | {build.name for build in recipe.builds}
    installed = next((kit for kit in KITS if names & set(kit.packages)), None)
    with_image = recipe.framework if recipe.image else ""
    return installed or next((kit for kit in KITS if with_image in kit.frameworks), None)


def build_interpreter(
    vendor: str, kit: Kit, recipe: Recipe | None, target: CommandTarget, env: Mapping[str, str]
) -> PythonInterpreter:
    """The target's Python with this framework, after the recipe's scripts were sourced."""

    def launch(folder: str, count: int) -> Sequence[str]:
        return ("-m", kit.module, *launcher_options(kit, vendor, folder, count))

    def wrap(argv: Sequence[str]) -> Sequence[str]:
        return sourced(recipe, argv) if recipe else argv

    # CUDA's own order is by speed, the tools' by bus; others do not know the word
    whole = {
        **env,
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "PYTHONUNBUFFERED": "1",
        "PYTHONWARNINGS": "ignore",
        "GLOG_minloglevel": "1",
    }
    names = kit.names_of(vendor)
    return PythonInterpreter(
        target, target.python, kit.name, names.type, whole, launch, wrap, module=names.module, backend=names.backend
    )


def launcher_options(kit: Kit, device: str, own: str, count: int) -> list[str]:
    """So many ranks, with their words in files below `own`."""
    if kit.name == "torch":
        return ["--standalone", "--nproc-per-node", str(count), "--log-dir", f"{own}/log", "--redirects", "3"]
    chosen = ["--nproc_per_node", str(count), "--host", "127.0.0.1"]
    if device != "cpu":
        chosen = [VENDORS[device].launch_option, ",".join(map(str, range(count)))]
    return [*chosen, "--log_dir", f"{own}/log"]


def sourced(recipe: Recipe, argv: Sequence[str]) -> Sequence[str]:
    """The command in a shell of its own that has sourced the recipe's scripts."""
    if not recipe.scripts:
        return argv
    sources = "".join(f'source "${n}" || exit 1; ' for n in range(1, len(recipe.scripts) + 1))
    return ["bash", "-c", f'{sources}shift {len(recipe.scripts)}; exec "$@"', "bash", *recipe.scripts, *argv]
