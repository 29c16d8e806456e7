"""How the outputs that nvidia-smi and its followers have in common begin."""

from __future__ import annotations

from probes.paste.output_forms import FirstLine
from probes.paste.output_restarts import (
    all_rules,
    any_rule,
    follows_blank,
    follows_gap,
    follows_other_line,
    follows_word,
    has_other_forms,
    has_other_head,
    has_other_width,
    has_other_words,
    has_other_words_behind,
    has_same_key,
    returns_to_begin,
)

_FIELDS = (
    r"index|name|uuid|pci\.\w+|gpu_(?:name|uuid|bus_id)|timestamp|driver_version|memory\.\w+|pid|utilization\.\w+"
    r"|temperature\.\w+"
)
_UNIT = r"(?: \[\S{1,8}\])?"
_NEXT_FIELD = rf",\s*\"?[a-z][\w.]*\"?{_UNIT}"
_FIELD_BEGINS = (
    *("index", "name", "uuid", "pci.", "gpu_", "timestamp", "driver_version", "memory.", "pid", "utilization."),
    "temperature.",
)
_ERRORS = (
    r"Failed to initialize NVML|Field \".{0,80}\" is not a valid|ERROR: Option|Provided GPU id is not valid"
    r"|No MIG-supported devices|Changing [\w ]{2,60} is not supported|Invalid combination of input"
    r"|GPU [0-9A-F]{4,8}:[0-9A-F]{2}:[0-9A-F]{2}\.\d is (?:currently in use|the primary)"
    r"|Warning: MIG mode is in pending"
)
_ERROR_BEGINS = (
    *("Failed to initialize NVML", 'Field "', "ERROR: Option", "Provided GPU id", "No MIG-supported", "Changing "),
    *("Invalid combination of", "GPU ", "Warning: MIG mode"),
)
# Of each device, and what follows.
_DEVICE_ERRORS = r"Unable to determine the device handle|No devices were found"
_DEVICE_ERROR_BEGINS = ("Unable to determine the", "No devices were found")
_READING = r"\d+(?:\.\d+)?(?:C|W|%|MiB)"
_CELL = r"[^,\"]{1,80}"
_EVIDENCE = r"(?:\d+(?:\.\d+)? (?:MiB|MHz|W|%)|\[N/A\]|0x[0-9A-Fa-f]{16}|GPU-[0-9a-f]{8}-[^,]{1,40})"
_EVIDENT_ROW = rf"\d{{1,3}}, (?:{_CELL}, )*?{_EVIDENCE}(?:, {_CELL})*\s*$"
_EVIDENCE_WORDS = (" MiB", " MHz", " W", " %", "[N/A]", "0x", "GPU-")
DRIVER_LINE = FirstLine(
    "query-text", r"\s*Driver Version   *:", begins=("Driver Version  ",), repeats=True, restart=has_same_key
)
SHARED_FORMS = (
    FirstLine("topo", r"\s*GPU0\s+(?:GPU1|NIC\d|mlx5_\d|CPU Affinity)\b|\s+GPU0\s*$", begins=("GPU0",)),
    FirstLine("list", r"\s*GPU 0: \S.{0,120}\(UUID:", begins=("GPU 0: ",)),
    FirstLine(
        "monitor",
        r"\s*#\s*(?:(?:Date|Time)\s+){0,2}gpu\s+\w",
        begins=("gpu", "Date", "Time"),
        repeats=True,
        restart=any_rule(has_other_head, follows_gap),
    ),
    FirstLine(
        "reset",
        r"[#\s]*GPU [0-9A-Fa-f:.]{7,16}\s+was successfully reset",
        begins=("GPU ",),
        repeats=True,
        restart=follows_word("All done"),
    ),
    FirstLine("csv", rf"\s*\"?(?:{_FIELDS})\"?{_UNIT}(?:{_NEXT_FIELD}){{1,300}},?\s*$", begins=_FIELD_BEGINS),
    FirstLine(
        "csv",
        _EVIDENT_ROW,
        _EVIDENCE_WORDS,
        repeats=True,
        restart=any_rule(has_other_width, all_rules(follows_blank, has_other_forms)),
        also="0, ",
    ),
    DRIVER_LINE,
    FirstLine(
        "log",
        rf"\s*(?:{_READING}\s+)*\d+MiB\s+\d+MiB(?:\s+{_READING})*\s*$",
        ("MiB",),
        repeats=True,
        restart=any_rule(follows_other_line("MiB"), follows_gap),
        also="0MiB",
    ),
    FirstLine("error", rf"\s*(?:{_ERRORS})", begins=_ERROR_BEGINS, repeats=True, restart=has_other_words),
    FirstLine(
        "error",
        rf"\s*(?:{_DEVICE_ERRORS})",
        begins=_DEVICE_ERROR_BEGINS,
        repeats=True,
        restart=any_rule(
            has_other_words_behind(r"\s*Unable to determine the device handle"),
            all_rules(has_other_words, follows_blank),
            returns_to_begin,
        ),
    ),
)
