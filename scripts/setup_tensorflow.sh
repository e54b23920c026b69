#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prepares the environment of the TensorFlow tests, .venv-tf (1.5 GB), after setup.sh, and adds its
# outcome to build/environment.sh. Where it cannot be had, everything else goes on without.
#
#   scripts/setup_tensorflow.sh [REQUIREMENTS...]   and requirements/NAME.txt for each of them
#
#   TENSORFLOW=0       leaves it out
#   TENSORFLOW=2.20.0  this one, in an environment of its own, .venv-tf-2.20.0
#   PYTHON=python3.12  the interpreter to start from
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
mkdir -p build/setup

# shellcheck source=scripts/environment_steps.sh
source scripts/environment_steps.sh

version=${TENSORFLOW:-}
venv=$root/.venv-tf${version:+-$version}
reason=

make_environment() {
  if [[ $version == 0 ]]; then
    reason="TENSORFLOW=0 leaves them out"
    return 1
  fi
  find_python || return 1
  if [[ ! -x $venv/bin/python ]] && ! "$python" -m venv "$venv" >build/setup/venv-tf.log 2>&1; then
    reason="$python cannot create a virtual environment (build/setup/venv-tf.log)"
    return 1
  fi
  mkdir -p "$venv/.spillway"
  echo '*' >"$venv/.gitignore"
  local name
  for name in tensorflow "$@"; do
    install_into_environment "$name" || return 1
  done
  # It asks for the distribution tensorflow, which tensorflow-cpu is in place of.
  if ! install_into_environment tensorflow-keras-2 --no-deps; then
    echo "setup: going on without Keras 2: $reason"
    reason=
  fi
}

# Prints the path of requirements/NAME.txt, or of a copy with the TensorFlow that is asked for.
requirements_of() {
  local copy=build/setup/$1-$version.txt
  if [[ -z $version ]]; then
    echo "requirements/$1.txt"
    return
  fi
  sed -E "s/^(tensorflow-cpu==).*/\1$version/; s/^(tf_keras==).*/\1${version%.*}.*/" \
    "requirements/$1.txt" >"$copy"
  echo "$copy"
}

# Installs requirements/NAME.txt: NAME [OPTIONS OF PIP...]
install_into_environment() {
  local requirements stamp=$venv/.spillway/requirements-$1
  requirements=$(requirements_of "$1")
  ! cmp -s "$requirements" "$stamp" || return 0
  if ! index_answers tensorflow-cpu; then
    reason="no package index answers (build/setup/probe.log)"
    return 1
  fi
  echo "setup: installing $requirements into $venv (TensorFlow: some minutes, 1.5 gigabytes)"
  if ! PIP_DEFAULT_TIMEOUT=30 "$venv/bin/python" -m pip install "${install_waits[@]}" \
    "${@:2}" -r "$requirements" >"build/setup/pip-$1.log" 2>&1 </dev/null; then
    reason="pip could not install $requirements (build/setup/pip-$1.log)"
    return 1
  fi
  cp "$requirements" "$stamp"
}

make_environment "$@" || true
{
  printf 'spillway_tensorflow_venv=%q\n' "$([[ -n $reason ]] || echo "$venv")"
  printf 'spillway_no_tensorflow_reason=%q\n' "$reason"
} >>build/environment.sh
