"""Lint rules for containers with XPUs: the control node, and options for NVIDIA GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.remark_builders import fail, format_names
from envcheck.core.lint.script_container import ScriptContainer
from envcheck.core.lint.script_model import UNKNOWN, Remark, ShellWord
from envcheck.core.messages import _, verbatim
from envcheck.vendors.kunlunxin import VENDOR


def find_wrong_container(context: LintContext) -> Iterator[Remark]:
    """Yield remarks on containers with XPUs: no control node, or options for NVIDIA GPUs."""
    for container in context.containers:
        nodes = container.list_option_values("--device")
        if any(re.match(rf"/dev/xpu(\d|{UNKNOWN})", word.text) for word in nodes):
            yield from _find_missing_control_node(container, nodes)
        elif context.device != VENDOR.name:
            continue
        for word in container.list_option_values("--gpus"):
            seen = _("--gpus works for NVIDIA GPUs only: on a host without them the container does not start")
            yield fail(word, seen, _("Remove it: the device nodes are sufficient."))
        for word in container.list_option_values("--runtime"):
            if word.text == "nvidia":
                seen = _("the runtime nvidia needs NVIDIA's driver: on this host the container does not start")
                yield fail(word, seen, verbatim("--runtime runc"))


def _find_missing_control_node(container: ScriptContainer, words: list[ShellWord]) -> Iterator[Remark]:
    runtime = any(word.text == VENDOR.runtime for word in container.list_option_values("--runtime"))
    if runtime or container.has_option("--privileged") or container.may_have_more_options:
        return
    nodes = [word.text.partition(":")[0] for word in words]
    if lacking := [node for node in VENDOR.control_nodes if node not in nodes]:
        seen = _("missing: {lacking}; the container cannot open any XPU", lacking=format_names(lacking))
        yield fail(words[0], seen, verbatim(container.render_option("--device", *lacking)))
