"""What `envcheck train` was asked for, and the recipe, job and values that it means; nothing is run here."""

from __future__ import annotations

import contextlib
import shlex
from dataclasses import dataclass, replace
from pathlib import Path

from envcheck.core import paths as folders
from envcheck.core.errors import UsageError
from installers.recipes import catalogue
from installers.recipes.catalogue import Offer, Shape
from installers.recipes.recipe import Job, Recipe
from launch.job import places
from launch.rendering import dialects, schema, shape, user_options, validate
from launch.rendering.rows import rows
from launch.rendering.schema import Versions

STEP_OPTIONS = ("steps", "max_steps")
OWN = ("nnodes", "cards", "rank", "master", "host", "data", "steps", "port")  # of train alone, each with a value


@dataclass(frozen=True)
class Request:
    """What was asked for on the command line; None is "not said"."""

    model: str | None = None
    method: str | None = None
    device: str = "auto"
    framework: str | None = None
    recipe: str | None = None
    variant: str | None = None
    node_role: str | None = None
    cards: int | None = None
    nnodes: int | None = None
    rank: int | None = None
    master: str | None = None
    host: str | None = None
    settings: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    installed: tuple[str, ...] = ()
    recipes: Path | None = None
    into: Path | None = None
    runs: Path = Path("runs")
    data: Path | None = None
    steps: int | None = None
    port: int | None = None
    deadline_s: float | None = None
    provision: bool = False
    yes: bool = False
    as_json: bool = False
    detach: bool = False
    gather_s: float = 600.0
    interfaces: str | None = None  # the network interface of `host`
    found: tuple[str, ...] = ()  # what nobody said and this machine told
    no_stop: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()
    watch: bool = False
    waive: tuple[str, ...] = ()
    because: tuple[str, ...] = ()
    gates: bool = False


def choose(request: Request, installed: Versions | None = None, recipes: tuple[Recipe, ...] | None = None) -> Offer:
    """The recipe and job that the request means, on its nodes and cards, with its options, in the words of the upstream
    that is installed: `installed` are the packages where the job would run, None is not known yet; `recipes` are those
    that were read already."""
    recipes = catalogue.load_all(request.recipes) if recipes is None else recipes
    if request.recipe:
        recipes = (catalogue.by_name(recipes, request.recipe),)
    recipe, job = _select(recipes, request)
    job = shape.shaped(recipe, job, request.nnodes, request.cards)
    there = {**_found(request, recipe, installed), **_said(request.installed)}
    job, _ = dialects.spoken(recipe, job, there)
    places.of_use(request, recipe, job)
    if request.data:
        job = user_options.own_data(job, str(request.data.expanduser().absolute()))
    job = _with_options(request, recipe, job, there)
    return recipe, job if request.steps is None else with_steps(job, request.steps)


def _found(request: Request, recipe: Recipe, installed: Versions | None) -> Versions:
    """What is installed where the job would run: known to the caller, or read from an environment of this host."""
    if installed is not None or recipe.image:
        return installed or {}
    from installers.state import environment

    return environment.read(interpreter_folder(request, recipe)).packages


def _said(pairs: tuple[str, ...]) -> Versions:
    """NAME=VERSION of --installed."""
    found = {}
    for pair in pairs:
        name, _, version = pair.replace("==", "=").partition("=")
        if not name or not version:
            raise UsageError(
                f"--installed: {pair[:80]!r} is not NAME=VERSION", "for instance --installed ms-swift=3.12.0"
            )
        found[name.strip()] = version.strip()
    return found


def _with_options(request: Request, recipe: Recipe, job: Job, there: Versions) -> Job:
    own = user_options.read(request.settings, request.extra)
    if not own:
        return job
    its = schema.of(job.launcher, recipe, there)
    own = user_options.spelled(own, its)
    for name in STEP_OPTIONS if request.steps is not None else ():
        if name in own:
            raise UsageError(f"{name} is said by --steps as well; only one would count", "say it once")
    doubts = user_options.judge(own, its)
    validate.values(own)
    made = user_options.applied(job, own)
    validate.whole(made)
    return replace(made, caution=(*made.caution, *doubts))


