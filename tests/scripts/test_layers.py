# SPDX-License-Identifier: Apache-2.0
"""An include tree holds what other layers use, and nothing else."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SPEC = importlib.util.spec_from_file_location("check_layers", ROOT / "scripts/check_layers.py")
layers = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(layers)

OWNERS = {"spillway/mover.hpp": "runtime", "spillway/record.hpp": "runtime"}
MOVER, RECORD = (f"runtime/include/{name}" for name in OWNERS)


def problems(included):
    return list(layers.check_interfaces(OWNERS, included))


def test_a_header_that_only_its_own_layer_uses_belongs_beside_its_source():
    (problem,) = problems({"runtime/src/a.cpp": ["spillway/record.hpp"],
                           "tools/src/b.cpp": ["spillway/mover.hpp"]})  # fmt: skip
    assert problem.startswith(RECORD)


def test_a_header_that_an_interface_includes_is_part_of_it():
    assert problems({MOVER: ["spillway/record.hpp"], "tools/b.cpp": ["spillway/mover.hpp"]}) == []


def test_a_header_that_nobody_uses_is_told():
    assert len(problems({})) == 2


def test_a_folder_of_sources_keeps_the_order_of_its_layer():
    path = Path("runtime/src/memory/arena.cpp")
    told = layers.check_include(path, "runtime", "exec/look_ahead.hpp", OWNERS)
    assert list(told) == ["exec/look_ahead.hpp: runtime/memory comes before exec"]
    assert not list(layers.check_include(path, "runtime", "memory/remap.hpp", OWNERS))
