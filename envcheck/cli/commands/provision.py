"""envcheck provision: make this machine fit, each step shown beforehand and proved at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from envcheck.cli import options, provision_modes
from envcheck.core import language
from envcheck.core import paths as places
from envcheck.core.errors import UsageError
from envcheck.fleet import argv as fleet_words
from envcheck.vendors.names import accelerator_choice

if TYPE_CHECKING:
    from envcheck.core.facts import Facts
    from installers.bundle.sources import Supply
    from installers.locks.lockfile import Lock
    from installers.recipes.recipe import Recipe

CARRIED = ("recipes_folder", "locked")  # files that go along to other hosts; all other paths are theirs


@click.command(short_help="Install what is missing, shown first, proved after.")
@options.device
@options.model
@options.method
@options.framework
@options.recipe_name
@options.recipes_folder
@click.option("--into", type=click.Path(), metavar="VENV", help="This virtual environment, not one of envcheck's own.")
@click.option("--registry", multiple=True, metavar="HOST", help="Try this registry first for the image; repeatable.")
@click.option("--recreate", is_flag=True, help="Make a container of ours anew where it differs from the recipe.")
@click.option("--least-privilege", is_flag=True, help="Only the listed devices, capabilities and mounts.")
@click.option(
    "--driver", "driver_file", metavar="FILE.run", help="Install the cards' driver; `fetch`: the published one."
)
@click.option(
    "--accept-licence", is_flag=True, help="With --driver: you have read the vendor's licence, and accept it."
)
@click.option("--sha256", metavar="SUM", default="", help="With --driver: the SHA-256 that the file must have.")
@click.option("--allow-downgrade", is_flag=True, help="With --driver: an older one than is installed is meant.")
@click.option("--node-role", metavar="ROLE", help="What this node is in a job of two vendors: nvidia or iluvatar.")
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
@click.option("--seed-node", metavar="NODE", help="With --hosts: NODE alone fetches the image, and passes it on.")
@click.option("--seeding", metavar="FILE", hidden=True)
@click.option("--resume", is_flag=True, help="With --hosts: only those that were not done the last time.")
def provision(
    device: str,
    model: str | None,
    method: str | None,
    framework: str | None,
    recipe_name: str | None,
    recipes_folder: str | None,
    into: str | None,
    registry: tuple[str, ...],
    recreate: bool,
    least_privilege: bool,
    node_role: str | None,
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
    seeding: str | None,
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
    envcheck provision --model 300b --least-privilege  only the listed devices, no privileged container
    envcheck provision --device cpu --lock FILE        write what was put in place, for --locked FILE elsewhere
    envcheck provision --bundle FILE                   without a network, from what `envcheck bundle` wrote
    envcheck provision --model 21b --fetch-weights     its weights too, from a hub; a cut-off download is taken up
    envcheck provision --device cpu --undo             take back what envcheck made
    envcheck provision --device npu --driver FILE.run  drive the vendor's installer; its licence is asked of you
    envcheck provision --device nvidia --driver fetch  the same with the file that the vendor publishes
    envcheck provision --model 21b --hosts node[01-08]  on eight machines over ssh: one plan, one question
    envcheck provision --model 21b --hosts node[01-08] --seed-node node01    their image fetched once
    """
    from installers.containers.container_options import Wish
    from installers.containers.spec_from_recipe import Mode
    from installers.images import reference
    from installers.seeds import seed
    from installers.session import ProvisionRequest, run_plan, run_script, run_undo

    provision_modes.check(_given())
    if fleet_words.chosen(fleet) or fleet["resume"] or fleet["seed_node"]:
        return _many({**fleet, "dry_run": dry_run, "yes": yes, "as_json": as_json})
    files = {"--into": into, "--lock": lock_file, "--locked": locked, "--bundle": bundle, "--weights": weights}
    files |= {"--driver": driver_file, "--recipes": recipes_folder}
    paths = {option: str(places.given(text, option)) for option, text in files.items() if text is not None}
    into, lock_file, locked, bundle, weights, driver_file, recipes_folder = map(paths.get, files)
    for each in registry:
        reference.registry(each)
    if driver_file:
        from installers.drivers import session as driver_session

        lock = _lock(locked)
        named = recipe_name or (lock.recipe if lock and not (model or method or framework) else None)
        recipe, note = _driver_recipe(device, model, method, framework, named, recipes_folder)
        folder, only_show = _folder(recipe, None), (dry_run, yes, as_json)
        whole = _recipe("auto", None, None, None, recipe.name, recipes_folder)
        wanted = driver_session.DriverRequest(
            recipe, driver_file, folder, *only_show, accept_licence, sha256, allow_downgrade, note, whole, lock
        )
        return driver_session.run(wanted)
    said = (device, model, method, framework, recipe_name, recipes_folder)
    supply = _supply(bundle, locked, lock_file, into is None, said)
    supply = replace(supply, weights=Path(weights).absolute() if weights else None, fetch=fetch_weights)
    recipe = supply.recipe
    provision_modes.heard(_given(), recipe.name, recipe.image is not None)
    given = seed.read(Path(seeding)) if seeding else None
    if given and not given.address:
        from installers.seeds import serve

        return serve.serve(supply.narrowed, registry, given)
    wish = Wish(registry, recreate, Mode.LEAST if least_privilege else Mode.DOCUMENT, seed=given)
    asked = ProvisionRequest(
        recipe, _folder(recipe, into), into is not None, dry_run, yes, as_json, wish=wish, supply=supply,
        role="" if undoing else _role(recipe, node_role, device), lock_file=lock_file or "", whole=verbose,
        judge=_memory(recipe, method),
    )  # fmt: skip
    if as_script:
        return run_script(asked)
    return run_undo(asked) if undoing else run_plan(asked)


