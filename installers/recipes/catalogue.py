"""Find recipes, and select the recipe and job that a request describes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from envcheck.core import suggestions, toml_file
from envcheck.core.errors import UsageError, describe_os_error
from envcheck.core.messages import Message, _, join, verbatim
from installers.recipes.loader import load_recipe
from installers.recipes.recipe import Recipe, RecipeJob, is_preferred

OURS = Path(__file__).parent
FILES_LIMIT = 200  # recipe files in one folder
SUFFIX = ".toml"  # of recipe files
TOY = "tiny"  # the model of envcheck's smoke tests
TALKS = ("chat", "infer", "server")  # inference methods, used by `envcheck infer`
Offer = tuple[Recipe, RecipeJob]


@dataclass(frozen=True)
class JobShape:
    """The requested variant, role and size of a job; `cards` are per node, None means not specified."""

    variant: str | None = None
    role: str | None = None
    nodes: int | None = None
    cards: int | None = None

    def fits_job(self, job: RecipeJob) -> bool:
        """Return whether the job already has the requested numbers of nodes and cards."""
        return self.nodes in (None, job.nodes) and self.cards in (None, job.processes)


def load_all(folder: Path | None = None) -> tuple[Recipe, ...]:
    """Return the built-in recipes and those in `folder`, sorted by name; `folder` wins for equal names."""
    found = {recipe.name: recipe for recipe in _load_folder(OURS)}
    if folder is not None:
        own = _load_folder(folder)
        if not own:
            raise UsageError(
                _("{folder}: no recipe (*.toml) in this folder", folder=folder),
                _("omit --recipes to use the built-in recipes"),
            )
        found |= {recipe.name: recipe for recipe in own}
    return tuple(found[name] for name in sorted(found))


def is_ours(recipe: Recipe) -> bool:
    """Return whether the recipe is part of envcheck, as opposed to a user's own."""
    return Path(recipe.file).parent == OURS


def is_toy(recipe: Recipe) -> bool:
    """Return whether the recipe trains the small model of the smoke tests."""
    return recipe.models[0] == TOY


def find_recipe(recipes: Iterable[Recipe], name: str) -> Recipe:
    """Return the recipe with this name; raise UsageError with the available names if there is none."""
    known = {recipe.name: recipe for recipe in recipes}
    matched = suggestions.match_name(name, known)
    if matched is None:
        more = _("available: {names}", names=join(", ", known))
        step = suggestions.suggest(name, known, more=more, cutoff=0.7)
        raise UsageError(_("unknown recipe {name!r}", name=name[:80]), step)
    return known[matched]


def check_agreement(
    recipe: Recipe, model: str | None, method: str | None, device: str | None, framework: str | None
) -> Recipe:
    """Return `recipe`; raise UsageError if none of its jobs matches the other options.  None means not specified."""
    given = {"model": model, "method": method, "framework": framework, "device": None if device == "auto" else device}
    try:
        list_possible([recipe], model, method, device, framework)
    except UsageError:
        options = " ".join(f"--{name} {text[:80]}" for name, text in given.items() if text is not None)
        offers = [(recipe, job) for job in recipe.jobs]
        devices = join(", ", sorted({job_device(offer) for offer in offers}))
        raise UsageError(
            _("--recipe {name} conflicts with {options}", name=recipe.name, options=options),
            _(
                "omit --recipe or the conflicting options; this recipe is for --device {devices}:\n{table}",
                devices=devices,
                table=_render_table(offers, variants=False),
            ),
        ) from None
    return recipe


def select_job(
    recipes: Sequence[Recipe],
    model: str | None,
    method: str | None,
    device: str | None,
    framework: str | None,
    shape: JobShape | None = None,
) -> Offer:
    """Return the one recipe and job that match; device None or "auto" matches every device.

    `model` may be a full name, a short one (21b) or a recipe's name; `method` may be the name of a variant.  Jobs with
    a node role (mixed hardware) match only if no other job does, or if the role, the recipe or its framework was
    named.  Variants match only if no job without a variant does; then the first one of the recipe is chosen.
    Raises UsageError if no job or several jobs match.
    """
    return select_only(list_possible(recipes, model, method, device, framework, shape or JobShape()))


