"""Image names and registry documents, without a registry: pure functions, hostile input."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envcheck.core.errors import UsageError
from installers.images import manifest, pull_progress, registry
from installers.images.manifest import InvalidManifest, ResolvedImage
from installers.images.reference import list_candidates, parse_reference
from installers.recipes import catalogue
from installers.recipes.recipe import RecipeImage

SHA = "sha256:" + "a" * 64
IMAGE = RecipeImage({"x86_64": "quay.io/ascend/tool:1"}, {"x86_64": ("other.example.com/ascend/tool:1",)})
KEYS = (
    *("schemaVersion", "mediaType", "config", "layers", "manifests", "platform", "architecture", "os", "digest"),
    *("size", "rootfs", "diff_ids"),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9) | st.sampled_from([SHA, "linux", "amd64"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=6),
    max_leaves=20,
)


@pytest.mark.parametrize(
    ("text", "host", "repository", "tag", "written"),
    (
        ("busybox", "docker.io", "library/busybox", "latest", "busybox:latest"),
        ("paddlepaddle/paddle:3.1.0", "docker.io", "paddlepaddle/paddle", "3.1.0", "paddlepaddle/paddle:3.1.0"),
        ("docker.io/library/a:b", "docker.io", "library/a", "b", "a:b"),
        ("quay.io/ascend/x:1-a2", "quay.io", "ascend/x", "1-a2", "quay.io/ascend/x:1-a2"),
        ("127.0.0.1:5000/a/b/c", "127.0.0.1:5000", "a/b/c", "latest", "127.0.0.1:5000/a/b/c:latest"),
        ("localhost/a", "localhost", "a", "latest", "localhost/a:latest"),
        (f"quay.io/a/b@{SHA}", "quay.io", "a/b", "", f"quay.io/a/b@{SHA}"),
        (f"quay.io/a/b:1@{SHA}", "quay.io", "a/b", "1", f"quay.io/a/b:1@{SHA}"),
    ),
)
def test_names(text: str, host: str, repository: str, tag: str, written: str) -> None:
    """Names are parsed like docker does, and written like the engine does."""
    read = parse_reference(text)

    assert (read.host, read.repository, read.tag, str(read)) == (host, repository, tag, written)


@pytest.mark.parametrize(
    "text", ("", "A/b", "a b", "http://quay.io/a", "quay.io/a:", "a@sha256:12", "../a", "a//b", "-a")
)
def test_no_names(text: str) -> None:
    """An invalid name is a usage error."""
    with pytest.raises(UsageError, match="is not a valid image name"):
        parse_reference(text)


@given(st.text(max_size=80) | st.from_regex(r"[a-z0-9./:@_-]{1,80}", fullmatch=True))
def test_any_text(text: str) -> None:
    """Any text is a name or refused; a name that is written parses to itself."""
    with contextlib.suppress(UsageError):
        read = parse_reference(text)
        assert parse_reference(str(read)) == read


def test_order() -> None:
    """Requested registries come first, with the recipe's repository, then the recipe's own names."""
    named = list_candidates(IMAGE, "x86_64", ("mirror.example.com", "127.0.0.1:5000/copies/"))

    assert list(map(str, named)) == [
        "mirror.example.com/ascend/tool:1",
        "127.0.0.1:5000/copies/ascend/tool:1",
        "quay.io/ascend/tool:1",
        "other.example.com/ascend/tool:1",
    ]


def test_no_image_for_this_machine() -> None:
    """A recipe without an image for the architecture lists those it has, and none of them is used."""
    with pytest.raises(UsageError, match="no image for aarch64, only for x86_64"):
        list_candidates(IMAGE, "aarch64")


@pytest.mark.parametrize("place", ("https://mirror.example.com", "mirror", "", "mirror.example.com/UP", "a b.com"))
def test_no_registries(place: str) -> None:
    """An invalid registry is a usage error."""
    with pytest.raises(UsageError):
        list_candidates(IMAGE, "x86_64", (place,))


def test_recipes_names() -> None:
    """Every image name in the recipes is valid."""
    images = [recipe.image for recipe in catalogue.load_all() if recipe.image]

    assert images
    assert all(list_candidates(image, architecture) for image in images for architecture in image.references)


@given(JSON)
def test_hostile_documents(document: object) -> None:
    """Any JSON is parsed or refused with a message; parsed values have valid digests and sizes."""
    body = json.dumps(document).encode()
    with contextlib.suppress(InvalidManifest):
        read = manifest.parse_document(body)
        manifest.is_list(read, "")
        with contextlib.suppress(InvalidManifest):
            assert manifest.choose_digest(read, "x86_64").startswith("sha256:")
        with contextlib.suppress(InvalidManifest):
            assert all(
                part.size >= 0 and part.digest.startswith("sha256:") for part in manifest.parse_manifest(body).layers
            )
        manifest.parse_diff_ids(body, "x86_64", 1)


@given(st.binary(max_size=200))
def test_no_documents(body: bytes) -> None:
    """Any bytes are parsed or refused."""
    with contextlib.suppress(InvalidManifest):
        manifest.parse_document(body)


@pytest.mark.parametrize(
    ("host", "ranges", "plain"),
    (
        ("127.0.0.1:5000", (), True),
        ("localhost:5000", (), True),
        ("[::1]:5000", (), True),
        ("quay.io", ("127.0.0.0/8",), False),
        ("10.1.2.3:5000", ("10.0.0.0/8",), True),
        ("registry.lan:5000", ("registry.lan:5000",), True),
        ("registry.lan", ("registry.lan:5000",), False),
        ("10.1.2.3", ("fe80::/10", "nonsense"), False),
    ),
)
def test_without_tls(host: str, ranges: tuple[str, ...], plain: bool) -> None:
    """Only loopback and the engine's insecure registries are accessed without TLS."""
    assert registry.is_insecure(host, ranges) is plain


@pytest.mark.parametrize(
    ("said", "words", "passing"),
    (
        ("failed to register layer: write /usr/lib/x: no space left on device", "no space left on the disk", False),
        ("unauthorized: authentication required", "requires credentials", False),
        ("pull access denied for x, repository does not exist", "requires credentials", False),
        ("open /var/lib/docker/tmp/x: permission denied", "open /var/lib/docker", False),
        ("manifest for x:1 not found: manifest unknown", "no longer has this image", False),
        ("filesystem layer verification failed for digest sha256:abc", "is corrupt", False),
        ("x509: certificate signed by unknown authority", "not trusted", False),
        ("toomanyrequests: You have reached your pull rate limit", "rate limit was exceeded", False),
        ("Get https://x/v2/: dial tcp: lookup x: no such host", "cannot reach the registry", True),
        ("Get https://x/v2/: net/http: TLS handshake timeout", "connection lost", True),
        ("unexpected EOF", "connection lost", True),
        ("received unexpected HTTP status: 503 Service Unavailable", "connection lost", True),
        (f"x@sha256:{'404' * 20}abcd: connection reset by peer", "connection lost", True),
        ("error parsing HTTP 404 response body", "no longer has this image", False),
        ("something that nobody has seen", "something that nobody has seen", False),
    ),
)
def test_what_engines_say(said: str, words: str, passing: bool) -> None:
    """Error messages of engines (20.10 and 28) are interpreted; only some are worth a retry."""
    found = ResolvedImage(parse_reference("quay.io/a/b:1"), SHA, "x86_64", SHA, (), ())

    broken = pull_progress.interpret_error(said, found)

    assert words in broken.message
    assert broken.passing is passing
    assert broken.next_step
    assert "HOST" not in broken.next_step
