"""Passing the image on, until the run's connection ends: `provision --seeding FILE` on the host that was named."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path

from envcheck.core import errors, paths
from envcheck.core.errors import EnvcheckError, StepError, UsageError
from envcheck.core.signals import heard_by, interrupt
from envcheck.fleet.peers import agent
from installers.images import engine, image
from installers.recipes.recipe import Image, Recipe
from installers.seeds import store
from installers.seeds.seed import Seed
from installers.seeds.server import Server

LOOK_S = 2.0
# A connection that is dead without a word is known to be so after two hours, by TCP's own custom.
UNUSED_S = 3600.0


def serve(recipe: Recipe, registries: tuple[str, ...], seed: Seed) -> int:
    """Says where it listens as a line of JSON; or why it does not, as one."""
    try:
        with heard_by(interrupt):
            return _serve(_image(recipe), registries, seed)
    except EnvcheckError as err:
        _tell({"why": err.message, "next_step": err.next_step})
        raise


def _serve(wanted: Image, registries: tuple[str, ...], seed: Seed) -> int:
    folder = paths.home()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        kept = store.filled(wanted, registries, engine.look(), image.credentials(None), folder)
        address = str(agent.about()["address"])
        server = Server(address, seed.port, seed.token, kept)
    except OSError as err:
        raise _not_here(err, seed, folder) from None
    threading.Thread(target=server.serve_forever, daemon=True).start()
    _tell({"address": address, "port": server.server_address[1]})
    parent = os.getppid()
    while os.getppid() == parent and time.monotonic() < server.used + UNUSED_S:
        time.sleep(LOOK_S)
    return errors.FIT


def _not_here(err: OSError, seed: Seed, folder: Path) -> StepError:
    said = (err.strerror or str(err)).lower()
    if err.filename:
        return StepError(f"{err.filename}: {said}", "set ENVCHECK_HOME to a folder of yours there")
    what = f"port {seed.port} cannot be listened at" if seed.port else f"{folder} or a port cannot be used"
    return StepError(f"{what}: {said}", "name another one: --seed-node NODE:PORT")


def _image(recipe: Recipe) -> Image:
    if recipe.image is None:
        raise UsageError(f"{recipe.name} has no image that could be passed on", "leave --seed-node out")
    return recipe.image


def _tell(words: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(words) + "\n")
    sys.stdout.flush()
