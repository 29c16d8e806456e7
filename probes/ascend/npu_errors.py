"""What npu-smi, hccn_tool and the loader say when there is no answer: wording → category, meaning, what to do.

The order is from the cause to the consequence: the first sentence that is found decides.  Sources: npu-smi's published
source (github.com/hicann/driver) for its sentences and the numbers after "ret is"; for their causes
vllm-project/vllm-ascend#2698 (-8005), Ascend/cann-container-image#46 (-8020), Project-HAMi/HAMi#615 (loader).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from envcheck.core.model import Document, ToolError
from probes.ascend.npu_page import TOOL, Page

_CODE = re.compile(r"\bret(?:urn)?(?: value| code)? is:? {0,4}(-?\d{1,9})", re.IGNORECASE)
_LONGEST = 1 << 18  # characters among which a complaint is looked for
# A sentence counts only where it speaks of our parts: "permission denied" alone may come from anything.
_OURS = re.compile(
    r"npu|hccn|dcmi|dsmi|ascend|davinci|\bdevice|\bcard\b|\bchip\b|drv|\bret is\b|error parameter|\.so\b|driver|ipconf"
    r"|\bip\b|link|netdetect|gateway|optical|must input|failed to query|this command|this operation|operation is not"
    r"|command or option|hwhiai"
)
# One of these stands in every complaint: asked of the whole text before the wordings are.
_SIGNS = ("fail", "not", "no ", "error", "denied", "invalid", "busy", "occupied", "in use", "root", "super",
          "usage:", "unknown", "unrecognized", "unsupported", "insufficient", "missing", "must input", "can't",
          "completely", "ret is", "used", "未找到", "权限")  # fmt: skip


@dataclass(frozen=True)
class Complaint:
    """A wording that the tools use, in small letters, and what it means."""

    wording: str
    category: str
    meaning: str
    fix: str

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Made when something is wrong: it takes 10 ms for all of them."""
        return re.compile(self.wording)


