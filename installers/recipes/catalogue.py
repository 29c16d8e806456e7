"""Which recipes there are, and which one a request means."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from envcheck.core.errors import UsageError
from installers.recipes.recipe import Recipe, RecipeJob
from installers.recipes.recipes_file import load

OURS = Path(__file__).parent
FILES_LIMIT = 200  # of one folder
TOY = "tiny"  # the model of our smoke tests
TALKS = ("chat", "infer", "server")  # methods that train nothing: envcheck infer's
Offer = tuple[Recipe, RecipeJob]


@dataclass(frozen=True)
class Shape:
    """Which of a method's jobs is meant, and on how much: `cards` are those of one node; None is "not said"."""

    variant: str | None = None
    role: str | None = None
    nodes: int | None = None
    cards: int | None = None

    def is_of(self, job: RecipeJob) -> bool:
        """The job has so many nodes and cards already."""
        return self.nodes in (None, job.nodes) and self.cards in (None, job.processes)


def load_all(folder: Path | None = None) -> tuple[Recipe, ...]:
    """Our recipes and those in `folder`, by name; the folder's win."""
    found = {recipe.name: recipe for recipe in _load_folder(OURS)}
    if folder is not None:
        own = _load_folder(folder)
        if not own:
            raise UsageError(f"{folder}: no recipe (*.toml) in this folder", "leave --recipes out to use ours")
        found |= {recipe.name: recipe for recipe in own}
    return tuple(found[name] for name in sorted(found))


def is_ours(recipe: Recipe) -> bool:
    """Whether it came with envcheck; a user's own is said to be one."""
    return Path(recipe.file).parent == OURS


def is_toy(recipe: Recipe) -> bool:
    """It trains the small model that shows whether training works at all."""
    return recipe.models[0] == TOY


def by_name(recipes: Iterable[Recipe], name: str) -> Recipe:
    """The recipe of that name; UsageError with those that there are."""
    known = {recipe.name: recipe for recipe in recipes}
    if name not in known:
        near = difflib.get_close_matches(name[:80].lower(), list(known), 1, 0.75)
        there = ", ".join(known)
        step = f"did you mean {near[0]}? there are {there}" if near else f"there are {there}"
        raise UsageError(f"there is no recipe {name[:80]!r}", step)
    return known[name]


def agreeing(
    recipe: Recipe, model: str | None, method: str | None, device: str | None, framework: str | None
) -> Recipe:
    """The recipe that was named, which one of its jobs must let be what else was said."""
    asked = {"model": model, "method": method, "framework": framework, "device": None if device == "auto" else device}
    try:
        possible([recipe], model, method, device, framework)
    except UsageError:
        said = " ".join(f"--{what} {text[:80]}" for what, text in asked.items() if text is not None)
        table = _table(((recipe, job) for job in recipe.jobs), variants=False)
        next_step = f"leave --recipe out, or the others; what it is for:\n{table}"
        raise UsageError(f"--recipe {recipe.name} does not go with {said}", next_step) from None
    return recipe


def select(
    recipes: Sequence[Recipe],
    model: str | None,
    method: str | None,
    device: str | None,
    framework: str | None,
    shape: Shape | None = None,
) -> Offer:
    """The one recipe and job that the request means; device None or "auto" leaves it open.

    `model` may be a full name, a short one (21b), or a recipe's own name; `method` may be a variant's.  A node's role
    in a job of mixed hardware is offered only where nothing else fits, or where it, the recipe or its framework was
    asked for by name; a variant only where no job without one fits, and then the first of the recipe's.
    """
    return select_only(possible(recipes, model, method, device, framework, shape or Shape()))


def select_only(offers: list[Offer]) -> Offer:
    """The one job; UsageError with the options in which several differ."""
    if len(offers) != 1:
        raise UsageError(f"{len(offers)} jobs fit this request; say which one", f"{_choice(offers)}:\n{_table(offers)}")
    return offers[0]


def possible(
    recipes: Sequence[Recipe],
    model: str | None,
    method: str | None,
    device: str | None,
    framework: str | None,
    shape: Shape | None = None,
) -> list[Offer]:
    """The jobs that the request may mean; UsageError where there is none.

    `shape` is None where the machine chooses among variants and roles: then none is advised.
    """
    told, shape = shape is not None, shape or Shape()
    offers = [(recipe, job) for recipe in recipes for job in recipe.jobs]
    said: list[str] = []
    for what, asked, fits in (
        ("model", model, _fits_model(recipes, model or "")),
        ("framework", framework, lambda offer, asked: offer[0].framework == asked.lower()),
        ("method", method, lambda offer, asked: asked.lower() in (offer[1].method, offer[1].variant)),
        ("variant", shape.variant, lambda offer, asked: offer[1].variant == asked.lower()),
        ("node-role", shape.role, lambda offer, asked: offer[1].role == asked.lower()),
        ("device", None if device == "auto" else device, lambda offer, asked: device_of(offer) == asked),
    ):
        if asked is not None:
            said.append(f"--{what} {asked[:80]}")
            offers = _narrowed(offers, [offer for offer in offers if fits(offer, asked)], said, what, told)
    if framework is None and shape.role is None and model not in {recipe.name for recipe in recipes}:
        offers = [offer for offer in offers if not offer[1].role] or offers
    if method is None:
        offers = [offer for offer in offers if offer[1].method not in TALKS] or offers
    offers = [offer for offer in offers if shape.is_of(offer[1])] or offers
    offers = [offer for offer in offers if not offer[1].variant] or offers
    return [*{(r.name, j.method, j.role): (r, j) for r, j in reversed(offers)}.values()][::-1]


