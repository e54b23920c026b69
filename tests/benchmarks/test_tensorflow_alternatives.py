# SPDX-License-Identifier: Apache-2.0
"""The search for the largest batches begins with what the page has."""

import importlib

PAGE = """
<!-- tensorflow-gpt: begin -->
Words.

|  | change to the program | largest batch | to stock's | s per step at stock's largest |  |
|---|---|---|---|---|---|
| stock | none | 8 | 1.0 | **1.00** (1.00 to 1.00) |  |
| kernel swap | none | none | - | - |  |
| Spillway | none | at least 64 | at least **8.0** | **1.03** (1.02 to 1.06) |  |
| Spillway, none | none | - | - | - | 300 s were not enough |
<!-- tensorflow-gpt: end -->
"""


def test_what_was_found_before():
    alternatives = importlib.import_module("tensorflow_alternatives")
    assert alternatives.found_before(PAGE, "tensorflow-gpt") == {"stock": 8, "Spillway": 64}
    assert alternatives.found_before(PAGE, "tensorflow-unet3d") == {}
