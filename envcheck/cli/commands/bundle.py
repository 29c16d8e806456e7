"""envcheck bundle: one file with all that a machine without a network needs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from envcheck.cli import options
from envcheck.core.language import say
from envcheck.core.version import SCHEMA_VERSION

if TYPE_CHECKING:
    from installers.bundle.make import BundlePlan, EngineSource


@click.command(short_help="One file with all that a machine without a network needs.")
@options.device
@options.model
@options.method
@options.framework
@options.recipe_name
@options.recipes_folder
@click.option("--arch", metavar="ARCH", help="The other machine's: x86_64 or aarch64; this machine's where not said.")
@click.option("-o", "--output", required=True, type=click.Path(), help="The file to write.")
@options.dry_run
@options.json_output
def bundle(
    device: str,
    model: str | None,
    method: str | None,
    framework: str | None,
    recipe_name: str | None,
    recipes_folder: str | None,
    arch: str | None,
    output: str,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Put image, packages, recipe, lock and envcheck itself into one file, for a machine without a network.

    There, `envcheck provision --bundle FILE` checks all of it and brings the same end state as here.  The image is
    the one of this machine's engine: fetched packed from its registry, or copied out of the engine where that is
    quicker or the registry gives nothing.  To have envcheck there in the first place, take it out of the file.

    \b
    envcheck bundle --device npu -o npu.tar --dry-run         what it would hold, and how big it would be
    envcheck bundle --device npu --model 300b -o npu.tar
    envcheck bundle --model 21b --arch x86_64 -o iluvatar.tar
    tar xf npu.tar envcheck && pip install --no-index --find-links envcheck envcheck-toolkit
    """
    from pathlib import Path

    from envcheck.collect import snapshot
    from envcheck.core import errors, signals
    from envcheck.core.facts import Facts, Host
    from envcheck.job.here import collect_facts_here, read_architecture
    from envcheck.job.request import JobRequest
    from envcheck.job.resolve import resolve_method
    from installers.bundle import make
    from installers.output.plan_text import Screen
    from installers.recipes import catalogue

    path = Path(output)
    snapshot.probe_writable(path)
    if path.exists() and not path.is_file():
        raise errors.UsageError(f"cannot write {path}: it is no plain file", "choose another file with -o")
    own = Path(recipes_folder) if recipes_folder else None
    request = JobRequest(model, method, device, framework, recipe_name, recipes=own, may_choose=True)
    architecture = arch or read_architecture(collect_facts_here(JobRequest(device="cpu")))
    target = Facts(host=Host(architecture=architecture))  # all that is known of the other machine
    recipe, _ = resolve_method(request, catalogue.load_all(own), target)
    with _source(recipe.image is not None) as source:
        plan = make.plan(recipe, architecture, path, source)
        if not as_json:
            click.echo(_as_text(plan))
        if dry_run:
            return _told(plan, "planned") if as_json else errors.FIT
        with signals.heard_by(signals.interrupt), Screen() as screen:
            lock = make.make(plan, source, screen.show)
    if as_json:
        return _told(plan, "done")
    size = path.stat().st_size / (1 << 20)
    image = say(", the image") if lock.image else ""
    click.echo(f"{say('{}: {} MiB, {} wheels').format(path, f'{size:,.0f}', len(lock.wheels))}{image}")
    click.echo(f"  {say(f'there: envcheck provision --bundle {path.name}')}")
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
    import json
    from dataclasses import asdict

    from envcheck.core import errors

    size = plan.path.stat().st_size if result == "done" else None
    said = {"schema": SCHEMA_VERSION, "verb": "bundle", "result": result,
            "recipe": plan.recipe.name, "file": str(plan.path),
            "architecture": plan.aim.architecture, "python": plan.aim.python, "size_mib": plan.size_mib,
            "size_bytes": size, "parts": [asdict(part) for part in plan.parts]}  # fmt: skip
    click.echo(json.dumps(said, indent=1))
    return errors.FIT
