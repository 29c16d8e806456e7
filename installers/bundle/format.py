"""What a bundle is: an uncompressed tar with everything that a machine without a network needs for one recipe.

    envcheck-bundle.json              first: schema, recipe, device, architecture, image
    recipe.toml, envcheck.lock
    envcheck.pyz                      envcheck itself
    wheels/*.whl                      the recipe's packages
    checkouts/*.bundle                clones, as git bundles
    tools/*.whl                       what builds clones that are installed editable; not installed itself
    builds/SHA256                     what the recipe's builds made, by their sums
    image/{oci-layout,index.json,blobs/sha256/*}
    manifest.json                     last: name, size and sha256 of every other member, in order

Wheels and layers are not compressed again: a wheel is a zip, and 39 GB of layers at gzip's speed take half an hour.
Members have these names and no others, and are plain files: a bundle can hold no path that leads elsewhere.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from envcheck.core import toml_file
from envcheck.core.errors import USAGE, EnvcheckError
from envcheck.core.messages import _

SCHEMA = 1
HEAD, RECIPE, LOCK, MANIFEST = "envcheck-bundle.json", "recipe.toml", "envcheck.lock", "manifest.json"
INDEX, LAYOUT, BLOBS = "image/index.json", "image/oci-layout", "image/blobs/sha256/"
SMALL_LIMIT = 4 << 20  # bytes of a member that is read into memory
MEMBERS_LIMIT = 20_000
MANIFEST_LIMIT = 8 << 20
CHUNK = 1 << 20
MEMBER = re.compile(
    r"envcheck-bundle\.json|envcheck\.pyz|recipe\.toml|envcheck\.lock|manifest\.json|image/oci-layout|image/index\.json"
    r"|image/blobs/sha256/[0-9a-f]{64}|(?:wheels|tools)/[A-Za-z0-9][\w.+!-]{0,250}\.whl"
    r"|builds/[0-9a-f]{64}|checkouts/[A-Za-z0-9][\w.-]{0,100}\.bundle"
)
AGAIN = _("copy the bundle again from its source, or create a new one: `envcheck bundle`")


class BundleError(EnvcheckError):
    """The file is not a bundle that can be used here; nothing was changed."""


class UnreadableBundleError(BundleError):
    """The file does not exist, cannot be read, or is no bundle at all: as any other input file, wrong usage."""

    code = USAGE


@dataclass(frozen=True)
class BundleHead:
    """The first member: what the bundle is for; `python` is the version of its wheels."""

    schema: int
    envcheck: str
    recipe: str
    device: str
    architecture: str
    python: str
    image: bool


@dataclass(frozen=True)
class BundleMember:
    """One file of the archive; `offset` is the position of its content in bytes."""

    name: str
    size: int
    offset: int = 0
    sha256: str = ""


def render_head(head: BundleHead) -> bytes:
    """Return the head as JSON."""
    return json.dumps(asdict(head), indent=1).encode() + b"\n"


def parse_head(raw: bytes, file: str) -> BundleHead:
    """Return the bundle's head.  BundleError if it is invalid or has another schema."""
    table = parse_table(raw, file, HEAD)
    schema = table.get("schema")
    if schema != SCHEMA or type(schema) is not int:
        why = _(
            "{file} is a bundle with schema {schema}; this envcheck reads schema {supported}",
            file=file,
            schema=ascii(str(schema))[:20],
            supported=SCHEMA,
        )
        raise BundleError(why, _("use the envcheck in the bundle: `tar -xf {file} envcheck.pyz`", file=file))
    try:
        head = toml_file.load_record(BundleHead, table, f"{file}: {HEAD}")
    except EnvcheckError as err:
        raise BundleError(err.message, AGAIN) from None
    return head


def render_manifest(members: tuple[BundleMember, ...]) -> bytes:
    """Return the manifest as JSON."""
    listed = [{"name": m.name, "size": m.size, "sha256": m.sha256} for m in members]
    return json.dumps({"schema": SCHEMA, "members": listed}, indent=0).encode() + b"\n"


def parse_manifest(raw: bytes, file: str) -> dict[str, tuple[int, str]]:
    """Return size and SHA-256 by name, in order."""
    found: dict[str, tuple[int, str]] = {}
    try:
        table = parse_table(raw, file, MANIFEST)
        if table["schema"] != SCHEMA:
            raise TypeError
        for item in table["members"]:
            name, size, sha256 = item["name"], item["size"], item["sha256"]
            if not (isinstance(name, str) and type(size) is int and re.fullmatch(r"[0-9a-f]{64}", sha256)):
                raise TypeError
            if name in found:
                raise BundleError(_("{file}: the manifest lists {name!a} twice", file=file, name=name[:80]), AGAIN)
            found[name] = (size, sha256)
    except (KeyError, TypeError):
        raise BundleError(_("{file}: the manifest is not in envcheck's format", file=file), AGAIN) from None
    return found


def parse_table(raw: bytes, file: str, name: str) -> Mapping[str, Any]:
    """Return the JSON object in a small member."""
    try:
        table = json.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError):
        table = None
    if not isinstance(table, dict):
        raise BundleError(_("{file}: {name} is not a JSON object", file=file, name=name), AGAIN)
    return table
