# SPDX-License-Identifier: Apache-2.0
"""The functions that the hook replaces stand where it looks for them, in the PyTorch that is
installed; `make card-slots` asks that of each version."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
SPEC = importlib.util.spec_from_file_location("card_slots", ROOT / "scripts" / "card_slots.py")
card_slots = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(card_slots)

NATIVE = "c10::cuda::CUDACachingAllocator::Native::NativeCachingAllocator::"
TABLE = [NATIVE + function for function in card_slots.FUNCTIONS.values()]
SLOTS = {name: slot for slot, name in enumerate(card_slots.FUNCTIONS)}


def installed_torch():
    spec = importlib.util.find_spec("torch")
    folder = Path(spec.origin).parent if spec else None
    return folder if folder and (folder / card_slots.LIBRARY).exists() else None


@pytest.mark.skipif(installed_torch() is None, reason="no PyTorch here that is built for CUDA")
def test_the_functions_stand_where_the_hook_looks():
    found, functions = card_slots.trouble_of(installed_torch())
    assert found == []
    assert functions > len(card_slots.FUNCTIONS)


def test_a_table_as_expected_has_no_difference():
    assert card_slots.differences(SLOTS, TABLE) == []


def test_a_function_in_anothers_place_is_told():
    swapped = SLOTS | {"raw_alloc": SLOTS["raw_delete"]}
    (told,) = card_slots.differences(swapped, TABLE)
    assert told.startswith("raw_alloc, at ")
    assert "raw_delete(void*), not raw_alloc(unsigned long)" in told


def test_a_function_with_other_arguments_is_told():
    table = [name.replace("raw_delete(void*)", "raw_delete(void*, int)") for name in TABLE]
    (told,) = card_slots.differences(SLOTS, table)
    assert "raw_delete(void*, int), not raw_delete(void*)" in told


def test_a_place_behind_the_table_is_told():
    (told,) = card_slots.differences(SLOTS | {"allocate": len(TABLE)}, TABLE)
    assert "nothing, not allocate(unsigned long)" in told


def test_a_table_longer_than_what_is_copied_is_told():
    assert card_slots.overlong(TABLE) == []
    assert len(card_slots.overlong(TABLE * 20)) == 1


def test_a_name_that_is_not_exported_is_told():
    if installed_torch() is None:
        pytest.skip("no PyTorch here that is built for CUDA")
    other = installed_torch() / "lib" / "libc10.so"
    assert len(card_slots.missing_names(other)) == len(card_slots.FOUND_BY_NAME)
