"""What the generic rules know of a vendor's scripts, beside its record: the words of its software, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class VendorWords:
    """Exported by a vendor's lint.py as WORDS; where one is left out, its rules say nothing of this vendor.

    `signs` is a pattern of what gives away that a script is for these cards.

    Variables: `device_lists` choose devices by their numbers, beside the record's own, and readers of those in
    `lists_with_blanks` pass over blanks; `own_variables` (pattern) do nothing on other vendors' cards;
    `outside_variables` (pattern) come from a profile or the toolkit's set-up; `exported_variables` (pattern) are read
    by programs alone, so that a script has to export them; `loud_variables` fill the disk with the values named;
    `allocator_keys` are those that torch's allocator takes from a variable.

    Files: `setup_folders` (pattern of a path's part) have the toolkit's set-up scripts; what lies in `image_folders`
    (pattern) of an image is its toolkit; `tools` come with the driver or the toolkit, beside the record's own, and what
    begins as `tool_prefixes` is meant to be one; `mount_remedies` say what to do where a file that is mounted is
    missing, by the file's name.

    Packages: a version matters of `packages` (`unpinned_reasons` say why); `plugins` belong to another package by
    version; `instead_of_cuda` is what takes the place of a build for CUDA, by kit, empty where these cards run such
    builds; `gpu_lists_fail`: a list of packages for CUDA cannot be installed; `cuda_packages` (pattern) are of no use,
    as `cuda_package_remark` says.  Images whose names have `image_words` (pattern) bring torch and its plugin.
    """

    signs: str = ""
    device_lists: tuple[str, ...] = ()
    lists_with_blanks: tuple[str, ...] = ()
    own_variables: str = ""
    outside_variables: str = ""
    exported_variables: str = ""
    loud_variables: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    allocator_keys: Mapping[str, frozenset[str]] = field(default_factory=dict)
    setup_folders: str = ""
    image_folders: str = ""
    tools: tuple[str, ...] = ()
    tool_prefixes: tuple[str, ...] = ()
    mount_remedies: Mapping[str, str] = field(default_factory=dict)
    packages: tuple[str, ...] = ()
    unpinned_reasons: Mapping[str, str] = field(default_factory=dict)
    plugins: Mapping[str, str] = field(default_factory=dict)
    instead_of_cuda: Mapping[str, str] = field(default_factory=dict)
    gpu_lists_fail: bool = False
    cuda_packages: str = ""
    cuda_package_remark: str = ""
    image_words: str = ""
