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
from envcheck.core.errors import EnvcheckError

SCHEMA = 1
HEAD, RECIPE, LOCK, MANIFEST = "envcheck-bundle.json", "recipe.toml", "envcheck.lock", "manifest.json"
INDEX, LAYOUT, BLOBS = "image/index.json", "image/oci-layout", "image/blobs/sha256/"
SMALL_LIMIT = 4 << 20  # bytes of the members that are read into memory
MEMBERS_LIMIT = 20_000
MANIFEST_LIMIT = 8 << 20
CHUNK = 1 << 20
MEMBER = re.compile(
    r"envcheck-bundle\.json|envcheck\.pyz|recipe\.toml|envcheck\.lock|manifest\.json|image/oci-layout|image/index\.json"
    r"|image/blobs/sha256/[0-9a-f]{64}|(?:wheels|tools)/[A-Za-z0-9][\w.+!-]{0,250}\.whl"
    r"|builds/[0-9a-f]{64}|checkouts/[A-Za-z0-9][\w.-]{0,100}\.bundle"
)
AGAIN = "copy it again from where it was made, or make a new one: envcheck bundle"


class BundleError(EnvcheckError):
    """The file is no bundle that may be used here; nothing was changed."""


@dataclass(frozen=True)
class Head:
    """What stands in front; `python` is the version that the wheels are for."""

    schema: int
    envcheck: str
    recipe: str
    device: str
    architecture: str
    python: str
    image: bool


@dataclass(frozen=True)
class Member:
    """One file of the archive; `offset` is where its content begins."""

    name: str
    size: int
    offset: int = 0
    sha256: str = ""


def head_text(head: Head) -> bytes:
    return json.dumps(asdict(head), indent=1).encode() + b"\n"


def head_of(raw: bytes, file: str) -> Head:
    """The head in the first member; BundleError in a sentence where it is none, or of another schema."""
    said = table(raw, file, HEAD)
    schema = said.get("schema")
    if schema != SCHEMA or type(schema) is not int:
        why = f"{file} is a bundle of schema {ascii(str(schema))[:20]}; this envcheck reads {SCHEMA}"
        raise BundleError(why, "use the envcheck that made it: it is inside, as envcheck.pyz")
    try:
        head = toml_file.load_record(Head, said, f"{file}: {HEAD}")
    except EnvcheckError as err:
        raise BundleError(err.message, AGAIN) from None
    return head


def manifest_text(members: tuple[Member, ...]) -> bytes:
    listed = [{"name": m.name, "size": m.size, "sha256": m.sha256} for m in members]
    return json.dumps({"schema": SCHEMA, "members": listed}, indent=0).encode() + b"\n"


def manifest_of(raw: bytes, file: str) -> dict[str, tuple[int, str]]:
    """Size and sha256 by name, in order."""
    found: dict[str, tuple[int, str]] = {}
    try:
        for item in table(raw, file, MANIFEST)["members"]:
            name, size, sha256 = item["name"], item["size"], item["sha256"]
            if not (isinstance(name, str) and type(size) is int and re.fullmatch(r"[0-9a-f]{64}", sha256)):
                raise TypeError
            if name in found:
                raise BundleError(f"{file}: its manifest names {name[:80]!a} twice", AGAIN)
            found[name] = (size, sha256)
    except (KeyError, TypeError):
        raise BundleError(f"{file}: its manifest is not what envcheck writes", AGAIN) from None
    return found


def table(raw: bytes, file: str, name: str) -> Mapping[str, Any]:
    """The JSON table in a small member."""
    try:
        said = json.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict):
        raise BundleError(f"{file}: {name} in it is no JSON table", AGAIN)
    return said
