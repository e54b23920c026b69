#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs benchmarks/*.py against the installed package, with the C++ programs that some of them start.
# SMOKE=1 makes each as short as it can be, ONLY=disk runs bench_disk.py alone; arguments are its.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

shopt -s nullglob
if [[ -e benchmarks/CMakeLists.txt ]]; then
  cmake --preset release -B build/bench -DSPILLWAY_TORCH=OFF -DSPILLWAY_TESTS=OFF \
    -DSPILLWAY_BENCHMARKS=ON
  cmake --build build/bench -j "${JOBS:-2}"
fi
# One that fails, or misses a bound, does not keep the others from running.
status=0
for benchmark in benchmarks/bench_${ONLY:-*}.py; do
  # These need a quarter of an hour and more each, and root: they are asked for by name.
  case ${ONLY:-all}:${benchmark##*/} in
    all:bench_large.py | all:bench_alternatives.py) continue ;;
  esac
  python "$benchmark" ${SMOKE:+--smoke} "$@" || status=1
done
exit "$status"
