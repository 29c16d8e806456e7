"""Where an exception was raised: its package, the place in the user's code, and what has to fit; pure."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from envcheck.core.toml_file import load_own_table

FILE = Path(__file__).with_name("packages.toml")
MODULES = Path(__file__).with_name("modules.toml")
_INSTALLED = re.compile(r"/(?:site|dist)-packages/([\w.-]{1,60})")
_STANDARD = re.compile(r"/python3(?:\.\d{1,2})?/(?!site-packages|dist-packages)")
# Code of models that is loaded from their folder.
_MODEL_CODE = re.compile(r"/transformers_modules/|/modeling_\w{1,60}\.py")
# Frames that only look up, for their caller, what is not there, or check what it gave them.
_LOOKUP = re.compile(
    r"/datasets/formatting/|/feature_extraction_utils\.py|/datasets/(?:table|arrow_dataset)\.py|/omegaconf/"
    r"|lib/python[\d.]{1,5}/(?:os|collections|json|inspect|functools|copy|dataclasses|random|re|enum|typing|shlex|pathlib"
    r"|posixpath|genericpath|datetime|base64)\b"
)
# Frames that only pass on what another process raised, if the innermost one raises it.
_PASSING = re.compile(
    r"/(?:multiprocess|multiprocessing|billiard)/(?:pool|connection|managers)\.py|/concurrent/futures/|/joblib/"
    r"|/datasets/utils/py_utils\.py|/ray/_private/|/ray/(?:actor|util)\b|/torch/_utils\.py"
)
# Frames of wrappers that only call, with the arguments of their caller, what it names.
_WRAPPING = re.compile(
    r"/torch/(?:nn/modules/module\.py:\d{1,7}, in _(?:wrapped_)?call_impl$|utils/_contextlib\.py)"
    r"|/torch/_dynamo/eval_frame\.py|/transformers/utils/(?:deprecation|generic)\.py:\d{1,7}, in \w{0,20}wrap"
    r"|/huggingface_hub/utils/_(?:deprecat|validat)|/accelerate/utils/operations\.py"
    r"|/accelerate/hooks\.py:\d{1,7}, in new_forward$"
)
_RAISES = re.compile(r"^raise (?:self\.)?_?(?:value|exception|result|exc)\b")
_ATTRIBUTE = (", in __getattr__", ", in __getattribute__")
# Frames that import for their caller: Python's own, and the hooks that packages put in place of `import`.
_IMPORTING = re.compile(
    r"(?:<frozen importlib|/importlib/__init__\.py)|, in \w{0,30}_import(?:_hook|__)?$|import_hooks?\.py:\d{1,7}, in "
)
# Packages of which vendors have builds of their own, or that replace torch: the newest one of PyPI would break them.
_VENDOR_BUILT = re.compile(
    r"torch|paddle|triton|apex|flash[-_]attn|deepspeed|vllm|sglang|lmdeploy|transformer[-_]engine|mindspeed|megatron|xformers"
)
_NESTING = ("paddlenlp", "paddleformers")  # packages with folders that have the names of others
_SOURCE_FOLDERS = ("src", "source", "lib")  # of a checkout that contains a package


@functools.cache
def _load_modules() -> Mapping[str, Any]:
    return load_own_table(MODULES)


def list_shared_patterns(name: str) -> list[str]:
    """Return the patterns that entries have in common under this name; none for an unknown one."""
    return list(_load_modules()["patterns"].get(name, ()))


def list_renamed_modules() -> list[str]:
    """Return patterns of the modules whose package has another name in pip; longer ones first."""
    return [re.escape(name) for name in sorted(_load_modules()["packages"], key=len, reverse=True)]


@functools.cache
def load_packages() -> Mapping[str, Mapping[str, object]]:
    """Return the known packages by the name of their folder."""
    return load_own_table(FILE)


def find_package(frame: str) -> str:
    """Return the package of a frame `path:line, in function`; "" for the user's code and the standard library."""
    path = frame.partition(", in ")[0].replace("\\", "/")
    if found := _INSTALLED.search(path):
        return found[1].removesuffix(".py")
    if _STANDARD.search(path):
        return ""
    known = [part for part in path.split("/") if part in load_packages()]
    return next((part for part in known if part in _NESTING), known[-1] if known else "")


def find_raising_package(frames: Sequence[str]) -> str:
    """Return the package of the innermost frame that has one."""
    return next((package for frame in reversed(frames) if (package := find_package(frame))), "")


def find_telling_frame(frames: Sequence[str]) -> int:
    """Return the index of the innermost frame that is not of a mere look-up."""
    last = len(frames) - 1
    return next((at for at in range(last, -1, -1) if not _LOOKUP.search(frames[at])), last)


