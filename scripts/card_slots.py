# SPDX-License-Identifier: Apache-2.0
"""Checks where functions stand in the table of PyTorch's allocator for graphics cards.

    card_slots.py 2.11.0 2.12.0     of these versions' wheels, which pip fetches
    card_slots.py FOLDER            of a PyTorch that is installed: site-packages/torch

`wheel_slots.cpp` reads the places from the headers. Here they are compared with the table in the
library of the same PyTorch, whose symbols its wheels keep. What else the hook finds by name must be
there, and the sources that see a CUDA build's headers must compile. Of each wheel 60 MB stay in
build/slots, headers and that library. Needs g++ and binutils.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCES = ROOT / "adapters" / "torch" / "csrc"
KEPT = ROOT / "build" / "slots"
LIBRARY = pathlib.Path("lib") / "libc10_cuda.so"

# Each member of Slots with the function that allocator_hook.cpp takes it for.
POOL = "std::pair<unsigned long long, unsigned long long>"
FUNCTIONS = {
    "allocate": "allocate(unsigned long)",
    "raw_deleter": "raw_deleter() const",
    "empty_cache": f"emptyCache({POOL})",
    "device_stats": "getDeviceStats(signed char)",
    "reset_peak_stats": "resetPeakStats(signed char)",
    "record_stream": "recordStream(c10::DataPtr const&, c10::Stream)",
    "record_cuda_stream": "recordStream(c10::DataPtr const&, c10::cuda::CUDAStream)",
    "raw_alloc": "raw_alloc(unsigned long)",
    "raw_alloc_with_stream": "raw_alloc_with_stream(unsigned long, CUstream_st*)",
    "raw_delete": "raw_delete(void*)",
    "base_allocation": "getBaseAllocation(void*, unsigned long*)",
    "begin_pool": f"beginAllocateToPool(signed char, {POOL}, std::function<bool (CUstream_st*)>)",
    "end_pool": f"endAllocateToPool(signed char, {POOL})",
    "share_ipc_handle": "shareIpcHandle(void*)",
    "enable_peer_access": "enablePeerAccess(signed char, signed char)",
    "memcpy_async": "memcpyAsync(void*, int, void const*, int, unsigned long, CUstream_st*, bool)",
}
NAMESPACE = "c10::cuda::CUDACachingAllocator::"
TABLE = f"vtable for {NAMESPACE}Native::NativeCachingAllocator"
# A function of its own, or that of its base class.
OF_CLASS = re.compile(rf"^{NAMESPACE}(Native::NativeCachingAllocator|CUDAAllocator)::")
HEAD = 2  # words before the functions: offset to the whole object, type
WORD = 8
FOUND_BY_NAME = {
    "_ZN3c104cuda20CUDACachingAllocator9allocatorE",  # allocator_hook.cpp
    "_ZN3c1031FreeCudaMemoryCallbacksRegistryB5cxx11Ev",  # wheel_growth.cpp
}
# How many functions allocator_hook.cpp copies: at least all that there are.
COPIED = re.compile(r"kFunctions = (\d+);")
SEE_HEADERS = ["cuda/allocator_hook.cpp", "cuda/wheel_growth.cpp", "cuda/no_slots.cpp"]


def output(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))}\n{done.stdout}{done.stderr}")
    return done.stdout


def compiler(torch):
    """As adapters/torch/CMakeLists.txt has it."""
    return [
        os.environ.get("CXX", "g++"), "-std=c++20", "-DNDEBUG", "-D_GLIBCXX_USE_CXX11_ABI=1",
        "-isystem", SOURCES / "cuda" / "types_only", "-isystem", torch / "include",
        "-isystem", torch / "include/torch/csrc/api/include",
        f"-I{SOURCES}", f"-I{ROOT / 'core' / 'include'}", "-DFMT_HEADER_ONLY",
    ]  # fmt: skip


def slots_of_headers(torch, folder):
    """What wheel_slots.cpp finds there, by the names of Slots."""
    program = folder / "print_slots.cpp"
    program.write_text(
        '#include <cstdio>\n#include "cuda/slots.hpp"\nint main() {\n'
        "  const auto& slots = *spillway::torch::cuda::slots_of_torch();\n"
        f"  static_assert(sizeof slots == {len(FUNCTIONS)} * sizeof(std::size_t));\n"
        + "".join(f'  std::printf("{name} %zu\\n", slots.{name});\n' for name in FUNCTIONS)
        + "}\n",
        encoding="utf-8",
    )
    built = folder / "print_slots"
    output(*compiler(torch), "-O1", program, SOURCES / "cuda" / "wheel_slots.cpp", "-o", built)
    pairs = (line.split() for line in output(built).splitlines())
    return {name: int(slot) for name, slot in pairs}


def table_of_library(library):
    """The names of the functions in the allocator's table, in their order."""
    symbols = {}
    first = size = None
    for line in output("nm", "--demangle", "--print-size", "--defined-only", library).splitlines():
        address, *rest = line.split(" ", 3)
        if len(rest) == 3 and rest[2] == TABLE:
            first, size = int(address, 16), int(rest[0], 16)
        symbols[int(address, 16)] = rest[-1]
    if first is None:
        sys.exit(f"{library} has no symbol for the {TABLE}: only PyTorch's own wheels keep them")
    names = {}
    # Offset, info, type, then an address, or a symbol of another library.
    for line in output("readelf", "--relocs", "--wide", "--demangle", library).splitlines():
        words = line.split(maxsplit=4)
        if len(words) < 4 or not words[2].startswith("R_X86_64_"):
            continue
        is_own = words[2] == "R_X86_64_RELATIVE"
        names[int(words[0], 16)] = symbols.get(int(words[3], 16)) if is_own else words[-1]
    return [names.get(at) for at in range(first + HEAD * WORD, first + size, WORD)]


