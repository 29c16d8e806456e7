"""The words of all vendors' scripts: from their records, and from each vendor's lint.py."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from functools import cache

from envcheck.core.lint.vendor_vocabulary import VendorVocabulary
from envcheck.vendors import VENDORS, load_modules

DEVICE_TOOLS = tuple(vendor.tool for vendor in VENDORS.values() if vendor.tool)
VISIBLE_VARIABLES = frozenset(vendor.visible_env for vendor in VENDORS.values() if vendor.visible_env)
RUNTIME_VARIABLES = frozenset(vendor.runtime_env for vendor in VENDORS.values() if vendor.runtime_env)

_LAUNCH_OPTIONS = Counter(vendor.launch_option for vendor in VENDORS.values() if vendor.launch_option)
# The launcher's option for the devices of one plugin (--npus, not --gpus) → paddle's name of the device type
PLUGIN_OPTIONS = {
    vendor.launch_option.lstrip("-"): vendor.device_type
    for vendor in VENDORS.values()
    if vendor.plugin and _LAUNCH_OPTIONS[vendor.launch_option] == 1
}


@cache
def load_vendor_words() -> Mapping[str, VendorVocabulary]:
    """Return the words by vendor name; a vendor without any is recognised by its tool only."""
    told = {vendor.name: getattr(module, "WORDS", None) for vendor, module in load_modules("lint")}
    return {
        name: told.get(name) or VendorVocabulary(signs=rf"\b{re.escape(vendor.tool)}\b" if vendor.tool else "")
        for name, vendor in VENDORS.items()
    }


def find_vendor_words(device: str) -> VendorVocabulary:
    """Return the words of one vendor; empty for "" and unknown names."""
    return load_vendor_words().get(device, VendorVocabulary())


def join_patterns(*patterns: str) -> str:
    """Return one pattern that matches any of them; empty ones are left out."""
    return "|".join(f"(?:{pattern})" for pattern in patterns if pattern)


def list_vendor_tools() -> tuple[str, ...]:
    """Return the tools of all drivers and toolkits."""
    return (*DEVICE_TOOLS, *(tool for words in load_vendor_words().values() for tool in words.tools))


def list_device_node_names() -> tuple[str, ...]:
    """Return the prefixes of device nodes: davinci for /dev/davinci[0-9]*."""
    nodes = (re.match(r"/dev/([\w-]+)", vendor.node_pattern) for vendor in VENDORS.values())
    return tuple(dict.fromkeys(node[1] for node in nodes if node))


def find_vendors_of_list(variable: str) -> frozenset[str]:
    """Return the vendors whose devices this variable selects."""
    return frozenset(vendor.name for vendor in VENDORS.values() if vendor.visible_env == variable)
