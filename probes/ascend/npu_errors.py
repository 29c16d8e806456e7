"""Error messages of npu-smi, hccn_tool and the loader: wording → category, meaning, fix.

They are ordered from cause to consequence; the first match wins.  Sources: npu-smi's published source
(github.com/hicann/driver) for the messages and the codes after "ret is"; for their causes vllm-project/vllm-ascend#2698
(-8005), Ascend/cann-container-image#46 (-8020), Project-HAMi/HAMi#615 (loader).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from envcheck.core.messages import Message, _
from envcheck.core.model import Document, ToolError
from probes.ascend.npu_page import TOOL, OutputPage

_CODE = re.compile(r"\bret(?:urn)?(?: value| code)? is:? {0,4}(-?\d{1,9})", re.IGNORECASE)
_LONGEST = 1 << 18  # characters that are searched for an error
# A message counts only if it mentions one of these: "permission denied" alone can come from any program.
_OURS = re.compile(
    r"npu|hccn|dcmi|dsmi|ascend|davinci|\bdevice|\bcard\b|\bchip\b|drv|\bret is\b|error parameter|\.so\b|driver|ipconf"
    r"|\bip\b|link|netdetect|gateway|optical|must input|failed to query|this command|this operation|operation is not"
    r"|command or option|hwhiai"
)
# Each error message contains one of these; tested before the patterns.
_SIGNS = ("fail", "not", "no ", "error", "denied", "invalid", "busy", "occupied", "in use", "root", "super",
          "usage:", "unknown", "unrecognized", "unsupported", "insufficient", "missing", "must input", "can't",
          "completely", "ret is", "used", "未找到", "权限")  # fmt: skip


@dataclass(frozen=True)
class Complaint:
    """An error message of the tools as a lower-case pattern, and what it means."""

    wording: str
    category: str
    meaning: Message
    fix: Message

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The compiled pattern, on first use: compiling all of them takes 10 ms."""
        return re.compile(self.wording)


