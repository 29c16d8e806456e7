"""Sign a bundle and verify its signature with OpenSSH (ssh-keygen -Y): FILE.sig, of the whole file."""

from __future__ import annotations

from pathlib import Path

from envcheck.core import process
from envcheck.core.errors import StepError, UsageError
from envcheck.core.messages import Message, _, verbatim
from installers.bundle.format import BundleError

NAMESPACE = "envcheck-bundle"
DEADLINE_S = 3600.0  # 40 GB from a slow disk
TOOL = "ssh-keygen"
_VERIFY = 'exec ssh-keygen -Y verify -f "$1" -I "$2" -n "$3" -s "$4" <"$5"'


def signature_path(bundle: Path) -> Path:
    """Return the path of the bundle's signature: FILE.sig, as ssh-keygen names it."""
    return bundle.with_name(f"{bundle.name}.sig")


def check_key(key: Path) -> None:
    """Raise UsageError if the file is no SSH key, before hours are spent on the bundle."""
    advice = _("name a private key, or a public one whose private key is in ssh-agent")
    if key.is_dir():
        raise UsageError(_("--sign {key}: is a directory", key=key), advice)
    if not key.is_file():
        raise UsageError(_("--sign {key}: no such file", key=key), advice)
    shown = _require_tool(process.run_command((TOOL, "-l", "-f", str(key)), timeout_s=60))  # its fingerprint
    if shown.status:
        raise UsageError(_("--sign {key}: not an SSH key", key=key), advice)


def sign_bundle(bundle: Path, key: Path) -> Path:
    """Write the signature and return its path; StepError if the key cannot be used."""
    file = signature_path(bundle)
    file.unlink(missing_ok=True)  # ssh-keygen would ask
    argv = (TOOL, "-Y", "sign", "-f", str(key), "-n", NAMESPACE, str(bundle))
    done = _require_tool(process.run_command(argv, timeout_s=DEADLINE_S))
    if done.status or not file.is_file():
        raise StepError(
            _("cannot sign {bundle} with {key}: {reason}", bundle=bundle, key=key, reason=_last_line(done)),
            verbatim(" ".join(argv)),
        )
    return file


def verify_signature(bundle: Path, signers: Path) -> str:
    """Return who signed the bundle; BundleError unless one of the `signers` did.

    `signers` is a file as described in ssh-keygen(1), ALLOWED SIGNERS: a name and a public key on each line.
    """
    file = signature_path(bundle)
    if not signers.is_file():
        raise UsageError(_("--signers {path}: no such file", path=signers), verbatim("man ssh-keygen"))
    if not bundle.is_file():
        raise UsageError(_("{path}: no such file", path=bundle), verbatim(f"ls -l {bundle.parent}"))
    if not file.is_file():
        raise BundleError(
            _("{bundle} has no signature: {file} does not exist", bundle=bundle, file=file),
            _("copy it with the bundle; `envcheck bundle --sign KEY` writes it"),
        )
    asked = (TOOL, "-Y", "find-principals", "-s", str(file), "-f", str(signers))
    named = _require_tool(process.run_command(asked, timeout_s=60))
    who = next((line.strip() for line in named.out.splitlines() if line.strip()), "")
    if named.status or not who:
        raise BundleError(
            _("{bundle} is signed by a key that is not in {signers}", bundle=bundle, signers=signers),
            _("do not use it; ask who made it"),
        )
    words = ("sh", str(signers), who, NAMESPACE, str(file), str(bundle))
    done = process.run_command(("sh", "-c", _VERIFY, *words), timeout_s=DEADLINE_S)
    if done.status:
        raise BundleError(
            _("the signature of {bundle} is not valid: {reason}", bundle=bundle, reason=_last_line(done)),
            _("do not use it; copy bundle and signature again from their source"),
        )
    return who


def _require_tool(done: process.CommandResult) -> process.CommandResult:
    if done.absent:
        raise StepError(_("ssh-keygen not found on this machine"), _("install the OpenSSH client"))
    return done


def _last_line(done: process.CommandResult) -> Message:
    lines = [line for line in (done.out + done.err).splitlines() if line.strip()]
    return verbatim(lines[-1][:300]) if lines else _("exit code {status}", status=done.status)
