#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Configures and builds with the outcome of setup.sh, and installs the result into the environment
# that setup.sh prepared. Without a PyTorch only what needs none is built.
#
#   scripts/build.sh [package]     package: only what is installed, without tests and benchmarks
# The spillway_ names come from build/environment.sh.
# shellcheck disable=SC2154
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=/dev/null
source build/environment.sh

targets=()
[[ ${1:-} != package ]] || targets=(--target spillway)
torch_options=(-DSPILLWAY_TORCH=OFF)
if [[ -n $spillway_venv ]]; then
  torch_options=(-DSPILLWAY_TORCH=ON "-DSPILLWAY_PYTHON=$spillway_venv/bin/python")
  [[ ${1:-} != package ]] || targets+=(spillway_torch)
fi
tensorflow_options=(-DSPILLWAY_TENSORFLOW=OFF)
if [[ -n ${spillway_tensorflow_venv:-} ]]; then
  tensorflow_options=(-DSPILLWAY_TENSORFLOW=ON
    "-DSPILLWAY_TENSORFLOW_PYTHON=$spillway_tensorflow_venv/bin/python")
  [[ ${1:-} != package ]] || targets+=(spillway_tensorflow spillway_tensorflow_loader)
fi
# Without this ccache does not cache what uses a precompiled header.
export CCACHE_SLOPPINESS=${CCACHE_SLOPPINESS:-pch_defines,time_macros}
cmake --preset release -B "$spillway_build" "${torch_options[@]}" "${tensorflow_options[@]}"
cmake --build "$spillway_build" -j "${JOBS:-2}" "${targets[@]}"
if [[ -n $spillway_venv ]]; then
  "$spillway_venv/bin/python" scripts/install_package.py "$spillway_build"
fi
if [[ -n ${spillway_tensorflow_venv:-} ]]; then
  "$spillway_tensorflow_venv/bin/python" scripts/install_package.py "$spillway_build"
fi