def select_only(offers: list[Offer]) -> Offer:
    """Return the only offer; if there are several, raise UsageError with the options that tell them apart."""
    if len(offers) != 1:
        raise UsageError(
            _("{count} jobs fit this request", count=len(offers)),
            _("{choice}:\n{table}", choice=_list_choices(offers), table=_render_table(offers)),
        )
    return offers[0]


def list_possible(
    recipes: Sequence[Recipe],
    model: str | None,
    method: str | None,
    device: str | None,
    framework: str | None,
    shape: JobShape | None = None,
) -> list[Offer]:
    """Return the jobs that match the request; raise UsageError if there is none.

    With `shape` None the machine selects the variant and role later, so error messages do not list variants.
    """
    lists_variants, shape = shape is not None, shape or JobShape()
    offers = [(recipe, job) for recipe in recipes for job in recipe.jobs]
    options: list[str] = []
    for what, asked, fits in (
        ("model", model, _fits_model(recipes, model or "")),
        ("framework", framework, lambda offer, asked: offer[0].framework == asked.lower()),
        ("method", method, lambda offer, asked: asked.lower() in (offer[1].method, offer[1].variant)),
        ("variant", shape.variant, lambda offer, asked: offer[1].variant == asked.lower()),
        ("node-role", shape.role, lambda offer, asked: offer[1].role == asked.lower()),
        ("device", None if device == "auto" else device, lambda offer, asked: job_device(offer) == asked),
    ):
        if asked is not None:
            options.append(f"--{what} {asked[:80]}")
            matching = [offer for offer in offers if fits(offer, asked)]
            offers = _narrow_offers(offers, matching, options, what, lists_variants)
    if framework is None and shape.role is None and model not in {recipe.name for recipe in recipes}:
        offers = [offer for offer in offers if not offer[1].role] or offers
    offers = [offer for offer in offers if is_preferred(offer[0]) or offer[0].name == model] or offers
    if method is None:
        offers = [offer for offer in offers if offer[1].method not in TALKS] or offers
    offers = [offer for offer in offers if shape.fits_job(offer[1])] or offers
    offers = [offer for offer in offers if not offer[1].variant] or offers
    return [*{(r.name, j.method, j.role): (r, j) for r, j in reversed(offers)}.values()][::-1]


def job_device(offer: Offer) -> str:
    """Return the short name of the vendor whose devices the job uses."""
    recipe, job = offer
    return job.device or recipe.device


TABLE = 12  # maximum number of jobs shown as a table; above it, only the accepted values of the option are listed
VALUES: dict[str, Callable[[Offer], tuple[str, ...]]] = {
    "model": lambda offer: offer[0].models[:1],
    "framework": lambda offer: (offer[0].framework,),
    "method": lambda offer: (offer[1].method, offer[1].variant),
    "variant": lambda offer: (offer[1].variant,),
    "node-role": lambda offer: (offer[1].role,),
    "device": lambda offer: (job_device(offer),),
}


def _narrow_offers(
    before: list[Offer], after: list[Offer], options: list[str], what: str, variants: bool
) -> list[Offer]:
    if after:
        return after
    names = sorted({name for offer in before for name in VALUES[what](offer) if name})
    if len(before) > TABLE:
        more = _("available: {names}; list all recipes with `envcheck recipes`", names=join(", ", names))
    else:
        more = _("choose one of these:\n{before}", before=_render_table(before, variants))
    words = [word for name in names for word in _short_names(name)] if what == "model" else []
    next_step = suggestions.suggest(options[-1].removeprefix(f"--{what} "), [*names, *words], more=more)
    raise UsageError(_("no recipe matches {options}", options=" ".join(options)), next_step)


