"""The words of all vendors' scripts: their records, and what each vendor's lint.py adds."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from functools import cache

from envcheck.core.lint.vendor_words import VendorWords
from envcheck.vendors import VENDORS, load_modules

DEVICE_TOOLS = tuple(vendor.tool for vendor in VENDORS.values() if vendor.tool)
VISIBLE_VARIABLES = frozenset(vendor.visible_env for vendor in VENDORS.values() if vendor.visible_env)
RUNTIME_VARIABLES = frozenset(vendor.runtime_env for vendor in VENDORS.values() if vendor.runtime_env)

_LAUNCH_OPTIONS = Counter(vendor.launch_option for vendor in VENDORS.values() if vendor.launch_option)
# The launcher's option that lists the devices of one plugin alone (--npus, not --gpus) → paddle's name for these
PLUGIN_OPTIONS = {
    vendor.launch_option.lstrip("-"): vendor.device_type
    for vendor in VENDORS.values()
    if vendor.plugin and _LAUNCH_OPTIONS[vendor.launch_option] == 1
}


@cache
def vendor_words() -> Mapping[str, VendorWords]:
    """The words by the vendor's name; a vendor that has none is known by its tool alone."""
    told = {vendor.name: getattr(module, "WORDS", None) for vendor, module in load_modules("lint")}
    return {
        name: told.get(name) or VendorWords(signs=rf"\b{re.escape(vendor.tool)}\b" if vendor.tool else "")
        for name, vendor in VENDORS.items()
    }


def words_of(device: str) -> VendorWords:
    """Those of one vendor; none for "" and names of no vendor."""
    return vendor_words().get(device, VendorWords())


def join_patterns(*patterns: str) -> str:
    """One pattern for any of them, without those that are empty."""
    return "|".join(f"(?:{pattern})" for pattern in patterns if pattern)


def vendor_tools() -> tuple[str, ...]:
    """The tools of all drivers and toolkits."""
    return (*DEVICE_TOOLS, *(tool for words in vendor_words().values() for tool in words.tools))


def device_node_names() -> tuple[str, ...]:
    """How device nodes begin: davinci for /dev/davinci[0-9]*."""
    nodes = (re.match(r"/dev/([\w-]+)", vendor.node_pattern) for vendor in VENDORS.values())
    return tuple(dict.fromkeys(node[1] for node in nodes if node))


def readers_of_list(variable: str) -> frozenset[str]:
    """The vendors whose devices a process chooses by this variable."""
    return frozenset(vendor.name for vendor in VENDORS.values() if vendor.visible_env == variable)
