"""envcheck provision: make this machine fit, each step shown beforehand and proved at once."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from envcheck.cli import options, provision_modes
from envcheck.core import language
from envcheck.core import paths as places
from envcheck.fleet import argv as fleet_words

if TYPE_CHECKING:
    from installers.locks.lockfile import Lock

CARRIED = ("recipes_folder", "locked")  # files that go along to other hosts; all other paths are theirs


@click.command(short_help="Install what is missing, shown first, proved after.")
@options.device
@options.model
@options.method
@options.framework
@options.recipe_name
@options.recipes_folder
@options.variant
@options.node_role
@click.option("--into", type=click.Path(), metavar="VENV", help="This virtual environment, not one of envcheck's own.")
@click.option("--registry", multiple=True, metavar="HOST", help="Try this registry first for the image; repeatable.")
@click.option("--recreate", is_flag=True, help="Make a container of ours anew where it differs from the recipe.")
@click.option("--as-published", is_flag=True, help="Start the container with the vendor document's own options.")
@click.option(
    "--driver", "driver_file", metavar="FILE.run", help="Install the cards' driver; `fetch`: the published one."
)
@click.option(
    "--accept-licence", is_flag=True, help="With --driver: you have read the vendor's licence, and accept it."
)
@click.option("--sha256", metavar="SUM", default="", help="With --driver: the SHA-256 that the file must have.")
@click.option("--allow-downgrade", is_flag=True, help="With --driver: an older one than is installed is meant.")
@click.option("--lock", "lock_file", metavar="FILE", help="Afterwards write what was put in place, with hashes, there.")
@click.option("--locked", metavar="FILE", help="Install exactly what this lock says, and nothing else.")
@click.option("--bundle", metavar="FILE", help="Without a network: all of it from what `envcheck bundle` wrote.")
@click.option("--weights", type=click.Path(), metavar="DIR", help="The model's weights are there: check them.")
@click.option("--fetch-weights", is_flag=True, help="Fetch the model's weights from a hub; the plan says how large.")
@click.option("--undo", "undoing", is_flag=True, help="Take back what envcheck made, and nothing else.")
@click.option("--as-script", is_flag=True, help="Print the plan as a shell script, and do nothing.")
@options.dry_run
@options.verbose
@options.yes
@options.json_output
@options.fleet
@click.option("--resume", is_flag=True, help="With --hosts: only those that were not done the last time.")
def provision(
    device: str,
    model: str | None,
    method: str | None,
    framework: str | None,
    recipe_name: str | None,
    recipes_folder: str | None,
    variant: str | None,
    node_role: str | None,
    into: str | None,
    registry: tuple[str, ...],
    recreate: bool,
    as_published: bool,
    driver_file: str | None,
    accept_licence: bool,
    sha256: str,
    allow_downgrade: bool,
    lock_file: str | None,
    locked: str | None,
    bundle: str | None,
    weights: str | None,
    fetch_weights: bool,
    undoing: bool,
    as_script: bool,
    dry_run: bool,
    verbose: bool,
    yes: bool,
    as_json: bool,
    **fleet: Any,
) -> int:
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
    from envcheck.collect import snapshot
    from envcheck.job.here import collect_facts_here
    from envcheck.job.request import JobRequest
    from envcheck.job.select import NoFittingRecipeError
    from envcheck.job.values import interpreter_folder
    from installers import choose_job
    from installers.bundle.sources import Supply
    from installers.containers.container_options import Wish
    from installers.images import reference
    from installers.output import plan_text
    from installers.recipes import catalogue
    from installers.session import ProvisionRequest, run_plan, run_script, run_undo

    provision_modes.check(_given())
    if fleet_words.chosen(fleet) or fleet["resume"]:
        return _many({**fleet, "dry_run": dry_run, "yes": yes, "as_json": as_json})
    files = {"--into": into, "--lock": lock_file, "--locked": locked, "--bundle": bundle, "--weights": weights}
    files |= {"--driver": driver_file, "--recipes": recipes_folder}
    paths = {option: str(places.given(text, option)) for option, text in files.items() if text is not None}
    into, lock_file, locked, bundle, weights, driver_file, recipes_folder = map(paths.get, files)
    for each in registry:
        reference.registry(each)
    request = JobRequest(
        model=model, method=method, device=device, framework=framework, recipe=recipe_name, variant=variant,
        node_role=node_role, recipes=_path(recipes_folder), into=_path(into), as_published=as_published,
        may_choose=True,
    )  # fmt: skip
    if driver_file:
        from installers.drivers import session as driver_session

        lock = _lock(locked)
        recipe, note = choose_job.choose_driver_recipe(request, lock)
        whole = catalogue.by_name(catalogue.load_all(request.recipes), recipe.name)
        wanted = driver_session.DriverRequest(
            recipe, driver_file, places.environment_folder(recipe.name), dry_run, yes, as_json, accept_licence, sha256,
            allow_downgrade, note, whole, lock,
        )  # fmt: skip
        return driver_session.run(wanted)
    if lock_file:
        snapshot.probe_writable(Path(lock_file))
    facts = collect_facts_here(request)
    if undoing and not bundle:
        job = choose_job.find_job_to_undo(request, facts)
        supply = Supply(job.recipe, boxed=into is None)
    else:
        source = choose_job.SupplyRequest(_path(bundle), _path(locked), into is None)
        may_ask = sys.stdin.isatty() and not (yes or dry_run or as_json or as_script or undoing)
        try:
            job, supply = choose_job.choose_job(request, facts, source, _ask_recipe if may_ask else None)
        except NoFittingRecipeError as err:
            err.document = plan_text.unfit_values(err)
            raise
    supply = replace(supply, weights=_path(weights), fetch=fetch_weights)
    provision_modes.heard(_given(), job.recipe.name, job.recipe.image is not None)
    wish = Wish(registry, recreate, as_published)
    asked = ProvisionRequest(
        job, facts, interpreter_folder(request, job.recipe), into is not None, dry_run, yes, as_json,
        wish=wish, supply=supply, lock_file=lock_file or "", whole=verbose,
    )  # fmt: skip
    if as_script:
        return run_script(asked)
    return run_undo(asked) if undoing else run_plan(asked)


def _path(text: str | None) -> Path | None:
    return Path(text).absolute() if text else None


def _ask_recipe(names: Sequence[str]) -> str:
    """Which of these recipes, of a person; the first where nothing is typed."""
    return str(click.prompt(language.say("Which recipe?"), type=click.Choice(list(names)), default=names[0]))


def _many(asked: dict[str, Any]) -> int:
    """The same verb on other machines."""
    from envcheck.payload import attachments
    from installers.hosts import session
    from installers.hosts.request import HostsRequest

    given = fleet_words.written(("dry_run", "yes", "as_json", "resume", "verbose"))
    carried = {name: places.given(given[name], name) for name in CARRIED if name in given}
    words, said = fleet_words.words(given, carried)
    only = {name: asked[name] for name in ("fanout", "forget", "dry_run", "yes", "as_json", "resume")}
    return session.provision(
        HostsRequest(
            fleet_words.hosts(asked), words, said, attachments.packed(carried), deadline_s=asked["deadline"], **only,
        )
    )  # fmt: skip


def _given() -> list[str]:
    """The options that were written in this command."""
    context = click.get_current_context()
    source = context.get_parameter_source
    written = [p for p in context.command.params if p.name and source(p.name) is ParameterSource.COMMANDLINE]
    return [option for param in written if (option := param.opts[0]) != language.OPTION]


def _lock(file: str | None) -> Lock | None:
    from installers.locks import lockfile

    return lockfile.load(Path(file)) if file else None
