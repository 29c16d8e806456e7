"""envcheck bundle and pyz: files for machines without a network."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from envcheck.cli import options
from envcheck.cli.documents import print_document
from envcheck.cli.requests import command, convert_request, flag, option
from envcheck.core.language import say

if TYPE_CHECKING:
    from installers.bundle.make import BundlePlan, EngineSource


@dataclass(frozen=True, kw_only=True)
class BundleOptions(options.JsonOption, options.RecipeOption, options.JobOptions):
    arch: str | None = option(
        "--arch", metavar="ARCH", help="The other machine's: x86_64 or aarch64; this machine's where not said."
    )
    output: Path = option("-o", "--output", required=True, type=click.Path(path_type=Path), help="The file to write.")
    dry_run: bool = flag("--dry-run", help="Show what would be done, and stop.", order=options.ASKING)


@command(BundleOptions, short_help="One file with all that a machine without a network needs.")
def bundle(request: BundleOptions) -> int:
    """Put image, packages, recipe, lock and envcheck itself into one file, for a machine without a network.

    There, `envcheck provision --bundle FILE` checks all of it and brings the same end state as here.  The image is
    the one of this machine's engine: fetched packed from its registry, or copied out of the engine where that is
    quicker or the registry gives nothing.  A machine without envcheck takes envcheck.pyz out of the file.

    \b
    envcheck bundle --device npu -o npu.tar --dry-run         what it would hold, and how big it would be
    envcheck bundle --device npu --model 300b -o npu.tar
    envcheck bundle --model 21b --arch x86_64 -o iluvatar.tar
    tar xf npu.tar envcheck.pyz && python3 envcheck.pyz provision --bundle npu.tar
    """
    from envcheck.collect import snapshot
    from envcheck.core import errors, signals
    from envcheck.core.facts import Facts, Host
    from envcheck.job.here import collect_facts_here, read_architecture
    from envcheck.job.request import JobRequest
    from envcheck.job.resolve import resolve_method
    from installers.bundle import make
    from installers.output.plan_text import Screen
    from installers.recipes import catalogue

    path = request.output
    snapshot.probe_writable(path)
    if path.exists() and not path.is_file():
        raise errors.UsageError(f"cannot write {path}: it is no plain file", "choose another file with -o")
    wanted = convert_request(JobRequest, request, may_choose=True)
    architecture = request.arch or read_architecture(collect_facts_here(JobRequest(device="cpu")))
    target = Facts(host=Host(architecture=architecture))  # all that is known of the other machine
    recipe, _ = resolve_method(wanted, catalogue.load_all(request.recipes), target)
    with _source(recipe.image is not None) as source:
        plan = make.plan(recipe, architecture, path, source)
        if not request.as_json:
            click.echo(_as_text(plan))
        if request.dry_run:
            return _told(plan, "planned") if request.as_json else errors.FIT
        with signals.heard_by(signals.interrupt), Screen() as screen:
            lock = make.make(plan, source, screen.show)
    if request.as_json:
        return _told(plan, "done")
    size = path.stat().st_size / (1 << 20)
    image = say(", the image") if lock.image else ""
    click.echo(f"{say('{}: {} MiB, {} wheels').format(path, f'{size:,.0f}', len(lock.wheels))}{image}")
    click.echo(
        f"  {say(f'there: tar xf {path.name} envcheck.pyz && python3 envcheck.pyz provision --bundle {path.name}')}"
    )
    return errors.FIT


@click.command(short_help="Write envcheck as one file for machines without a network.")
@click.option("-o", "--output", default="envcheck.pyz", type=click.Path(), help="The file to write: envcheck.pyz.")
@options.json_output
def pyz(output: str, as_json: bool) -> int:
    """Write envcheck with the libraries it needs as one file, for machines without a network and without pip.

    Python 3.10 or newer runs it on Linux, x86_64 and aarch64.  The first start unpacks it into the user's cache.
    It has no grammar of shell: lint of a script is UNKNOWN where tree-sitter is not installed.

    \b
    envcheck pyz                                      envcheck.pyz, in this folder
    envcheck pyz -o /media/usb/envcheck.pyz
    python3 envcheck.pyz doctor                       on that machine
    python3 envcheck.pyz provision --bundle npu.tar   on that machine, with a bundle
    """
    import json
    from pathlib import Path

    from envcheck.collect import snapshot
    from envcheck.core import errors
    from envcheck.core.language import say
    from envcheck.core.version import SCHEMA_VERSION, __version__
    from envcheck.payload import pyz as file

    path = Path(output)
    snapshot.probe_writable(path)
    if path.exists() and not path.is_file():
        raise errors.UsageError(f"cannot write {path}: it is no plain file", "choose another file with -o")
    payload = file.build(frozenset(file.MACHINES))
    file.write(path, payload)
    there = file.machines(payload)
    missing = [machine for machine in file.MACHINES if machine not in there]
    if as_json:
        head = {"schema": SCHEMA_VERSION, "verb": "pyz", "result": "done", "file": str(path), "version": __version__}
        size = {"size_bytes": len(payload.data), "sha256": payload.digest}
        click.echo(json.dumps({**head, **size, "machines": there, "missing": missing}, indent=1))
        return errors.FIT
    click.echo(f"{path}: {len(payload.data) / (1 << 20):.1f} MiB, sha256 {payload.digest}")
    for machine in missing:
        note = f"note: psutil for {machine} is missing: neither the cache nor the package index has it"
        click.echo(say(note), err=True)
    return errors.FIT


@contextlib.contextmanager
def _source(wanted: bool) -> Iterator[EngineSource | None]:
    """The engine, where the recipe has an image."""
    if not wanted:
        yield None
        return
    from installers.bundle import make
    from installers.images import engine

    seen = engine.look()
    client = engine.connect(seen)
    try:
        yield make.EngineSource(client, seen)
    finally:
        client.close()


def _as_text(plan: BundlePlan) -> str:
    import shutil

    from envcheck.core.language.width import wrap
    from envcheck.core.units import mib

    width = max(50, shutil.get_terminal_size((100, 24)).columns)
    whole = say("{} for {} in {}, about {}").format(
        plan.recipe.name, plan.aim.architecture, plan.path, mib(plan.size_mib)
    )
    lines = wrap(whole, width, "", "    ")
    for part in plan.parts:
        lines += wrap(say(part.what), width, "  ", "      ")
        where = say("from {}, about {}").format(say(part.where_from), mib(part.size_mib))
        lines += wrap(where, width, "      ", "        ")
    return "\n".join(lines)


def _told(plan: BundlePlan, result: str) -> int:
    from envcheck.core import errors

    size = plan.path.stat().st_size if result == "done" else None
    said = {"verb": "bundle", "result": result,
            "recipe": plan.recipe.name, "file": str(plan.path),
            "architecture": plan.aim.architecture, "python": plan.aim.python, "size_mib": plan.size_mib,
            "size_bytes": size, "parts": [asdict(part) for part in plan.parts]}  # fmt: skip
    print_document(said)
    return errors.FIT
