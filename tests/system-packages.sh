#!/usr/bin/env bash
# What some tests use beyond Python, on Debian and Ubuntu: a compiler for the stand-in device plugin; a container engine,
# a registry, a Debian of our own and self-extracting installers for the provisioning.  Without them those tests say so
# and are skipped.  Needs root.  Nothing is started: the tests start engines of their own and stop them.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
missing=()
need() { command -v "$1" >/dev/null || missing+=("$2"); } # program, package
need g++ g++
need git git
need groff groff-base
need dockerd docker.io
need docker-registry docker-registry
need podman podman
need newuidmap uidmap
need rootlesskit rootlesskit
need mmdebstrap mmdebstrap
need makeself makeself
need rpm rpm
need qemu-aarch64-static qemu-user-static
need ip iproute2
need sshd openssh-server
need nft nftables
need openssl openssl
need faketime faketime
need chromium chromium
need slurmctld slurmctld
need slurmd slurmd
need sbatch slurm-client
need munged munge
[ -x /bin/busybox ] || missing+=(busybox-static)
python3 -c "import ensurepip" 2>/dev/null || missing+=(python3-venv)
if [ ${#missing[@]} -eq 0 ]; then exit 0; fi
if [ ! -e /usr/sbin/policy-rc.d ]; then # else Debian starts an engine on every address and keeps it
    printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
    chmod 755 /usr/sbin/policy-rc.d
    trap 'rm -f /usr/sbin/policy-rc.d' EXIT
fi
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${missing[@]}"
