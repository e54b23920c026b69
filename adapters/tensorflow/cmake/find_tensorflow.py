# SPDX-License-Identifier: Apache-2.0
"""Prints the folder and the version of this interpreter's TensorFlow, without importing it."""

import importlib.metadata
import importlib.util
import pathlib
import sys

spec = importlib.util.find_spec("tensorflow")
if spec is None or spec.origin is None:
    sys.exit("no tensorflow")
for name in ("tensorflow-cpu", "tensorflow"):
    try:
        version = importlib.metadata.version(name)
        break
    except importlib.metadata.PackageNotFoundError:
        continue
else:
    sys.exit("tensorflow without a version")
print(f"{pathlib.Path(spec.origin).parent};{version}", end="")
