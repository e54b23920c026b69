#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fuzzes every reader for FUZZ_SECONDS each (default 60), or those named: fuzz.sh trace machine.
# The examples of docs/formats.md are the first inputs; what was found stays in build/fuzz/corpus,
# and an input that fails in build/fuzz.
set -euo pipefail
cd "$(dirname "$0")/.."
(($#)) || set -- trace plan machine

cmake -S . -B build/fuzz -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo \
  -DCMAKE_CXX_COMPILER="$(command -v clang++-14 || command -v clang++)" \
  -DSPILLWAY_TESTS=OFF -DSPILLWAY_TORCH=OFF -DSPILLWAY_FUZZ=ON \
  -DSPILLWAY_SANITIZE=address,undefined,fuzzer-no-link > build/fuzz-configure.log
cmake --build build/fuzz -j "${JOBS:-2}" --target "${@/#/fuzz_}"

python3 - <<'PYTHON'
import pathlib, re

page = pathlib.Path("docs/formats.md").read_text(encoding="utf-8")
for reader, heading in (("trace", "## Trace"), ("machine", "## Machine"), ("plan", "## Plan")):
    folder = pathlib.Path("build/fuzz/corpus") / reader
    folder.mkdir(parents=True, exist_ok=True)
    example = re.search(r"```json\n(.*?)```", page[page.index(heading):], re.DOTALL)[1]
    (folder / "documented.json").write_text(example, encoding="utf-8")
PYTHON

for reader in "$@"; do
  echo "fuzzing the $reader reader for ${FUZZ_SECONDS:-60} s"
  build/fuzz/tests/fuzz/fuzz_"$reader" -max_total_time="${FUZZ_SECONDS:-60}" \
    -dict=tests/fuzz/trace.dict -max_len=4096 -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix=build/fuzz/ "build/fuzz/corpus/$reader" 2>&1 | tail -8
done
