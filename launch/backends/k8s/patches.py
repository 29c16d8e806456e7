"""Changes of the manifests by --patch: strategic merge patches, and JSON patches (RFC 6902).

A strategic merge patch is an object of the same kind, which the API server need not know: lists of objects are merged
by a key of their items, null deletes, and `$patch: replace` or `$patch: delete` replace and delete.  One of kind Pod
changes every pod of the job.  A JSON patch is a list of operations on the job.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envcheck.core import toml_file
from envcheck.core.errors import UsageError
from envcheck.core.messages import Message, _, join
from envcheck.core.secrets import redact_text

LIMIT = 256 << 10  # bytes of a file
POD = "Pod"
# Kubernetes, api/core/v1/types.go: patchMergeKey of the lists in a pod; the last three are of JobSet and Volcano.
MERGE_KEYS: Mapping[str, tuple[str, ...]] = {
    "containers": ("name",),
    "initContainers": ("name",),
    "env": ("name",),
    "volumes": ("name",),
    "volumeMounts": ("mountPath",),
    "ports": ("containerPort",),
    "imagePullSecrets": ("name",),
    "hostAliases": ("ip",),
    "topologySpreadConstraints": ("topologyKey",),
    "replicatedJobs": ("name",),
    "tasks": ("name",),
    "policies": ("event",),
}
DIRECTIVE = "$patch"
Body = dict[str, Any]


class PatchError(ValueError):
    """Why a patch does not fit."""

    def __init__(self, why: Message) -> None:
        super().__init__(why)
        self.why = why


@dataclass(frozen=True)
class ManifestPatch:
    """`operations` of a JSON patch, or `body` of a strategic merge patch for objects of `kind` ("": the job)."""

    file: str
    kind: str = ""
    body: Mapping[str, Any] | None = None
    operations: tuple[Mapping[str, Any], ...] = ()


def load_patches(paths: Sequence[Path]) -> tuple[ManifestPatch, ...]:
    """Return the patches of the files; UsageError for files that are no patches, or that contain a secret."""
    return tuple(patch for path in paths for patch in _load_file(path))


def _load_file(path: Path) -> Iterator[ManifestPatch]:
    import yaml

    text = toml_file.read_text(path, LIMIT, _("patch"))
    if redact_text(text) != text:
        raise UsageError(
            _("{file} contains a secret; everyone who can read the namespace can read the manifest", file=path),
            _("remove it and use a Kubernetes Secret"),
        )
    if "&" in text and any(isinstance(each, yaml.AliasToken) for each in _scan_tokens(text, path)):
        raise _invalid_file(path, _("it contains YAML aliases"))
    try:
        documents = [each for each in yaml.safe_load_all(text) if each is not None]
    except (yaml.YAMLError, ValueError, RecursionError) as err:
        raise _invalid_file(path, Message(" ".join(str(err).split())[:160])) from None
    if not documents:
        raise _invalid_file(path, _("it is empty"))
    for document in documents:
        if isinstance(document, list) and all(isinstance(each, dict) and "op" in each for each in document):
            yield ManifestPatch(str(path), operations=tuple(document))
        elif isinstance(document, dict):
            body = {key: value for key, value in document.items() if key not in ("apiVersion", "kind")}
            yield ManifestPatch(str(path), str(document.get("kind") or ""), body)
        else:
            raise _invalid_file(path, _("it is neither an object nor a list of operations"))


def _scan_tokens(text: str, path: Path) -> list[Any]:
    import yaml

    try:
        return list(yaml.scan(text, Loader=yaml.SafeLoader))
    except (yaml.YAMLError, RecursionError) as err:
        raise _invalid_file(path, Message(" ".join(str(err).split())[:160])) from None


def _invalid_file(path: Path | str, why: Message) -> UsageError:
    return UsageError(
        _("--patch {file}: {reason}", file=path, reason=why),
        _("use a strategic merge patch, or a JSON patch (RFC 6902), in YAML or JSON"),
    )


def apply_patches(bodies: Sequence[Body], patches: Sequence[ManifestPatch]) -> list[Body]:
    """Return the objects, the job first, with all patches applied in order; UsageError for one that does not fit."""
    found = [copy.deepcopy(dict(body)) for body in bodies]
    for patch in patches:
        before = copy.deepcopy(found)
        try:
            _apply_patch(found, patch)
            for old, new in zip(before, found, strict=True):
                _check_object(old, new)
        except PatchError as err:
            raise _invalid_file(patch.file, err.why) from None
    return found


def _apply_patch(bodies: list[Body], patch: ManifestPatch) -> None:
    if patch.body is None:
        for number, operation in enumerate(patch.operations, 1):
            bodies[0] = _run_operation(bodies[0], operation, number)
        return
    if patch.kind == POD:
        for template in (each for body in bodies for each in find_pod_templates(body)):
            merged = merge_values(template, patch.body)
            template.clear()
            template.update(merged)
        return
    kinds = [str(body["kind"]) for body in bodies]
    if patch.kind and patch.kind not in kinds:
        raise PatchError(_("no object of kind {kind}, only {known}", kind=patch.kind, known=join(", ", [*kinds, POD])))
    at = kinds.index(patch.kind) if patch.kind else 0
    name = (patch.body.get("metadata") or {}).get("name") if isinstance(patch.body.get("metadata"), dict) else None
    if name is not None and name != bodies[at]["metadata"]["name"]:
        raise PatchError(_("the name of an object cannot be changed; use --job-name"))
    bodies[at] = merge_values(bodies[at], patch.body)


def _check_object(old: Body, new: Body) -> None:
    """Raise PatchError for an object that is another one now, or has a pod that Kubernetes cannot read.

    The API server checks the rest.
    """
    for key in ("apiVersion", "kind"):
        if new.get(key) != old.get(key):
            raise PatchError(_("{key} of an object cannot be changed", key=key))
    named = new.get("metadata")
    if not isinstance(named, dict) or named.get("name") != old["metadata"]["name"]:
        raise PatchError(_("the name of an object cannot be changed; use --job-name"))
    pods = list(find_pod_templates(new))
    if len(pods) < len(list(find_pod_templates(old))):
        raise PatchError(_("a pod of the job would have no containers"))
    for pod in pods:
        wrong = "metadata" if not isinstance(pod.get("metadata", {}), dict) else next(_list_flaws(pod["spec"]), None)
        if wrong:
            raise PatchError(_("{path} of a pod would not be valid", path=wrong))


def _list_flaws(spec: Body) -> Iterator[str]:
    """Yield the paths in a pod's spec that have a value of another type, or that are missing."""
    lists = {key: spec[key] for key in ("containers", "initContainers", "volumes") if spec.get(key) is not None}
    for key, items in lists.items():
        if not isinstance(items, list) or not all(isinstance(item, dict) and item.get("name") for item in items):
            yield key
            return
    containers = [*lists["containers"], *lists.get("initContainers", [])]
    if not lists["containers"] or not all(isinstance(item.get("image"), str) for item in containers):
        yield "containers"
    if not all(isinstance(item.get("hostPath", {}), dict) for item in lists.get("volumes", [])):
        yield "volumes.hostPath"
    for item in (spec, *containers):
        context = item.get("securityContext") or {}
        capabilities = context.get("capabilities") or {} if isinstance(context, dict) else None
        if not isinstance(capabilities, dict) or not all(isinstance(value, list) for value in capabilities.values()):
            yield "securityContext"