WARNING = Complaint(
    r"driver package may not be completely installed|driver .{0,40}(?:incomplete|not (?:be )?complete)",
    "incomplete-driver",
    "the driver package does not say in /etc/ascend_install.info that it is completely installed",
    "install the driver package again as root; in a container, mount /etc/ascend_install.info",
)
COMPLAINTS = (
    Complaint(
        r"error while loading shared libraries|cannot open shared object file|can\s?not found? valid driver lib"
        r"|lib path is invalid|(?:dlopen|load) .{0,80}\.so.{0,40}fail",
        "library-not-found",
        "the loader cannot find (or does not trust) the driver's libraries; the tool itself is there",
        "mount the driver and put /usr/local/Ascend/driver/lib64/common and .../lib64/driver into LD_LIBRARY_PATH",
    ),
    Complaint(
        r"\bis used\b|(?:device|tool) is (?:busy|occupied|in use)|resource (?:is )?(?:busy|occupied)|in use by"
        r"|(?:been|being|already) (?:used|occupied)",
        "device-busy",
        "somebody else holds the card: another container, or a process outside",
        "stop the container or process that holds the card, or choose a free card",
    ),
    Complaint(
        r"dcmi .{0,20}\b(?:init\w*|load\w*).{0,40}fail|fail\w* to init\w* .{0,20}dcmi|dcmi_init.{0,20}fail"
        r"|dsmi .{0,20}init.{0,40}fail",
        "dcmi-init-failed",
        "the driver's interface does not come up for this caller: the card is held by another container, a device node "
        "or right is missing, or the driver is not loaded; it does not prove that there is no NPU",
        "try as root on the host; in a container check /dev/davinci*, /dev/davinci_manager, /dev/devmm_svm, "
        "/dev/hisi_hdc and the driver's mounts; after an upgrade of driver or firmware, reboot",
    ),
    Complaint(
        r"command not found|(?:npu-smi|hccn_tool): not found|(?:npu-smi|hccn_tool).{0,60}no such file or directory"
        r"|executable file not found|is not recognized as an internal|未找到命令|命令未找到",
        "tool-not-found",
        "the tool is not on this machine, or not on PATH",
        "install the driver package; in a container, mount npu-smi (/usr/local/bin or /usr/local/sbin) and the driver",
    ),
    Complaint(
        r"permission denied|operation not permitted|not permitted|no permission|permission is denied|insufficient"
        r" (?:permission|privilege)|(?:root|super)\s?user|root (?:permission|privilege|right)|as root\b|权限不够"
        r"|not in .{0,40}\bgroup\b",
        "permission-denied",
        "the caller may not ask this: the devices, or the tool, are for root or for the driver's group",
        "ask as root, or add the user to the driver's group (HwHiAiUser) and log in again",
    ),
    Complaint(
        r"there is no (?:npu|chip|card|davinci)|no (?:npu|ascend|davinci)[ -](?:card|chip|device)s?\b"
        r"|can(?:'t| ?not) find (?:any )?(?:device|npu|chip|card)|no such device|no (?:chip|card) (?:was )?found"
        r"|/dev/davinci\S{0,12}.{0,4}no such file|no (?:npu )?devices? (?:were |was )?found"
        r"|(?:card|device|npu|chip)(?: id)?[ \w]{0,20} (?:is|does) not exist",
        "no-device",
        "the tool answers, but finds no such card",
        "look for Huawei accelerators with lspci; if they are there, load or install the driver; in a container, give "
        "it a device",
    ),
    Complaint(
        r"not support|unsupported|cannot be (?:executed|used|run) (?:on|in)|\bret(?: is|[:=]) ?-(?:8255|8013)\b",
        "unsupported-query",
        "this chip, or this place (container, virtual machine), has no such query",
        "none needed: skip the query",
    ),
    Complaint(
        r"error parameter|invalid (?:parameter|option|argument|command|input)"
        r"|(?:parameter|option|argument).{0,30}(?:invalid|error|missing)|must input parameter"
        r"|^\s*usage:|unknown (?:option|command|type)|unrecognized"
        r"|(?:command|option|parameter) (?:or option )?is not found",
        "bad-query",
        "the tool does not know this way of asking",
        "read `npu-smi info -h` (or `hccn_tool -h`) for the types and options that this version knows",
    ),
    Complaint(
        r"no ip was preset|(?:ip|ipconf|gateway|netdetect|route|netmask)\b.{0,40}"
        r"(?:not (?:been )?(?:set|configured|preset|exist)|no .{0,20}preset)"
        r"|get (?:ipconf|ip|gateway|netdetect|netmask)\w* failed|fail\w* to get (?:ip|gateway|netdetect|netmask)"
        r"|no (?:gateway|netdetect)|/etc/hccn\.conf.{0,4}: no such file",
        "network-not-configured",
        "the network port of this NPU has no address (or no such setting) yet",
        "set one: hccn_tool -i N -ip -s address A netmask M, or fill /etc/hccn.conf",
    ),
    WARNING,
    Complaint(
        r"ascend/(?:driver|firmware)/\S{0,80}: no such file",
        "driver-not-loaded",
        "the driver is not installed here, or not where it is looked for",
        "install the driver package; in a container, mount /usr/local/Ascend/driver",
    ),
    Complaint(
        r"drvmnggetconsoleloglevel failed",  # comes before the real complaint; alone where that was not pasted
        "dcmi-init-failed",
        "the driver does not answer this caller",
        "run the whole command again and read the line after this one; try as root on the host",
    ),
    Complaint(
        r"(?:failed to query|query .{0,40}fail|get .{0,60}fail|fail(?:ed)? to (?:get|open|read)|device .{0,20}not ready"
        r"|(?:drv|hal|dcmi|dsmi)\w* .{0,40}fail|not initiali[sz]ed|(?:open|init\w*) device .{0,20}fail|\bret is -\d)",
        "device-not-initialised",
        "the query reached no device that answers",
        "look at dmesg and the driver's log; reset the card or reboot, then ask again",
    ),
)


def read(page: Page) -> Document | None:
    """The document of kind `error`, or None where nothing complains."""
    text = page.body if len(page.body) < _LONGEST else page.body[:_LONGEST]
    lowered = text.lower()
    if not any(sign in lowered for sign in _SIGNS):
        return None
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    for complaint in COMPLAINTS:
        if not complaint.pattern.search(lowered):
            continue
        if line := next((line for line in lines if _complains(complaint, line.lower(), page.command)), None):
            return Document(tool=TOOL, kind="error", error=_error(complaint, line, text))
    return None


def _complains(complaint: Complaint, line: str, command: str) -> bool:
    return bool(complaint.pattern.search(line) and (command or _OURS.search(line)))


def _error(complaint: Complaint, line: str, text: str) -> ToolError:
    """The code is the number after "ret is": on the line itself, else anywhere."""
    code = _CODE.search(line) or _CODE.search(text)
    return ToolError(complaint.category, int(code[1]) if code else None, line[:400], complaint.meaning, complaint.fix)


def warning(page: Page) -> ToolError | None:
    """The tool's own warning below a table that is otherwise whole."""
    if not page.has("WARNING", "completely"):
        return None
    line = next((line.strip() for line in page.lines if WARNING.pattern.search(line.lower())), None)
    return _error(WARNING, line, line) if line else None
