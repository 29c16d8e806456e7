"""Rules about pip: missing versions, packages that do not match, lists for other devices."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.remark_builders import fail, format_names, unknown_here, warn, warn_or_fail
from envcheck.core.lint.script_model import Remark, ShellWord
from envcheck.core.lint.wrappers import program_name, strip_wrappers
from envcheck.core.messages import _, fill, verbatim
from envcheck.lint.context import name_tables
from envcheck.scripts.vendor_words import find_vendor_words, join_patterns, load_vendor_words
from envcheck.vendors import VENDORS
from envcheck.vendors.names import PADDLE_PACKAGES
from launch.rendering import dialects

# Packages whose newest version may require another toolkit, driver or torch.
_MATTER = frozenset(
    [
        "torch",
        "torchvision",
        "torchaudio",
        *PADDLE_PACKAGES,
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
        *(package for words in load_vendor_words().values() for package in words.packages),
    ]
)
_WHY = {
    "paddleformers": _("paddleformers without a version installs the newest release: its options were renamed in 0.4"),
    **{package: why for words in load_vendor_words().values() for package, why in words.unpinned_reasons.items()},
}


def find_unpinned_packages(context: LintContext) -> Iterator[Remark]:
    old = {
        package
        for d in dialects.load_dialects()
        for job in context.jobs
        if job.program is not None and job.program.text.endswith(d.of)
        if {given.python_name for given in job.options} & {*d.rename, *d.drop}
        for package in d.needs
    }
    for install in context.installs:
        for name, _unused, specifier, word in install.packages:
            if name not in _MATTER or (specifier and specifier != ">=0") or install.find_option("-c", "--constraint"):
                continue
            if name in old and not specifier and name not in context.machine.packages:
                continue  # options.other_version reports the consequences
            yield warn(
                word,
                _WHY.get(name, _("{name} without a version: a later install may get another version", name=name)),
                _("Pin {name}==VERSION to matching versions.", name=name),
            )


_TORCHS = frozenset(("torch", "torchvision", "torchaudio"))  # with all their dependencies on PyTorch's own index
_PADDLES = frozenset(
    ("paddlepaddle", *(v.paddle_build for v in VENDORS.values()), *(v.plugin for v in VENDORS.values()))
)
# The vendors' installation pages have only -i for these packages: the indexes have the dependencies.
_COMPLETE_INDEXES = {"pytorch.org": _TORCHS, "paddlepaddle.org": _PADDLES}


def find_upgrade_of_all_packages(context: LintContext) -> Iterator[Remark]:
    for install in context.installs:
        word = install.find_option("-U", "--upgrade")
        if (
            word is not None
            and install.find_option("-r", "--requirement")
            and not install.find_option("-c", "--constraint")
        ):
            yield warn(
                word,
                _("-U upgrades every package in the list to its newest version, including torch and transformers"),
                _("Remove -U, or add -c with tested versions."),
            )


def find_gpu_package_lists(context: LintContext) -> Iterator[Remark]:
    """Find lists of packages for NVIDIA GPUs, or such packages, on other devices."""
    yield from find_cuda_packages(context)
    words = find_vendor_words(context.device)
    if not words.instead_of_cuda and not any(
        _names_device_without_cuda(job.find_option("device")) for job in context.jobs
    ):
        return
    for install in context.installs:
        for option, word in install.options:
            if option in ("-r", "--requirement") and re.search(r"(^|[/_.-])(gpu|cuda|cu\d+)([/_.-]|$)", word.text):
                seen = _(
                    "{file} lists packages for NVIDIA GPUs: triton and others fail or do not exist on this device",
                    file=word.text[:80],
                )
                yield warn_or_fail(
                    words.gpu_lists_fail,
                    word,
                    seen,
                    _("Run envcheck recipes for the packages of this device, or shorten the list."),
                )


def guess_device(context: LintContext) -> str:
    """Return the vendor that a script installs for: by its words, otherwise that of the machine if unique."""
    found = context.machine.vendors or () if context.installs and not context.document else ()
    return context.device or (found[0] if len(found) == 1 else "")


def find_cuda_packages(context: LintContext) -> Iterator[Remark]:
    device = guess_device(context)
    instead = find_vendor_words(device).instead_of_cuda
    for install in context.installs if instead else ():
        for name, _unused, specifier, word in install.packages:
            kit = "paddle" if name == "paddlepaddle-gpu" else "torch" if _is_cuda_build(name, specifier) else ""
            if kit:
                seen = _("{package} is built for NVIDIA GPUs, which this device is not", package=word.text[:60])
                yield fail(
                    word,
                    seen,
                    _("Install matching versions of {instead}; envcheck solve lists them.", instead=fill(instead[kit])),
                )
            elif re.fullmatch(find_vendor_words(device).cuda_packages or "(?!)", name):
                seen = fill(find_vendor_words(device).cuda_package_remark, package=name)
                yield warn(word, seen, _("Remove it from the list."))


def _is_cuda_build(name: str, specifier: str) -> bool:
    """torch 2.5.1+cu121: the local version names the device."""
    return name in _TORCHS and bool(re.search(r"\+cu\d", specifier))


_WITHOUT_CUDA = tuple(VENDORS[name].device_type for name, words in load_vendor_words().items() if words.instead_of_cuda)


def _names_device_without_cuda(given: object) -> bool:
    return getattr(given, "value", None) in _WITHOUT_CUDA


# plugin → framework with the same version
PLUGINS = {plugin: host for words in load_vendor_words().values() for plugin, host in words.plugins.items()}


def find_mismatched_plugins(context: LintContext) -> Iterator[Remark]:
    """Find plugins whose version differs from that of their framework."""
    pinned: dict[str, tuple[str, ShellWord]] = {}
    for install in context.installs:
        for name, _unused, specifier, word in install.packages:
            found = re.match(r"==\s*([\w.+!-]+)$", specifier)
            if found:
                pinned[name] = (found[1], word)
    for plugin, host in PLUGINS.items():
        if plugin not in pinned or host not in pinned:
            continue
        (mine, word), (its, at) = pinned[plugin], pinned[host]
        if _truncate_version(mine, 2 if host == "torch" else 3) != _truncate_version(its, 2 if host == "torch" else 3):
            yield fail(
                word,
                _(
                    "{plugin} {mine} does not match {host} {its}: their versions must agree",
                    plugin=plugin,
                    mine=mine,
                    host=host,
                    its=its,
                ),
                verbatim(f"{host}=={_truncate_version(mine, 3)}"),
            )
        elif re.search(r"\d(a|b|rc|\.?dev)\d*", its) and not re.search(r"\d(a|b|rc|\.?dev)\d*", mine):
            yield warn(
                at,
                _(
                    "{host} {its} is older than the release that {plugin} {mine} is built for",
                    host=host,
                    its=its,
                    plugin=plugin,
                    mine=mine,
                ),
                verbatim(f"{host}=={_truncate_version(its, 3)}"),
            )


def _truncate_version(version: str, parts: int) -> str:
    found = re.match(r"\d+(\.\d+)*", version)
    return ".".join(found[0].split(".")[:parts]) if found else version


def find_replaced_index(context: LintContext) -> Iterator[Remark]:
    """Find -i with a vendor's index: all dependencies must come from there too."""
    for install in context.installs:
        word = install.find_option("-i", "--index-url")
        vendors = word is not None and re.search(r"paddlepaddle\.org|pytorch\.org/whl|bcebos", word.text)
        kept = install.find_option("--no-deps", "--extra-index-url", "-c", "--constraint")
        own = word is not None and any(
            host in word.text and {p[0] for p in install.packages} <= packages
            for host, packages in _COMPLETE_INDEXES.items()
        )
        if word is not None and vendors and install.packages and not kept and not own:
            seen = _("-i replaces the package index: all dependencies must exist there too")
            yield warn(word, seen, _("Use --extra-index-url, or install the dependencies first."))


