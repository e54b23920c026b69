# SPDX-License-Identifier: Apache-2.0
"""Trains programs one after the other, each in a child that finds TensorFlow imported already.

Reads jobs as lines of JSON: program (null: none, only what all import), epochs (null: those of
the table), output, errors (paths), and variables, of which any enables Spillway. Answers each with
a line of JSON: the child's exit status, how many seconds it lasted, and the most bytes that were
resident in it.
"""

import json
import os
import signal
import sys
import time

import train

import spillway.tensorflow


def wait_for(child, seconds):
    """Returns the answer; a child that lasts longer is killed."""

    def kill(number, frame):
        os.kill(child, signal.SIGKILL)

    signal.signal(signal.SIGALRM, kill)
    began = time.monotonic()
    signal.alarm(seconds)
    _, status, usage = os.wait4(child, 0)
    signal.alarm(0)
    return {
        "status": os.waitstatus_to_exitcode(status),
        "seconds": time.monotonic() - began,
        "resident_bytes": usage.ru_maxrss * 1024,
    }


def do(job):
    errors = os.open(job["errors"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(errors, 2)
    os.dup2(errors, 1)
    os.environ.update(job["variables"])
    if job["variables"]:
        spillway.tensorflow.enable()
    if job["program"]:
        train.main(job["program"], job["output"], job["epochs"])


def main():
    for line in sys.stdin:
        job = json.loads(line)
        child = os.fork()
        if child == 0:
            do(job)
            return  # an ordinary end, at which statistics are written
        print(json.dumps(wait_for(child, job["seconds"])), flush=True)


if __name__ == "__main__":
    main()
