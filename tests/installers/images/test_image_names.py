"""Names of images and what registries say of them, without any registry: pure functions, hostile input."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envcheck.core.errors import UsageError
from installers.images import image_progress, manifest, registry
from installers.images.manifest import Bad, ResolvedImage
from installers.images.reference import candidates, parse
from installers.recipes import catalogue
from installers.recipes.recipe import Image

SHA = "sha256:" + "a" * 64
IMAGE = Image({"x86_64": "quay.io/ascend/tool:1"}, {"x86_64": ("other.example.com/ascend/tool:1",)})
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
    """A name is read as docker reads it, and written as the engine writes it."""
    read = parse(text)

    assert (read.host, read.repository, read.tag, str(read)) == (host, repository, tag, written)


@pytest.mark.parametrize(
    "text", ("", "A/b", "a b", "http://quay.io/a", "quay.io/a:", "a@sha256:12", "../a", "a//b", "-a")
)
def test_no_names(text: str) -> None:
    """What is no name is a usage error."""
    with pytest.raises(UsageError, match="is no name of an image"):
        parse(text)


@given(st.text(max_size=80) | st.from_regex(r"[a-z0-9./:@_-]{1,80}", fullmatch=True))
def test_any_text(text: str) -> None:
    """Any text is a name or refused, and a name is stable: what is written reads as itself."""
    with contextlib.suppress(UsageError):
        read = parse(text)
        assert parse(str(read)) == read


def test_order() -> None:
    """Asked-for registries come first, each with the recipe's repository, then the recipe's own names."""
    named = candidates(IMAGE, "x86_64", ("mirror.example.com", "127.0.0.1:5000/copies/"))

    assert list(map(str, named)) == [
        "mirror.example.com/ascend/tool:1",
        "127.0.0.1:5000/copies/ascend/tool:1",
        "quay.io/ascend/tool:1",
        "other.example.com/ascend/tool:1",
    ]


def test_no_image_for_this_machine() -> None:
    """A recipe without an image for the architecture says for which it has one: no foreign one is taken."""
    with pytest.raises(UsageError, match="no image for aarch64, only for x86_64"):
        candidates(IMAGE, "aarch64")


@pytest.mark.parametrize("place", ("https://mirror.example.com", "mirror", "", "mirror.example.com/UP", "a b.com"))
def test_no_registries(place: str) -> None:
    """What is no registry is a usage error."""
    with pytest.raises(UsageError):
        candidates(IMAGE, "x86_64", (place,))


def test_recipes_names() -> None:
    """Every image that our recipes name is a name."""
    images = [recipe.image for recipe in catalogue.load_all() if recipe.image]

    assert images
    assert all(candidates(image, architecture) for image in images for architecture in image.references)


@given(JSON)
def test_hostile_documents(document: object) -> None:
    """Any JSON is read or refused with a sentence; what is read has digests and sizes that can be believed."""
    body = json.dumps(document).encode()
    with contextlib.suppress(Bad):
        read = manifest.document(body)
        manifest.is_list(read, "")
        with contextlib.suppress(Bad):
            assert manifest.choose(read, "x86_64").startswith("sha256:")
        with contextlib.suppress(Bad):
            assert all(part.size >= 0 and part.digest.startswith("sha256:") for part in manifest.single(body).layers)
        manifest.layers(body, "x86_64", 1)


@given(st.binary(max_size=200))
def test_no_documents(body: bytes) -> None:
    """Any bytes, too."""
    with contextlib.suppress(Bad):
        manifest.document(body)


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
    """Only loopback and what the engine names is asked without TLS."""
    assert registry.insecure(host, ranges) is plain


@pytest.mark.parametrize(
    ("said", "words", "passing"),
    (
        ("failed to register layer: write /usr/lib/x: no space left on device", "the disk filled up", False),
        ("unauthorized: authentication required", "wants credentials", False),
        ("pull access denied for x, repository does not exist", "wants credentials", False),
        ("open /var/lib/docker/tmp/x: permission denied", "open /var/lib/docker", False),
        ("manifest for x:1 not found: manifest unknown", "any more", False),
        ("filesystem layer verification failed for digest sha256:abc", "damaged", False),
        ("x509: certificate signed by unknown authority", "not trusted", False),
        ("toomanyrequests: You have reached your pull rate limit", "too many requests", False),
        ("Get https://x/v2/: dial tcp: lookup x: no such host", "cannot be reached", True),
        ("Get https://x/v2/: net/http: TLS handshake timeout", "broke off", True),
        ("unexpected EOF", "broke off", True),
        ("received unexpected HTTP status: 503 Service Unavailable", "broke off", True),
        (f"x@sha256:{'404' * 20}abcd: connection reset by peer", "broke off", True),
        ("error parsing HTTP 404 response body", "any more", False),
        ("something that nobody has seen", "something that nobody has seen", False),
    ),
)
def test_what_engines_say(said: str, words: str, passing: bool) -> None:
    """The engine's sentences (as seen in 20.10 and 28) are told by what they mean; only some are worth another try."""
    found = ResolvedImage(parse("quay.io/a/b:1"), SHA, "x86_64", SHA, (), ())

    broken = image_progress.meaning(said, found)

    assert words in broken.message
    assert broken.passing is passing
    assert broken.next_step
    assert "HOST" not in broken.next_step
