"""A plan as a shell script that does what the plan says, to be read, kept, and run by hand.  Pure.

It is the plan's straight way.  What envcheck does beside it (judging pip's answer beforehand, proving each card, going
on after a cut, a journal) is not in it.
"""

from __future__ import annotations

import itertools
import re
import shlex
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from envcheck.core.secrets import redact
from installers.container_plan import TITLES
from installers.containers.compare import Action, ContainerStatus
from installers.containers.compare import as_script as container_lines
from installers.recipes.container_spec import Spec
from installers.recipes.docker_cli import shell_words
from installers.recipes.recipe import Build, Recipe
from installers.software.checkouts import public
from installers.software.sources import pins
from installers.steps.model import Plan, Step, root

WIDTH = 110
BOXED_LIMITS = "/var/tmp/envcheck-limits.txt"  # in the container
_TOKEN = re.compile(r"(?<!\$)\{(python|python_version|jobs|checkout)\}")
_VERSION = 'import sys; print("%d.%d" % sys.version_info[:2])'
_TELL = "import importlib.metadata, sys\nfor name in sys.argv[1:]: print(name, importlib.metadata.version(name))"
_AT_HOST = ('at() ( cd -- "$1" && shift && "$@" )',)
_EXEC = 'exec "$@"'
_ONE_FILE = 'set -- $1; [ $# = 1 ] && [ -e "$1" ] && printf "%s\\n" "$1"'


@dataclass(frozen=True)
class _At:
    """Where the packages go: `before` is put in front of a command, `python` and `limits` are words of the shell."""

    recipe: Recipe
    plan: Plan

    @property
    def before(self) -> str:
        return "inside " if self.plan.boxed else ""

    @property
    def python(self) -> str:
        return shlex.quote(self.recipe.interpreter) if self.plan.boxed else '"$venv"/bin/python'

    @property
    def limits(self) -> str:
        held = f"--constraint={BOXED_LIMITS}" if self.plan.boxed else '--constraint="$limits"'
        return f"{held} " if pins(self.recipe) else ""

    def pip(self, words: str) -> str:
        return f"{self.before}{self.python} -m pip install {words}"


def script(recipe: Recipe, plan: Plan, interpreter: str = "python3") -> str:
    """`interpreter` is the Python of which a new environment is made."""
    at = _At(recipe, plan)
    blocks = [_head(plan), *([_setting(at)] if plan.steps else [])]
    blocks += [_step(number, step, at, interpreter) for number, step in enumerate(plan.steps, 1)]
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def _head(plan: Plan) -> list[str]:
    place = f"the container {plan.boxed}" if plan.boxed else str(plan.folder)
    lines = [
        "#!/usr/bin/env bash",
        *_comment(f"{plan.recipe} in {place}, as envcheck provision --as-script planned it."),
    ]
    for fact in plan.satisfied:
        lines += _comment(f"Already so: {fact}")
    for hand in plan.by_hand:
        lines += _comment(f"By hand, {hand.name}: {hand.why}")
        lines += [f"#   {' '.join(command.split())}" for command in hand.commands]
    for words in plan.mind:
        lines += _comment(f"Mind: {words}")
    for obstacle in plan.obstacles:
        lines += _comment(f"In the way: {obstacle.why}. Next: {obstacle.remedy}")
    if not plan.steps:
        lines.append("# Nothing to do.")
    return [*lines, "set -euo pipefail"]


def _setting(at: _At) -> list[str]:
    """What the steps share: where they work, and the versions that none of them may move."""
    wanted = shlex.join(pins(at.recipe))
    if not at.plan.boxed:
        lines = [f"venv={shlex.quote(str(at.plan.folder))}"]
        if wanted:
            lines += ["limits=$(mktemp)", "trap 'rm -f -- \"$limits\"' EXIT", f"printf '%s\\n' {wanted} > \"$limits\""]
        return [*lines, *(_AT_HOST if _builds(at) else ())]
    call = f'{shlex.quote(at.plan.boxed)} bash -lc \'exec "$@"\' bash "$@"'
    return [
        "# In a login shell, since the images put their paths into its start files.",
        f"inside() {{ docker exec --env PIP_BREAK_SYSTEM_PACKAGES=1 {call}; }}",
        *([f'at() {{ local folder="$1"; shift; docker exec --workdir "$folder" {call}; }}'] if _builds(at) else []),
        *(() if any(step.drawn for step in at.plan.steps) else _boxed_limits(at)),
    ]


