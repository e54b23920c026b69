#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prepares a checkout for building and testing:
#
#   scripts/setup.sh [REQUIREMENTS...]     e.g. scripts/setup.sh test lint
#
# installs missing Debian packages, finds or installs a PyTorch, and installs requirements/NAME.txt
# for each NAME into a virtual environment of this checkout. Everything is keyed on its contents: a
# second run does nothing. The outcome is written to build/environment.sh (see write_outcome).
#
#   TORCH=2.11.0     this PyTorch, in its own environment .venv-2.11.0; else one of a supported
#                    minor that the active python3 has, else the default below in .venv
#   PYTHON=python3.12  the interpreter to start from
#   REQUIRE_TORCH=1  without a PyTorch, fail instead of going on with what needs none
#
# The active environment is never changed: a PyTorch found there is made visible in ours by a .pth.
set -euo pipefail

default_torch=2.15.0
supported_minors='2\.1[1-5]'
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
mkdir -p build/setup
requested=("$@")

# shellcheck source=scripts/environment_steps.sh
source scripts/environment_steps.sh

scripts/packages.sh
reason=
torch_version=
venv=
prepare_environment || true

if [[ -n $reason && ${REQUIRE_TORCH:-0} == 1 ]]; then
  echo "setup: PyTorch is required here (REQUIRE_TORCH=1) but $reason" >&2
  exit 1
fi
write_outcome
