"""The training libraries of recipes: their device names, their launchers, and the Python that has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from envcheck.core.vendor import Vendor
from envcheck.deep.interpreter import CommandTarget, PythonInterpreter
from envcheck.vendors import VENDORS
from envcheck.vendors.names import PADDLE_PACKAGES
from installers.recipes.recipe import Recipe


@dataclass(frozen=True)
class DeviceNames:
    """A library's name for a vendor's device type, and for its plugin package ("": built in), the plugin's module
    ("": loaded automatically) and the backend for collectives ("": chosen by the library)."""

    type: str
    plugin: str = ""
    module: str = ""
    backend: str = ""


def _torch_names(vendor: Vendor) -> DeviceNames:
    module = vendor.torch_plugin.replace("-", "_")
    return DeviceNames(vendor.torch_device or vendor.name, vendor.torch_plugin, module, vendor.torch_backend)


@dataclass(frozen=True)
class TrainingLibrary:
    """A training library: its packages, the frameworks based on it (whose images contain it), its device names by
    vendor, and the module of its launcher."""

    name: str
    packages: tuple[str, ...]
    frameworks: tuple[str, ...]
    devices: Mapping[str, DeviceNames]
    module: str

    def device_names(self, device: str) -> DeviceNames:
        """Return the names for a vendor's devices; for an unknown vendor, the vendor's name itself."""
        return self.devices.get(device) or DeviceNames(device)


KITS = (
    TrainingLibrary(
        "paddle",
        PADDLE_PACKAGES,
        ("erniekit", "flagcx"),
        {name: DeviceNames(vendor.device_type or name, vendor.plugin or "") for name, vendor in VENDORS.items()},
        "paddle.distributed.launch",
    ),
    TrainingLibrary(
        "torch",
        ("torch",),
        ("llamafactory", "swift", "ms-swift"),
        {name: _torch_names(vendor) for name, vendor in VENDORS.items()},
        "torch.distributed.run",
    ),
)


def find_training_library(recipe: Recipe) -> TrainingLibrary | None:
    """Return the library that the recipe installs, builds, or has in its image; None if it is unknown."""
    names = {package.name.partition("[")[0] for package in recipe.packages} | {build.name for build in recipe.builds}
    installed = next((kit for kit in KITS if names & set(kit.packages)), None)
    with_image = recipe.framework if recipe.image else ""
    return installed or next((kit for kit in KITS if with_image in kit.frameworks), None)


def build_interpreter(
    vendor: str, kit: TrainingLibrary, recipe: Recipe | None, target: CommandTarget, env: Mapping[str, str]
) -> PythonInterpreter:
    """Return the target's Python with this library, run after sourcing the recipe's scripts."""

    def launch(folder: str, count: int) -> Sequence[str]:
        return ("-m", kit.module, *launcher_options(kit, vendor, folder, count))

    def wrap(argv: Sequence[str]) -> Sequence[str]:
        return source_scripts(recipe, argv) if recipe else argv

    # CUDA orders cards by speed by default, nvidia-smi by bus id; other vendors ignore the variable
    whole = {
        **env,
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "PYTHONUNBUFFERED": "1",
        "PYTHONWARNINGS": "ignore",
        "GLOG_minloglevel": "1",
    }
    names = kit.device_names(vendor)
    return PythonInterpreter(
        target, target.python, kit.name, names.type, whole, launch, wrap, module=names.module, backend=names.backend
    )


def launcher_options(kit: TrainingLibrary, device: str, own: str, count: int) -> list[str]:
    """Return the launcher's options for `count` ranks with log files below the folder `own`."""
    if kit.name == "torch":
        return ["--standalone", "--nproc-per-node", str(count), "--log-dir", f"{own}/log", "--redirects", "3"]
    chosen = ["--nproc_per_node", str(count), "--host", "127.0.0.1"]
    if device != "cpu":
        chosen = [VENDORS[device].launch_option, ",".join(map(str, range(count)))]
    return [*chosen, "--log_dir", f"{own}/log"]


def source_scripts(recipe: Recipe, argv: Sequence[str]) -> Sequence[str]:
    """Return the command wrapped in a shell that first sources the recipe's scripts."""
    if not recipe.scripts:
        return argv
    sources = "".join(f'source "${n}" || exit 1; ' for n in range(1, len(recipe.scripts) + 1))
    return ["bash", "-c", f'{sources}shift {len(recipe.scripts)}; exec "$@"', "bash", *recipe.scripts, *argv]