def find_pod_templates(node: Any) -> Iterator[Body]:
    """Yield the pod templates in an object."""
    if isinstance(node, dict):
        template = node.get("template")
        spec = template.get("spec") if isinstance(template, dict) else None
        if isinstance(template, dict) and isinstance(spec, dict) and spec.get("containers"):
            yield template
        else:
            for value in node.values():
                yield from find_pod_templates(value)
    elif isinstance(node, list):
        for value in node:
            yield from find_pod_templates(value)


def merge_values(old: Mapping[str, Any], new: Mapping[str, Any]) -> Body:
    """Return an object with a strategic merge patch applied."""
    if new.get(DIRECTIVE) == "replace":
        return {key: value for key, value in new.items() if key != DIRECTIVE}
    found = dict(old)
    for key, value in new.items():
        if not isinstance(key, str):
            raise PatchError(_("the key {key} is not a text", key=str(key)[:40]))
        if key.startswith("$"):
            raise PatchError(_("{directive} is not supported here", directive=key))
        if value is None or (isinstance(value, dict) and value.get(DIRECTIVE) == "delete"):
            found.pop(key, None)
        elif isinstance(value, dict):
            found[key] = merge_values(found[key] if isinstance(found.get(key), dict) else {}, value)
        elif isinstance(value, list) and key in MERGE_KEYS and isinstance(found.get(key, []), list):
            found[key] = _merge_lists(found.get(key, []), value, MERGE_KEYS[key][0])
        else:
            found[key] = copy.deepcopy(value)
    return found


