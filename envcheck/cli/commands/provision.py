"""envcheck provision: install what a recipe needs, with a plan before and a verification after each step."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import click

from envcheck.cli import options, site_settings
from envcheck.cli.option_groups import OptionGroup
from envcheck.cli.requests import Request, command, convert_request, flag, option
from envcheck.core import language, paths
from envcheck.core.errors import UsageError
from envcheck.core.messages import _
from envcheck.fleet import argv as fleet_words

if TYPE_CHECKING:
    from envcheck.core.facts import Facts
    from envcheck.job.definition import Job
    from envcheck.job.request import JobRequest
    from installers.bundle.sources import Supply
    from installers.provision_run import ProvisionRequest

CARRIED = ("recipes", "locked", "config")  # files that are copied to other hosts; all other paths are on the hosts
OF_CONTAINER = {"registry": "--registry", "recreate": "--recreate", "as_published": "--as-published"}
ONE_RECIPE = ("method", "framework", "variant", "recipes")  # a bundle contains exactly one recipe


@dataclass(frozen=True, kw_only=True)
class ProvisionOptions(
    options.SiteOption,
    options.JsonOption,
    options.ConfirmOptions,
    options.VariantOptions,
    options.RecipeOption,
    options.JobOptions,
):
    """Options of all requests."""


@dataclass(frozen=True, kw_only=True)
class MachineOptions(options.FleetOptions, options.EnvironmentOption, ProvisionOptions):
    """Provision this machine, or others over SSH."""

    bundle: str | None = option(
        "--bundle", group=OptionGroup.MACHINE, is_common=True, type=click.Path(), metavar="FILE",
        help="Install offline, from an 'envcheck bundle' file.",
        excludes=ONE_RECIPE, hint=_("remove --bundle, or the options that choose a recipe"),
    )  # fmt: skip

    signers: Path | None = options.path_option(
        "--signers", group=OptionGroup.MACHINE, metavar="FILE", needs=("bundle",),
        help="Accept only a bundle that one of these signed.",
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class UndoOptions(MachineOptions):
    SELECTED_BY: ClassVar[tuple[str, ...]] = ("undo",)

    undo: bool = options.undo_flag()


@dataclass(frozen=True, kw_only=True)
class LockedOption(Request):
    locked: Path | None = options.path_option(
        "--locked",
        group=OptionGroup.MACHINE,
        metavar="FILE",
        help="Install exactly what this lock file lists.",
        excludes=("bundle",),
        hint=_("remove --locked: a bundle contains its own lock file"),
    )


@dataclass(frozen=True, kw_only=True)
class DriverOptions(LockedOption, ProvisionOptions):
    SELECTED_BY: ClassVar[tuple[str, ...]] = ("driver",)

    driver: str = option(
        "--install-driver", group=OptionGroup.DRIVER, is_common=True, metavar="FILE|fetch",
        help="Install a driver file, or download it (fetch).",
        hint=_("remove a driver with the vendor's own program; --install-driver FILE.run --dry-run "
               "shows the command"),
    )  # fmt: skip
    accept_licence: bool = flag("--accept-licence", group=OptionGroup.DRIVER, help="Accept the vendor's licence.")
    sha256: str = option(
        "--sha256", group=OptionGroup.DRIVER, metavar="HASH", default="", help="Expected SHA-256 of the driver file."
    )
    allow_downgrade: bool = flag(
        "--allow-downgrade", group=OptionGroup.DRIVER, help="Allow a driver older than the installed one."
    )


@dataclass(frozen=True, kw_only=True)
class InstallOptions(LockedOption, options.DevicesOption, MachineOptions):
    registry: tuple[str, ...] = option(
        "--registry", group=OptionGroup.MACHINE, multiple=True, metavar="HOST",
        help="Registry to try first for the image (repeatable).", excludes=("into", "bundle"),
    )  # fmt: skip
    recreate: bool = flag(
        "--recreate", group=OptionGroup.MACHINE, help="Recreate a container that differs from its recipe.",
        excludes=("into",),
    )  # fmt: skip
    as_published: bool = options.as_published_flag(excludes=("into",))
    lock: str | None = option(
        "--lock", group=OptionGroup.OUTPUT, type=click.Path(), metavar="FILE",
        help="Write a lock file of what was installed.",
        excludes=options.OVER_SSH, hint=_("provision one machine with --lock FILE, then the others "
                                          "with --locked FILE"),
    )  # fmt: skip
    python: str | None = option(
        "--python", group=OptionGroup.MACHINE, metavar="VERSION|PATH",
        help="Python of the new environment, such as 3.12.", excludes=("bundle",),
    )  # fmt: skip
    weights: str | None = option(
        "--weights", group=OptionGroup.MACHINE, type=click.Path(), metavar="DIR",
        help="Folder with the model weights; they are verified.",
    )  # fmt: skip
    fetch_weights: bool = flag(
        "--fetch-weights", group=OptionGroup.MACHINE, is_common=True,
        help="Download the model weights.", excludes=("weights", "bundle"),
    )  # fmt: skip
    as_script: bool = options.as_script_flag(
        excludes=("bundle", "lock", "locked", "verbose", "as_json", *options.OVER_SSH)
    )
    verbose: bool = flag("--verbose", "-v", group=OptionGroup.OUTPUT, help="Show the complete output.")
    unfinished: bool = flag(
        "--unfinished", group=OptionGroup.HOSTS, help="Continue with the hosts that are not done yet.",
        needs=options.OVER_SSH,
    )  # fmt: skip


@command(UndoOptions, DriverOptions, InstallOptions, short_help="Install what a training job needs, and verify it.")
def provision(request: UndoOptions | DriverOptions | InstallOptions) -> int:
    """Install what a recipe needs and this machine lacks: show the plan, ask, install, verify.

    If the recipe has an image, its container is created: the image is pulled by digest, packages and repositories are
    installed, and every device is tested.  What is already installed stays.  Run the command again to complete an
    interrupted installation.

    \b
    envcheck provision --device cpu                     set up the CPU example
    envcheck provision --model 300b --device npu --dry-run           show the plan and exit
    envcheck provision --device cpu --as-script         print a shell script
    envcheck provision --recipe tiny-cpu --into venv    use your own environment
    envcheck provision --model 21b --registry mirror.example.org
    envcheck provision --device cpu --lock env.lock     write a lock file
    envcheck provision --bundle npu.tar                 install offline
    envcheck provision --model 21b --fetch-weights      also download the weights
    envcheck provision --device cpu --undo              remove what was installed
    envcheck provision --device npu --install-driver driver.run
    envcheck provision --model 21b --hosts node[01-08]  install on eight hosts
    """
    if isinstance(request, DriverOptions):
        return _install_driver(request)
    if request.is_over_ssh:
        return _provision_hosts(request)
    return _undo_installation(request) if isinstance(request, UndoOptions) else _install_recipe(request)


def _install_driver(request: DriverOptions) -> int:
    from installers import choose_job
    from installers.drivers import guided_install
    from installers.locks import lockfile
    from installers.recipes import catalogue

    file = (
        request.driver
        if request.driver == guided_install.FETCH
        else str(paths.parse_path(request.driver, "--install-driver"))
    )
    site_settings.apply_site(request.config)
    lock, wanted = lockfile.load_lock(request.locked) if request.locked else None, _build_job_request(request)
    recipe, note = choose_job.choose_driver_recipe(wanted, lock)
    whole = catalogue.find_recipe(catalogue.load_all(request.recipes), recipe.name)
    named = lock or request.recipe or request.model or request.method or request.framework
    folder = paths.environment_folder(recipe.name) if named else paths.driver_folder(recipe.device)
    return guided_install.run_request(
        convert_request(
            guided_install.DriverRequest,
            request,
            recipe=recipe,
            file=file,
            folder=folder,
            note=note,
            whole=whole,
            lock=lock,
        )
    )


def _undo_installation(request: UndoOptions) -> int:
    from envcheck.job.local_facts import collect_facts_here
    from installers import choose_job
    from installers.bundle.sources import Supply
    from installers.provision_run import run_undo

    wanted = _build_job_request(request)
    facts = collect_facts_here(wanted)
    if request.bundle:
        job, supply = _choose_job(request, wanted, facts)
    else:
        job = choose_job.find_job_to_undo(wanted, facts)
        supply = Supply(job.recipe, boxed=wanted.into is None)
    return run_undo(_build_provision_request(request, wanted, facts, job, supply=supply))


def _install_recipe(request: InstallOptions) -> int:
    from envcheck.core import local_files
    from envcheck.job.local_facts import collect_facts_here
    from installers.containers.container_options import ContainerOptions
    from installers.images import reference
    from installers.plan import interpreters
    from installers.provision_run import run_plan, run_script

    lock, weights = _resolve_path(request.lock, "--lock"), _resolve_path(request.weights, "--weights")
    for each in request.registry:
        reference.parse_registry(each)
    site = site_settings.apply_site(request.config)
    site = replace(site, registries=(*request.registry, *site.registries))
    wanted = _build_job_request(request)
    if lock:
        local_files.check_writable(lock)
    facts = collect_facts_here(wanted)
    if request.recreate:  # the cards of the container that goes do not matter
        facts = replace(facts, container_cards={})
    job, supply = _choose_job(request, wanted, facts)
    supply = replace(supply, weights=weights, fetch=request.fetch_weights, site=site)
    if unheard := sorted(request.given & OF_CONTAINER.keys()) if job.recipe.image is None else ():
        words = _(
            "{of_container} requires a container, which {name} does not use",
            of_container=OF_CONTAINER[unheard[0]],
            name=job.recipe.name,
        )
        raise UsageError(words, _("remove the option"))
    python = None if request.python is None else interpreters.parse_choice(request.python)
    if python and job.recipe.image and job.recipe.container and wanted.into is None:
        raise UsageError(
            _("--python requires a virtual environment; {name} uses a container", name=job.recipe.name),
            _("remove --python, or name a virtual environment with --into"),
        )
    wish = ContainerOptions(site.registries, request.recreate, request.as_published)
    asked = _build_provision_request(
        request,
        wanted,
        facts,
        job,
        wish=wish,
        supply=supply,
        lock_file=str(lock or ""),
        whole=request.verbose,
        python=python,
    )
    return run_script(asked) if request.as_script else run_plan(asked)


def _choose_job(request: UndoOptions | InstallOptions, wanted: JobRequest, facts: Facts) -> tuple[Job, Supply]:
    """The job and its request; ask the user if several recipes match."""
    from envcheck.job.select import NoFittingRecipeError
    from installers import choose_job
    from installers.output import plan_text

    locked = request.locked.absolute() if isinstance(request, InstallOptions) and request.locked else None
    bundle = _resolve_path(request.bundle, "--bundle")
    source = choose_job.SupplyRequest(bundle, locked, wanted.into is None, request.signers)
    is_decided = request.yes or request.dry_run or request.as_json or request.given & {"as_script", "undo"}
    try:
        return choose_job.choose_job(
            wanted, facts, source, None if is_decided or not sys.stdin.isatty() else _ask_recipe
        )
    except NoFittingRecipeError as err:
        err.document = plan_text.unfit_values(err)
        raise


def _build_job_request(request: ProvisionOptions) -> JobRequest:
    from envcheck.job.request import JobRequest

    into = request.into.absolute() if isinstance(request, MachineOptions) and request.into else None
    return convert_request(JobRequest, request, into=into, may_choose=True)


def _build_provision_request(
    request: MachineOptions, wanted: JobRequest, facts: Facts, job: Job, **more: Any
) -> ProvisionRequest:
    from envcheck.job.command_values import interpreter_folder
    from installers.provision_run import ProvisionRequest

    folder, own = interpreter_folder(wanted, job.recipe), wanted.into is not None
    return ProvisionRequest(job, facts, folder, own, request.dry_run, request.yes, request.as_json, **more)


def _resolve_path(text: str | None, word: str) -> Path | None:
    return None if text is None else paths.parse_path(text, word).absolute()


def _ask_recipe(names: Sequence[str]) -> str:
    """Ask the user which recipe to use; the first is the default."""
    return str(
        click.prompt(
            language.translate(_("Which recipe?")),
            type=click.Choice(list(names), case_sensitive=False),
            default=names[0],
        )
    )


def _provision_hosts(request: UndoOptions | InstallOptions) -> int:
    """Run the same command on other machines."""
    from envcheck.payload import attachments
    from installers.hosts import rollout
    from installers.hosts.provision_request import HostsRequest

    given = fleet_words.collect_given(("dry_run", "yes", "as_json", "unfinished", "verbose"))
    carried = {name: given[name] for name in CARRIED if name in given}
    if settings := site_settings.find_carried_settings(request.config):
        given["config"] = carried["config"] = settings
    words, said = fleet_words.build_words(given, carried)
    return rollout.provision_hosts(
        convert_request(
            HostsRequest, request, hosts=fleet_words.list_hosts(request), words=words, said=said,
            carried=attachments.pack_files(carried), deadline_s=request.host_timeout_s,
        )
    )  # fmt: skip
