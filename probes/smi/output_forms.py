"""How the outputs that nvidia-smi and its followers have in common begin."""

from __future__ import annotations

from probes.paste.output_forms import FirstLine

_FIELDS = (
    r"index|name|uuid|pci\.\w+|gpu_(?:name|uuid|bus_id)|timestamp|driver_version|memory\.\w+|pid|utilization\.\w+"
    r"|temperature\.\w+"
)
_UNIT = r"(?: \[\S{1,8}\])?"
_FIELD_WORDS = (
    *("index", "name", "uuid", "pci.", "gpu_bus_id", "timestamp", "driver_version", "memory.", "pid", "utilization."),
    "temperature.",
)
_ERRORS = (
    r"Failed to initialize NVML|Unable to determine the device handle|Field \".{0,80}\" is not a valid"
    r"|ERROR: Option|No devices were found"
)
_ERROR_WORDS = (
    "Failed to initialize NVML",
    "Unable to determine the",
    "is not a valid",
    "ERROR: Option",
    "No devices were found",
)
SHARED_FORMS = (
    FirstLine("topo", r"\s*GPU0\s+(?:GPU1|NIC\d|mlx5_\d|CPU Affinity)\b|\s+GPU0\s*$", ("GPU0",)),
    FirstLine("list", r"\s*GPU 0: \S.{0,120}\(UUID:", ("GPU 0: ",)),
    FirstLine("monitor", r"\s*#\s*(?:(?:Date|Time)\s+){0,2}gpu\s+\w", ("gpu",), repeats=True),
    FirstLine("reset", r"[#\s]*GPU [0-9A-Fa-f:.]{7,16}\s+was successfully reset", ("fully reset",), repeats=True),
    FirstLine("csv", rf"\s*\"?(?:{_FIELDS})\"?{_UNIT}(?:,\s*\"?[a-z][\w.]*\"?{_UNIT}){{1,300}},?\s*$", _FIELD_WORDS),
    FirstLine("error", rf"\s*(?:{_ERRORS})", _ERROR_WORDS, repeats=True),
)
