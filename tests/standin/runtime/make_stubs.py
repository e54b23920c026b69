# SPDX-License-Identifier: Apache-2.0
"""Writes a C++ source with a stub for each function of CUDA that a PyTorch's libraries take from
outside: it names itself and ends the process. Weak, so what the stand-in has comes first.

    make_stubs.py TORCH_FOLDER SOURCE
"""

import pathlib
import re
import subprocess
import sys

LIBRARIES = ["c10_cuda", "torch_cuda", "torch_cuda_linalg", "torch_python", "caffe2_nvrtc"]
# Of the driver, the runtime and the libraries on top of them. Not cuDNN, NCCL and the compiler,
# which are asked for their versions and need no card for that.
OF_CUDA = re.compile(r"^(cu[A-Z]|cuda|__cuda|cublas|cusolver|cusparse|cufft)")


def undefined(library):
    """The functions that a library takes from others."""
    lines = subprocess.run(
        ["nm", "-D", "--undefined-only", library], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    return {line.split()[-1].partition("@")[0] for line in lines if line.split()}


def main():
    folder, target = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    libraries = [folder / "lib" / f"lib{name}.so" for name in LIBRARIES]
    names = sorted(
        name
        for library in libraries
        if library.exists()
        for name in undefined(library)
        if OF_CUDA.match(name)
    )
    lines = [
        "// Made by make_stubs.py.",
        'extern "C" {',
        "[[noreturn]] void stand_in_unmodelled(const char*);",
        "#define STUB(name) __attribute__((weak)) int name() { stand_in_unmodelled(#name); }",
        *(f"STUB({name})" for name in sorted(set(names))),
        "}",
    ]
    target.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
