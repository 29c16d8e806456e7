"""Error messages of nvidia-smi, ixsmi, their libraries and the shell: meaning and fix.

Narrower meanings come first, because the first match wins.  The meanings are from NVIDIA's NVML return codes, the
driver's README, and the linked issues.
"""

from __future__ import annotations

from dataclasses import dataclass

from envcheck.core.messages import Message, _


@dataclass(frozen=True)
class ErrorPhrase:
    """`wording` is a lower-case pattern without blanks; TOOL and LIB are placeholders for the tool and its library."""

    category: str
    wording: str
    meaning: Message
    fix: Message
    source: str = ""


# Each error message, without blanks, contains one of these; tested before the patterns.
SIGNS = ("not", "n't", "found", "fail", "unableto", "nodevice", "nogpu", "noxpu", "nocuda", "nomig", "nomatching",
         "nosuch", "permission", "root", "superuser", "sudo", "administrator", "elevated", "lost", "fallen", "reset",
         "reboot", "issuewith", "initiali", "pending", "mismatch", "undefined", "blocked", "errorwhile", "loadthe",
         "detected", "available", "inuse", "beingused", "busy", "primary", "unrecogni", "invalid", "unknown", "illegal",
         "requires", "missing", "unsupported", "abnormal", "formaterror", "-h'", "in(", "theterm", "reconhecido",
         "reconoce", "estpas", "istentweder", "命令", "没有", "权限", "拒绝")  # fmt: skip
_INIT = r"failedto(?:properly)?(?:initialize|initialise|init|shutdown)(?:LIB):?"

