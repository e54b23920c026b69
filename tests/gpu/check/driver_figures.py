# SPDX-License-Identifier: Apache-2.0
"""What the driver says that each process holds on the card, sampled by nvidia-smi: not by us."""

import subprocess
import threading

MIB = 1 << 20
EVERY_MS = 50
QUESTION = ["--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"]


class DriverFigures:
    """A context in which the most of each process is noted. Thread-safe."""

    def __init__(self):
        self._most = {}
        self._lock = threading.Lock()

    def __enter__(self):
        command = ["nvidia-smi", *QUESTION, "-lms", str(EVERY_MS)]
        try:
            self._asking = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        except FileNotFoundError:
            self._asking = None
            return self
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        return self

    def __exit__(self, *_):
        if self._asking:
            self._asking.kill()
            self._reader.join()
            self._asking.stdout.close()
            self._asking.wait()

    def bytes_of(self, pid):
        """The most that this process held, or None where the driver does not tell."""
        with self._lock:
            return self._most.get(pid)

    def _read(self):
        for line in self._asking.stdout:
            pid, _, mib = line.partition(",")
            if not (pid.strip().isdigit() and mib.strip().isdigit()):
                continue
            with self._lock:
                most = max(self._most.get(int(pid), 0), int(mib) * MIB)
                self._most[int(pid)] = most
