"""Rules for recipes beyond the types of their values: names, unique options, step counts, parallel degrees."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from envcheck.core.errors import UsageError
from envcheck.core.messages import Message, _, join
from envcheck.vendors import VENDORS
from installers.recipes import build_rules, checkout_rules, container_rules
from installers.recipes.recipe import CONTAINER, HOST, Recipe, RecipeJob

# The {tokens} allowed in arguments, environment and paths; envcheck.job.command provides their values.
TOKENS = frozenset(
    (
        *("config",),
        *("python", "program", "workdir", "model_path", "output", "log_dir", "data", "adapter"),
        *("nodes", "processes", "devices", "rank", "master", "port", "host", "interfaces"),
    )
)
_TOKEN = re.compile(r"\{([a-z_]+)\}")
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_METHOD = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SAFE_INDEX = re.compile(r"https://|http://(127\.0\.0\.1|localhost)[:/]")
_FOR_INSTALL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9,._-]+\])?")
_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")
_REVISION = re.compile(r"[A-Za-z0-9][\w./-]{0,127}")

Complaint = Iterator[tuple[str, Message]]  # (key, complaint)


def check_recipe(recipe: Recipe) -> None:
    """Raise UsageError for the first broken rule, with the recipe's file and the key."""
    for rule in RULES:
        for key, wrong in rule(recipe):
            raise UsageError(_("{file}: {key}: {wrong}", file=recipe.file, key=key, wrong=wrong))


def job_key(job: RecipeJob) -> str:
    """Return the key of a job in `Recipe.notes`: jobs.METHOD[.VARIANT][.ROLE]."""
    return ".".join(filter(None, ("jobs", job.method, job.variant, job.role)))


def list_options(arguments: Iterable[str]) -> list[str]:
    """Return the names of the options among `arguments`, in order."""
    return [a.split("=", 1)[0] for a in arguments if a.startswith("--")]


def _check_names(recipe: Recipe) -> Complaint:
    if not _NAME.fullmatch(recipe.name):
        yield "name", _("expected lowercase letters, digits, dot or dash, found {name!r}", name=recipe.name[:80])
    for job in recipe.jobs:
        for field, text in (("method", job.method), ("variant", job.variant or "x")):
            if not _METHOD.fullmatch(text):
                yield f"{job_key(job)}.{field}", _("expected lowercase letters, digits, dash or underscore")
    for device in (recipe.device, *(job.device for job in recipe.jobs if job.device)):
        if device not in VENDORS:
            yield (
                "device",
                _("unknown device {device!r}; available: {vendors}", device=device[:40], vendors=join(", ", VENDORS)),
            )
    if not recipe.models or not all(recipe.models):
        yield "models", _("expected at least one name")


def _check_jobs(recipe: Recipe) -> Complaint:
    if not recipe.jobs:
        yield "jobs", _("expected at least one job")
    for key, number in Counter(map(job_key, recipe.jobs)).items():
        if number > 1:
            yield key, _("duplicate entry")
    for job in recipe.jobs:
        if not job.launcher:
            yield f"{job_key(job)}.launcher", _("expected at least the program name")
        if not (1 <= job.nodes <= 10_000 and 1 <= job.processes <= 1024):
            yield job_key(job), _("expected 1 to 10000 nodes with 1 to 1024 processes each")


def _check_duplicates(recipe: Recipe) -> Complaint:
    for job in recipe.jobs:
        for part in ("launcher", "arguments", "own_data"):
            for option, number in Counter(list_options(getattr(job, part))).items():
                if number > 1:
                    yield (
                        f"{job_key(job)}.{part}",
                        _(
                            "{option} is given {number} times; only the last one takes effect",
                            option=option,
                            number=number,
                        ),
                    )


def check_steps(recipe: Recipe) -> Complaint:
    """Yield a complaint for each job with at least as many warm-up steps as steps."""
    for job in recipe.jobs:
        most, warm = job.steps.get("max"), job.steps.get("warmup")
        if most is not None and warm is not None and warm >= most:
            yield (
                f"{job_key(job)}.steps.warmup",
                _("{warmup} warm-up steps must be fewer than the {steps} steps of the job", warmup=warm, steps=most),
            )


def check_layout(recipe: Recipe) -> Complaint:
    """Yield a complaint for each job whose parallel degrees do not divide its total number of processes."""
    for job in recipe.jobs:
        world, degrees = job.nodes * job.processes, math.prod(job.parallel.values())
        if job.parallel and (degrees == 0 or world % degrees):
            yield (
                f"{job_key(job)}.parallel",
                _(
                    "the product of the parallel degrees, {degrees}, does not divide {processes} processes",
                    degrees=degrees,
                    processes=world,
                ),
            )


def _check_variables(recipe: Recipe) -> Complaint:
    named = [("environment", recipe.environment), ("prepend", recipe.prepend)]
    named += [(f"{job_key(job)}.environment", job.environment) for job in recipe.jobs]
    unset = [("unset", recipe.unset), *((f"{job_key(job)}.unset", job.unset) for job in recipe.jobs)]
    for key, names in [*named, *unset]:
        for name in names:
            if not _VARIABLE.fullmatch(name):
                yield key, _("{name!r} is not a valid environment variable name", name=name[:80])


