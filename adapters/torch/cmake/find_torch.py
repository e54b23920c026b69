# SPDX-License-Identifier: Apache-2.0
"""Prints `folder;version` of the torch this interpreter would import, without importing it."""

import importlib.util
import os
import re
import sys

spec = importlib.util.find_spec("torch")
if spec is None or not spec.submodule_search_locations:
    sys.exit("there is no torch to import")
folder = next(iter(spec.submodule_search_locations))
with open(os.path.join(folder, "version.py"), encoding="utf-8") as source:
    version = re.search(r"^__version__[^=]*=\s*['\"]([^'\"]+)", source.read(), re.MULTILINE)
if version is None:
    sys.exit(f"{folder}/version.py states no version")
print(f"{folder};{version.group(1)}")
