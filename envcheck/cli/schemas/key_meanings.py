"""What each key of the JSON documents means: the shared keys here, the fields of dataclasses in their own tables.

A key is described, in this order, by `key("...")` where its object is defined, by the table of its dataclass, or by
COMMON, so that a key without a description of its own means the same in every document.
"""

from __future__ import annotations

from collections.abc import Mapping

from envcheck.cli.schemas import fact_keys, recipe_keys

COMMON = {
    "architecture": "CPU architecture of the host, as `uname -m` prints it: x86_64 or aarch64.",
    "caution": "Warnings to read before the start.",
    "commands": "Commands to copy, in order; may be empty.",
    "container": "Container name; null if the run used none.",
    "device": "Vendor of the devices: npu, iluvatar or nvidia; cpu for none.",
    "ended": "End time, ISO 8601 in UTC; null while it runs.",
    "environment": "Environment variables by name; secrets are redacted.",
    "evidence": "Output or configuration lines that support the result; may be empty.",
    "exit": "Exit codes; null while it runs.",
    "framework": "Training framework.",
    "job": "The job: what the recipe runs on this machine.",
    "memory_gib": "Memory of one device, GiB; null if unknown.",
    "message": "The headline as a template and its values, for programs and translations.",
    "method": "Training method, as in `--method`, such as sft or lora.",
    "model": "Model name, as in `--model`.",
    "outputs": "Paths of the results.",
    "prepend": "Path variables by name: what is added in front of their value.",
    "processes": "Processes on each node.",
    "recipe": "Recipe name.",
    "remedy": "What to do; null if nothing is to be done.",
    "requires": "Files without which the job cannot run.",
    "role": "Role of the node in a job over mixed devices; empty otherwise.",
    "seconds": "Run time in seconds; null while it runs.",
    "seen": "Headline of the result, in English.",
    "sha256": "SHA-256 of the file, hexadecimal.",
    "source": "Document, file or URL that the rule comes from; empty for none.",
    "started": "Start time, ISO 8601 in UTC; null if unknown.",
    "unset": "Environment variables that are removed.",
    "variant": "Variant of the method, such as zero3; empty if the method has one only.",
    "vendors": "Vendors that it applies to, by name.",
}


_FIELDS: Mapping[type, Mapping[str, str]] = {**fact_keys.MEANINGS, **recipe_keys.MEANINGS}


def find_meaning(owner: type, name: str) -> str:
    """Return the description of the key `name` of `owner`, "" if no table has one."""
    return _FIELDS.get(owner, {}).get(name) or COMMON.get(name, "")
