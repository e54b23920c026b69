#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian or Ubuntu packages the build needs that are not there yet: as root, or through
# sudo where it asks for no password. Otherwise prints the one line to run and stops. Arguments are
# further packages.
set -euo pipefail

# Python.h is for programs that use torch.compile.
packages=(g++ cmake ninja-build ccache pkg-config libfmt-dev libspdlog-dev nlohmann-json3-dev
  libcli11-dev liburing-dev libxxhash-dev libzstd-dev libgtest-dev libgmock-dev
  python3-dev python3-venv "$@")

if ! command -v dpkg-query >/dev/null; then
  echo "setup: no dpkg here; going on, in the hope that the like of these are installed:"
  echo "       ${packages[*]}"
  exit 0
fi

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query --show --showformat '${db:Status-Status}' "$package" 2>/dev/null || true)
  [[ $status == installed ]] || missing+=("$package")
done
[[ ${#missing[@]} -gt 0 ]] || exit 0

apt=(env DEBIAN_FRONTEND=noninteractive apt-get -o Acquire::Retries=1 -o Acquire::http::Timeout=15
  -o Dpkg::Use-Pty=0)
if [[ $(id -u) -eq 0 ]]; then
  as_root=()
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
  as_root=(sudo -n)
else
  as_root=(false)
fi

echo "setup: installing ${missing[*]}"
if "${as_root[@]}" true 2>/dev/null || [[ ${#as_root[@]} -eq 0 ]]; then
  # A stale index is reason enough to fetch it, a mirror that does not answer is none to stop: the
  # packages may lie in the local cache.
  "${as_root[@]}" "${apt[@]}" -qq update </dev/null || true
  if "${as_root[@]}" "${apt[@]}" install -y -qq --no-install-recommends "${missing[@]}" \
      </dev/null >/dev/null; then
    exit 0
  fi
fi

echo "setup: these packages are missing and could not be installed from here. Run" >&2
echo >&2
echo "    sudo apt-get update && sudo apt-get install -y ${missing[*]}" >&2
echo >&2
echo "and then the same command again." >&2
exit 1
