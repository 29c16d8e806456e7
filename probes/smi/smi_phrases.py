"""The error sentences of nvidia-smi, ixsmi, their libraries and the shell: what each means, and what to do.

The narrower meaning stands first, for the first that matches counts.  Meanings come from NVIDIA's NVML return codes,
the driver's README, and the issue threads named.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Phrase:
    """`wording`: a pattern in lower case without blanks; TOOL and LIB stand for the names of the tool and its "
    "library."""

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
        "Stop what uses the GPU (monitoring agents as well) and reset it, or reboot; inside a virtual machine "
        "reboot that.",
        "NVIDIA MIG user guide, enabling MIG mode",
    ),
    Phrase(
        "driver-library-mismatch",
        r"driver/libraryversionmismatch|(?:LIB|nvml)/?rmversionmismatch|apimismatch|undefinedsymbol:(?:nvml|ixml)"
        rf"|{_INIT}functionnotfound",
        "The library that the tool loads and the kernel module that runs are of different versions, as after an "
        "upgrade "
        "of the packages without a reboot.",
        "Reboot, or stop all users of the GPUs and load the module anew; then hold the driver's packages at one "
        "version.",
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
        r"couldn'tfind(?:the)?(?:lib|nvml\.dll)|errorwhileloadingsharedlibrar|cannotopensharedobjectfile|sharedlibrarynotfound"
        r"|lib(?:nvidia-ml|ixml)[\w.-]{0,20}(?:librar(?:y|ies))?(?:was|is|could)?(?:not|n't)(?:be)?(?:found|installed|loaded)"
        rf"|{_INIT}(?:nvml|ixml)?librarynotfound|unabletolocate(?:the)?(?:nvml|ixml|lib)",
        "The tool is there, but the loader finds no management library beside it.",
        "In a container start it with the vendor's runtime, so that the host's libraries are mounted; on a host "
        "put the "
        "driver's (CoreX: /usr/local/corex/lib64) library folder on the loader's path and run ldconfig, or reinstall.",
        "NVML_ERROR_LIBRARY_NOT_FOUND",
    ),
    Phrase(
        "permission-denied",
        r"insufficientpermission|nopermission|permissiondenied|do(?:es)?nothave(?:sufficient|the)?permission"
        r"|operationnotpermitted"
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
        "Read the kernel log for Xid lines, then reset the GPU or power-cycle the machine; if it comes back look "
        "at power, "
        "heat, risers and seating.",
        "NVML_ERROR_GPU_IS_LOST, NVML_ERROR_RESET_REQUIRED",
    ),
    Phrase(
        "device-not-initialised",
        rf"{_INIT}uninitialized|(?:device|gpu|LIB)(?:is|was)(?:not|un)(?:been)?initiali[sz]ed",
        "The management library or the device was not brought up.",
        "Read the kernel log for what the driver said while it brought up the device, then load the driver anew "
        "or reboot.",
        "NVML_ERROR_UNINITIALIZED",
    ),
    Phrase(
        "container-lost-devices",
        rf"{_INIT}unknownerror",
        "The library cannot open the device nodes; in a running container, which lost them when systemd renewed "
        "the rules "
        "of its cgroup, while the host still sees all.",
        "Start the container anew; for good create the /dev/char links of the nodes, inject the devices by CDI, or use "
        "the cgroupfs driver.",
        "NVIDIA/nvidia-container-toolkit#48",
    ),
    Phrase(
        "tool-not-found",
        r"TOOL(?:\.exe)?['\"`’]?:?(?:command)?notfound|commandnotfound:?['\"`]?TOOL"
        r"|command['\"`]TOOL['\"`](?:is)?notfound"
        r"|TOOL['\"`]?(?:\.exe['\"`]?)?:?isnotrecogni[sz]edas|theterm['\"`]TOOL|TOOL['\"`]:executablefilenotfound"
        r"|noTOOLin\("
        r"|TOOL(?:\.exe)?['\"`]?:?(?:cannotaccess[^:]{0,80}:)?nosuchfileordirectory|unabletofindTOOL"
        r"|unknowncommand:?['\"`]?TOOL"
        r"|TOOL['\"`]?(?:was|is)?not(?:be)?(?:found|installed)|couldnotfind(?:the)?(?:command)?['\"`]?TOOL",
        "No such program on the PATH: the driver's utilities are missing, or the container was started without the "
        "vendor's runtime.",
        "Install the utilities that belong to the driver (ixsmi: add the bin folder of CoreX to the PATH), or "
        "start the "
        "container with its devices requested.",
    ),
    Phrase(
        "driver-not-loaded",
        r"couldn'tcommunicatewiththe|drivernotloaded|driver(?:is|was)not(?:loaded|installed|running)|kernelmodule(?:is|was)?not"
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
        r"nodevices?(?:was|were)?(?:found|detected|available)"
        r"|no(?:nvidia|iluvatar|supported)?gpus?(?:was|were|device)?s?"
        r"(?:found|detected|available)|nosuchdevice|nogpudevice|nocuda-capabledevice"
        r"|nomig(?:-supported|-capable|-enabled)?devices?(?:was|were)?found",
        "The driver runs but has brought up no device.",
        "Read the kernel log for the driver's lines (RmInitAdapter failed, a BAR without address); look at Above 4G "
        "Decoding in the firmware's settings and at the passthrough of a virtual machine.",
    ),
    Phrase(
        "device-busy",
        r"inusebyanother|currentlybeingusedby|isbeingusedby|currentlyinuse|deviceorresourcebusy|deviceisbusy"
        r"|primarygpu",
        "Another process holds the device, so that it cannot be reset or switched.",
        "Find and stop it (fuser -v on the device nodes; monitoring agents and the display server as well), then "
        "ask again.",
        "NVML_ERROR_IN_USE",
    ),
    Phrase(
        "bad-query",
        r"isnotavalidfield|gpuidisnotvalid|notavalid(?:gpu|option|argument|value|index|query)|option\S{1,60}isnotrecogni[sz]ed"
        r"|(?:unrecogni[sz]ed|invalid|unknown|illegal)(?:option|argument|parameter|field|combination|command|switch|gpu)"
        r"|nomatchinggpu|TOOL-h'|nogpuwith|requiresanargument|missingargument|invalid(?:device)?index",
        "The command line was not understood, and nothing was printed.",
        "Ask for fields and options that the help of this very version lists (--help-query-gpu): they are "
        "renamed between "
        "drivers; write values with '='.",
        "NVML_ERROR_INVALID_ARGUMENT",
    ),
    Phrase(
        "unsupported-query",
        r"(?:is|are)notsupported|notsupportedfor|notsupportedon|notsupportedonthedevice|mode\.notsupported|:notsupported|notsupportedby|unsupported"
        r"|isn'tsupported",
        "This device or this mode of it does not offer what was asked.",
        "Leave the question out for this device, or ask it outside of MIG and virtual modes.",
        "NVML_ERROR_NOT_SUPPORTED",
    ),
)
