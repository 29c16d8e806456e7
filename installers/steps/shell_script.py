"""Helpers to write steps as a shell script: the target of the script, and quoting."""

from __future__ import annotations

import itertools
import re
import shlex
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from envcheck.core.secrets import redact_variable
from envcheck.settings.site_access import NO_SITE, SiteAccess
from installers.recipes.recipe import Recipe
from installers.software.sources import pinned_requirements

WIDTH = 110
BOXED_LIMITS = "/var/tmp/envcheck-limits.txt"  # in the container
_TOKEN = re.compile(r"(?<!\$)\{(python|python_version|jobs|checkout)\}")


@dataclass(frozen=True)
class ScriptTarget:
    """Where the script installs packages: in the container of this name, or in `folder` if it is "".

    `command_prefix` goes in front of commands, `python_word` and `limits_option` are quoted for the shell;
    `interpreter` is the Python that creates a new environment, `site` how commands reach the outside.
    """

    recipe: Recipe
    folder: Path
    container: str = ""
    interpreter: str = "python3"
    site: SiteAccess = NO_SITE

    @property
    def command_prefix(self) -> str:
        """Return "inside " (a function of the script) for a container, else ""."""
        return "inside " if self.container else ""

    @property
    def python_word(self) -> str:
        """Return the target's Python as a word of the shell."""
        return shlex.quote(self.recipe.interpreter) if self.container else '"$venv"/bin/python'

    @property
    def limits_option(self) -> str:
        """Return pip's --constraint option with a trailing space; "" if the recipe pins no version."""
        option = f"--constraint={BOXED_LIMITS}" if self.container else '--constraint="$limits"'
        return f"{option} " if pinned_requirements(self.recipe) else ""

    def pip_command(self, words: str) -> str:
        """Return a `pip install` command with these quoted arguments."""
        return f"{self.command_prefix}{self.python_word} -m pip install {words}"

    def write_container_limits(self) -> Iterator[str]:
        """Yield lines that write the pinned versions to a file in the running container."""
        if wanted := shlex.join(pinned_requirements(self.recipe)):
            yield f"printf '%s\\n' {wanted} |"
            yield f"  docker exec --interactive {shlex.quote(self.container)} tee {BOXED_LIMITS} > /dev/null"


def not_written() -> Iterator[str]:
    """Yield a comment for a step that a script cannot carry out."""
    yield from render_comment("Not supported in a script: run envcheck provision for this step.")


def split_secrets(variables: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Return the variables that a script may show, and the names of those with a secret."""
    secret = [name for name, value in variables.items() if redact_variable(name, value) != value]
    return {name: value for name, value in variables.items() if name not in secret}, secret


def render_secret_notes(names: Iterable[str]) -> list[str]:
    """Return a comment for each variable that the script does not set because its value is secret."""
    texts = (f"{name} of the site has a password: export it before you run this script." for name in names)
    return [line for text in texts for line in render_comment(text)]


def render_comment(text: str) -> list[str]:
    """Return the text as comment lines."""
    return [f"# {line}" for line in textwrap.wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False)]


def fill_word(text: str, words: Mapping[str, str]) -> str:
    """Quote a text for the shell and replace its {tokens} by `words`, which are already quoted."""
    parts = _TOKEN.split(text)
    pairs = itertools.zip_longest(parts[::2], parts[1::2])
    quoted = [
        (_quote_text(plain) if plain else "") + (words.get(token, f"'{{{token}}}'") if token else "")
        for plain, token in pairs
    ]
    return "".join(quoted) or "''"


def _quote_text(text: str) -> str:
    """Quote a text: in double quotes if it contains single quotes, $ or `, because that is easier to read."""
    active = set(text) & set('"\\$`!')
    return quote_double(text) if set(text) & set("$`") or ("'" in text and not active) else shlex.quote(text)


def quote_double(text: str) -> str:
    r"""Return the text in double quotes, with ", \, $ and ` escaped."""
    return '"' + re.sub(r'(["\\$`])', r"\\\1", text) + '"'
