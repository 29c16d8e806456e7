"""What is installed: versions that are not said, pairs that do not belong together, lists made for other cards."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.model import Remark, Word
from envcheck.core.lint.remarks import fail, graded, listed, unknown, warn
from envcheck.core.lint.wrappers import bare, unwrapped
from envcheck.lint.context import tables
from envcheck.scripts.vendor_words import join_patterns, vendor_words, words_of
from envcheck.vendors import VENDORS
from launch.rendering import dialects

# Packages whose newest version may want another toolkit, driver or torch.
_MATTER = frozenset(
    [
        "torch",
        "torchvision",
        "torchaudio",
        "paddlepaddle",
        "paddlepaddle-gpu",
        "paddleformers",
        "paddlenlp",
        "erniekit",
        "transformers",
        "deepspeed",
        "accelerate",
        "peft",
        "trl",
        "ms-swift",
        "llamafactory",
        "vllm",
        "flash-attn",
        "xformers",
        "triton",
        "megatron-core",
        "bitsandbytes",
        "apex",
        "transformer-engine",
        *(package for words in vendor_words().values() for package in words.packages),
    ]
)
_WHY = {
    "paddleformers": "paddleformers without a version brings the newest: since 0.4 its options have other names",
    **{package: why for words in vendor_words().values() for package, why in words.unpinned_reasons.items()},
}


def unpinned(context: LintContext) -> Iterator[Remark]:
    old = {
        package
        for d in dialects.dialects()
        for job in context.jobs
        if job.program is not None and job.program.text.endswith(d.of)
        if {given.plain for given in job.options} & {*d.rename, *d.drop}
        for package in d.needs
    }
    for install in context.installs:
        for name, _, specifier, word in install.packages:
            if name not in _MATTER or (specifier and specifier != ">=0") or install.has("-c", "--constraint"):
                continue
            if name in old and not specifier and name not in context.machine.packages:
                continue  # options.other_version says what comes of it
            yield warn(
                word,
                _WHY.get(name, f"{name} without a version: what works today is another one next month"),
                f"{name}==VERSION, of those that belong together.",
            )


_TORCHS = frozenset(("torch", "torchvision", "torchaudio"))  # with all that they want on PyTorch's own index


def upgrade_all(context: LintContext) -> Iterator[Remark]:
    for install in context.installs:
        word = install.has("-U", "--upgrade")
        if word is not None and install.has("-r", "--requirement") and not install.has("-c", "--constraint"):
            yield warn(
                word,
                "-U takes everything in that list to its newest, torch and transformers too",
                "Without -U, or with -c and the versions that work.",
            )


def gpu_lists(context: LintContext) -> Iterator[Remark]:
    """A list of packages for NVIDIA's cards on others, or such packages one by one."""
    yield from cuda_packages(context)
    words = words_of(context.device)
    if not words.instead_of_cuda and not any(_foreign(job.option("device")) for job in context.jobs):
        return
    for install in context.installs:
        for option, word in install.options:
            if option in ("-r", "--requirement") and re.search(r"(^|[/_.-])(gpu|cuda|cu\d+)([/_.-]|$)", word.text):
                seen = f"{word.text[:80]} is the list for NVIDIA's cards: triton and others break here, or do not exist"
                yield graded(
                    words.gpu_lists_fail,
                    word,
                    seen,
                    "envcheck recipes has the packages for this device; or cut the list down.",
                )


def meant(context: LintContext) -> str:
    """For which cards it installs: as the script says, else those of the machine, where they are of one vendor."""
    found = context.machine.vendors or () if context.installs and not context.document else ()
    return context.device or (found[0] if len(found) == 1 else "")


def cuda_packages(context: LintContext) -> Iterator[Remark]:
    device = meant(context)
    instead = words_of(device).instead_of_cuda
    for install in context.installs if instead else ():
        for name, _, specifier, word in install.packages:
            kit = "paddle" if name == "paddlepaddle-gpu" else "torch" if _of_cuda(name, specifier) else ""
            if kit:
                seen = f"{word.text[:60]} is a build for NVIDIA's cards, which finds none here"
                yield fail(word, seen, f"Install {instead[kit]}, of one version: envcheck solve tells which.")
            elif re.fullmatch(words_of(device).cuda_packages or "(?!)", name):
                seen = words_of(device).cuda_package_remark.format(package=name)
                yield warn(word, seen, "Leave it out.")


