"""Headers of .run files: their values, and whether the archive is intact."""

from __future__ import annotations

import hashlib
import os
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envcheck.core.errors import UsageError
from installers.drivers import run_file

BODY = b"archive\nwith lines\n"
MD5 = hashlib.md5(BODY, usedforsecurity=False).hexdigest()
SHA = hashlib.sha256(BODY).hexdigest()


@pytest.mark.parametrize(
    ("lines", "body", "intact", "why"),
    [
        ((f'MD5="{MD5}"', f'filesizes="{len(BODY)}"', 'skip="4"'), BODY, True, "MD5 checksums match"),
        (
            (f"MD5={MD5}", f"filesizes={len(BODY)}", 'offset=`head -n 4 "$0" | wc -c`'),
            BODY,
            True,
            "MD5 checksums match",
        ),
        (
            (f'SHA="{SHA} {SHA}"', f'filesizes="{len(BODY)} {len(BODY)}"', "skip=4"),
            BODY * 2,
            True,
            "SHA-256 checksums match",
        ),
        ((f'SHA="{"0" * 64}"', f'filesizes="{len(BODY)}"', 'skip="4"'), BODY, None, "no SHA-256 or MD5 checksum"),
        (
            (f'MD5="{MD5}"', f'filesizes="{len(BODY)}"', 'skip="4"'),
            BODY + b"+",
            None,
            "1 extra byte follows the archive",
        ),
        ((f'MD5="{MD5}"', f'filesizes="{len(BODY)}"', 'skip="4"'), BODY[:-1], False, "truncated: the header lists"),
        (
            (f'MD5="{MD5}"', f'filesizes="{len(BODY)}"', 'skip="4"'),
            BODY[::-1],
            False,
            "the MD5 checksum in the header does not match",
        ),
        ((f'MD5="{MD5}"', "filesizes=", "exit"), BODY, None, "does not give the start"),
        ((f'MD5="{MD5}"', f'filesizes="{len(BODY)}"', "skip=999999"), BODY, None, "does not give the start"),
    ],
)
def test_heads(lines: tuple[str, ...], body: bytes, intact: bool | None, why: str, tmp_path: Path) -> None:
    """Old and new headers locate their archive; matching, wrong, missing and trailing data are distinguished."""
    path = tmp_path / "x.run"
    path.write_bytes("\n".join(("#!/bin/sh", *lines, "")).encode() + body)
    seen = run_file.read_run_file(path)

    assert (seen.intact, why in seen.why) == (intact, True)
    assert seen.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


@given(st.binary(max_size=4000))
def test_any_head(raw: bytes) -> None:
    """Any bytes after a shell's first line are parsed without an error."""
    head = run_file.parse_head(raw.decode("latin-1"))

    assert head.lines >= 0
    assert all(size >= 0 for size in head.sizes)


def test_special_files() -> None:
    """A socket or other special file is refused and not opened."""
    path = Path(os.environ.get("TMPDIR", "/tmp")) / f"envcheck-{os.getpid()}.run"
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))
        try:
            with pytest.raises(UsageError, match="not a file") as caught:
                run_file.read_run_file(path)
        finally:
            path.unlink()

    assert str(path.parent) in caught.value.next_step