def _merge_lists(old: Sequence[Any], new: Sequence[Any], key: str) -> list[Any]:
    if any(isinstance(item, dict) and item == {DIRECTIVE: "replace"} for item in new):
        return [copy.deepcopy(item) for item in new if item != {DIRECTIVE: "replace"}]
    found = list(old)
    for item in new:
        if not isinstance(item, dict) or key not in item:
            raise PatchError(_("an item of a list has no {key}", key=key))
        at = next((n for n, each in enumerate(found) if each.get(key) == item[key]), None)
        directive = item.get(DIRECTIVE)
        if directive == "delete":
            found = [each for each in found if each.get(key) != item[key]]
        elif at is None:
            found.append(merge_values({}, {name: value for name, value in item.items() if name != DIRECTIVE}))
        else:
            found[at] = merge_values(found[at], item)
    return found


def _run_operation(body: Body, operation: Mapping[str, Any], number: int) -> Body:
    """Return the document after one operation of RFC 6902."""
    try:
        return _change_document(body, operation)
    except (KeyError, IndexError, TypeError, ValueError) as err:
        why = err.why if isinstance(err, PatchError) else _("its path does not exist")
        raise PatchError(
            _("operation {number} ({op} {path}): {reason}", number=number, op=str(operation.get("op"))[:20],
              path=str(operation.get("path"))[:120], reason=why)
        ) from None  # fmt: skip


def _change_document(body: Body, operation: Mapping[str, Any]) -> Body:
    op, path = operation["op"], _split_pointer(operation["path"])
    if op not in ("add", "remove", "replace", "move", "copy", "test"):
        raise PatchError(_("unknown operation"))
    if op == "test":
        if _find_value(body, path) != operation["value"]:
            raise PatchError(_("the value is another one"))
        return body
    if not path:
        raise PatchError(_("the whole object cannot be replaced"))
    if op in ("move", "copy"):
        source = _split_pointer(operation["from"])
        if op == "move" and path[: len(source)] == source:
            raise PatchError(_("a value cannot be moved into itself"))
        value = copy.deepcopy(_find_value(body, source))
        if op == "move":
            _remove_value(body, source)
        _add_value(body, path, value)
    elif op == "remove":
        _remove_value(body, path)
    elif op == "add":
        _add_value(body, path, copy.deepcopy(operation["value"]))
    else:
        _find_value(body, path)
        _remove_value(body, path)
        _add_value(body, path, copy.deepcopy(operation["value"]))
    return body


def _split_pointer(text: object) -> list[str]:
    """Return the parts of a JSON pointer (RFC 6901)."""
    if not isinstance(text, str) or (text and not text.startswith("/")):
        raise PatchError(_("a path starts with /"))
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _find_value(node: Any, path: Sequence[str]) -> Any:
    for part in path:
        node = node[_parse_index(part, len(node) - 1)] if isinstance(node, list) else node[part]
    return node


def _add_value(body: Any, path: Sequence[str], value: Any) -> None:
    parent = _find_value(body, path[:-1])
    if isinstance(parent, list):
        parent.insert(len(parent) if path[-1] == "-" else _parse_index(path[-1], len(parent)), value)
    else:
        parent[path[-1]] = value


def _remove_value(body: Any, path: Sequence[str]) -> None:
    parent = _find_value(body, path[:-1])
    del parent[_parse_index(path[-1], len(parent) - 1) if isinstance(parent, list) else path[-1]]


def _parse_index(part: str, last: int) -> int:
    if not (part.isascii() and part.isdigit()) or (part != "0" and part.startswith("0")) or int(part) > last:
        raise IndexError(part)
    return int(part)
