#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds and runs the C++ tests under each preset named: all, or those of FOLDER, such as core.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# The thread sanitizer of older compilers cannot start where the kernel spreads mappings far.
steady=()
if setarch "$(uname -m)" --addr-no-randomize true 2>/dev/null; then
  steady=(setarch "$(uname -m)" --addr-no-randomize)
fi
tsan=halt_on_error=1:second_deadlock_stack=1:suppressions=$PWD/scripts/tsan_suppressions.txt
for preset in "$@"; do
  cmake --preset "$preset"
  cmake --build "build/$preset" --target "${FOLDER:+$FOLDER/}all" -j "${JOBS:-2}"
  TSAN_OPTIONS=${TSAN_OPTIONS:-$tsan} \
  UBSAN_OPTIONS=${UBSAN_OPTIONS:-halt_on_error=1:print_stacktrace=1} \
    "${steady[@]}" ctest --test-dir "build/$preset${FOLDER:+/$FOLDER}" --no-tests=error \
      --output-on-failure -j "${JOBS:-2}"
done