def find_global_pip_config(context: LintContext) -> Iterator[Remark]:
    for _unused, command in context.find_commands():
        if command.elsewhere:
            continue  # an image's own settings
        texts = [word.text for word in strip_wrappers(command.words)]
        at = next((i for i, text in enumerate(texts) if re.fullmatch(r"pip[\d.]*", text)), -1)
        if at >= 0 and texts[at + 1 : at + 3] == ["config", "set"] and len(texts) > at + 3:
            yield warn(
                command.words[-1],
                _("{texts} changes pip for everything this user installs", texts=texts[at + 3]),
                _("Use --index-url for this command only."),
            )


def find_unknown_extras(context: LintContext) -> Iterator[Remark]:
    """Find extras and files that a project does not have, by its name or in its clone."""
    for install in context.installs:
        for name, given, _unused, word in install.packages:
            row = next((row for row in name_tables.load_projects().projects if row.name == name), None)
            wrong = _list_missing_extras(row, given.strip("[]")) if row is not None else []
            if wrong:
                seen = _("{name} has no extra {wrong}: pip warns and continues", name=name, wrong=format_names(wrong))
                yield warn(word, seen, _("Check the extras in the project's metadata."))
    project = _find_cloned_project(context)
    if project is None:
        return
    for install in context.installs:
        editable = install.find_option("-e", "--editable") is not None
        for option, word in [*install.options, *(("", w) for _unused, _unused, _unused, w in install.packages)]:
            found = re.fullmatch(r"\.\[([\w,\s.-]+)\]", word.text.strip("'\""))
            lacking = _list_missing_extras(project, found[1]) if found else []
            if lacking and (editable or option == ""):
                yield warn(
                    word,
                    _(
                        "{name} has no extra {lacking}: pip warns and continues",
                        name=project.name,
                        lacking=format_names(lacking),
                    ),
                    _("Check the extras in the project's metadata."),
                )
            today = name_tables.load_renamed_options(project.name).get(word.text)
            if option in ("-r", "--requirement") and today:
                seen = _("{name} has no {file}", name=project.name, file=word.text)
                yield fail(
                    word,
                    seen,
                    _(
                        "Run pip install -e . to install the dependencies. The file was replaced by {today}.",
                        today=today,
                    ),
                )