def _many(asked: dict[str, Any]) -> int:
    """The same verb on other machines."""
    from envcheck.payload import attachments
    from installers.hosts import seeding, session
    from installers.hosts.request import HostsRequest

    given = fleet_words.written(("dry_run", "yes", "as_json", "resume", "verbose", "seed_node", "seeding"))
    carried = {name: places.given(given[name], name) for name in CARRIED if name in given}
    words, said = fleet_words.words(given, carried)
    only = {name: asked[name] for name in ("fanout", "forget", "dry_run", "yes", "as_json", "resume")}
    hosts, seed = fleet_words.hosts(asked), asked["seed_node"]
    return session.provision(
        HostsRequest(
            hosts, words, said, attachments.packed(carried), deadline_s=asked["deadline"], **only,
            seed=seeding.node(seed, hosts) if seed else None,
        )
    )  # fmt: skip


def _memory(recipe: Recipe, method: str | None) -> Callable[[Facts], tuple[str, ...]] | None:
    """What the memory planner says against the method that was named, on the cards that are here."""
    job = next((j for j in recipe.jobs if method and method.lower() in (j.method, j.variant)), None)

    def judge(facts: Facts) -> tuple[str, ...]:
        from launch.planner import fit

        found = fit.fit(recipe, job, facts) if job else None
        if not found or found.fits is not False:
            return ()
        more = f"; {found.remedy.words[:1].lower()}{found.remedy.words[1:]}" if found.remedy else ""
        return (f"{method} will not fit into these cards' memory, {found.reason}{more}",)

    return judge if job else None


def _given() -> list[str]:
    """The options that were written in this command."""
    context = click.get_current_context()
    source = context.get_parameter_source
    written = [p for p in context.command.params if p.name and source(p.name) is ParameterSource.COMMANDLINE]
    return [option for param in written if (option := param.opts[0]) != language.OPTION]


def _supply(
    bundle: str | None, locked: str | None, lock_file: str | None, boxed: bool,
    said: tuple[str, str | None, str | None, str | None, str | None, str | None],
) -> Supply:  # fmt: skip
    """The recipe, with the lock or the bundle that it shall come from, checked."""
    from envcheck.collect import snapshot
    from installers.bundle import sources as supply

    if lock_file:
        snapshot.probe_writable(Path(lock_file))
    if bundle:
        from installers.bundle import read_bundle
        from installers.output import plan_text
        from installers.plan import accelerator

        with plan_text.Screen() as screen:
            found = read_bundle.verify(Path(bundle), accelerator.architecture_here(), screen.show)
        return supply.bundled(found, said[4], said[0], said[1], boxed)
    recipe = _recipe(*said)
    return supply.locked(recipe, locked, boxed) if locked else supply.Supply(recipe, boxed=boxed)


def _lock(file: str | None) -> Lock | None:
    from installers.locks import lockfile

    return lockfile.load(Path(file)) if file else None


def _driver_recipe(
    device: str, model: str | None, method: str | None, framework: str | None, name: str | None, folder: str | None
) -> tuple[Recipe, str]:
    """The recipe whose driver is meant, and a sentence where others of the device want less of it."""
    from installers.drivers import choice
    from installers.plan import accelerator
    from installers.recipes import catalogue

    if name or model or method or framework:
        recipe = _recipe(device, model, method, framework, name, folder)
        return choice.for_device(recipe, recipe.device if device == "auto" else device), ""
    device = accelerator.device_here() if device == "auto" else device
    if device == "cpu":
        raise UsageError("no card is seen here, and processors need no driver", f"say --device {accelerator_choice()}")
    return choice.choose(catalogue.load_all(Path(folder) if folder else None), device)


def _role(recipe: Recipe, said: str | None, device: str) -> str:
    """The role that was said, or that of the device that was said or is here; "" where the recipe has none."""
    from installers.plan import accelerator

    roles = {job.role: job.device or recipe.device for job in recipe.jobs if job.role}
    if said and said not in roles:
        told = f"choose one of {', '.join(roles)}" if roles else "leave it out"
        raise UsageError(f"--node-role {said}: {recipe.name} has {', '.join(roles) or 'no roles'}", told)
    if said or not roles:
        return said or ""
    here = accelerator.device_here() if device == "auto" else device
    fitting = [role for role, of in roles.items() if of == here]
    if len(fitting) == 1:
        return fitting[0]
    why = f"{recipe.name} has a part for each of {', '.join(roles)}, and the cards of this machine do not tell which"
    raise UsageError(why, f"say --node-role {' or --node-role '.join(roles)}")


def _recipe(
    device: str, model: str | None, method: str | None, framework: str | None, name: str | None, folder: str | None
) -> Recipe:
    """The recipe asked for; on a machine without accelerator, and with nothing said, the small one for CPUs."""
    from installers.plan import accelerator
    from installers.recipes import catalogue

    recipes = catalogue.load_all(Path(folder) if folder else None)
    if name:
        return catalogue.agreeing(catalogue.by_name(recipes, name), model, method, device, framework)
    if device == "auto" and not model:
        device = accelerator.device_here()
    return catalogue.select_recipe(recipes, model, method, device, framework)


def _folder(recipe: Recipe, into: str | None) -> Path:
    return Path(into).absolute() if into else places.environment_folder(recipe.name)
