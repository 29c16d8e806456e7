"""Error sentences of nvidia-smi, ixsmi, their libraries and the shell: what they mean, and what to do.

Matched without blanks, so that wrapped lines match wherever they were broken.  The first that matches counts: the
narrower meaning stands first.  Meanings come from NVIDIA's NVML return codes, the driver's README, and the issue threads
named in `source`.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate

from envcheck.model import Document, ToolError
from probes.smi_paste import Paste

SEARCHED = 256 << 10  # characters: an error is short, what stands around it hardly longer


@dataclass(frozen=True)
class Phrase:
    """`wording`: a pattern in lower case and without blanks; TOOL and LIB stand for the tool's and its library's names."""

    category: str
    wording: str
    meaning: str
    fix: str
    source: str = ""


_INIT = r"failedto(?:properly)?(?:initialize|initialise|init|shutdown)(?:LIB):?"

PHRASES = (
    Phrase(
        "mig-pending",
        r"migmodeisin(?:a)?pending",
        "MIG was switched, but the GPU has not taken it up: something uses it, or this machine may not reset it.",
        "Stop what uses the GPU (monitoring agents as well) and reset it, or reboot; inside a virtual machine reboot that.",
        "NVIDIA MIG user guide, enabling MIG mode",
    ),
    Phrase(
        "driver-library-mismatch",
        r"driver/libraryversionmismatch|(?:LIB|nvml)/?rmversionmismatch|apimismatch|undefinedsymbol:(?:nvml|ixml)"
        rf"|{_INIT}functionnotfound",
        "The library that the tool loads and the kernel module that runs are of different versions, as after an upgrade "
        "of the packages without a reboot.",
        "Reboot, or stop all users of the GPUs and load the module anew; then hold the driver's packages at one version.",
        "NVML_ERROR_LIB_RM_VERSION_MISMATCH",
    ),
    Phrase(
        "device-blocked",
        r"blockedbytheoperatingsystem",
        "The operating system keeps the GPU from this environment; so it is under WSL and in some sandboxes.",
        "Under WSL update the Windows driver and WSL itself (wsl --update), restart it (wsl --shutdown), and do not "
        "install a Linux driver inside.",
        "NVML_ERROR_OPERATING_SYSTEM",
    ),
    Phrase(
        "library-not-found",
        r"couldn'tfind(?:the)?lib|errorwhileloadingsharedlibrar|cannotopensharedobjectfile|sharedlibrarynotfound"
        r"|lib(?:nvidia-ml|ixml)[\w.-]{0,20}(?:librar(?:y|ies))?(?:was|is|could)?(?:not|n't)(?:be)?(?:found|installed|loaded)"
        rf"|{_INIT}(?:nvml|ixml)?librarynotfound|unabletolocate(?:the)?(?:nvml|ixml|lib)",
        "The tool is there, but the loader finds no management library beside it.",
        "In a container start it with the vendor's runtime, so that the host's libraries are mounted; on a host put the "
        "driver's (CoreX: /usr/local/corex/lib64) library folder on the loader's path and run ldconfig, or reinstall.",
        "NVML_ERROR_LIBRARY_NOT_FOUND",
    ),
    Phrase(
        "permission-denied",
        r"insufficientpermission|nopermission|permissiondenied|do(?:es)?nothave(?:sufficient|the)?permission|operationnotpermitted"
        r"|youarenot:?a?\)?runningasanadministrator|requires?root|mustberoot|needtoberoot|runasroot|rootprivilege",
        "The device nodes or counters are not open to this user or container.",
        "Run as root, or give the user the group of the device nodes; in rootless containers regenerate the CDI "
        "specification, under SELinux allow container_use_devices.",
        "NVML_ERROR_NO_PERMISSION",
    ),
    Phrase(
        "device-lost",
        r"gpuislost|fallenoffthebus|gpurequiresreset|requiresareset|rebootthesystemtorecover"
        r"|unabletodeterminethedevicehandle|gpuhasbeenlost|issuewithgpuinterrupts",
        "A GPU no longer answers on the bus, mostly after a fatal Xid (79).",
        "Read the kernel log for Xid lines, then reset the GPU or power-cycle the machine; if it comes back look at power, "
        "heat, risers and seating.",
        "NVML_ERROR_GPU_IS_LOST, NVML_ERROR_RESET_REQUIRED",
    ),
    Phrase(
        "device-not-initialised",
        rf"{_INIT}uninitialized|(?:device|gpu|LIB)(?:is|was)(?:not|un)(?:been)?initiali[sz]ed",
        "The management library or the device was not brought up.",
        "Read the kernel log for what the driver said while it brought up the device, then load the driver anew or reboot.",
        "NVML_ERROR_UNINITIALIZED",
    ),
    Phrase(
        "container-lost-devices",
        rf"{_INIT}unknownerror",
        "The library cannot open the device nodes; in a running container, which lost them when systemd renewed the rules "
        "of its cgroup, while the host still sees all.",
        "Start the container anew; for good create the /dev/char links of the nodes, inject the devices by CDI, or use "
        "the cgroupfs driver.",
        "NVIDIA/nvidia-container-toolkit#48",
    ),
    Phrase(
        "tool-not-found",
        r"TOOL(?:\.exe)?['\"`’]?:?(?:command)?notfound|commandnotfound:?['\"`]?TOOL|command['\"`]TOOL['\"`](?:is)?notfound"
        r"|TOOL['\"`]?(?:\.exe['\"`]?)?:?isnotrecogni[sz]edas|theterm['\"`]TOOL|TOOL['\"`]:executablefilenotfound|noTOOLin\("
        r"|TOOL(?:\.exe)?['\"`]?:?(?:cannotaccess[^:]{0,80}:)?nosuchfileordirectory|unabletofindTOOL|unknowncommand:?['\"`]?TOOL"
        r"|TOOL['\"`]?(?:was|is)?not(?:be)?(?:found|installed)|couldnotfind(?:the)?(?:command)?['\"`]?TOOL",
        "No such program on the PATH: the driver's utilities are missing, or the container was started without the "
        "vendor's runtime.",
        "Install the utilities that belong to the driver (ixsmi: add the bin folder of CoreX to the PATH), or start the "
        "container with its devices requested.",
    ),
    Phrase(
        "driver-not-loaded",
        r"couldn'tcommunicatewiththe|drivernotloaded|driver(?:is|was)not(?:loaded|installed|running)|kernelmodulenot"
        r"|couldnotopenthedevicefile|modulenvidianotfound|module(?:iluvatar|bi_driver)notfound|loadthekernelmodule"
        rf"|TOOLhasfailedbecause|{_INIT}(?:driver|n/a|not\w|unable)|failtocommunicatewith",
        "The kernel driver is not loaded or does not answer: never built for this kernel, refused by Secure Boot, or "
        "another driver holds the card.",
        "Build or reinstall the driver for the running kernel (kernel headers and dkms first), then load it or reboot; "
        "under Secure Boot sign it.",
        "NVML_ERROR_DRIVER_NOT_LOADED",
    ),
    Phrase(
        "no-device",
        r"nodevices?(?:was|were)?(?:found|detected|available)|no(?:nvidia|iluvatar|supported)?gpus?(?:was|were|device)?s?"
        r"(?:found|detected|available)|nosuchdevice|nogpudevice|nocuda-capabledevice",
        "The driver runs but has brought up no device.",
        "Read the kernel log for the driver's lines (RmInitAdapter failed, a BAR without address); look at Above 4G "
        "Decoding in the firmware's settings and at the passthrough of a virtual machine.",
    ),
    Phrase(
        "device-busy",
        r"inusebyanother|currentlybeingusedby|isbeingusedby|currentlyinuse|deviceorresourcebusy|deviceisbusy|primarygpu",
        "Another process holds the device, so that it cannot be reset or switched.",
        "Find and stop it (fuser -v on the device nodes; monitoring agents and the display server as well), then ask again.",
        "NVML_ERROR_IN_USE",
    ),
    Phrase(
        "bad-query",
        r"isnotavalidfield|notavalid(?:gpu|option|argument|value|index|query)|option\S{1,60}isnotrecogni[sz]ed"
        r"|(?:unrecogni[sz]ed|invalid|unknown|illegal)(?:option|argument|parameter|field|combination|command|switch|gpu)"
        r"|nomatchinggpu|TOOL-h'|nogpuwith|requiresanargument|missingargument|invalid(?:device)?index",
        "The command line was not understood, and nothing was printed.",
        "Ask for fields and options that the help of this very version lists (--help-query-gpu): they are renamed between "
        "drivers; write values with '='.",
        "NVML_ERROR_INVALID_ARGUMENT",
    ),
    Phrase(
        "unsupported-query",
        r"(?:is|are)notsupported|notsupportedfor|notsupportedon|:notsupported|notsupportedby|unsupported|isn'tsupported",
        "This device or this mode of it does not offer what was asked.",
        "Leave the question out for this device, or ask it outside of MIG and virtual modes.",
        "NVML_ERROR_NOT_SUPPORTED",
    ),
)  # fmt: skip

_RESULT = re.compile(
    r":\s*(?:insufficient permissions|unknown error|gpu is lost|not supported|driver not loaded|invalid argument"
    r"|gpu requires reset|in use by another)",
    re.IGNORECASE,
)
# A sentence that any program may print counts only beside a name of ours.
_OURS = re.compile(r"nvidia|nvml|ixsmi|ixml|ix-ml|iluvatar|corex|gpu|cuda|devices?(?:were)?found|mig|query|\bfield")


def parse(paste: Paste) -> Document | None:
    found = find(paste)
    return Document(paste.tool.name, "error", error=found) if found else None


def is_nvml_result(line: str) -> bool:
    return bool(_RESULT.search(line))


def find(paste: Paste) -> ToolError | None:
    """The complaint that this text makes, if it makes one."""
    lines = "\n".join(paste.lines)[:SEARCHED].split("\n")
    squeezed = ["".join(line.lower().split()).replace("’", "'") for line in lines]
    text = "".join(squeezed)
    if not _OURS.search(text):
        return None
    starts = list(accumulate(map(len, squeezed), initial=0))
    for phrase in PHRASES:
        if found := re.search(_wording(phrase, paste), text):
            first, last = bisect_right(starts, found.start()) - 1, bisect_right(starts, found.end() - 1) - 1
            message = " ".join(" ".join(lines[first : last + 1]).split())[:1000]
            return ToolError(phrase.category, None, message, phrase.meaning, phrase.fix)
    return None


def _wording(phrase: Phrase, paste: Paste) -> str:
    return phrase.wording.replace("TOOL", re.escape(paste.tool.name)).replace("LIB", paste.tool.management)
