"""The commands of Apptainer or Singularity for a container's image: build a SIF, and provision inside it.  Pure.

Both show the host's devices, network and processes to a command in an image, and run it as the calling user; see "Bind
Paths and Mounts" and "Environment and Metadata" in Apptainer's user guide.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from installers.recipes.container_spec import ContainerSpec
from installers.recipes.recipe import Mount

PAYLOAD = "envcheck.pyz"
ENVIRONMENT = "venv"  # in the folder of the command, which is on this host


def list_commands(program: str, spec: ContainerSpec) -> tuple[str, ...]:
    """Return the commands, to be run in one folder: image and envcheck as files, the set-up in the image."""
    image = f"{spec.name}.sif"
    build = ("build", image, f"docker://{spec.image}")
    inside = ("python3", PAYLOAD, "provision", "--recipe", spec.recipe, "--into", ENVIRONMENT)
    return (
        shlex.join((program, *build)),
        f"envcheck pyz -o {PAYLOAD}",
        shlex.join((program, "exec", *_list_options(spec), image, *inside)),
    )


def _list_options(spec: ContainerSpec) -> Iterator[str]:
    """Yield the options of `exec`; what it has no option for is in the table of engines."""
    for mount in spec.mounts:
        yield from ("--bind", bind_word(mount))
    for name, value in spec.environment.items():
        yield from ("--env", f"{name}={value}")


def bind_word(mount: Mount) -> str:
    """Return the value of --bind: SOURCE:TARGET[:ro], shortened where both are one path."""
    mode = ":ro" if mount.read_only else ""
    return mount.source if mount.source == mount.target and not mode else f"{mount.source}:{mount.target}{mode}"
