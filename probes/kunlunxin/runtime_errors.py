"""Error messages that only Kunlunxin's runtime and driver print, and the shell's in Chinese.

[ERROR][XPURT] Initialize default context for dev -1 fail
[WARN][XPURT][xpu_llwait:729] ioctl() fail, (713) Device abnormal due to previous error
bash: xpu_smi: 未找到命令
"""

from __future__ import annotations

import re
from dataclasses import replace

from envcheck.core.messages import _
from envcheck.core.model import Document, ToolError
from probes.smi import error_output
from probes.smi.error_phrases import PHRASES, ErrorPhrase
from probes.smi.pasted_output import PastedOutput

_NO_DEVICE = ErrorPhrase(
    "no-device",
    r"initializedefaultcontextfordev-?\d{1,4}fail",
    _("No Kunlunxin device is found: no card, not on the PCI bus, no driver, or no right to open /dev/xpu*."),
    _("Check the PCI bus, the kernel module kunlun, and the device nodes, in this order."),
    "XRE guide, list of errors",
)
_IN_ERROR = ErrorPhrase(
    "device-lost",
    r"deviceabnormalduetopreviouserror",
    _("A program failed on the card, or was killed inside a kernel, and the driver keeps the card in the state ERROR."),
    _(
        "Stop every process on the card (on a K200, on both devices of the card), then reset it. If the state stays "
        "ERROR, reboot."
    ),
    "XRE guide, list of errors",
)
_OTHER_KERNEL = ErrorPhrase(
    "driver-not-loaded",
    r"kunlun\S{0,20}invalidmoduleformat|kunlun\S{0,20}execformaterror|cannotfindkunlundriverfile",
    _("The package has modules for certain kernels only, or the kernel was updated after the installation."),
    _("Install the driver again for the running kernel, with its headers."),
    "XRE guide",
)
_CHINESE = {
    "tool-not-found": r"TOOL['\"]?:?(?:未找到命令|找不到命令|没有那个文件或目录)|(?:未找到|找不到)命令:?TOOL",
    "permission-denied": r"TOOL:?(?:权限不够|权限被拒绝|拒绝访问)",
}
_SHELL = tuple(
    replace(phrase, wording=_CHINESE[phrase.category], source="") for phrase in PHRASES if phrase.category in _CHINESE
)
OWN_PHRASES = (_NO_DEVICE, _IN_ERROR, _OTHER_KERNEL, *_SHELL)
# Messages of the shell and the loader: they count also where the command is one that only Intel's program has.
_OF_THE_SHELL = {"tool-not-found", "library-not-found", "permission-denied"}
_CODE = re.compile(r"\((7\d\d)\)")


def parse_runtime_error(paste: PastedOutput) -> Document | None:
    """Return the document of kind `error` for a message of the runtime, of the tool or of the shell, or None."""
    found = error_output.find_error(paste, OWN_PHRASES) or error_output.find_error(paste)
    return Document(paste.tool.name, "error", error=_add_code(found)) if found else None


def has_shell_error(paste: PastedOutput) -> bool:
    """Return whether the shell could not start the program."""
    found = error_output.find_error(paste, OWN_PHRASES) or error_output.find_error(paste)
    return found is not None and found.category in _OF_THE_SHELL


def _add_code(error: ToolError) -> ToolError:
    """Return the error with the runtime's number: "ioctl() fail, (713) ..."."""
    code = _CODE.search(error.message)
    return replace(error, code=int(code[1])) if code else error
