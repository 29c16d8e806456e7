"""Signed bundles: a right signature is accepted, and every other one is refused before the bundle is read."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from envcheck.core.errors import EnvcheckError, UsageError
from installers.bundle import signature
from installers.bundle.contents import WheelPlatform, parse_platform


@pytest.fixture
def signed(tmp_path: Path) -> tuple[Path, Path]:
    """A signed file, and the signers who may."""
    key, bundle, signers = make_key(tmp_path, "ours"), tmp_path / "a b.tar", tmp_path / "signers"
    bundle.write_bytes(b"content" * 1000)
    signature.sign_bundle(bundle, key)
    signers.write_text(f"release@example.org {key.with_suffix('.pub').read_text()}")
    return bundle, signers


def make_key(folder: Path, name: str) -> Path:
    argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(folder / name)]
    subprocess.run(argv, check=True)
    return folder / name


def test_signed_by_us(signed: tuple[Path, Path]) -> None:
    """The name of the signer is known."""
    assert signature.verify_signature(*signed) == "release@example.org"


@pytest.mark.parametrize("text", ["", "no key\n", "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n"])
def test_a_file_that_is_no_key_is_refused_at_once(text: str, tmp_path: Path) -> None:
    """One sentence, before the bundle is made; a private and a public key are accepted."""
    (tmp_path / "bad").write_text(text)
    key = make_key(tmp_path, "ours")

    with pytest.raises(UsageError) as refused:
        signature.check_key(tmp_path / "bad")

    assert refused.value.message == f"--sign {tmp_path}/bad: not an SSH key"
    signature.check_key(key)
    signature.check_key(key.with_suffix(".pub"))


def spoil(how: str, bundle: Path, signers: Path, folder: Path) -> None:
    """Do what an attacker could."""
    if how == "changed":
        bundle.write_bytes(bundle.read_bytes()[:-1] + b"x")
    elif how == "another key":
        signature.sign_bundle(bundle, make_key(folder, "theirs"))
    elif how == "another purpose":
        signature.signature_path(bundle).unlink()
        argv = ["ssh-keygen", "-Y", "sign", "-f", str(folder / "ours"), "-n", "file", str(bundle)]
        subprocess.run(argv, check=True, capture_output=True)
    elif how == "none":
        signature.signature_path(bundle).unlink()
    elif how == "garbage":
        signature.signature_path(bundle).write_text("-----BEGIN SSH SIGNATURE-----\nAAAA\n")
    elif how == "no signers":
        signers.write_text("")


@pytest.mark.parametrize("how", ("changed", "another key", "another purpose", "none", "garbage", "no signers"))
def test_refused(how: str, signed: tuple[Path, Path], tmp_path: Path) -> None:
    """Whatever is wrong, the bundle is refused with exit code 1."""
    spoil(how, *signed, tmp_path)

    with pytest.raises(EnvcheckError) as caught:
        signature.verify_signature(*signed)
    assert caught.value.code == 1
    assert caught.value.next_step


def test_no_key(tmp_path: Path, signed: tuple[Path, Path]) -> None:
    """A missing key or file of signers is wrong usage."""
    with pytest.raises(UsageError, match="no such file"):
        signature.check_key(tmp_path / "absent")
    with pytest.raises(UsageError, match="no such file"):
        signature.verify_signature(signed[0], tmp_path / "absent")
    shutil.copy(signed[0], tmp_path / "other.tar")
    with pytest.raises(EnvcheckError, match="has no signature"):
        signature.verify_signature(tmp_path / "other.tar", signed[1])


def test_platforms() -> None:
    """Tags up to the named one are accepted, and no other word is a platform."""
    architecture, newest = parse_platform("manylinux_2_28_aarch64")
    tags = WheelPlatform(architecture, "3.12", newest).tags

    assert (architecture, tags[-1], "manylinux_2_31" in tags, "linux" in tags) == (
        "aarch64",
        "manylinux_2_28",
        False,
        False,
    )
    assert WheelPlatform("x86_64", "3.12", "manylinux2014").tags[-2:] == ("manylinux2014", "manylinux_2_17")
    for text in ("linux_x86_64", "manylinux_2_28", "win_amd64", "manylinux_3_1_x86_64"):
        with pytest.raises(UsageError, match="expected a platform"):
            parse_platform(text)