def _of_cuda(name: str, specifier: str) -> bool:
    """torch 2.5.1+cu121: the local version says for which cards it was built."""
    return name in _TORCHS and bool(re.search(r"\+cu\d", specifier))


_WITHOUT_CUDA = tuple(VENDORS[name].device_type for name, words in vendor_words().items() if words.instead_of_cuda)


def _foreign(given: object) -> bool:
    return getattr(given, "value", None) in _WITHOUT_CUDA


# A plugin → what it is plugged into, of one version.
PLUGINS = {plugin: host for words in vendor_words().values() for plugin, host in words.plugins.items()}


def pairs(context: LintContext) -> Iterator[Remark]:
    """A plugin and what it is plugged into are of one version."""
    pinned: dict[str, tuple[str, Word]] = {}
    for install in context.installs:
        for name, _, specifier, word in install.packages:
            found = re.match(r"==\s*([\w.+!-]+)$", specifier)
            if found:
                pinned[name] = (found[1], word)
    for plugin, host in PLUGINS.items():
        if plugin not in pinned or host not in pinned:
            continue
        (mine, word), (its, at) = pinned[plugin], pinned[host]
        if _release(mine, 2 if host == "torch" else 3) != _release(its, 2 if host == "torch" else 3):
            yield fail(
                word,
                f"{plugin} {mine} with {host} {its}: they belong together by version",
                f"{host}=={_release(mine, 3)}",
            )
        elif re.search(r"\d(a|b|rc|\.?dev)\d*", its) and not re.search(r"\d(a|b|rc|\.?dev)\d*", mine):
            yield warn(
                at,
                f"{host} {its} comes before the release that {plugin} {mine} is built for",
                f"{host}=={_release(its, 3)}",
            )


def _release(version: str, parts: int) -> str:
    found = re.match(r"\d+(\.\d+)*", version)
    return ".".join(found[0].split(".")[:parts]) if found else version


def index_replaced(context: LintContext) -> Iterator[Remark]:
    """-i of a vendor: what else is wanted has to come from there too."""
    for install in context.installs:
        word = install.has("-i", "--index-url")
        vendors = word is not None and re.search(r"paddlepaddle\.org|pytorch\.org/whl|bcebos", word.text)
        kept = install.has("--no-deps", "--extra-index-url", "-c", "--constraint")
        own = word is not None and "pytorch.org" in word.text and {p[0] for p in install.packages} <= _TORCHS
        if word is not None and vendors and install.packages and not kept and not own:
            seen = "-i replaces the index: all that the package wants has to be there as well"
            yield warn(word, seen, "--extra-index-url, or the dependencies first.")


def global_config(context: LintContext) -> Iterator[Remark]:
    for _, command in context.commands():
        if command.elsewhere:
            continue  # an image's own settings
        texts = [word.text for word in unwrapped(command.words)]
        at = next((i for i, text in enumerate(texts) if re.fullmatch(r"pip[\d.]*", text)), -1)
        if at >= 0 and texts[at + 1 : at + 3] == ["config", "set"] and len(texts) > at + 3:
            yield warn(
                command.words[-1],
                f"{texts[at + 3]} changes pip for all that this user installs",
                "--index-url for the one command.",
            )


def extras(context: LintContext) -> Iterator[Remark]:
    """Extras and files that a project does not have: by its name, or below its clone where the document has one."""
    for install in context.installs:
        for name, given, _, word in install.packages:
            row = next((row for row in tables.projects().projects if row.name == name), None)
            wrong = _lacking(row, given.strip("[]")) if row is not None else []
            if wrong:
                seen = f"{name} has no extra {listed(wrong)}: pip says so and goes on"
                yield warn(word, seen, "Look them up in the project's metadata.")
    project = _project(context)
    if project is None:
        return
    for install in context.installs:
        editable = install.has("-e", "--editable") is not None
        for option, word in [*install.options, *(("", w) for _, _, _, w in install.packages)]:
            found = re.fullmatch(r"\.\[([\w,\s.-]+)\]", word.text.strip("'\""))
            lacking = _lacking(project, found[1]) if found else []
            if lacking and (editable or option == ""):
                yield warn(
                    word,
                    f"{project.name} has no extra {listed(lacking)}: pip says so and goes on",
                    "Look them up in the project's metadata.",
                )
            today = tables.renamed(project.name).get(word.text)
            if option in ("-r", "--requirement") and today:
                seen = f"{project.name} has no {word.text}"
                yield fail(word, seen, f"pip install -e . brings what it wants; in place of it stand {today}.")