def words(request: Request, recipe: Recipe, job: Job) -> str:
    """The options that mean this recipe and job again, for commands of train to paste."""
    return shlex.join([*shlex.split(installing(request, recipe, job)), *variant_words(recipe, job)])


def installing(request: Request, recipe: Recipe, job: Job) -> str:
    """Those of them that provision knows; a job that its recipe does not hold needs what the recipe's others need."""
    said = ["--recipe", recipe.name]
    said += _method_words(recipe, job)[:2] if job.method in {own.method for own in recipe.jobs} else []
    said += ["--device", catalogue.device_of((recipe, job))] if job.role else []
    said += ["--recipes", str(request.recipes)] if request.recipes else []
    said += ["--into", str(request.into)] if request.into else []
    return shlex.join(said)


def own_words(request: Request) -> str:
    """The further options of train, which provision does not know."""
    pairs = [(name, getattr(request, name)) for name in OWN if name not in request.found]
    said = [word for name, value in pairs if value is not None for word in (f"--{name}", str(value))]
    several = {"--set": request.settings, "--installed": request.installed}
    said += [word for name, values in several.items() for value in values for word in (name, value)]
    return shlex.join([*said, *(("--", *request.extra) if request.extra else ())])


def again(request: Request) -> str:
    """The words that start it here once more as it was asked for: `own_words`, where it runs and what watches it."""
    said = [] if request.runs == Request.runs else ["--runs", str(request.runs)]
    said += [] if request.deadline_s is None else ["--deadline", f"{request.deadline_s:.0f}"]
    said += [] if request.gather_s == Request.gather_s else ["--gather", f"{request.gather_s:g}"]
    several = {"--waive": request.waive, "--because": request.because}
    several |= {"--no-stop": request.no_stop, "--limit": request.limits}
    said += [word for name, values in several.items() for value in values for word in (name, value)]
    said += [f"--{flag}" for flag in ("detach", "watch") if getattr(request, flag)]
    return f"{shlex.join(said)} {own_words(request)}".strip()


def _method_words(recipe: Recipe, job: Job) -> list[str]:
    """By --method alone where that is enough: a variant's name does as well, and provision knows no --variant."""
    device = catalogue.device_of((recipe, job))
    for name in filter(None, (job.variant, job.method)):
        with contextlib.suppress(UsageError):
            found = catalogue.select((recipe,), recipe.name, name, device, None)[1]
            if (found.method, found.variant) == (job.method, job.variant):
                return ["--method", name]
    return ["--method", job.method, *(("--variant", job.variant) if job.variant else ())]


def variant_words(recipe: Recipe, job: Job) -> list[str]:
    """--variant, where --method alone would not mean this job."""
    return _method_words(recipe, job)[2:]


def _select(recipes: tuple[Recipe, ...], request: Request) -> Offer:
    """Where several devices fit and none was named, the one in this machine."""
    words = (request.model, request.method, request.device, request.framework)
    size = Shape(request.variant, request.node_role, request.nnodes, request.cards)
    try:
        return catalogue.select(recipes, *words, size)
    except UsageError:
        if request.device != "auto":
            raise
        from installers.plan.accelerator import device_here

        with contextlib.suppress(UsageError):
            return catalogue.select(recipes, request.model, request.method, device_here(), request.framework, size)
        raise


def with_steps(job: Job, steps: int) -> Job:
    """The same job for so many steps."""
    for name in STEP_OPTIONS:
        if name in rows(job.arguments):
            return user_options.applied(job, {name: (str(steps),)})
    raise UsageError(f"the job {job.method!r} counts no steps that --steps could change", "leave --steps out")


def interpreter_folder(request: Request, recipe: Recipe) -> Path:
    return (request.into or folders.environment_folder(recipe.name)).expanduser().absolute()


def values(request: Request, recipe: Recipe, run: Path | None) -> dict[str, str]:
    """What this machine fills into the command; without a run the script's own variables stay."""
    found = {}
    if recipe.image is None:
        found["python"] = str(interpreter_folder(request, recipe) / "bin" / "python")
    if request.data:
        found["data"] = str(request.data.expanduser().absolute())
    found |= places.values(request)
    return found if run is None else {**found, "output": str(run / "output"), "log_dir": str(run / "log")}
