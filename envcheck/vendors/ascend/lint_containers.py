"""Lint rules for containers with NPUs: missing devices and mounts, and options that only CUDA containers have."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.remark_builders import fail, format_names, warn
from envcheck.core.lint.script_model import UNKNOWN, Remark
from envcheck.core.messages import _, verbatim
from envcheck.vendors.ascend import VENDOR

_IMAGE = re.compile(r"(?:[\w.-]+(?::\d+)?/)*nvidia/cuda(?:[:@]|$)|nvcr\.io/")
_OWN_IMAGE = re.compile(r"npu|ascend|cann")
_MOUNTS = (*VENDOR.driver_mounts, "/etc/ascend_install.info")


def find_missing_npu_mounts(context: LintContext) -> Iterator[Remark]:
    """Yield remarks if a container with NPUs lacks the management nodes or the driver folders."""
    for container in context.containers:
        nodes = [word.text.partition(":")[0] for word in container.list_option_values("--device")]
        targets = [mount.target.rstrip("/") for mount in container.mounts]
        davinci = any(re.match(rf"/dev/davinci(\d|{UNKNOWN})", node) for node in nodes)
        driver = context.device == VENDOR.name and any("Ascend/driver" in target for target in targets)
        runtime = any(word.text == VENDOR.runtime for word in container.list_option_values("--runtime"))
        if runtime or container.may_have_more_options or not (davinci or driver):
            continue
        place = next(iter(container.list_option_values("--device")), None) or container.location
        lacking = [node for node in VENDOR.control_nodes if node not in nodes]
        if lacking and davinci and not container.has_option("--privileged"):
            seen = _("missing: {lacking}; the container cannot open any NPU", lacking=format_names(lacking))
            yield fail(place, seen, verbatim(container.render_option("--device", *lacking)))
        files = [path for path in _MOUNTS if not any(_covers_path(path, target) for target in targets)]
        if files:
            some = any("Ascend" in target for target in targets)
            seen = (
                _("not mounted: {files}; tools and libraries look for the driver there", files=format_names(files))
                if some
                else _(
                    "not mounted: {files}; the image does not contain the driver libraries", files=format_names(files)
                )
            )
            yield warn(place, seen, verbatim(container.render_option("-v", *(f"{path}:{path}" for path in files))))


def _covers_path(path: str, target: str) -> bool:
    return path == target or path.startswith(f"{target}/") or target.startswith(f"{path}/")


def find_cuda_container(context: LintContext) -> Iterator[Remark]:
    """Yield remarks on --gpus and on CUDA images, which do not work for NPUs."""
    if context.device != VENDOR.name:
        return
    for container in context.containers:
        image = container.image.text.lower() if container.image is not None else ""
        if context.document and not _OWN_IMAGE.search(image):
            continue  # a document shows the containers of other cards, too
        for word in container.list_option_values("--gpus"):
            seen = _("--gpus works for NVIDIA GPUs only: it passes no NPU to the container")
            yield fail(
                word, seen, _("Use --device /dev/davinci0 with the management device nodes, or --runtime ascend.")
            )
        if container.image is not None and _IMAGE.match(container.image.text):
            seen = _("image {image} is for NVIDIA GPUs: it does not contain CANN", image=container.image.text[:60])
            yield fail(
                container.image, seen, _("Use an image with CANN, such as quay.io/ascend/cann with a version tag.")
            )
