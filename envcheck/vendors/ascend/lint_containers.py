"""Containers for NPUs: what they have to be given, and what is of CUDA's containers alone."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.model import UNKNOWN, Remark
from envcheck.core.lint.remarks import fail, listed, warn
from envcheck.vendors.ascend import VENDOR

_IMAGE = re.compile(r"(?:[\w.-]+(?::\d+)?/)*nvidia/cuda(?:[:@]|$)|nvcr\.io/")
_MOUNTS = (*VENDOR.driver_mounts, "/etc/ascend_install.info")


def npu_parts(context: LintContext) -> Iterator[Remark]:
    """A container with NPUs has the manager nodes and the driver's folders."""
    for container in context.containers:
        nodes = [word.text.partition(":")[0] for word in container.all("--device")]
        targets = [mount.target.rstrip("/") for mount in container.mounts]
        davinci = any(re.match(rf"/dev/davinci(\d|{UNKNOWN})", node) for node in nodes)
        driver = context.device == VENDOR.name and any("Ascend/driver" in target for target in targets)
        runtime = any(word.text == VENDOR.runtime for word in container.all("--runtime"))
        if runtime or container.open or not (davinci or driver):
            continue
        place = next(iter(container.all("--device")), None) or container.place
        lacking = [node for node in VENDOR.control_nodes if node not in nodes]
        if lacking and davinci and not container.has("--privileged"):
            seen = f"without {listed(lacking)} no NPU can be opened"
            yield fail(place, seen, container.written("--device", *lacking))
        files = [path for path in _MOUNTS if not any(_covers(path, target) for target in targets)]
        if files:
            some = any("Ascend" in target for target in targets)
            seen = (
                f"not mounted: {listed(files)}; tools and libraries look there for the driver"
                if some
                else f"not mounted: {listed(files)}: the driver's libraries are not in the image"
            )
            yield warn(place, seen, container.written("-v", *(f"{path}:{path}" for path in files)))


def _covers(path: str, target: str) -> bool:
    return path == target or path.startswith(f"{target}/") or target.startswith(f"{path}/")


def cuda_container(context: LintContext) -> Iterator[Remark]:
    """An NPU does not come into a container by --gpus, and CUDA's images hold nothing for it."""
    if context.device != VENDOR.name:
        return
    for container in context.containers:
        for word in container.all("--gpus"):
            seen = "--gpus is for NVIDIA's cards: no NPU comes into the container by it"
            yield fail(word, seen, "--device /dev/davinci0 with the manager nodes, or --runtime ascend.")
        if container.image is not None and _IMAGE.match(container.image.text):
            seen = f"the image {container.image.text[:60]} is for NVIDIA's cards: it has no CANN"
            yield fail(container.image, seen, "An image with CANN, as quay.io/ascend/cann with a version.")