def find_placeholders(text: str) -> list[str]:
    """Return the names of the {tokens} in a text of a recipe."""
    return _TOKEN.findall(text)


def _check_tokens(recipe: Recipe) -> Complaint:
    for key, text in _substituted_texts(recipe):
        for token in find_placeholders(text):
            if token not in TOKENS:
                yield (
                    key,
                    _(
                        "unknown placeholder {{{token}}}; known: {tokens}",
                        token=token,
                        tokens=join(", ", sorted(TOKENS)),
                    ),
                )


def _substituted_texts(recipe: Recipe) -> Iterator[tuple[str, str]]:
    yield from (("environment", text) for text in recipe.environment.values())
    yield from (("prepend", text) for text in recipe.prepend.values())
    for job in recipe.jobs:
        yield from ((f"{job_key(job)}.launcher", text) for text in job.launcher)
        yield from ((f"{job_key(job)}.arguments", text) for text in job.arguments)
        yield from ((f"{job_key(job)}.environment", text) for text in job.environment.values())
        yield from ((f"{job_key(job)}.own_data", text) for text in job.own_data)
        yield from ((f"{job_key(job)}.requires", text) for text in (*job.requires, *job.outputs, *job.data))


def _check_place(recipe: Recipe) -> Complaint:
    """A recipe prefers one of two places: its own, if it has no alternative for the other."""
    if recipe.prefers not in ("", CONTAINER, HOST):
        yield "prefers", _("expected container or host, found {place!r}", place=recipe.prefers[:40])
    elif recipe.prefers and not recipe.alternative and (recipe.prefers == CONTAINER) != (recipe.image is not None):
        yield "prefers", _("the recipe does not run there, and names no `alternative` that does")
    if recipe.alternative and not recipe.prefers:
        yield "alternative", _("`prefers` must say which of the two recipes is chosen: container or host")
    if recipe.alternative == recipe.name:
        yield "alternative", _("expected the name of another recipe")
    roles = {job.role for job in recipe.jobs}
    for role in recipe.image.roles if recipe.image else ():
        if role not in roles:
            yield f"image.roles.{role[:40]}", _("no job has this node role")


def _check_packages(recipe: Recipe) -> Complaint:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    for package in recipe.packages:
        key = f"packages.{package.name[:40]}"
        if not _FOR_INSTALL.fullmatch(package.name):
            yield key, _("not a valid package name")
        if package.index and not _SAFE_INDEX.match(package.index):
            yield f"{key}.index", _("expected an https:// URL, or an http:// URL of this host")
        try:
            SpecifierSet(package.specifier)
        except InvalidSpecifier:
            yield (
                f"{key}.specifier",
                _("expected a version range like '>=1.2,<2', found {specifier!r}", specifier=package.specifier[:60]),
            )


def _check_libraries(recipe: Recipe) -> Complaint:
    """Links of a recipe must stay inside the environment: recipes may come from anywhere."""
    for library in recipe.libraries:
        for field, path in (("pattern", library.pattern), ("link", library.link)):
            if path.startswith("/") or ".." in path.split("/"):
                yield f"libraries.{library.name[:40]}.{field}", _("expected a path inside site-packages")
        if "/" in library.name or not _FOR_INSTALL.fullmatch(library.package):
            yield f"libraries.{library.name[:40]}", _("expected the names of a library and a package")


def _check_checkouts(recipe: Recipe) -> Complaint:
    for number, checkout in enumerate(recipe.checkouts):
        yield from (
            (f"checkouts[{number}].{field}", wrong) for field, wrong in checkout_rules.find_complaints(checkout)
        )


def _check_weights(recipe: Recipe) -> Complaint:
    """Names and folder are used in a command; the folder must stay below the working directory."""
    weights = recipe.weights
    if weights is None:
        return
    for hub, name in (("huggingface", weights.huggingface), ("modelscope", weights.modelscope)):
        if name and not _REPOSITORY.fullmatch(name):
            yield f"weights.{hub}", _("expected owner/name, found {name!r}", name=name[:80])
    if not (weights.huggingface or weights.modelscope):
        yield "weights", _("expected a repository on huggingface or modelscope")
    if weights.first not in ("huggingface", "modelscope"):
        yield "weights.first", _("expected huggingface or modelscope, found {found!r}", found=weights.first[:40])
    if weights.folder.startswith(("/", "-")) or ".." in weights.folder.split("/"):
        yield "weights.folder", _("expected a folder inside the working directory")
    if weights.revision and not _REVISION.fullmatch(weights.revision):
        yield "weights.revision", _("expected a branch, a tag or a commit")


RULES: tuple[Callable[[Recipe], Complaint], ...] = (
    _check_names,
    _check_jobs,
    _check_duplicates,
    check_steps,
    check_layout,
    _check_variables,
    _check_tokens,
    _check_packages,
    _check_libraries,
    container_rules.check_container,
    _check_place,
    _check_checkouts,
    build_rules.check_builds,
    _check_weights,
)