def device_of(offer: Offer) -> str:
    """The vendor's short name on which the job runs."""
    recipe, job = offer
    return job.device or recipe.device


TABLE = 12  # jobs that are shown as a table; of more than these only the words of the option that does not fit
VALUES: dict[str, Callable[[Offer], tuple[str, ...]]] = {
    "model": lambda offer: offer[0].models[:1],
    "framework": lambda offer: (offer[0].framework,),
    "method": lambda offer: (offer[1].method, offer[1].variant),
    "variant": lambda offer: (offer[1].variant,),
    "node-role": lambda offer: (offer[1].role,),
    "device": lambda offer: (device_of(offer),),
}


def _narrowed(before: list[Offer], after: list[Offer], said: list[str], what: str, variants: bool) -> list[Offer]:
    if after:
        return after
    many = len(before) > TABLE
    choice = _values(before, what, said[-1]) if many else f"choose from what there is:\n{_table(before, variants)}"
    raise UsageError(f"there is no recipe for {' '.join(said)}", choice)


def _values(offers: Iterable[Offer], what: str, said: str) -> str:
    """What could be said instead, and what is spelt most like it."""
    names = sorted({name for offer in offers for name in VALUES[what](offer) if name})
    words, wrong = {name.lower(): name for name in names}, said.lower().removeprefix(f"--{what} ")
    longer = [word for word in words if word.startswith(wrong)]
    near = (longer or difflib.get_close_matches(wrong, list(words), 1, 0.5))[:1]
    return f"{f'did you mean {words[near[0]]}? ' if near else ''}there are {', '.join(names)}; envcheck recipes has all"


def _fits_model(recipes: Iterable[Recipe], asked: str) -> Callable[[Offer, str], bool]:
    """A recipe's name, else a model's whole name, else a run of its words (21b): the first kind to fit any."""
    tests: tuple[Callable[[Recipe, str], bool], ...] = (
        lambda recipe, name: recipe.name == name.lower(),
        lambda recipe, name: _words(name) in map(_words, recipe.models),
        lambda recipe, name: any(_within(_words(name), _words(known)) for known in recipe.models),
    )
    known = tuple(recipes)
    test = next((t for t in tests if any(t(recipe, asked) for recipe in known)), tests[0])
    return lambda offer, name: test(offer[0], name)


def _words(name: str) -> tuple[str, ...]:
    """baidu/ERNIE-4.5-21B-A3B-Paddle → ernie 4.5 21b a3b: neither the owner nor the format tells models apart."""
    words = re.split(r"[-_\s]+", name.lower().rpartition("/")[2])
    return tuple(w for w in words if w and w not in ("paddle", "pt"))


def _within(part: tuple[str, ...], whole: tuple[str, ...]) -> bool:
    return bool(part) and any(whole[i : i + len(part)] == part for i in range(len(whole)))


def _choice(offers: list[Offer]) -> str:
    """The options in which these jobs differ."""
    asked = {
        "--model RECIPE": {recipe.name for recipe, _ in offers},
        "--method": {job.method for _, job in offers},
        "--variant": {job.variant for _, job in offers},
        "--device": {device_of(offer) for offer in offers},
        "--framework": {recipe.framework for recipe, _ in offers},
    }
    return "choose one by " + ", ".join(option for option, values in asked.items() if len(values) > 1)


def _table(offers: Iterable[Offer], variants: bool = True) -> str:
    """`variants`: name them; without that jobs that differ in nothing else are one."""
    rows = [
        f"    {recipe.name:<25} --model {recipe.models[0]} --method {job.method}"
        f"{f' --variant {job.variant}' if job.variant and variants else ''} --device {device_of((recipe, job))}"
        f" --framework {recipe.framework}"
        for recipe, job in offers
    ]
    return "\n".join(dict.fromkeys(rows))


def _load_folder(folder: Path) -> list[Recipe]:
    try:
        files = sorted(folder.glob("*.toml"))[: FILES_LIMIT + 1]
        if not folder.is_dir():
            raise UsageError(f"{folder}: not a folder", "--recipes takes a folder of recipe files (*.toml)")
    except OSError as err:
        why = (err.strerror or str(err)).lower()
        raise UsageError(f"{folder}: cannot be read: {why}", f"ls -ld {folder}") from None
    if len(files) > FILES_LIMIT:
        raise UsageError(f"{folder}: more than {FILES_LIMIT} recipe files", "name a folder that holds recipes alone")
    recipes = [load(file) for file in files]
    for name, number in Counter(recipe.name for recipe in recipes).items():
        if number > 1:
            files_of = ", ".join(recipe.file for recipe in recipes if recipe.name == name)
            raise UsageError(f"two recipes are named {name}: {files_of}", "rename one of them")
    return recipes
