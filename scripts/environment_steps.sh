# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154
# The steps of setup.sh that find or make a Python environment with PyTorch. Sourced by it. They
# set `venv` and `torch_version`, or `reason`, a sentence's end that says why there is no PyTorch.

# Short waits: where no package index answers, that must be known within seconds, whatever timeout
# the surroundings configure.
probe_waits=(--timeout 5 --retries 0 --disable-pip-version-check)
install_waits=(--timeout 30 --retries 2 --disable-pip-version-check --quiet --progress-bar off)

find_python() {
  local candidate
  for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11 python3.10 \
      /usr/bin/python3}; do
    if "$candidate" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info)' 2>/dev/null; then
      python=$("$candidate" -c 'import sys; print(sys.executable)')
      return
    fi
  done
  reason="no Python of version 3.10 or newer was found${PYTHON:+: PYTHON=$PYTHON is none}"
  return 1
}

# Prints the version and the package folders of the torch that the interpreter sees, if the version
# matches the pattern $1. One of our own environments, when active, does not count.
borrowed_torch() {
  # An environment of ours in VIRTUAL_ENV or on PATH is where we are going, not where we start.
  "$python" - "$root" "$1" <<'PYTHON'
import importlib.metadata, re, sys

root, pattern = sys.argv[1:]
if sys.prefix.startswith(root + "/.venv"):
    sys.exit(1)
try:
    version = importlib.metadata.version("torch")
except importlib.metadata.PackageNotFoundError:
    sys.exit(1)
if not re.match(pattern, version):
    sys.exit(1)
folders = [p for p in sys.path if p.rstrip("/").endswith(("site-packages", "dist-packages"))]
print(version, *folders, sep="\n")
PYTHON
}

# The folder is ours if we marked it; somebody's own .venv is left alone.
choose_venv() {
  venv=$root/.venv${TORCH:+-$TORCH}
  if [[ -e $venv && ! -e $venv/.spillway ]]; then
    venv=$root/build/venv${TORCH:+-$TORCH}
  fi
}

make_venv() {
  local origin=$1 folder
  if [[ ! -e $venv/.spillway/origin || $(<"$venv/.spillway/origin") != "$origin" ]]; then
    echo "setup: creating $venv"
    rm -rf "$venv"
    mkdir -p "$venv/.spillway"
    echo '*' >"$venv/.gitignore"
    if ! "$python" -m venv "$venv" >build/setup/venv.log 2>&1; then
      reason="$python cannot create a virtual environment (build/setup/venv.log)"
      rm -rf "$venv"
      return 1
    fi
    folder=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    for path in "${borrowed_folders[@]}"; do
      echo "import site; site.addsitedir('$path')"
    done >"$folder/borrowed_torch.pth"
    echo "$origin" >"$venv/.spillway/origin"
  fi
}

# Writes what the index says about package $1 to the probe log.
index_answers() {
  PIP_DEFAULT_TIMEOUT=5 timeout 30 "$venv/bin/python" -m pip index versions "${probe_waits[@]}" \
    "$1" >build/setup/probe.log 2>&1 </dev/null
}

# Installs with torch held at its version, so that no other package can replace it.
pip_install() {
  local what=$1
  shift
  echo "torch==${torch_version%%+*}" >build/setup/constraints.txt
  PIP_DEFAULT_TIMEOUT=30 "$venv/bin/python" -m pip install "${install_waits[@]}" \
    --constraint build/setup/constraints.txt "$@" >"build/setup/pip-$what.log" 2>&1 </dev/null
}

install_torch() {
  local stamp=$venv/.spillway/torch
  [[ -e $stamp ]] && return
  if ! index_answers torch; then
    reason="no package index answers (build/setup/probe.log) and python3 has no supported torch"
    return 1
  fi
  if ! grep -Eq "[ ,(]${torch_version//./\\.}([,)]|$)" build/setup/probe.log; then
    reason="the package index has no torch $torch_version for $python"
    return 1
  fi
  echo "setup: installing torch $torch_version into $venv (some minutes, some gigabytes)"
  if ! pip_install torch "torch==$torch_version"; then
    reason="pip could not install torch $torch_version (build/setup/pip-torch.log)"
    return 1
  fi
  touch "$stamp"
}

install_requirements() {
  local name file stamp
  for name in "${requested[@]}"; do
    file=requirements/$name.txt
    stamp=$venv/.spillway/requirements-$name
    cmp -s "$file" "$stamp" && continue
    echo "setup: installing $file"
    if index_answers pytest && pip_install "$name" -r "$file"; then
      cp "$file" "$stamp"
    else
      echo "setup: could not install $file (build/setup/pip-$name.log), going on with what is there"
    fi
  done
  if ! "$venv/bin/python" -c 'import pytest, numpy' 2>/dev/null; then
    reason="pytest and numpy are not there and could not be installed (build/setup/)"
    return 1
  fi
}

# Sets torch_version and borrowed_folders if a torch that fits is already there.
find_torch() {
  local wanted=^$supported_minors'\.' found
  [[ -z ${TORCH:-} ]] || wanted=^${TORCH//./\\.}'($|\+)'
  found=$(borrowed_torch "$wanted") || return 1
  mapfile -t borrowed_folders <<<"$found"
  torch_version=${borrowed_folders[0]}
  borrowed_folders=("${borrowed_folders[@]:1}")
}

prepare_environment() {
  borrowed_folders=()
  find_python || return 1
  choose_venv
  if [[ $("$python" -c 'import sys; print(sys.prefix)') == "$venv" && -e $venv/.spillway/version ]]
  then
    torch_version=$(<"$venv/.spillway/version")  # ours is the active one
  elif find_torch; then
    echo "setup: using torch $torch_version of $python"
    make_venv "$python $torch_version ${borrowed_folders[*]}" || return 1
  else
    torch_version=${TORCH:-$default_torch}
    make_venv "$("$python" -c 'import sys; print(sys.base_prefix, sys.version)') $torch_version" ||
      return 1
    install_torch || return 1
  fi
  echo "$torch_version" >"$venv/.spillway/version"
  install_requirements
}

# Sourced by the other scripts: the environment (empty without PyTorch), its torch, why there is
# none, and where to build.
write_outcome() {
  local build=build/release${TORCH:+-$TORCH}
  {
    echo "# Written by scripts/setup.sh."
    printf 'spillway_venv=%q\n' "$([[ -n $reason ]] || echo "$venv")"
    printf 'spillway_torch_version=%q\n' "$torch_version"
    printf 'spillway_no_torch_reason=%q\n' "$reason"
    printf 'spillway_build=%q\n' "$build"
  } >build/environment.sh
}