def _list_missing_extras(project: name_tables.KnownProject, names: str) -> list[str]:
    """Those of the extras that the project does not have."""
    asked = [name.strip() for name in names.split(",") if name.strip()]
    return [name for name in asked if project.extras and name not in project.extras]


def _find_cloned_project(context: LintContext) -> name_tables.KnownProject | None:
    words = (word.text for _unused, command in context.find_commands() for word in command.words)
    texts = dict.fromkeys(text for text in words if "/" in text)
    for row in name_tables.load_projects().projects:
        if any(re.search(row.pattern, text) for text in texts):
            return row
        if any(re.search(rf"/{row.name}[:@]", text) for text in texts):
            return row
    return None


def find_moved_repositories(context: LintContext) -> Iterator[Remark]:
    for _unused, command in context.find_commands("git"):
        for word in command.words:
            for old, new in name_tables.load_projects().moved.items():
                if re.search(rf"{re.escape(old)}(\.git)?/?$", word.text):
                    yield warn(
                        word,
                        _("the project moved to {new}, and the clone directory has the old name", new=new),
                        verbatim(f"git clone https://{new}"),
                    )


def find_unpinned_clone(context: LintContext) -> Iterator[Remark]:
    """Find installs from a clone without a pinned commit."""
    for script, command in context.find_commands("git"):
        words = [word.text for word in command.words]
        if "clone" not in words or any(w in ("-b", "--branch") or w.startswith("--branch=") for w in words):
            continue
        later = [c for s in context.scripts for c in s.commands if (s is not script or c.order > command.order)]
        if (
            any(program_name(c) == "git" and {"checkout", "switch", "reset"} & set(c.list_texts()) for c in later)
            or "checkout" in words
        ):
            continue
        if any(
            each.find_option("-e", "--editable") or {".", "./"} & set(each.command.list_texts())
            for each in context.installs
        ):
            yield warn(
                command,
                _("the clone is not pinned: the newest commit is installed"),
                _("Run git checkout with a tested tag or commit."),
            )


_WITH_TORCH = re.compile(join_patterns(*(words.image_words for words in load_vendor_words().values())) or "(?!)")


def find_reinstall_over_image(context: LintContext) -> Iterator[Remark]:
    """Find editable installs without pins in an image that contains its own torch."""
    image = next(
        (
            w
            for _unused, c in context.find_commands("docker", "podman")
            if "run" in c.list_texts()
            for w in c.words
            if _WITH_TORCH.search(w.text) and ":" in w.text and "/" in w.text and not w.text.startswith(("/", "-"))
        ),
        None,
    )
    if image is None:
        return
    for install in context.installs:
        word = install.find_option("-e", "--editable")
        if word is not None and not install.find_option("--no-deps", "-c", "--constraint"):
            yield warn(
                word,
                _("reinstalled without pins: pip may replace torch, and torch-npu with it"),
                _("Add --no-deps, or -c with the image's versions."),
            )


def find_wrong_package_architecture(context: LintContext) -> Iterator[Remark]:
    """Find wheels and installers for another architecture."""
    for _unused, command in context.find_commands():
        for word in command.words:
            found = re.search(
                r"[\W_](x86_64|amd64|aarch64|arm64)[\W_].*\.(whl|run|deb|rpm)$|[_-](x86_64|aarch64)\.(run|whl)$",
                word.text,
            )
            if not found:
                continue
            named = {"amd64": "x86_64", "arm64": "aarch64"}.get(found[1] or found[3], found[1] or found[3])
            there = context.machine.architecture
            if there is None or context.is_for_this_machine is False:
                seen = _(
                    "this file supports {named} only; cannot check the host architecture: {unasked}",
                    named=named,
                    unasked=context.unknown_reason,
                )
                yield unknown_here(word, seen, verbatim("uname -m"))
            elif there != named:
                yield fail(
                    word,
                    _("this file supports {named} only; this host is {there}", named=named, there=there),
                    _("Use the file for {there}.", there=there),
                )