def differences(slots, table):
    """A line for each slot where the table has another function than the hook takes it for."""
    found = []
    for name, function in FUNCTIONS.items():
        slot = slots[name]
        there = (table[slot] if slot < len(table) else None) or "nothing"
        if OF_CLASS.sub("", there) != function:
            found.append(f"{name}, at {slot}: {there}, not {function}")
    return found


def overlong(table):
    copied = int(COPIED.search((SOURCES / "cuda/allocator_hook.cpp").read_text("utf-8"))[1])
    return [f"of {len(table)} functions {copied} are copied"] if len(table) > copied else []


def missing_names(library):
    exported = output("nm", "--dynamic", "--defined-only", library).split()
    return [f"{name} is not exported" for name in sorted(FOUND_BY_NAME.difference(exported))]


def trouble_of(torch):
    """Lines that say what is wrong in that folder of PyTorch, and how long the table is."""
    with tempfile.TemporaryDirectory() as folder:
        slots = slots_of_headers(torch, pathlib.Path(folder))
    table = table_of_library(torch / LIBRARY)
    found = [*differences(slots, table), *overlong(table), *missing_names(torch / LIBRARY)]
    return found, len(table)


def fetched(version):
    """The folder with that version's headers and library."""
    torch = KEPT / version / "torch"
    if (torch / LIBRARY).exists():  # it is unpacked last
        return torch
    KEPT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=KEPT) as folder:
        output(
            sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:",
            "--dest", folder, f"torch=={version}",
        )  # fmt: skip
        (wheel,) = pathlib.Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            names = [name for name in archive.namelist() if name.startswith("torch/include/")]
            archive.extractall(KEPT / version, [*names, f"torch/{LIBRARY}"])
    return torch


def main():
    if not sys.argv[1:]:
        sys.exit(__doc__)
    failed = False
    for wanted in sys.argv[1:]:
        torch = pathlib.Path(wanted) if "/" in wanted else fetched(wanted)
        found, functions = trouble_of(torch)
        for source in SEE_HEADERS:
            output(*compiler(torch), "-fsyntax-only", SOURCES / source)
        failed |= bool(found)
        outcome = "; ".join(found) or f"{len(FUNCTIONS)} slots of {functions} are as expected"
        print(f"{wanted}: {outcome}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
