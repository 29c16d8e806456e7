"""What a recipe must hold beyond the kinds of its values: names, options once, step counts, parallel degrees."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from envcheck.core.errors import UsageError
from envcheck.vendors import VENDORS
from installers.recipes import build_rules, checkout_rules, container_rules
from installers.recipes.recipe import Recipe, RecipeJob

# What {token} may stand in arguments, environment, and paths; envcheck.job.command knows where each value comes from.
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

Complaint = Iterator[tuple[str, str]]  # (key, what is wrong)


def check(recipe: Recipe) -> None:
    """UsageError naming the first rule that does not hold."""
    for rule in RULES:
        for key, wrong in rule(recipe):
            raise UsageError(f"{recipe.file}: {key}: {wrong}")


def job_key(job: RecipeJob) -> str:
    """The key under which the notes of a job stand."""
    return ".".join(filter(None, ("jobs", job.method, job.variant, job.role)))


def options(arguments: Iterable[str]) -> list[str]:
    """The option names among arguments, in order."""
    return [a.split("=", 1)[0] for a in arguments if a.startswith("--")]


def _names(recipe: Recipe) -> Complaint:
    if not _NAME.fullmatch(recipe.name):
        yield "name", f"expected lower-case letters, digits, dot, dash, found {recipe.name[:80]!r}"
    for job in recipe.jobs:
        for field, text in (("method", job.method), ("variant", job.variant or "x")):
            if not _METHOD.fullmatch(text):
                yield f"{job_key(job)}.{field}", "expected lower-case letters, digits and dashes"
    for device in (recipe.device, *(job.device for job in recipe.jobs if job.device)):
        if device not in VENDORS:
            yield "device", f"there is no device {device[:40]!r}; there are {', '.join(VENDORS)}"
    if not recipe.models or not all(recipe.models):
        yield "models", "expected at least one name"


def _jobs(recipe: Recipe) -> Complaint:
    if not recipe.jobs:
        yield "jobs", "expected at least one"
    for key, number in Counter(map(job_key, recipe.jobs)).items():
        if number > 1:
            yield key, "stands twice"
    for job in recipe.jobs:
        if not job.launcher:
            yield f"{job_key(job)}.launcher", "expected at least the program's name"
        if not (1 <= job.nodes <= 10_000 and 1 <= job.processes <= 1024):
            yield job_key(job), "expected 1 to 10000 nodes of 1 to 1024 processes"


def _doubled(recipe: Recipe) -> Complaint:
    for job in recipe.jobs:
        for part in ("launcher", "arguments", "own_data"):
            for option, number in Counter(options(getattr(job, part))).items():
                if number > 1:
                    yield f"{job_key(job)}.{part}", f"{option} stands {number} times; only the last would count"


def steps(recipe: Recipe) -> Complaint:
    for job in recipe.jobs:
        most, warm = job.steps.get("max"), job.steps.get("warmup")
        if most is not None and warm is not None and warm >= most:
            yield f"{job_key(job)}.steps.warmup", f"{warm} is not below the {most} steps of the job"


def layout(recipe: Recipe) -> Complaint:
    for job in recipe.jobs:
        world, degrees = job.nodes * job.processes, math.prod(job.parallel.values())
        if job.parallel and (degrees == 0 or world % degrees):
            yield (
                f"{job_key(job)}.parallel",
                f"the degrees multiply to {degrees}, which does not divide {world} processes",
            )


def _variables(recipe: Recipe) -> Complaint:
    named = [("environment", recipe.environment), ("prepend", recipe.prepend)]
    named += [(f"{job_key(job)}.environment", job.environment) for job in recipe.jobs]
    unset = [("unset", recipe.unset), *((f"{job_key(job)}.unset", job.unset) for job in recipe.jobs)]
    for key, names in [*named, *unset]:
        for name in names:
            if not _VARIABLE.fullmatch(name):
                yield key, f"{name[:80]!r} is no name of an environment variable"


def _tokens(recipe: Recipe) -> Complaint:
    for key, text in _substituted(recipe):
        for token in _TOKEN.findall(text):
            if token not in TOKENS:
                yield key, f"{{{token}}} stands for nothing; there are {', '.join(sorted(TOKENS))}"


def _substituted(recipe: Recipe) -> Iterator[tuple[str, str]]:
    yield from (("environment", text) for text in recipe.environment.values())
    yield from (("prepend", text) for text in recipe.prepend.values())
    for job in recipe.jobs:
        yield from ((f"{job_key(job)}.launcher", text) for text in job.launcher)
        yield from ((f"{job_key(job)}.arguments", text) for text in job.arguments)
        yield from ((f"{job_key(job)}.environment", text) for text in job.environment.values())
        yield from ((f"{job_key(job)}.own_data", text) for text in job.own_data)
        yield from ((f"{job_key(job)}.requires", text) for text in (*job.requires, *job.outputs, *job.data))


def _packages(recipe: Recipe) -> Complaint:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    for package in recipe.packages:
        key = f"packages.{package.name[:40]}"
        if not _FOR_INSTALL.fullmatch(package.name):
            yield key, "is no name of a package"
        if package.index and not _SAFE_INDEX.match(package.index):
            yield f"{key}.index", "expected an https:// address, or an http:// one of this machine"
        try:
            SpecifierSet(package.specifier)
        except InvalidSpecifier:
            yield f"{key}.specifier", f"expected versions like '>=1.2,<2', found {package.specifier[:60]!r}"


def _libraries(recipe: Recipe) -> Complaint:
    """What a stranger's recipe links must stay inside the environment."""
    for library in recipe.libraries:
        for field, path in (("pattern", library.pattern), ("link", library.link)):
            if path.startswith("/") or ".." in path.split("/"):
                yield f"libraries.{library.name[:40]}.{field}", "expected a path below site-packages"
        if "/" in library.name or not _FOR_INSTALL.fullmatch(library.package):
            yield f"libraries.{library.name[:40]}", "expected a library's name and a package's"


def _checkouts(recipe: Recipe) -> Complaint:
    for number, checkout in enumerate(recipe.checkouts):
        yield from ((f"checkouts[{number}].{field}", wrong) for field, wrong in checkout_rules.complaints(checkout))


def _weights(recipe: Recipe) -> Complaint:
    """Names and a folder that go into a command; the folder must stay below the working directory."""
    weights = recipe.weights
    if weights is None:
        return
    for hub, name in (("huggingface", weights.huggingface), ("modelscope", weights.modelscope)):
        if name and not _REPOSITORY.fullmatch(name):
            yield f"weights.{hub}", f"expected owner/name, found {name[:80]!r}"
    if not (weights.huggingface or weights.modelscope):
        yield "weights", "expected a repository on huggingface or modelscope"
    if weights.first not in ("huggingface", "modelscope"):
        yield "weights.first", f"expected huggingface or modelscope, found {weights.first[:40]!r}"
    if weights.folder.startswith(("/", "-")) or ".." in weights.folder.split("/"):
        yield "weights.folder", "expected a folder below the working directory"
    if weights.revision and not _REVISION.fullmatch(weights.revision):
        yield "weights.revision", "expected a branch, a tag or a commit"


RULES: tuple[Callable[[Recipe], Complaint], ...] = (
    _names,
    _jobs,
    _doubled,
    steps,
    layout,
    _variables,
    _tokens,
    _packages,
    _libraries,
    container_rules.check,
    _checkouts,
    build_rules.check,
    _weights,
)
