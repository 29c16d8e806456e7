"""Rules for the [[builds]] of a recipe: unique names, known checkouts and roles, patterns inside the checkout."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from envcheck.core.messages import Message, _, join
from installers.recipes.recipe import Recipe, RecipeBuild

# {python} and {python_version} (such as 3.10) belong to the target; {jobs} is the number of parallel compiler
# processes, {checkout} the folder of the checkout.
TOKENS = frozenset(("python", "python_version", "jobs", "checkout"))
_TOKEN = re.compile(r"(?<!\$)\{([a-z_]+)\}")  # ${name} belongs to the shell or to CMake
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,40}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def check_builds(recipe: Recipe) -> Iterator[tuple[str, Message]]:
    """Yield (key, complaint) for each broken rule."""
    known: list[str] = []
    for build in recipe.builds:
        key = f"builds.{build.name[:40]}"
        if not _NAME.fullmatch(build.name) or build.name in known:
            yield f"{key}.name", _("expected a unique name of lowercase letters, digits and dashes")
        if build.checkout not in [c.directory for c in recipe.checkouts]:
            yield f"{key}.checkout", _("expected the directory of one of the checkouts")
        if build.role and build.role not in [job.role for job in recipe.jobs]:
            yield f"{key}.role", _("no job has the role {role!r}", role=build.role[:40])
        for name in build.after:
            if name not in known:
                yield f"{key}.after", _("{name!r} is not a build listed before this one", name=name[:40])
        yield from ((f"{key}.{field}", wrong) for field, wrong in _check_build(build))
        known.append(build.name)


def _check_build(build: RecipeBuild) -> Iterator[tuple[str, Message]]:
    if not build.commands or not all(command and command[0] for command in build.commands):
        yield "commands", _("expected at least one entry, none of them empty")
    if not build.yields or build.yields.startswith(("/", "-")) or ".." in build.yields.split("/"):
        yield "yields", _("expected a pattern inside the checkout")
    if build.installs and not build.yields.endswith(".whl"):
        yield "yields", _("expected a wheel pattern, because the build is installed")
    for number, tool in enumerate(build.prerequisites):
        if bool(tool.program) == bool(tool.file) or tool.program.startswith("-"):
            yield f"prerequisites[{number}]", _("expected a program or a file")
    for name in (*build.environment, *build.prepend):
        if not _VARIABLE.fullmatch(name):
            yield "environment", _("{name!r} is not a valid environment variable name", name=name[:80])
    for text in (*(word for command in build.commands for word in command), *build.environment.values()):
        for token in _TOKEN.findall(text):
            if token not in TOKENS:
                yield (
                    "commands",
                    _(
                        "unknown placeholder {{{token}}}; known: {tokens}",
                        token=token,
                        tokens=join(", ", sorted(TOKENS)),
                    ),
                )


def fill_tokens(text: str, values: Mapping[str, str]) -> str:
    """Return `text` with its {tokens} replaced by `values`; unknown tokens stay as they are."""
    return _TOKEN.sub(lambda found: values.get(found[1], found[0]), text)