WARNING = Complaint(
    r"driver package may not be completely installed|driver .{0,40}(?:incomplete|not (?:be )?complete)",
    "incomplete-driver",
    _("/etc/ascend_install.info does not record a complete driver installation."),
    _("Reinstall the driver package as root. In a container, mount /etc/ascend_install.info."),
)
COMPLAINTS = (
    Complaint(
        r"error while loading shared libraries|cannot open shared object file|can\s?not found? valid driver lib"
        r"|lib path is invalid|(?:dlopen|load) .{0,80}\.so.{0,40}fail",
        "library-not-found",
        _("The tool is installed, but the loader cannot find (or does not trust) the driver libraries."),
        _("Mount the driver, and add /usr/local/Ascend/driver/lib64/common and .../lib64/driver to LD_LIBRARY_PATH."),
    ),
    Complaint(
        r"\bis used\b|(?:device|tool) is (?:busy|occupied|in use)|resource (?:is )?(?:busy|occupied)|in use by"
        r"|(?:been|being|already) (?:used|occupied)",
        "device-busy",
        _("The card is in use by another container, or by a process outside this container."),
        _("Stop the container or process that uses the card, or choose a free card."),
    ),
    Complaint(
        r"dcmi .{0,20}\b(?:init\w*|load\w*).{0,40}fail|fail\w* to init\w* .{0,20}dcmi|dcmi_init.{0,20}fail"
        r"|dsmi .{0,20}init.{0,40}fail",
        "dcmi-init-failed",
        _(
            "The driver interface failed to initialize for this user: another container uses the "
            "card, a device node or permission is missing, or the driver is not loaded. This does "
            "not prove that there is no NPU."
        ),
        _(
            "Run the command as root on the host. In a container, check /dev/davinci*, "
            "/dev/davinci_manager, /dev/devmm_svm, /dev/hisi_hdc and the driver mounts. After a "
            "driver or firmware upgrade, reboot."
        ),
    ),
    Complaint(
        r"command not found|(?:npu-smi|hccn_tool): not found|(?:npu-smi|hccn_tool).{0,60}no such file or directory"
        r"|executable file not found|is not recognized as an internal|未找到命令|命令未找到",
        "tool-not-found",
        _("The tool is not installed, or not on PATH."),
        _(
            "Install the driver package. In a container, mount npu-smi (/usr/local/bin or "
            "/usr/local/sbin) and the driver."
        ),
    ),
    Complaint(
        r"permission denied(?! \(publickey)|operation not permitted|not permitted|no permission|permission is denied"
        r"|insufficient (?:permission|privilege)|(?:root|super)\s?user|root (?:permission|privilege|right)|as root\b"
        r"|权限不够|not in .{0,40}\bgroup\b",
        "permission-denied",
        _("Permission denied: the devices or the tool require root or the driver's group."),
        _("Run as root, or add the user to the driver's group (HwHiAiUser) and log in again."),
    ),
    Complaint(
        r"there is no (?:npu|chip|card|davinci)|no (?:npu|ascend|davinci)[ -](?:card|chip|device)s?\b"
        r"|can(?:'t| ?not) find (?:any )?(?:device|npu|chip|card)|no such device|no (?:chip|card) (?:was )?found"
        r"|/dev/davinci\S{0,12}.{0,4}no such file|no (?:npu )?devices? (?:were |was )?found"
        r"|(?:card|device|npu|chip)(?: id)?[ \w]{0,20} (?:is|does) not exist",
        "no-device",
        _("The tool works, but finds no such card."),
        _(
            "Check for Huawei accelerators with lspci. If lspci lists them, load or install the "
            "driver. In a container, pass a device to it."
        ),
    ),
    Complaint(
        r"not support|unsupported|cannot be (?:executed|used|run) (?:on|in)|\bret(?: is|[:=]) ?-(?:8255|8013)\b",
        "unsupported-query",
        _("This chip or environment (container, virtual machine) does not support the query."),
        _("Skip the query; no action is required."),
    ),
    Complaint(
        r"error parameter|invalid (?:parameter|option|argument|command|input)"
        r"|(?:parameter|option|argument).{0,30}(?:invalid|error|missing)|must input parameter"
        r"|^\s*usage:|unknown (?:option|command|type)|unrecognized"
        r"|(?:command|option|parameter) (?:or option )?is not found",
        "bad-query",
        _("The tool does not support these options."),
        _("Run `npu-smi info -h` (or `hccn_tool -h`) to list the types and options that this version supports."),
    ),
    Complaint(
        r"no ip was preset|(?:ip|ipconf|gateway|netdetect|route|netmask)\b.{0,40}"
        r"(?:not (?:been )?(?:set|configured|preset|exist)|no .{0,20}preset)"
        r"|get (?:ipconf|ip|gateway|netdetect|netmask)\w* failed|fail\w* to get (?:ip|gateway|netdetect|netmask)"
        r"|no (?:gateway|netdetect)|/etc/hccn\.conf.{0,4}: no such file",
        "network-not-configured",
        _("The network port of this NPU has no address (or this setting is missing)."),
        _("Set an address: hccn_tool -i N -ip -s address A netmask M, or edit /etc/hccn.conf."),
    ),
    WARNING,
    Complaint(
        r"ascend/(?:driver|firmware)/\S{0,80}: no such file",
        "driver-not-loaded",
        _("The driver is not installed, or not in the expected location."),
        _("Install the driver package. In a container, mount /usr/local/Ascend/driver."),
    ),
    Complaint(
        r"drvmnggetconsoleloglevel failed",  # precedes the real error; alone if that was not pasted
        "dcmi-init-failed",
        _("The driver does not respond to this user."),
        _("Run the full command again and read the line after this one. Also run it as root on the host."),
    ),
    Complaint(
        r"(?:failed to query|query .{0,40}fail|get .{0,60}fail|fail(?:ed)? to (?:get|open|read)|device .{0,20}not ready"
        r"|(?:drv|hal|dcmi|dsmi)\w* .{0,40}fail|not initiali[sz]ed|(?:open|init\w*) device .{0,20}fail|\bret is -\d)",
        "device-not-initialised",
        _("No device responded to the query."),
        _("Check dmesg and the driver log. Reset the card or reboot, then run the query again."),
    ),
)


def read_error(page: OutputPage) -> Document | None:
    """Return the document of kind `error`, or None if the text has no error message."""
    text = page.body if len(page.body) < _LONGEST else page.body[:_LONGEST]
    lowered = text.lower()
    if not any(sign in lowered for sign in _SIGNS):
        return None
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    for complaint in COMPLAINTS:
        if not complaint.pattern.search(lowered):
            continue
        if line := next((line for line in lines if _is_complaint(complaint, line.lower(), page.command)), None):
            return Document(tool=TOOL, kind="error", error=_make_error(complaint, line, text))
    return None


def _is_complaint(complaint: Complaint, line: str, command: str) -> bool:
    return bool(complaint.pattern.search(line) and (command or _OURS.search(line)))


def _make_error(complaint: Complaint, line: str, text: str) -> ToolError:
    """Return the error; its code is the number after "ret is" on the line, else anywhere in the text."""
    code = _CODE.search(line) or _CODE.search(text)
    meaning, fix = _clause(complaint.meaning), _clause(complaint.fix)
    return ToolError(complaint.category, int(code[1]) if code else None, line[:400], meaning, fix)


def _clause(sentence: str) -> str:
    """Return the sentence as a clause for documents; `envcheck doctor` makes it a sentence again."""
    return f"{sentence[:1].lower()}{sentence[1:].removesuffix('.')}"


def find_warning(page: OutputPage) -> ToolError | None:
    """Return the tool's own warning below a complete table."""
    if not page.has_any("WARNING", "completely"):
        return None
    line = next((line.strip() for line in page.lines if WARNING.pattern.search(line.lower())), None)
    return _make_error(WARNING, line, line) if line else None
