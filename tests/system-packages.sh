#!/usr/bin/env bash
# What some tests use beyond Python, on Debian and Ubuntu: a compiler for the stand-in device plugin.  Without it those
# tests say so and are skipped.  Needs root.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
missing=()
command -v g++ >/dev/null || missing+=(g++)
command -v git >/dev/null || missing+=(git)
python3 -c "import ensurepip" 2>/dev/null || missing+=(python3-venv)
if [ ${#missing[@]} -eq 0 ]; then exit 0; fi
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${missing[@]}"
