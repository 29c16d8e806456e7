"""What the kinds of steps share when they are written as a shell script: where it works, and words quoted for it."""

from __future__ import annotations

import itertools
import re
import shlex
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from installers.recipes.recipe import Recipe
from installers.software.sources import pins

WIDTH = 110
BOXED_LIMITS = "/var/tmp/envcheck-limits.txt"  # in the container
_TOKEN = re.compile(r"(?<!\$)\{(python|python_version|jobs|checkout)\}")


@dataclass(frozen=True)
class ScriptTarget:
    """Where the script's packages go: into the container of this name, or into the folder where that is "".

    `before` is put in front of a command, `python` and `limits` are words of the shell; `interpreter` is the Python of
    which a new environment is made.
    """

    recipe: Recipe
    folder: Path
    container: str = ""
    interpreter: str = "python3"

    @property
    def before(self) -> str:
        return "inside " if self.container else ""

    @property
    def python(self) -> str:
        return shlex.quote(self.recipe.interpreter) if self.container else '"$venv"/bin/python'

    @property
    def limits(self) -> str:
        held = f"--constraint={BOXED_LIMITS}" if self.container else '--constraint="$limits"'
        return f"{held} " if pins(self.recipe) else ""

    def pip(self, words: str) -> str:
        return f"{self.before}{self.python} -m pip install {words}"

    def boxed_limits(self) -> Iterator[str]:
        """Into the running container, the versions that no step may move."""
        if wanted := shlex.join(pins(self.recipe)):
            yield f"printf '%s\\n' {wanted} |"
            yield f"  docker exec --interactive {shlex.quote(self.container)} tee {BOXED_LIMITS} > /dev/null"


def not_written() -> Iterator[str]:
    yield from comment("Not written as a script: envcheck provision does it.")


def comment(text: str) -> list[str]:
    return [f"# {line}" for line in textwrap.wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False)]


def fill_word(text: str, words: Mapping[str, str]) -> str:
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
    return quote_double(text) if set(text) & set("$`") or ("'" in text and not active) else shlex.quote(text)


def quote_double(text: str) -> str:
    return '"' + re.sub(r'(["\\$`])', r"\\\1", text) + '"'
