"""Which release of a package removed or added a name; pure."""

from __future__ import annotations

import builtins
import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from packaging.version import Version

from envcheck.core.toml_file import load_own_record, load_own_table

FILE = Path(__file__).with_name("changes.toml")
RELEASED = Path(__file__).with_name("released.toml")
_BOUND = re.compile(r"(?P<sign>>=|<)(?P<release>[\d.]+)")
_DROPPED = (".__init__",)  # of a function's name: its class is known
_EXPORTING = ("accelerate", "accelerate.utils", "peft", "trl", "huggingface_hub")  # of names that a text gives alone
_ANY = "*"  # in place of a class: the attribute of every class of the package
_MODELS = "transformers"  # the package with the model types
# The part of a class's name that is the model's: Qwen3Moe of Qwen3MoeForCausalLM.
_MODEL_CLASS = re.compile(
    r"([A-Z]\w{1,40}?)(?:For[A-Z]|Config|Model|PreTrained|Processor|ImageProc|Tokenizer|Attention|Decoder)"
)


_MODEL_MODULE = re.compile(r"transformers\.models\.(\w{1,40})")


@dataclass(frozen=True)
class ApiChange:
    """Names of a package: Class.argument, Class.attribute, or what is imported.

    `added` is the first release with them, `removed` the first without them again; at least one of both is given.  A
    name that has only one of them is in all releases before `removed`, or in all since `added` that were read.
    """

    package: str
    names: tuple[str, ...]
    removed: str = ""
    added: str = ""
    instead: str = ""

    @property
    def requirement(self) -> str:
        """What pip has to install for code that uses the names."""
        bounds = (f">={self.added}" if self.added else "", f"<{self.removed}" if self.removed else "")
        return self.package + ",".join(filter(None, bounds))


@dataclass(frozen=True)
class _ChangesFile:
    changes: tuple[ApiChange, ...]
    models: Mapping[str, tuple[str, ...]]
    engines: Mapping[str, Mapping[str, tuple[str, ...]]]
    passed: Mapping[str, Mapping[str, tuple[str, ...]]]
    python: Mapping[str, Mapping[str, str]]


@functools.cache
def load_changes() -> Mapping[str, ApiChange]:
    """Return the changes by name; those that say what replaced the name win."""
    changes = {
        name: change
        for changes in (_read_released(), _load_file().changes)
        for change in changes
        for name in change.names
    }
    return {name: _add_successor(name, change, changes) for name, change in changes.items()}


def _add_successor(name: str, change: ApiChange, changes: Mapping[str, ApiChange]) -> ApiChange:
    """Return the change; if what replaced the name was replaced too, with the release and the name after it."""
    owner = name.rpartition(".")[0]
    later = changes.get(f"{owner}.{change.instead}") if change.instead else None
    if later is None or later.package != change.package or not later.removed or not later.instead:
        return change
    return replace(change, instead=f"{change.instead}, {later.package}>={later.removed}: {later.instead}")


def _read_released() -> Iterator[ApiChange]:
    """The names by package, by the bounds of their releases, and by their class or module."""
    for package, ranges in load_own_table(RELEASED).items():
        for bounds, owners in ranges.items():
            releases = {found["sign"]: found["release"] for found in _BOUND.finditer(bounds)}
            names = tuple(f"{owner}.{name}" for owner, listed in owners.items() for name in listed.split())
            yield ApiChange(package, names, removed=releases.get("<", ""), added=releases.get(">=", ""))


@functools.cache
def _load_file() -> _ChangesFile:
    return load_own_record(_ChangesFile, FILE)


@functools.cache
def _load_model_changes() -> Mapping[str, ApiChange]:
    """Return the changes that added a model, by its type without marks: qwen25vl."""
    found: dict[str, ApiChange] = {}
    for added, names in _load_file().models.items():
        change = ApiChange(_MODELS, names, added=added)
        found |= {_drop_marks(name): change for name in names}
    return found


def find_model_change(name: str) -> ApiChange | None:
    """Return the change that added a model, by the model's type or by a class of it; None for an unknown one."""
    return _load_model_changes().get(_name_type(name))


def _name_type(name: str) -> str:
    found = _MODEL_CLASS.match(name)
    return _drop_marks(found[1] if found else name)


def find_model_requirement(name: str, installed: Mapping[str, str]) -> str:
    """Return what pip has to install for a model, given by its type or a class of it; "" if unknown.

    A class that an engine does not know is one of the engine, if the log prints its version.
    """
    is_class = bool(_MODEL_CLASS.match(name))
    engine = next((engine for engine in _load_file().engines if is_class and engine in installed), "")
    if engine:
        added = _load_engine_models(engine).get(_name_type(name), "")
        return f"{engine}>={added}" if added else ""
    change = find_model_change(name)
    return change.requirement if change else ""


@functools.cache
def _load_engine_models(engine: str) -> Mapping[str, str]:
    return {_drop_marks(name): added for added, names in _load_file().engines[engine].items() for name in names}


def find_passing_release(package: str, argument: str) -> str:
    """Return the first release of the package that passes the argument to methods of others; "" if unknown."""
    releases = _load_file().passed.get(package, {})
    return next((release for release, names in releases.items() if argument in names), "")


def find_python(package: str, release: str) -> str:
    """Return the oldest Python on which this release of the package runs; "" if unknown."""
    needed = _load_file().python.get(package, {})
    fitting = [first for first in needed if release and Version(first) <= Version(release)]
    return needed[max(fitting, key=Version)] if fitting else ""


def list_model_types() -> tuple[str, ...]:
    """Return the types of all models whose first release is known."""
    return tuple(name for names in _load_file().models.values() for name in names)


def _drop_marks(name: str) -> str:
    return re.sub(r"[-_.]", "", name).lower()


def find_change(groups: Mapping[str, str]) -> ApiChange | None:
    """Return the change of the name that an exception's text gives: an option, or a part of a module.

    A module of another package may have a part of the same name.
    """
    top = groups.get("module", "").partition(".")[0]
    found = (change for name in _list_names(groups) if (change := load_changes().get(name)))
    known = next((change for change in found if top in ("", change.package)), None)
    name = groups.get("name", "")
    if found_type := _MODEL_MODULE.match(name):
        return known or find_model_change(found_type[1])
    is_class = top == _MODELS and bool(_MODEL_CLASS.match(name))
    return known or (find_model_change(name) if is_class else None)


def _list_names(groups: Mapping[str, str]) -> Iterator[str]:
    function, option, name = (groups.get(key, "") for key in ("function", "option", "name"))
    for ending in _DROPPED:
        function = function.removesuffix(ending)
    if option and function:
        yield f"{function}.{option}"
        yield f"{function.rpartition('.')[2]}.{option}"
    elif name and groups.get("owner"):
        yield f"{groups['owner']}.{name}"
        if groups["owner"] not in dir(builtins) and groups["owner"] != "NoneType":
            yield f"{_ANY}.{name}"
    elif name:
        yield name
        yield from (f"{module}.{name}" for module in ((groups["module"],) if groups.get("module") else _EXPORTING))