def _boxed_limits(at: _At) -> Iterator[str]:
    if wanted := shlex.join(pins(at.recipe)):
        yield f"printf '%s\\n' {wanted} |"
        yield f"  docker exec --interactive {shlex.quote(at.plan.boxed)} tee {BOXED_LIMITS} > /dev/null"


def _builds(at: _At) -> bool:
    return any(step.build for step in at.plan.steps)


def _step(number: int, step: Step, at: _At, interpreter: str) -> list[str]:
    lines = [
        *_comment(f"{number}. {step.title}"),
        *_comment(f"why: {step.why}; changes: {step.changes}; root: {root(step)}; undo: {step.undo}"),
    ]
    if step.name == "environment":
        return [*lines, f'{shlex.quote(interpreter)} -I -m venv -- "$venv"']
    write = _WRITERS.get(step.name)
    if not write:
        return [*lines, *_comment("Not written as a script: envcheck provision does it.")]
    return [*lines, *write(step, at)]


def _image(step: Step, at: _At) -> Iterator[str]:
    """By digest where the registry was asked; else by the name that the container is made from."""
    drawn = next((each.drawn for each in at.plan.steps if each.drawn), None)
    name = str(step.image.pinned) if step.image else drawn.spec.image if drawn else ""
    yield f"docker pull {shlex.quote(name)}"


def _container(step: Step, at: _At) -> Iterator[str]:
    assert step.drawn
    starts = step.title == TITLES[Action.START][0].format(step.drawn.spec.name)
    action = Action.RECREATE if step.recreate else Action.START if starts else Action.CREATE
    lines = container_lines(ContainerStatus(action), step.drawn.spec, step.drawn.folders)
    yield from lines if action is Action.START else (*lines[:-1], _run(step.drawn.spec))
    yield from _boxed_limits(at)


def _run(spec: Spec) -> str:
    """An option a line."""
    words = shell_words(spec)
    options, last = words[2 : -1 - len(spec.command)], words[-1 - len(spec.command) :]
    rows: list[str] = []
    for word in options:
        rows[len(rows) :] = [word] if word.startswith("--") else [f"{rows.pop()} {word}"]
    return " \\\n  ".join(["docker run", *rows, " ".join(last)])


def _clear(step: Step, at: _At) -> Iterator[str]:
    yield 'find "$venv" -mindepth 1 -maxdepth 1 ! -name .envcheck -exec rm -rf -- {} +'


def _packages(step: Step, at: _At) -> Iterator[str]:
    index = f"--index-url={shlex.quote(redact(step.packages[0].index))} " if step.packages[0].index else ""
    again = "--force-reinstall " if step.again else ""
    yield at.pip(f"{at.limits}{index}{again}{shlex.join(p.name + p.specifier for p in step.packages)}")


def _library(step: Step, at: _At) -> Iterator[str]:
    """The library in the wheel, under the name by which the loader asks for it."""
    assert step.library
    link, pattern = shlex.quote(step.library.link), shlex.quote(step.library.pattern)
    yield from _packages(step, at)
    yield f"site=$({at.python} -c 'import sysconfig; print(sysconfig.get_path(\"purelib\"))')"
    yield f'library=$(find "$site" -path "$site"/{pattern} -print -quit)'
    yield f'mkdir -p -- "$(dirname -- "$site"/{link})"'
    yield f'ln -sfr -- "${{library:?not in the wheel}}" "$site"/{link}'