def _lacking(project: tables.Project, names: str) -> list[str]:
    """Those of the extras that the project does not have."""
    asked = [name.strip() for name in names.split(",") if name.strip()]
    return [name for name in asked if project.extras and name not in project.extras]


def _project(context: LintContext) -> tables.Project | None:
    texts = [word.text for _, command in context.commands() for word in command.words]
    for row in tables.projects().projects:
        if any(re.search(row.pattern, text) for text in texts if "/" in text):
            return row
        if any(re.search(rf"/{row.name}[:@]", text) for text in texts):
            return row
    return None


def moved(context: LintContext) -> Iterator[Remark]:
    for _, command in context.commands("git"):
        for word in command.words:
            for old, new in tables.projects().moved.items():
                if re.search(rf"{re.escape(old)}(\.git)?/?$", word.text):
                    yield warn(
                        word,
                        f"the project is now {new}, and the clone's folder bears the old name",
                        f"git clone https://{new}",
                    )


def tracked(context: LintContext) -> Iterator[Remark]:
    """A clone at whatever stands there today, installed."""
    for script, command in context.commands("git"):
        words = [word.text for word in command.words]
        if "clone" not in words or any(w in ("-b", "--branch") or w.startswith("--branch=") for w in words):
            continue
        later = [c for s in context.scripts for c in s.commands if (s is not script or c.order > command.order)]
        if (
            any(bare(c) == "git" and {"checkout", "switch", "reset"} & set(c.texts()) for c in later)
            or "checkout" in words
        ):
            continue
        if any(each.has("-e", "--editable") or {".", "./"} & set(each.command.texts()) for each in context.installs):
            yield warn(
                command,
                "the clone is whatever stands there today, and is installed as it is",
                "git checkout a tag or commit that is known to work.",
            )


_WITH_TORCH = re.compile(join_patterns(*(words.image_words for words in vendor_words().values())) or "(?!)")


def image_reinstalled(context: LintContext) -> Iterator[Remark]:
    """An editable installation without pins, inside an image that brings its own torch."""
    image = next(
        (
            w
            for _, c in context.commands("docker", "podman")
            if "run" in c.texts()
            for w in c.words
            if _WITH_TORCH.search(w.text) and ":" in w.text and "/" in w.text and not w.text.startswith(("/", "-"))
        ),
        None,
    )
    if image is None:
        return
    for install in context.installs:
        word = install.has("-e", "--editable")
        if word is not None and not install.has("--no-deps", "-c", "--constraint"):
            yield warn(
                word,
                "installed again without pins: torch may be resolved anew, and torch-npu with it",
                "--no-deps, or -c with the image's own versions.",
            )


def architecture(context: LintContext) -> Iterator[Remark]:
    """Wheels and installers named for a processor."""
    for _, command in context.commands():
        for word in command.words:
            found = re.search(
                r"[\W_](x86_64|amd64|aarch64|arm64)[\W_].*\.(whl|run|deb|rpm)$|[_-](x86_64|aarch64)\.(run|whl)$",
                word.text,
            )
            if not found:
                continue
            named = {"amd64": "x86_64", "arm64": "aarch64"}.get(found[1] or found[3], found[1] or found[3])
            there = context.machine.architecture
            if there is None or context.here is False:
                seen = f"a file for {named}; what the machine is was not looked up, for {context.unasked}"
                yield unknown(word, seen, "uname -m")
            elif there != named:
                yield fail(word, f"a file for {named}, and this machine is {there}", f"The one for {there}.")
