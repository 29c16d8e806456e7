"""A vendor's names in scripts that are not in its record: variables, files and packages of its software, as data."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from envcheck.core.messages import NOTHING, Message


@dataclass(frozen=True)
class ModelLimit:
    """The maximum on devices whose names match the pattern `models`; `label` names them for people, if it is lower than
    on others."""

    models: str
    high: int
    label: str = ""


@dataclass(frozen=True)
class VariableRange:
    """The integers that the reader of a variable accepts: from `low` to `high`, multiples of `step`, in `unit`.

    `source` is the document that states them.  `by_model` are the maxima if they depend on the device; `high` is the
    largest.  `effect` is what any other value does, if it is accepted all the same.
    """

    low: int
    high: int
    source: str
    unit: str = ""
    step: int = 1
    by_model: tuple[ModelLimit, ...] = ()
    effect: Message = NOTHING

    @property
    def lowest_limit(self) -> ModelLimit:
        """The maximum that holds on every device."""
        return min(self.by_model, key=lambda each: each.high, default=ModelLimit("", self.high))

    def find_high(self, models: Sequence[str]) -> int | None:
        """Return the maximum on devices with these names; None if it depends on one that is unknown."""
        highs = [each.high for name in models for each in self.by_model if re.fullmatch(each.models, name)]
        if not self.by_model:
            return self.high
        return min(highs) if highs and len(highs) == len(models) else None

    def accepts(self, number: int, models: Sequence[str] = ()) -> bool | None:
        """Return whether the number is accepted on these devices; None if that depends on one that is unknown."""
        if not self.low <= number <= self.high or number % self.step:
            return False
        high = self.find_high(models)
        return number <= high if high is not None else number <= self.lowest_limit.high or None


@dataclass(frozen=True)
class VendorVocabulary:
    """Exported by a vendor's lint.py as WORDS; an empty field disables its rules for this vendor.

    `signs` is a pattern of text that shows that a script is for these cards.

    Variables: `device_lists` select devices by number, in addition to the record's; readers of those in
    `lists_with_blanks` ignore blanks; `own_variables` (pattern) have no effect on other vendors' cards;
    `outside_variables` (pattern) come from a profile or the toolkit's environment script; `exported_variables`
    (pattern) are read by programs, so that a script must export them; `loud_variables` fill the disk with these values;
    `allocator_keys` are the keys that torch's allocator reads from a variable; `variable_ranges` are the values that
    the vendor's software accepts; `rank_table` names the file with the ranks of the collective library.

    Files: `setup_folders` (pattern of a path's part) contain the toolkit's environment scripts; files in
    `image_folders` (pattern) of an image are its toolkit; `tools` come with the driver or the toolkit, in addition to
    the record's; names with `tool_prefixes` are treated as such tools; `mount_remedies` are remedies for a missing
    mounted file, by its name.

    Packages: `packages` need a version (`unpinned_reasons` are the reasons); `plugins` must match another package's
    version; `instead_of_cuda` replaces a CUDA build, by framework, empty if these cards run CUDA builds;
    `gpu_lists_fail`: requirements for CUDA cannot be installed; `cuda_packages` (pattern) do not work, as
    `cuda_package_remark` states.  Images whose names match `image_words` (pattern) contain torch and its plugin.
    """

    signs: str = ""
    device_lists: tuple[str, ...] = ()
    lists_with_blanks: tuple[str, ...] = ()
    own_variables: str = ""
    outside_variables: str = ""
    exported_variables: str = ""
    loud_variables: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    allocator_keys: Mapping[str, frozenset[str]] = field(default_factory=dict)
    variable_ranges: Mapping[str, VariableRange] = field(default_factory=dict)
    rank_table: str = ""
    setup_folders: str = ""
    image_folders: str = ""
    tools: tuple[str, ...] = ()
    tool_prefixes: tuple[str, ...] = ()
    mount_remedies: Mapping[str, Message] = field(default_factory=dict)
    packages: tuple[str, ...] = ()
    unpinned_reasons: Mapping[str, Message] = field(default_factory=dict)
    plugins: Mapping[str, str] = field(default_factory=dict)
    instead_of_cuda: Mapping[str, str] = field(default_factory=dict)
    gpu_lists_fail: bool = False
    cuda_packages: str = ""
    cuda_package_remark: str = ""
    image_words: str = ""