def _clone(step: Step, at: _At) -> Iterator[str]:
    assert step.checkout
    folder, url = shlex.quote(step.checkout.directory), shlex.quote(public(step.checkout.url))
    yield f"{at.before}test -e {folder}/.git || {at.before}git clone -- {url} {folder}"
    yield f"{at.before}git -C {folder} checkout {shlex.quote(step.checkout.ref)}"
    if step.checkout.editable:
        yield at.pip(f"{at.limits}--editable {folder}")


def _build(step: Step, at: _At) -> Iterator[str]:
    """Each command in the checkout; what they make is a pattern, of which one file must be there."""
    assert step.build
    build, folder = step.build, shlex.quote(step.build.checkout)
    yield 'jobs="${JOBS:-$(nproc)}"'
    yield f"python_version=$({at.before}{at.python} -c {shlex.quote(_VERSION)} | tail -n 1)"
    words: Mapping[str, str] = {
        "python": at.python, "python_version": '"$python_version"', "jobs": '"$jobs"', "checkout": folder,
    }  # fmt: skip
    given = "".join(f"{name}={_word(text, words)} " for name, text in build.environment.items())
    before = (f"env {given}" if given else "") + _prepended(build)
    for command in build.commands:
        yield f"at {folder} {before}{' '.join(_word(part, words) for part in command)}"
    if build.installs:
        pattern = shlex.quote(f"{build.checkout}/{build.yields}")
        yield f"wheel=$({at.before}sh -c {_double(_ONE_FILE)} sh {pattern} | tail -n 1)"
        yield at.pip('--no-deps --force-reinstall "$wheel"')
        yield at.pip(f'{at.limits}"$wheel"')


def _prepended(build: Build) -> str:
    """A container's path variables are known there only."""
    lines = "".join(f'export {n}={shlex.quote(v)}"${{{n}:+:${n}}}"; ' for n, v in build.prepend.items())
    return f"sh -c {_double(lines + _EXEC)} sh " if lines else ""


def _proof(step: Step, at: _At) -> Iterator[str]:
    """The recipe's own commands; beyond them envcheck proves that every card computes and that they add up rightly."""
    recipe = at.recipe
    yield from _comment("envcheck provision proves more: that every card computes, and that all add up rightly.")
    if recipe.packages:
        names = shlex.join(package.name.partition("[")[0] for package in recipe.packages)
        yield f"{at.before}{at.python} -c {shlex.quote(_TELL)} {names}"
    unset = " ".join(f"-u {shlex.quote(name)}" for name in recipe.unset)
    for command in recipe.verify:
        argv = " ".join(_word(part, {"python": at.python}) for part in command)
        yield f"{at.before}{f'env {unset} ' if unset else ''}{argv}"


def _word(text: str, words: Mapping[str, str]) -> str:
    """Quoted for the shell, with its tokens as `words` have them."""
    parts = _TOKEN.split(text)
    pairs = itertools.zip_longest(parts[::2], parts[1::2])
    quoted = [
        (_quote(plain) if plain else "") + (words.get(token, f"'{{{token}}}'") if token else "")
        for plain, token in pairs
    ]
    return "".join(quoted) or "''"


def _quote(text: str) -> str:
    """In double quotes where single ones would have to be broken up, or where a $ in them looks like a mistake."""
    active = set(text) & set('"\\$`!')
    return _double(text) if set(text) & set("$`") or ("'" in text and not active) else shlex.quote(text)


def _double(text: str) -> str:
    return '"' + re.sub(r'(["\\$`])', r"\\\1", text) + '"'


def _comment(text: str) -> list[str]:
    return [f"# {line}" for line in textwrap.wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False)]


_WRITERS: Mapping[str, Callable[[Step, _At], Iterator[str]]] = {
    "image": _image,
    "container": _container,
    "clear": _clear,
    "packages": _packages,
    "library": _library,
    "clone": _clone,
    "build": _build,
    "proof": _proof,
}