def _short_names(model: str) -> list[str]:
    """Return the parts of a model's name that give its size: 21b, 300b."""
    return [word for word in model.lower().split("-") if re.fullmatch(r"[\d.]+b", word)]


def _fits_model(recipes: Iterable[Recipe], asked: str) -> Callable[[Offer, str], bool]:
    """Return the test for `asked`: a recipe name, else a full model name, else consecutive parts of one (21b)."""
    tests: tuple[Callable[[Recipe, str], bool], ...] = (
        lambda recipe, name: recipe.name == name.lower(),
        lambda recipe, name: _split_words(name) in map(_split_words, recipe.models),
        lambda recipe, name: any(_is_sublist(_split_words(name), _split_words(known)) for known in recipe.models),
    )
    known = tuple(recipes)
    test = next((t for t in tests if any(t(recipe, asked) for recipe in known)), tests[0])
    return lambda offer, name: test(offer[0], name)


def _split_words(name: str) -> tuple[str, ...]:
    """Split baidu/ERNIE-4.5-21B-A3B-Paddle into ernie 4.5 21b a3b; the owner and the format are dropped."""
    words = re.split(r"[-_\s]+", name.lower().rpartition("/")[2])
    return tuple(w for w in words if w and w not in ("paddle", "pt"))


def _is_sublist(part: tuple[str, ...], whole: tuple[str, ...]) -> bool:
    return bool(part) and any(whole[i : i + len(part)] == part for i in range(len(whole)))


def _list_choices(offers: list[Offer]) -> Message:
    """Return the options whose values differ between these jobs."""
    asked = {
        "--model RECIPE": {recipe.name for recipe, _unused in offers},
        "--method": {job.method for _unused, job in offers},
        "--variant": {job.variant for _unused, job in offers},
        "--device": {job_device(offer) for offer in offers},
        "--framework": {recipe.framework for recipe, _unused in offers},
    }
    differing = [option for option, values in asked.items() if len(values) > 1]
    if len(differing) > 1 and "--model RECIPE" in differing:
        differing.remove("--model RECIPE")  # the other options are enough, and are in the table
    return _("choose one with {options}", options=join(", ", differing))


def _render_table(offers: Iterable[Offer], variants: bool = True) -> str:
    """Render one row for each job; without `variants`, jobs that differ only in the variant share a row."""
    rows = [
        f"    {recipe.name:<25} --model {recipe.models[0]} --method {job.method}"
        f"{f' --variant {job.variant}' if job.variant and variants else ''} --device {job_device((recipe, job))}"
        f" --framework {recipe.framework}"
        for recipe, job in offers
    ]
    return "\n".join(dict.fromkeys(rows))


def _load_folder(folder: Path) -> list[Recipe]:
    try:
        files = toml_file.list_files(folder)[: FILES_LIMIT + 1]
        if not folder.is_dir():
            raise UsageError(
                _("{folder}: not a directory", folder=folder), _("--recipes takes a folder of recipe files (*.toml)")
            )
    except OSError as err:
        why = describe_os_error(err)
        raise UsageError(
            _("{folder}: cannot be read: {why}", folder=folder, why=why), verbatim(f"ls -ld {folder}")
        ) from None
    if len(files) > FILES_LIMIT:
        raise UsageError(
            _("{folder}: more than {files_limit} recipe files", folder=folder, files_limit=FILES_LIMIT),
            _("specify a folder that contains only recipe files"),
        )
    recipes = [load_recipe(file) for file in files]
    for name, number in Counter(recipe.name for recipe in recipes).items():
        if number > 1:
            files_of = join(", ", (recipe.file for recipe in recipes if recipe.name == name))
            raise UsageError(
                _("two recipes are named {name}: {files_of}", name=name, files_of=files_of), _("rename one of them")
            )
    return recipes
