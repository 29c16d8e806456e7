"""Find a Python with paddle or torch for doctor --deep: the recipe's, the active one, or envcheck's own."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from packaging.utils import canonicalize_name

from envcheck.core import paths, process
from envcheck.core.errors import UndeterminedError
from envcheck.core.messages import _, join, verbatim
from envcheck.deep.interpreter import HostTarget, PythonInterpreter
from envcheck.vendors import VENDORS
from installers import programs
from installers.recipes import catalogue
from installers.recipes.recipe import Recipe
from installers.state import environment
from installers.state.environment import Environment, FolderKind
from installers.targets.target import VenvTarget
from installers.verify import environment_checks
from installers.verify.frameworks import KITS, TrainingLibrary, build_interpreter, find_training_library

ASK_S = 30.0
ACTIVE = ("VIRTUAL_ENV", "CONDA_PREFIX")


@dataclass(frozen=True)
class PythonRequest:
    """`recipe` of the selected job; None: any Python.  `contained`: envcheck itself runs in a container."""

    vendor: str
    recipe: Recipe | None = None
    folder: Path | None = None
    contained: bool = False


@contextlib.contextmanager
def open_interpreter(asked: PythonRequest) -> Iterator[PythonInterpreter]:
    """Return the interpreter; UntoldError, with the next step, if there is none."""
    recipe = asked.recipe or _find_provisioned_recipe(asked)
    if recipe and recipe.image is not None and recipe.container and not asked.contained:
        with _open_in_container(recipe, asked.vendor) as interpreter:
            yield interpreter
        return
    with tempfile.TemporaryDirectory(prefix="envcheck-deep-") as own:
        yield _find_local_python(asked, recipe, Path(own).resolve())


def _find_provisioned_recipe(asked: PythonRequest) -> Recipe | None:
    """The first recipe of this vendor with an environment, or verified in its container; the default first."""
    recipes = [r for r in catalogue.load_all(asked.folder) if r.device == asked.vendor]
    there = [r for r in recipes if _is_provisioned(r, environment.read_environment(_get_environment_folder(r)))]
    return next(iter(sorted(there, key=lambda r: not r.usual)), None)


def _is_provisioned(recipe: Recipe, env: Environment) -> bool:
    return env.works or bool(env.mark and env.mark.was_proved(recipe.name))


def _get_environment_folder(recipe: Recipe) -> Path:
    return paths.environment_folder(recipe.name).expanduser().absolute()


def _find_local_python(asked: PythonRequest, recipe: Recipe | None, own: Path) -> PythonInterpreter:
    """The first with a framework: the recipe's environment, the active one, or envcheck's own Python."""
    tried = []
    for python in _list_pythons(recipe, asked.contained):
        packages = _list_packages(python, own)
        kit = _choose_kit(packages, asked.vendor, recipe)
        if kit:
            return _build_host_interpreter(asked.vendor, kit, recipe, python, own)
        tried.append(python)
    wanted = join(_(" or "), (kit.name for kit in KITS))
    raise UndeterminedError(
        _(
            "no Python with {wanted} for --device {vendor} found; searched {tried}",
            wanted=wanted,
            vendor=asked.vendor,
            tried=join(", ", tried),
        ),
        verbatim(f"envcheck provision --{f'recipe {recipe.name}' if recipe else f'device {asked.vendor}'}"),
    )


def _list_pythons(recipe: Recipe | None, contained: bool) -> list[str]:
    import sys

    own = _get_environment_folder(recipe) if recipe else None
    found = (
        [str(own / "bin" / "python")]
        if own and environment.read_environment(own).kind is FolderKind.ENVIRONMENT
        else []
    )
    found += [recipe.interpreter] if recipe and contained else []
    if not found or recipe is None:
        found += [f"{os.environ[name]}/bin/python" for name in ACTIVE if os.environ.get(name)] + [sys.executable]
    return list(dict.fromkeys(found))


def _list_packages(python: str, own: Path) -> frozenset[str]:
    """Installed packages by their metadata; empty if it is not a Python."""
    source = (Path(programs.__path__[0]) / "inventory.py").read_text("utf-8")
    done = process.run_command((python, "-I", "-c", source), timeout_s=ASK_S, cwd=own)
    line = next((x for x in done.out.splitlines() if x.startswith("ENVCHECK ")), "")
    return (
        frozenset(map(canonicalize_name, json.loads(line.removeprefix("ENVCHECK "))["packages"]))
        if line
        else frozenset()
    )


def _choose_kit(packages: frozenset[str], vendor: str, recipe: Recipe | None) -> TrainingLibrary | None:
    """The recipe's framework, otherwise the first that is complete for this vendor's devices."""
    mine = find_training_library(recipe) if recipe else None
    for kit in (mine,) if mine else KITS:
        plugin = kit.device_names(vendor).plugin
        if packages & set(kit.packages) and (not plugin or plugin in packages):
            return kit
    return None


def _build_host_interpreter(
    vendor: str, kit: TrainingLibrary, recipe: Recipe | None, python: str, own: Path
) -> PythonInterpreter:
    host = VenvTarget(Path(python).parent.parent)
    env = environment_checks.job_environment(recipe, host) if recipe else build_environment(host, kit, vendor)
    visible = VENDORS[vendor].visible_env
    if visible and visible in os.environ:
        env[visible] = os.environ[visible]
    return build_interpreter(vendor, kit, recipe, HostTarget(python, own), env)


def build_environment(host: VenvTarget, kit: TrainingLibrary, vendor: str) -> dict[str, str]:
    """Return the environment of the verification, without a recipe; paddle 3.1's launcher needs the plugin's device
    type.
    """
    astray = environment_checks.STRAY_NAMES
    kept = {
        k: v
        for k, v in host.list_variables().items()
        if k not in astray and not k.upper().startswith(environment_checks.STRAY)
    }
    plugin = (
        {"PADDLE_XCCL_BACKEND": kit.device_names(vendor).type}
        if kit.name == "paddle" and VENDORS[vendor].plugin
        else {}
    )
    return {**kept, **plugin, "OMP_NUM_THREADS": "1"}


@contextlib.contextmanager
def _open_in_container(recipe: Recipe, vendor: str) -> Iterator[PythonInterpreter]:
    """Open the recipe's container, if provisioning is complete; it is locked meanwhile."""
    from installers.container_provisioner import ContainerProvisioner
    from installers.images import docker_engine, engine_lock
    from installers.targets.exec_target import ContainerTarget

    assert recipe.container
    plan = ContainerProvisioner(recipe, _get_environment_folder(recipe)).make_current_plan()
    again = verbatim(f"envcheck provision --recipe {recipe.name}")
    if plan.obstacles:
        raise UndeterminedError(
            _("container {name}: {why}", name=recipe.container.name, why=plan.obstacles[0].why),
            plan.obstacles[0].remedy,
        )
    if steps := [step.title for step in plan.unready_steps]:
        raise UndeterminedError(
            _("container {name} is not ready: {steps}", name=recipe.container.name, steps=steps[0]), again
        )
    kit = find_training_library(recipe)
    if kit is None:
        raise UndeterminedError(
            _("--deep does not support the training framework of {name}", name=recipe.name),
            _("use the vendor's test tools"),
        )
    host = docker_engine.inspect_engine()
    client = docker_engine.open_client(host)
    try:
        target = ContainerTarget(client.api, recipe.container.name, recipe.interpreter, _get_environment_folder(recipe))
        with engine_lock.hold_lock(host.url, target.container):
            env = environment_checks.job_environment(recipe, target)
            title = _("container {container}", container=target.container)
            interpreter = build_interpreter(vendor, kit, recipe, target, env)
            yield replace(interpreter, title=title, shared=True)
    finally:
        client.close()