PHRASES = (
    ErrorPhrase(
        "mig-pending",
        r"migmodeisin(?:a)?pending",
        _("The MIG mode change is pending: the GPU is in use, or this host is not allowed to reset it."),
        _(
            "Stop all processes that use the GPU (including monitoring agents) and reset it, or "
            "reboot. In a virtual machine, reboot the virtual machine."
        ),
        "NVIDIA MIG user guide, enabling MIG mode",
    ),
    ErrorPhrase(
        "driver-library-mismatch",
        r"driver/libraryversionmismatch|(?:LIB|nvml)/?rmversionmismatch|apimismatch|undefinedsymbol:(?:nvml|ixml)"
        rf"|{_INIT}functionnotfound",
        _(
            "The driver library and the loaded kernel module have different versions, for example "
            "after a package upgrade without a reboot."
        ),
        _(
            "Reboot, or stop all processes that use the GPUs and reload the module. Then pin the "
            "driver packages to one version."
        ),
        "NVML_ERROR_LIB_RM_VERSION_MISMATCH",
    ),
    ErrorPhrase(
        "device-blocked",
        r"blockedbytheoperatingsystem",
        _("The operating system blocks GPU access in this environment, as in WSL and some sandboxes."),
        _(
            "In WSL, update the Windows driver and WSL (wsl --update), then restart WSL (wsl "
            "--shutdown). Do not install a Linux driver inside WSL."
        ),
        "NVML_ERROR_OPERATING_SYSTEM",
    ),
    ErrorPhrase(
        "library-not-found",
        r"couldn'tfind(?:the)?(?:lib|nvml\.dll)|errorwhileloadingsharedlibrar|cannotopensharedobjectfile|sharedlibrarynotfound"
        r"|lib(?:nvidia-ml|ixml)[\w.-]{0,20}(?:librar(?:y|ies))?(?:was|is|could)?(?:not|n't)(?:be)?(?:found|installed|loaded)"
        rf"|{_INIT}(?:nvml|ixml)?librarynotfound|unabletolocate(?:the)?(?:nvml|ixml|lib)",
        _("The tool is installed, but the loader cannot find its management library."),
        _(
            "In a container, start it with the vendor's runtime, which mounts the host libraries. On "
            "a host, add the driver's library directory (CoreX: /usr/local/corex/lib64) to the "
            "loader path and run ldconfig, or reinstall the driver."
        ),
        "NVML_ERROR_LIBRARY_NOT_FOUND",
    ),
    ErrorPhrase(
        "permission-denied",
        r"insufficientpermission|nopermission|permissiondenied(?!\(publickey)"
        r"|do(?:es)?nothave(?:sufficient|the)?permission|operationnotpermitted"
        r"|youarenot:?a?\)?runningasanadministrator|requires?root|mustberoot|(?:need|have)tobe(?:the)?root|asroot|rootprivilege"
        r"|superuser|(?:only|by)(?:the)?root|root(?:user|access|rights)|(?:again|run|itwith|commandwith|using)(?:with)?sudo"
        r"|(?:asan?|needs?|requires?)administrator|administrator(?:rights|privilege)|elevated(?:rights|privilege)",
        _("This user or container has no access to the device nodes or counters."),
        _(
            "Run as root, or add the user to the group of the device nodes. For rootless containers, "
            "regenerate the CDI specification; under SELinux, allow container_use_devices."
        ),
        "NVML_ERROR_NO_PERMISSION",
    ),
    ErrorPhrase(
        "device-lost",
        r"gpuislost|fallenoffthebus|gpurequiresreset|requiresareset|rebootthesystemtorecover"
        r"|resetrequired|unabletodeterminethedevicehandle(?![\w:.]{0,40}:(?:not(?:found|supported)|inuseby|invalid|uninit))"
        r"|gpuhasbeenlost|issuewithgpuinterrupts",
        _("A GPU no longer responds on the PCI bus, usually after a fatal Xid (79)."),
        _(
            "Check the kernel log for Xid lines, then reset the GPU or power-cycle the host. If "
            "the error recurs, check power, cooling, risers and seating."
        ),
        "NVML_ERROR_GPU_IS_LOST, NVML_ERROR_RESET_REQUIRED",
    ),
    ErrorPhrase(
        "device-not-initialised",
        rf"{_INIT}uninitialized|devicehandle[\w:.]{{0,40}}:uninitialized"
        r"|(?:device|gpu|LIB)(?:is|was)(?:not|un)(?:been)?initiali[sz]ed",
        _("The management library or the device failed to initialize."),
        _("Check the kernel log for driver messages from device initialization, then reload the driver or reboot."),
        "NVML_ERROR_UNINITIALIZED",
    ),
    ErrorPhrase(
        "container-lost-devices",
        rf"{_INIT}unknownerror",
        _(
            "The library cannot open the device nodes. In a running container, this happens when "
            "systemd reloads the cgroup rules; the host still sees all devices."
        ),
        _(
            "Restart the container. For a permanent fix, create the /dev/char links of the device "
            "nodes, inject the devices with CDI, or use the cgroupfs driver."
        ),
        "NVIDIA/nvidia-container-toolkit#48",
    ),
    ErrorPhrase(
        "tool-not-found",
        r"TOOL(?:\.exe)?['\"`’]?:?(?:command)?notfound|commandnotfound:?['\"`]?TOOL"
        r"|command['\"`]TOOL['\"`](?:is)?notfound"
        # the same of Windows in Portuguese, Spanish, French and German, whose letters a wrong encoding may have lost
        r"|TOOL(?:\.exe)?['\"`]?(?:n\S{1,3}o\S{1,3}reconhecido|nosereconocecomo|n'estpasreconnu|istentwederfalsch)"
        r"|TOOL['\"`]?(?:\.exe['\"`]?)?:?isnotrecogni[sz]edas|theterm['\"`]TOOL|TOOL['\"`]:executablefilenotfound"
        r"|noTOOLin\("
        r"|TOOL(?:\.exe)?['\"`]?:?(?:cannotaccess[^:]{0,80}:)?['\"]?nosuchfileordirectory|unabletofindTOOL"
        r"|unknowncommand:?['\"`]?TOOL"
        r"|TOOL['\"`]?(?:was|is)?not(?:be)?(?:found|installed)|couldnotfind(?:the)?(?:command)?['\"`]?TOOL",
        _(
            "The program is not on PATH: the driver utilities are missing, or the container was "
            "started without the vendor's runtime."
        ),
        _(
            "Install the driver's utilities (ixsmi: add CoreX's bin directory to PATH), or start the "
            "container with the devices."
        ),
    ),
    ErrorPhrase(
        "driver-not-loaded",
        r"couldn'tcommunicatewiththe|drivernotloaded|driver(?:is|was)not(?:loaded|installed|running)|kernelmodule(?:is|was)?not"
        r"|couldnotopenthedevicefile|modulenvidianotfound|module(?:iluvatar|bi_driver)notfound|loadthekernelmodule"
        rf"|TOOLhasfailedbecause|{_INIT}(?:driver|n/a|not(?!supported)\w|unable)|failtocommunicatewith",
        _(
            "The kernel driver is not loaded or does not respond: not built for this kernel, "
            "rejected by Secure Boot, or another driver has claimed the card."
        ),
        _(
            "Build or reinstall the driver for the running kernel (install kernel headers and dkms "
            "first), then load it or reboot. Under Secure Boot, sign the module."
        ),
        "NVML_ERROR_DRIVER_NOT_LOADED",
    ),
    ErrorPhrase(
        "no-device",
        r"nodevices?(?:was|were)?(?:found|detected|available)"
        r"|no(?:nvidia|iluvatar|supported)?gpus?(?:was|were|device)?s?"
        r"(?:found|detected|available)|nosuchdevice|nogpudevice|nocuda-capabledevice"
        r"|devicehandle[\w:.]{0,40}:notfound|nomig(?:-supported|-capable|-enabled)?devices?(?:was|were)?found",
        _("The driver is loaded, but no device was initialized."),
        _(
            "Check the kernel log for driver messages (RmInitAdapter failed, a BAR without address). "
            "Check Above 4G Decoding in the BIOS settings, and the passthrough settings of a virtual "
            "machine."
        ),
    ),
    ErrorPhrase(
        "device-busy",
        r"inusebyanother|currentlybeingusedby|isbeingusedby|currentlyinuse|deviceorresourcebusy|deviceisbusy"
        r"|primarygpu",
        _("Another process uses the device, which prevents a reset or mode change."),
        _(
            "Find and stop the process (run fuser -v on the device nodes; include monitoring agents "
            "and the display server), then run the command again."
        ),
        "NVML_ERROR_IN_USE",
    ),
    ErrorPhrase(
        "bad-query",
        r"isnotavalidfield|gpuidisnotvalid|notavalid(?:gpu|option|argument|value|index|query)|option\S{1,60}isnotrecogni[sz]ed"
        r"|(?:unrecogni[sz]ed|invalid|unknown|illegal)(?:option|argument|parameter|field|combination|command|switch|gpu)"
        r"|nomatchinggpu|TOOL-h'|nogpuwith|requiresanargument|missingargument|invalid(?:device)?index",
        _("The tool rejected the command line and printed no data."),
        _(
            "Use fields and options listed in the help of this version (--help-query-gpu); names "
            "change between drivers. Write values with '='."
        ),
        "NVML_ERROR_INVALID_ARGUMENT",
    ),
    ErrorPhrase(
        "unsupported-query",
        r"(?:is|are)notsupported|notsupportedfor|notsupportedon|notsupportedonthedevice|mode\.notsupported|:notsupported|notsupportedby|unsupported"
        r"|isn'tsupported",
        _("This device or its current mode does not support the query."),
        _("Skip the query for this device, or run it outside MIG and virtual modes."),
        "NVML_ERROR_NOT_SUPPORTED",
    ),
)