def is_vendor_built(package: str) -> bool:
    """Return whether a vendor may have its own build of the package, which an upgrade would replace."""
    return bool(_VENDOR_BUILT.match(package))


def count_own_frames(frames: Sequence[str], sources: Sequence[str]) -> int:
    """Return how many frames are left without the innermost ones that only pass on what another process raised.

    A class's own look-up of an attribute that it does not have is left out as well, what imports for its caller, and
    wrappers of a call.
    """
    count = len(frames)
    while count > 1 and _WRAPPING.search(frames[count - 1]):
        count -= 1
    if count < len(frames):
        return count
    while count > 1 and _IMPORTING.search(frames[count - 1]):
        count -= 1
    if count < len(frames):
        return count
    while count > 1 and frames[count - 1].endswith(_ATTRIBUTE):
        count -= 1
    if count < len(frames):
        return count
    if not count or not sources or not _RAISES.match(sources[-1]):
        return count
    while count and _PASSING.search(frames[count - 1]):
        count -= 1
    return count


def hides_package(path: str, name: str) -> bool:
    """Return whether this file of a known package is neither installed nor of a checkout of the package.

    A checkout is a folder named after its package, or with it in src.
    """
    path = path.replace("\\", "/")
    if not is_general_package(name) or not path.startswith("/") or is_installed(path):
        return False
    before, found, _unused = path.rpartition(f"/{name}/")
    parent = re.sub(r"[^a-z]", "", before.rpartition("/")[2].lower())
    short = re.sub(r"[^a-z]", "", name.lower())[:5]
    return path.endswith(f"/{name}.py") or (bool(found) and parent not in _SOURCE_FOLDERS and short not in parent)


def is_installed(path: str) -> bool:
    """Return whether the file is of an installed package or of Python itself."""
    return bool(_INSTALLED.search(path) or _STANDARD.search(path) or ".egg/" in path)


def is_general_package(name: str) -> bool:
    """Return whether several other packages have to fit it: trainers, which many run from a checkout, are not."""
    return sum(name in list_fitting(other) for other in load_packages() if other != name) > 1


def find_caller(frames: Sequence[str], package: str) -> str:
    """Return the innermost place outside of the package: `file.py:7`."""
    outside = [frame for frame in frames if find_package(frame) != package and not _STANDARD.search(frame)]
    return shorten_place(outside[-1]) if outside else ""


def shorten_place(frame: str) -> str:
    """Return `data.py:7` of `/w/data.py:7, in load`."""
    return frame.partition(", in ")[0].replace("\\", "/").rpartition("/")[2]


def relate_frame(frame: str) -> str:
    """Return a frame without the folders above its package, `/site-packages/torch/optim/adam.py:7, in step`.

    Of the user's own code, whose folders may have any name, only the function is left: `in step`.
    """
    path, _unused, function = frame.replace("\\", "/").partition(", in ")
    if found := _INSTALLED.search(path) or _MODEL_CODE.search(path):
        return f"{path[found.start() :]}, in {function}"
    package = find_package(frame)
    folders, _unused, inside = path.rpartition(f"/{package}/")
    return f"/{package}/{inside}, in {function}" if package and folders else f"in {function}"


def list_fitting(package: str, others: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the packages whose versions have to fit."""
    found: dict[str, None] = {}
    for name in (package, *others):
        fits = load_packages().get(name, {}).get("fits", ())
        own = [name] if re.fullmatch(r"[\w.-]{1,60}", name) else []
        found |= dict.fromkeys(fits if isinstance(fits, list) and fits else own)
    return tuple(found)[:8]


def belong_together(package: str, other: str) -> bool:
    """Return whether some package has to fit both, or one of them is not known."""
    return not other or package not in load_packages() or not set(list_fitting(package)).isdisjoint(list_fitting(other))


def name_pip_package(module: str) -> str:
    """Return the name by which pip knows the package of a module."""
    top, named = module.partition(".")[0], _load_modules()["packages"]
    fitting = list_fitting(top)
    own = [name for name in fitting if name.replace("-", "_") == top]
    return named.get(module) or named.get(top) or next(iter((*own, *fitting)), "")


def find_class_package(name: str) -> str:
    """Return the package of a class or of a method's class: `SFTTrainer.__init__`; "" for an unknown one."""
    parts = name.split(".")
    return next((name for name, package in load_packages().items() if set(parts) & _list_classes(package)), "")


def _list_classes(said: Mapping[str, object]) -> set[str]:
    classes = said.get("classes", ())
    return set(classes) if isinstance(classes, list) else set()


def find_hint(package: str) -> str:
    """Return where failures of the package usually come from; "" for an unknown one."""
    return str(load_packages().get(package, {}).get("hint", ""))
