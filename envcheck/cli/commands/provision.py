"""envcheck provision: make this machine fit, each step shown beforehand and proved at once."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import click

from envcheck.cli import options
from envcheck.cli.requests import Request, command, convert_request, flag, option
from envcheck.core import language, paths
from envcheck.core.errors import UsageError
from envcheck.fleet import argv as fleet_words

if TYPE_CHECKING:
    from envcheck.core.facts import Facts
    from envcheck.job.job import Job
    from envcheck.job.request import JobRequest
    from installers.bundle.sources import Supply
    from installers.session import ProvisionRequest

CARRIED = ("recipes", "locked")  # files that go along to other hosts; all other paths are theirs
OF_CONTAINER = {"registry": "--registry", "recreate": "--recreate", "as_published": "--as-published"}
ONE_RECIPE = ("method", "framework", "variant", "recipes")  # a bundle holds one recipe, and says which


@dataclass(frozen=True, kw_only=True)
class ProvisionOptions(
    options.JsonOption, options.AskingOptions, options.VariantOptions, options.RecipeOption, options.JobOptions
):
    """What all of them have."""


@dataclass(frozen=True, kw_only=True)
class MachineOptions(options.FleetOptions, ProvisionOptions):
    """Of this machine, or of others over ssh."""

    into: str | None = option(
        "--into", type=click.Path(), metavar="VENV", help="This virtual environment, not one of envcheck's own."
    )
    bundle: str | None = option(
        "--bundle", metavar="FILE", help="Without a network: all of it from what `envcheck bundle` wrote.",
        excludes=ONE_RECIPE, hint="a bundle holds one recipe, and says which",
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class UndoOptions(MachineOptions):
    SELECTED_BY: ClassVar[tuple[str, ...]] = ("undo",)

    undo: bool = flag("--undo", help="Take back what envcheck made, and nothing else.")


@dataclass(frozen=True, kw_only=True)
class LockedOption(Request):
    locked: Path | None = options.path_option(
        "--locked",
        metavar="FILE",
        help="Install exactly what this lock says, and nothing else.",
        excludes=("bundle",),
        hint="a bundle brings its own lock",
    )


@dataclass(frozen=True, kw_only=True)
class DriverOptions(LockedOption, ProvisionOptions):
    SELECTED_BY: ClassVar[tuple[str, ...]] = ("driver",)

    driver: str = option(
        "--driver", metavar="FILE.run", help="Install the cards' driver; `fetch`: the published one.",
        hint="the vendor's own program takes a driver back: --driver FILE.run --dry-run names it",
    )  # fmt: skip
    accept_licence: bool = flag(
        "--accept-licence", help="With --driver: you have read the vendor's licence, and accept it."
    )
    sha256: str = option(
        "--sha256", metavar="SUM", default="", help="With --driver: the SHA-256 that the file must have."
    )
    allow_downgrade: bool = flag("--allow-downgrade", help="With --driver: an older one than is installed is meant.")


@dataclass(frozen=True, kw_only=True)
class InstallOptions(LockedOption, MachineOptions):
    registry: tuple[str, ...] = option(
        "--registry", multiple=True, metavar="HOST", help="Try this registry first for the image; repeatable.",
        excludes=("into", "bundle"),
    )  # fmt: skip
    recreate: bool = flag(
        "--recreate", help="Make a container of ours anew where it differs from the recipe.", excludes=("into",)
    )
    as_published: bool = flag(
        "--as-published", help="Start the container with the vendor document's own options.", excludes=("into",)
    )
    lock: str | None = option(
        "--lock", metavar="FILE", help="Afterwards write what was put in place, with hashes, there.",
        excludes=options.OVER_SSH, hint="provision one machine with --lock FILE, then the others with --locked FILE",
    )  # fmt: skip
    weights: str | None = option(
        "--weights", type=click.Path(), metavar="DIR", help="The model's weights are there: check them.",
    )  # fmt: skip
    fetch_weights: bool = flag(
        "--fetch-weights", help="Fetch the model's weights from a hub; the plan says how large.",
        excludes=("weights", "bundle"),
    )  # fmt: skip
    as_script: bool = flag(
        "--as-script", help="Print the plan as a shell script, and do nothing.",
        excludes=("bundle", "lock", "locked", "verbose", "as_json", *options.OVER_SSH),
    )  # fmt: skip
    verbose: bool = flag(
        "--verbose", "-v", help="Show the plan whole, however long its lists are.", order=options.ASKING
    )
    resume: bool = flag(
        "--resume", help="With --hosts: only those that were not done the last time.",
        needs=options.OVER_SSH, order=options.HOSTS,
    )  # fmt: skip


@command(UndoOptions, DriverOptions, InstallOptions, short_help="Install what is missing, shown first, proved after.")
def provision(request: UndoOptions | DriverOptions | InstallOptions) -> int:
    """Install what a recipe needs and this machine lacks: planned, shown, done, proved.

    A recipe with an image gets its container: pulled by digest, started as the recipe says, packages and clones put
    in, proved on every card.  What is so already stays; a run that was cut off is repaired by the next one.

    \b
    envcheck provision --device cpu                    plan, ask, then make and prove the environment of tiny-cpu
    envcheck provision --device cpu --yes              do not ask
    envcheck provision --model 300b --dry-run          show the plan, and stop
    envcheck provision --device cpu --as-script        the plan as a shell script, to be read and run by hand
    envcheck provision --recipe tiny-cpu --into venv   put the packages into a virtual environment of your own
    envcheck provision --model 21b --device iluvatar --registry mirror.example.org    another registry first
    envcheck provision --model 300b --as-published     the container with the vendor document's own options
    envcheck provision --device cpu --lock FILE        write what was put in place, for --locked FILE elsewhere
    envcheck provision --bundle FILE                   without a network, from what `envcheck bundle` wrote
    envcheck provision --model 21b --fetch-weights     its weights too, from a hub; a cut-off download is taken up
    envcheck provision --device cpu --undo             take back what envcheck made
    envcheck provision --device npu --driver FILE.run  drive the vendor's installer; its licence is asked of you
    envcheck provision --device nvidia --driver fetch  the same with the file that the vendor publishes
    envcheck provision --model 21b --hosts node[01-08]  on eight machines over ssh: one plan, one question
    """
    if isinstance(request, DriverOptions):
        return _install_driver(request)
    if request.is_over_ssh:
        return _provision_hosts(request)
    return _undo(request) if isinstance(request, UndoOptions) else _install(request)


def _install_driver(request: DriverOptions) -> int:
    from installers import choose_job
    from installers.drivers import session
    from installers.locks import lockfile
    from installers.recipes import catalogue

    file = request.driver if request.driver == session.FETCH else str(paths.given(request.driver, "--driver"))
    lock, wanted = lockfile.load(request.locked) if request.locked else None, _job_request(request)
    recipe, note = choose_job.choose_driver_recipe(wanted, lock)
    whole = catalogue.by_name(catalogue.load_all(request.recipes), recipe.name)
    folder = paths.environment_folder(recipe.name)
    return session.run(
        convert_request(
            session.DriverRequest, request, recipe=recipe, file=file, folder=folder, note=note, whole=whole, lock=lock
        )
    )


def _undo(request: UndoOptions) -> int:
    from envcheck.job.here import collect_facts_here
    from installers import choose_job
    from installers.bundle.sources import Supply
    from installers.session import run_undo

    wanted = _job_request(request)
    facts = collect_facts_here(wanted)
    if request.bundle:
        job, supply = _choose(request, wanted, facts)
    else:
        job = choose_job.find_job_to_undo(wanted, facts)
        supply = Supply(job.recipe, boxed=wanted.into is None)
    return run_undo(_provision_request(request, wanted, facts, job, supply=supply))


def _install(request: InstallOptions) -> int:
    from envcheck.collect import snapshot
    from envcheck.job.here import collect_facts_here
    from installers.containers.container_options import Wish
    from installers.images import reference
    from installers.session import run_plan, run_script

    lock, weights = _path(request.lock, "--lock"), _path(request.weights, "--weights")
    for each in request.registry:
        reference.registry(each)
    wanted = _job_request(request)
    if lock:
        snapshot.probe_writable(lock)
    facts = collect_facts_here(wanted)
    job, supply = _choose(request, wanted, facts)
    supply = replace(supply, weights=weights, fetch=request.fetch_weights)
    if unheard := sorted(request.given & OF_CONTAINER.keys()) if job.recipe.image is None else ():
        words = f"{OF_CONTAINER[unheard[0]]} is for a container, and {job.recipe.name} has none"
        raise UsageError(words, "leave it out")
    wish = Wish(request.registry, request.recreate, request.as_published)
    asked = _provision_request(
        request, wanted, facts, job, wish=wish, supply=supply, lock_file=str(lock or ""), whole=request.verbose
    )
    return run_script(asked) if request.as_script else run_plan(asked)


def _choose(request: UndoOptions | InstallOptions, wanted: JobRequest, facts: Facts) -> tuple[Job, Supply]:
    """The job and what it takes; a person is asked where several recipes would do."""
    from envcheck.job.select import NoFittingRecipeError
    from installers import choose_job
    from installers.output import plan_text

    locked = request.locked.absolute() if isinstance(request, InstallOptions) and request.locked else None
    source = choose_job.SupplyRequest(_path(request.bundle, "--bundle"), locked, wanted.into is None)
    is_decided = request.yes or request.dry_run or request.as_json or request.given & {"as_script", "undo"}
    try:
        return choose_job.choose_job(
            wanted, facts, source, None if is_decided or not sys.stdin.isatty() else _ask_recipe
        )
    except NoFittingRecipeError as err:
        err.document = plan_text.unfit_values(err)
        raise


def _job_request(request: ProvisionOptions) -> JobRequest:
    from envcheck.job.request import JobRequest

    into = _path(request.into, "--into") if isinstance(request, MachineOptions) else None
    return convert_request(JobRequest, request, into=into, may_choose=True)


def _provision_request(
    request: MachineOptions, wanted: JobRequest, facts: Facts, job: Job, **more: Any
) -> ProvisionRequest:
    from envcheck.job.values import interpreter_folder
    from installers.session import ProvisionRequest

    folder, own = interpreter_folder(wanted, job.recipe), wanted.into is not None
    return ProvisionRequest(job, facts, folder, own, request.dry_run, request.yes, request.as_json, **more)


def _path(text: str | None, word: str) -> Path | None:
    return None if text is None else paths.given(text, word).absolute()


def _ask_recipe(names: Sequence[str]) -> str:
    """Which of these recipes, of a person; the first where nothing is typed."""
    return str(click.prompt(language.say("Which recipe?"), type=click.Choice(list(names)), default=names[0]))


def _provision_hosts(request: UndoOptions | InstallOptions) -> int:
    """The same command on other machines."""
    from envcheck.payload import attachments
    from installers.hosts import session
    from installers.hosts.request import HostsRequest

    given = fleet_words.written(("dry_run", "yes", "as_json", "resume", "verbose"))
    carried = {name: given[name] for name in CARRIED if name in given}
    words, said = fleet_words.words(given, carried)
    return session.provision(
        convert_request(
            HostsRequest, request, hosts=fleet_words.hosts(request), words=words, said=said,
            carried=attachments.packed(carried), deadline_s=request.deadline,
        )
    )  # fmt: skip
