"""envcheck bundle and pyz: files for machines without a network."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from envcheck.cli import options, site_settings
from envcheck.cli.json_document import print_document
from envcheck.cli.option_groups import GroupedOption, OptionGroup
from envcheck.cli.requests import command, convert_request, option
from envcheck.core.language import translate
from envcheck.core.messages import _, fill

if TYPE_CHECKING:
    from installers.bundle.assembly import BundlePlan, EngineImageSource


@dataclass(frozen=True, kw_only=True)
class BundleOptions(
    options.SiteOption, options.JsonOption, options.DryRunOption, options.RecipeOption, options.JobOptions
):
    arch: str | None = options.arch_option(is_common=True)
    python: str | None = option(
        "--python", group=OptionGroup.MACHINE, is_common=True, metavar="VERSION|PATH",
        help="Python of the new environment, such as 3.12.",
    )  # fmt: skip
    platform: str = option(
        "--platform", group=OptionGroup.MACHINE, metavar="TAG", default="", excludes=("arch",),
        help="Platform of the wheels: manylinux_2_28_x86_64.",
    )  # fmt: skip
    sign: Path | None = options.path_option(
        "--sign", group=OptionGroup.OUTPUT, metavar="KEY", help="Sign with this SSH key (writes FILE.sig)."
    )
    output: Path = options.output_option(required=True)


@command(BundleOptions, short_help="Pack an installation into one file for offline machines.")
def bundle(request: BundleOptions) -> int:
    """Pack image, packages, recipe, lock file and envcheck itself into one file for an offline machine.

    On that machine, `envcheck provision --bundle FILE` verifies the file and installs from it.  The image is pulled
    from its registry, or exported from this machine's container engine if that is faster or the registry is not
    reachable.  If the machine has no envcheck, extract envcheck.pyz from the file.

    \b
    envcheck bundle --device npu -o npu.tar --dry-run    show contents and sizes
    envcheck bundle --device npu --model 300b -o npu.tar
    envcheck bundle --model 21b --arch x86_64 -o iluvatar.tar
    envcheck bundle --device cpu --python 3.12 -o cpu.tar    for a machine with Python 3.12
    tar xf npu.tar envcheck.pyz && python3 envcheck.pyz provision --bundle npu.tar
    """
    from envcheck.core import errors, local_files, signals
    from envcheck.core.facts import Facts, SystemFacts
    from envcheck.job.local_facts import collect_facts_here, read_architecture
    from envcheck.job.request import JobRequest
    from envcheck.job.resolve import resolve_method
    from installers.bundle import assembly, contents, signature
    from installers.output.plan_text import ProgressScreen
    from installers.plan import interpreters
    from installers.recipes import catalogue

    path = request.output
    local_files.check_writable(path)
    if path.exists() and not path.is_file():
        raise errors.UsageError(
            _("cannot write {path}: not a regular file", path=path), _("specify another file with -o")
        )
    site = site_settings.apply_site(request.config)
    wanted = convert_request(JobRequest, request, may_choose=True)
    named, newest = contents.parse_platform(request.platform) if request.platform else ("", "")
    python = interpreters.read_minor(request.python) if request.python else ""
    if request.sign:
        signature.check_key(request.sign)
    architecture = named or request.arch or read_architecture(collect_facts_here(JobRequest(device="cpu")))
    target = Facts(host=SystemFacts(architecture=architecture))  # all that is known about the target machine
    recipes = catalogue.load_all(request.recipes)
    whole = catalogue.find_recipe(recipes, wanted.recipe) if wanted.recipe else None
    # A bundle has the parts of every node role, so none is chosen.
    has_roles = whole is not None and any(job.role for job in whole.jobs)
    recipe = whole if whole and has_roles else resolve_method(wanted, recipes, target)[0]
    wishes = assembly.BundleWishes(python, newest, site)
    assembly.check_request(recipe, wishes)
    with _open_engine(recipe.image is not None) as source:
        plan = assembly.plan_bundle(recipe, architecture, path, source, wishes)
        if not request.as_json:
            click.echo(_render_plan(plan))
        if request.dry_run:
            return _print_outcome(plan, "planned") if request.as_json else errors.SUCCESS
        with signals.handle_signals(signals.raise_interrupt), ProgressScreen() as screen:
            lock = assembly.make_bundle(plan, source, screen.show_event)
            signed = signature.sign_bundle(path, request.sign) if request.sign else None
    if request.as_json:
        return _print_outcome(plan, "done")
    size = path.stat().st_size / (1 << 20)
    wheels = len(lock.wheels)
    click.echo(
        translate(
            _("{path}: {size:,.0f} MiB, {wheels} wheels, with the image", path=path, size=size, wheels=wheels)
            if lock.image
            else _("{path}: {size:,.0f} MiB, {wheels} wheels", path=path, size=size, wheels=wheels)
        )
    )
    if signed:
        click.echo(translate(_("signature: {path}", path=signed)))
    there = f"tar xf {path.name} envcheck.pyz && python3 envcheck.pyz provision --bundle {path.name}"
    click.echo(f"  {translate(_('on the target machine: {command}', command=there))}")
    return errors.SUCCESS


@click.command(short_help="Write envcheck as one executable file.")
@click.option(
    "--output", "-o", cls=GroupedOption, default="envcheck.pyz", show_default=True, metavar="FILE",
    help="File to write.", type=click.Path(path_type=Path),
)  # fmt: skip
@options.json_option
def pyz(output: Path, as_json: bool) -> int:
    """Write envcheck and its libraries as one file, for machines without network and pip.

    The file needs Python 3.10 or newer on Linux, x86_64 or aarch64.  The first start unpacks it into the user's cache.
    It contains no shell parser: `lint` of a script is UNKNOWN unless tree-sitter is installed.

    \b
    envcheck pyz                                     write ./envcheck.pyz
    envcheck pyz -o /media/usb/envcheck.pyz
    python3 envcheck.pyz doctor                      check the other machine
    python3 envcheck.pyz provision --bundle npu.tar  install there from a bundle
    """
    import json

    from envcheck.core import errors, local_files
    from envcheck.core.language import translate
    from envcheck.core.version import SCHEMA_VERSION, __version__
    from envcheck.payload import pyz as file

    path = output
    local_files.check_writable(path)
    if path.exists() and not path.is_file():
        raise errors.UsageError(
            _("cannot write {path}: not a regular file", path=path), _("specify another file with -o")
        )
    payload = file.build_payload(frozenset(file.MACHINES))
    file.write_file(path, payload)
    there = file.list_machines(payload)
    missing = [machine for machine in file.MACHINES if machine not in there]
    if as_json:
        head = {"schema": SCHEMA_VERSION, "verb": "pyz", "result": "done", "file": str(path), "version": __version__}
        size = {"size_bytes": len(payload.data), "sha256": payload.digest}
        click.echo(json.dumps({**head, **size, "machines": there, "missing": missing}, indent=1))
        return errors.SUCCESS
    click.echo(
        _(
            "{path}: {size:.1f} MiB, sha256 {digest}",
            path=path,
            size=len(payload.data) / (1 << 20),
            digest=payload.digest,
        )
    )
    for machine in missing:
        note = _("note: psutil for {machine} is missing from the cache and the package index", machine=machine)
        click.echo(translate(note), err=True)
    return errors.SUCCESS


@contextlib.contextmanager
def _open_engine(wanted: bool) -> Iterator[EngineImageSource | None]:
    """The container engine, if the recipe has an image."""
    if not wanted:
        yield None
        return
    from installers.bundle import assembly
    from installers.images import docker_engine

    seen = docker_engine.inspect_engine()
    client = docker_engine.open_client(seen)
    try:
        yield assembly.EngineImageSource(client, seen)
    finally:
        client.close()


def _render_plan(plan: BundlePlan) -> str:
    import shutil

    from envcheck.core.language.width import wrap_text
    from envcheck.core.units import format_mib

    width = max(50, shutil.get_terminal_size((100, 24)).columns)
    whole = translate(
        _(
            "packing {recipe} for {architecture} into {path}, about {size}",
            recipe=plan.recipe.name,
            architecture=plan.aim.architecture,
            path=plan.path,
            size=format_mib(plan.size_mib),
        )
    )
    lines = wrap_text(whole, width, "", "    ")
    for part in plan.parts:
        lines += wrap_text(translate(part.description), width, "  ", "      ")
        where = translate(_("from {origin}, about {size}", origin=fill(part.source), size=format_mib(part.size_mib)))
        lines += wrap_text(where, width, "      ", "        ")
    return "\n".join(lines)


def _print_outcome(plan: BundlePlan, result: str) -> int:
    from envcheck.core import errors

    size = plan.path.stat().st_size if result == "done" else None
    said = {"verb": "bundle", "result": result,
            "recipe": plan.recipe.name, "file": str(plan.path),
            "architecture": plan.aim.architecture, "python": plan.aim.python, "size_mib": plan.size_mib,
            "size_bytes": size, "parts": [asdict(part) for part in plan.parts]}  # fmt: skip
    print_document(said)
    return errors.SUCCESS
