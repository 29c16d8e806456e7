"""Where doctor --deep finds a Python with paddle or torch: the recipe's, the active one, the one that we run in."""

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
from envcheck.core.errors import UntoldError
from envcheck.deep.interpreter import HostTarget, PythonInterpreter
from envcheck.vendors import VENDORS
from installers import programs
from installers.recipes import catalogue
from installers.recipes.recipe import Recipe
from installers.state import environment
from installers.state.environment import Environment, FolderKind
from installers.targets.target import VenvTarget
from installers.verify import verify_environment
from installers.verify.frameworks import KITS, Kit, build_interpreter, kit_of

ASK_S = 30.0
ACTIVE = ("VIRTUAL_ENV", "CONDA_PREFIX")


@dataclass(frozen=True)
class Asked:
    """`recipe` of the named job; None: whichever Python there is.  `contained`: we are in a container ourselves."""

    vendor: str
    recipe: Recipe | None = None
    folder: Path | None = None
    contained: bool = False


@contextlib.contextmanager
def opened(asked: Asked) -> Iterator[PythonInterpreter]:
    """UntoldError where there is none, with what to do."""
    recipe = asked.recipe or _provisioned(asked)
    if recipe and recipe.image is not None and recipe.container and not asked.contained:
        with _boxed(recipe, asked.vendor) as interpreter:
            yield interpreter
        return
    with tempfile.TemporaryDirectory(prefix="envcheck-deep-") as own:
        yield _here(asked, recipe, Path(own).resolve())


def _provisioned(asked: Asked) -> Recipe | None:
    """The first recipe of this vendor that has its environment, or was proved in its container; the usual one first."""
    recipes = [r for r in catalogue.load_all(asked.folder) if r.device == asked.vendor]
    there = [r for r in recipes if _is_there(r, environment.read(_folder(r)))]
    return next(iter(sorted(there, key=lambda r: not r.usual)), None)


def _is_there(recipe: Recipe, env: Environment) -> bool:
    return env.works or bool(env.mark and env.mark.was_proved(recipe.name))


def _folder(recipe: Recipe) -> Path:
    return paths.environment_folder(recipe.name).expanduser().absolute()


def _here(asked: Asked, recipe: Recipe | None, own: Path) -> PythonInterpreter:
    """The recipe's environment, the active one, or the Python that envcheck runs in: the first with a framework."""
    tried = []
    for python in _pythons(recipe, asked.contained):
        packages = _packages(python, own)
        kit = _kit(packages, asked.vendor, recipe)
        if kit:
            return _interpreter(asked.vendor, kit, recipe, python, own)
        tried.append(python)
    wanted = " or ".join(kit.name for kit in KITS)
    raise UntoldError(
        f"no Python with {wanted} for --device {asked.vendor} was found (looked at {', '.join(tried)})",
        f"envcheck provision --{f'recipe {recipe.name}' if recipe else f'device {asked.vendor}'}",
    )


def _pythons(recipe: Recipe | None, contained: bool) -> list[str]:
    import sys

    own = _folder(recipe) if recipe else None
    found = [str(own / "bin" / "python")] if own and environment.read(own).kind is FolderKind.ENVIRONMENT else []
    found += [recipe.interpreter] if recipe and contained else []
    if not found or recipe is None:
        found += [f"{os.environ[name]}/bin/python" for name in ACTIVE if os.environ.get(name)] + [sys.executable]
    return list(dict.fromkeys(found))


def _packages(python: str, own: Path) -> frozenset[str]:
    """Names by the metadata of what is installed; none where this is no Python."""
    source = (Path(programs.__path__[0]) / "inventory.py").read_text("utf-8")
    done = process.run((python, "-I", "-c", source), timeout_s=ASK_S, cwd=own)
    line = next((x for x in done.out.splitlines() if x.startswith("ENVCHECK ")), "")
    return (
        frozenset(map(canonicalize_name, json.loads(line.removeprefix("ENVCHECK "))["packages"]))
        if line
        else frozenset()
    )


def _kit(packages: frozenset[str], vendor: str, recipe: Recipe | None) -> Kit | None:
    """The recipe's, else the first that is whole for this vendor's cards."""
    mine = kit_of(recipe) if recipe else None
    for kit in (mine,) if mine else KITS:
        plugin = kit.names_of(vendor).plugin
        if packages & set(kit.packages) and (not plugin or plugin in packages):
            return kit
    return None


def _interpreter(vendor: str, kit: Kit, recipe: Recipe | None, python: str, own: Path) -> PythonInterpreter:
    host = VenvTarget(Path(python).parent.parent)
    env = verify_environment.surroundings(recipe, host) if recipe else surroundings(host, kit, vendor)
    visible = VENDORS[vendor].visible_env
    if visible and visible in os.environ:
        env[visible] = os.environ[visible]
    return build_interpreter(vendor, kit, recipe, HostTarget(python, own), env)


def surroundings(host: VenvTarget, kit: Kit, vendor: str) -> dict[str, str]:
    """As the proof has them, without a recipe.  Of a plugin's devices paddle 3.1's launcher wants to be told."""
    astray = verify_environment.STRAY_NAMES
    kept = {
        k: v
        for k, v in host.surroundings().items()
        if k not in astray and not k.upper().startswith(verify_environment.STRAY)
    }
    plugin = (
        {"PADDLE_XCCL_BACKEND": kit.names_of(vendor).type} if kit.name == "paddle" and VENDORS[vendor].plugin else {}
    )
    return {**kept, **plugin, "OMP_NUM_THREADS": "1"}


@contextlib.contextmanager
def _boxed(recipe: Recipe, vendor: str) -> Iterator[PythonInterpreter]:
    """In the recipe's container, when nothing is left to provision; nobody else of us works there meanwhile."""
    from installers.container_environment import ContainerProvisioner
    from installers.images import engine, engine_lock
    from installers.targets.exec_target import ContainerTarget

    assert recipe.container
    plan = ContainerProvisioner(recipe, _folder(recipe)).look()
    again = f"envcheck provision --recipe {recipe.name}"
    if plan.obstacles:
        raise UntoldError(f"the container {recipe.container.name}: {plan.obstacles[0].why}", plan.obstacles[0].remedy)
    if steps := [step.title for step in plan.unready]:
        raise UntoldError(f"the container {recipe.container.name} is not ready: {steps[0]}", again)
    kit = kit_of(recipe)
    if kit is None:
        raise UntoldError(f"{recipe.name} trains with nothing that --deep knows", "test by the vendor's own tools")
    host = engine.look()
    client = engine.connect(host)
    try:
        target = ContainerTarget(client.api, recipe.container.name, recipe.interpreter, _folder(recipe))
        with engine_lock.held(host.url, target.container):
            env = verify_environment.surroundings(recipe, target)
            title = f"the container {target.container}"
            interpreter = build_interpreter(vendor, kit, recipe, target, env)
            yield replace(interpreter, title=title, shared=True)
    finally:
        client.close()
