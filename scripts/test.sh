#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs every test, after setup.sh and build.sh: the quick checks of the sources, the C++ tests, the
# Python tests. Those that cannot run are counted, in one NOT RUN line for want of PyTorch, one for
# want of pytest and one for want of TensorFlow, as functions: how many cases each has, only pytest
# could tell.
# The spillway_ names come from build/environment.sh.
# shellcheck disable=SC2154
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=/dev/null
source build/environment.sh

# Folders of Python tests that need pytest but no PyTorch.
framework_free=(tests/benchmarks tests/cli tests/docs tests/paper_tables tests/report tests/scripts)

python=${spillway_venv:+$spillway_venv/bin/}python3
# A failure does not keep the rest from running: one run tells everything there is to mend. The last
# tests' closing lines name the parts before them that failed, which stand far up by then.
status=0
FAILED_PARTS=
failed() {
  status=1
  FAILED_PARTS+="${FAILED_PARTS:+, }$1"
}
# Only continuous integration asks for it, and not of the checkouts that tests make.
part_of_the_day=${PART_OF_THE_DAY:-0}
unset PART_OF_THE_DAY
if [[ $part_of_the_day == 1 ]]; then
  # If they cannot be had, NOT RUN reports what needs them.
  scripts/packages.sh clang-14 clang-tidy-14 >/dev/null 2>&1 || true
  "$python" scripts/lint.py --changed || failed "checks of the sources"
  "$python" scripts/part_of_the_day.py || failed "the day's sanitizer and reader"
else
  "$python" scripts/lint.py --quick || failed "checks of the sources"
fi
# Of 10,000 random programs of a card under the engine, the part of the day.
if [[ $part_of_the_day == 1 ]]; then
  PROGRAM_SEED=$(($(date -u +%s) / 86400 % 100 * 100 + 1))
  export PROGRAM_SEED
fi
ctest --test-dir "$spillway_build" --output-on-failure --no-tests=error -j "${JOBS:-2}" ||
  failed "C++ tests"

export COMMAND_UNDER_TEST=$PWD/$spillway_build/tools/spillway

# How many functions of these folders are tests.
count_tests() {
  (($#)) || set -- /dev/null
  find "$@" -name 'test_*.py' -exec cat {} + | grep -cE '^ *(async )?def test_' || true
}

# What to look at when the whole takes too long.
slowest=(--durations=15 --durations-min=10)
tensorflow_tests=0
[[ ! -d tests/tensorflow ]] || tensorflow_tests=$(count_tests tests/tensorflow)
if [[ -n ${spillway_tensorflow_venv:-} ]]; then
  parallel=()
  # By file: the tests of one file share a server, which keeps stock's runs.
  ! "$spillway_tensorflow_venv/bin/python" -c 'import xdist' 2>/dev/null ||
    parallel=(-n "${JOBS:-2}" --dist loadfile)
  "$spillway_tensorflow_venv/bin/python" -m pytest -p no:cacheprovider "${parallel[@]}" \
    "${slowest[@]}" tests/tensorflow || failed "TensorFlow tests"
  # By itself, since it compiles, and the others wait for what takes a second.
  "$spillway_tensorflow_venv/bin/python" -m pytest -p no:cacheprovider \
    tests/packaging/test_tensorflow.py || failed "installation for TensorFlow"
elif [[ -n ${spillway_no_tensorflow_reason:-} ]]; then
  echo "NOT RUN: TensorFlow tests ($tensorflow_tests): $spillway_no_tensorflow_reason"
fi
if [[ -n $spillway_venv ]]; then
  export VIRTUAL_ENV=$spillway_venv PATH=$spillway_venv/bin:$PATH
  # The report's page is opened in a browser. Nothing else needs one, so where it cannot be had
  # those tests say so and the others run.
  if ! command -v chromium chromium-browser google-chrome >/dev/null; then
    scripts/packages.sh chromium >/dev/null 2>&1 ||
      echo "test: Chromium cannot be installed from here; the report is not opened in a browser"
  fi
  parallel=()
  # A borrowed environment, where no index answers, may have pytest and not this plugin.
  ! python -c 'import xdist' 2>/dev/null || parallel=(-n "${JOBS:-2}")
  # Nothing is printed after it: pytest's closing lines are the last.
  export FAILED_PARTS
  # A module that cannot be imported does not keep the others from running either.
  python -m pytest --continue-on-collection-errors "${parallel[@]}" "${slowest[@]}" tests ||
    status=1
  exit "$status"
fi

folders=()
for folder in "${framework_free[@]}"; do
  [[ ! -d $folder ]] || folders+=("$folder")
done
free=$(count_tests "${folders[@]}")
export PATH=$PWD/$spillway_build/tools:$PATH PYTHONPATH=$PWD/python
if python3 -c 'import pytest' 2>/dev/null; then
  for folder in "${folders[@]}"; do
    python3 -m pytest -p no:cacheprovider "$folder" || status=1
  done
else
  reason="python3 has no pytest (Debian: python3-pytest)"
  echo "NOT RUN: Python tests that need no PyTorch ($free): $reason"
fi
others=$(($(count_tests tests) - free - tensorflow_tests))
echo "NOT RUN: PyTorch tests ($others): $spillway_no_torch_reason"
[[ ${REQUIRE_TORCH:-0} != 1 ]] || exit 1
exit "$status"
