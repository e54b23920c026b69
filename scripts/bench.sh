#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds and runs the benchmarks: the C++ ones, then benchmarks/*.py against the installed package.
# SMOKE=1 makes each as short as it can be, ONLY=disk runs bench_disk.py alone; arguments are its.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

shopt -s nullglob
if [[ -e benchmarks/CMakeLists.txt ]]; then
  cmake --preset release -B build/bench -DSPILLWAY_TORCH=OFF -DSPILLWAY_TESTS=OFF \
    -DSPILLWAY_BENCHMARKS=ON
  cmake --build build/bench -j "${JOBS:-2}"
  for benchmark in build/bench/benchmarks/*_benchmark; do
    "$benchmark" ${SMOKE:+--benchmark_min_time=0.01}
  done
fi
for benchmark in benchmarks/bench_${ONLY:-*}.py; do
  python "$benchmark" ${SMOKE:+--smoke} "$@"
done
