# SPDX-License-Identifier: Apache-2.0
"""Records a program without memory: ``python -m spillway.recording -o FILE -- python train.py``."""

import argparse
import os
import subprocess
import sys

from spillway.recording import program


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m spillway.recording",
        description="Run a program on the meta device until its optimizer has stepped twice, and "
        "write down what lies between.",
    )
    parser.add_argument("-o", "--output", required=True, help="where the trace goes")
    parser.add_argument("--machine", help="name or file of the machine that times the ops")
    parser.add_argument("--assume", help="what values are that the program reads, such as 0")
    parser.add_argument("command", nargs="+", help="the program, after --")
    options = parser.parse_args()
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("SPILLWAY_")
    }
    environment[program.PATH] = os.path.abspath(options.output)
    if options.machine is not None:
        environment[program.MACHINE] = options.machine
    if options.assume is not None:
        environment[program.ASSUME] = options.assume
    try:
        return subprocess.run(options.command, env=environment, check=False).returncode
    except OSError as error:
        print(f"spillway: cannot run {options.command[0]}: {error.strerror}", file=sys.stderr)
        return 127


if __name__ == "__main__":
    sys.exit(main())
