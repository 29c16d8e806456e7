"""What the [[builds]] of a recipe must hold: names, known checkouts and roles, patterns that stay in the checkout."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from installers.recipes.recipe import Build, Recipe

# {python} and {python_version} (3.10) are the target's, {jobs} how many compilers it bears, {checkout} its folder.
TOKENS = frozenset(("python", "python_version", "jobs", "checkout"))
_TOKEN = re.compile(r"(?<!\$)\{([a-z_]+)\}")  # ${name} is the shell's or CMake's
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,40}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def check(recipe: Recipe) -> Iterator[tuple[str, str]]:
    """(key, what is wrong)."""
    known: list[str] = []
    for build in recipe.builds:
        key = f"builds.{build.name[:40]}"
        if not _NAME.fullmatch(build.name) or build.name in known:
            yield f"{key}.name", "expected a name of its own in lower-case letters, digits and dashes"
        if build.checkout not in [c.directory for c in recipe.checkouts]:
            yield f"{key}.checkout", "expected the directory of one of the checkouts"
        if build.role and build.role not in [job.role for job in recipe.jobs]:
            yield f"{key}.role", f"no job has the role {build.role[:40]!r}"
        for name in build.after:
            if name not in known:
                yield f"{key}.after", f"{name[:40]!r} is no build before this one"
        yield from ((f"{key}.{field}", wrong) for field, wrong in _own(build))
        known.append(build.name)


def _own(build: Build) -> Iterator[tuple[str, str]]:
    if not build.commands or not all(command and command[0] for command in build.commands):
        yield "commands", "expected at least one, none of them empty"
    if not build.yields or build.yields.startswith(("/", "-")) or ".." in build.yields.split("/"):
        yield "yields", "expected a pattern below the checkout"
    if build.installs and not build.yields.endswith(".whl"):
        yield "yields", "expected the pattern of a wheel, since it is to be installed"
    for number, tool in enumerate(build.prerequisites):
        if bool(tool.program) == bool(tool.file) or tool.program.startswith("-"):
            yield f"prerequisites[{number}]", "expected a program or a file"
    for name in (*build.environment, *build.prepend):
        if not _VARIABLE.fullmatch(name):
            yield "environment", f"{name[:80]!r} is no name of an environment variable"
    for text in (*(word for command in build.commands for word in command), *build.environment.values()):
        for token in _TOKEN.findall(text):
            if token not in TOKENS:
                yield "commands", f"{{{token}}} stands for nothing; there are {', '.join(sorted(TOKENS))}"


def filled(text: str, values: Mapping[str, str]) -> str:
    """The text with its tokens replaced."""
    return _TOKEN.sub(lambda found: values.get(found[1], found[0]), text)
