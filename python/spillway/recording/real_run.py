# SPDX-License-Identifier: Apache-2.0
"""Facts of a traced run that ops do not show: modules, lines, the purpose of tensors.

``spillway record`` without further options. The engine writes the trace when the program ends.
"""

import atexit

from spillway import _native
from spillway._library import WHERE
from spillway.recording import lines
from spillway.recording.watch import Watch

_watch: Watch | None = None
_where = None  # the native side keeps the address


def start() -> None:
    """Watches modules and optimizers from now on, once per process."""
    global _watch, _where
    if _watch is not None:
        return
    library = _native.load()
    numbers = lines.LineNumbers(library.record_line)
    _where = WHERE(numbers.here)
    library.trace_begin(_where)
    _watch = Watch(library)
    _watch.with_data = True
    _watch.install()
    # Threads of torch may run ops while the interpreter ends.
    atexit.register(library.trace_begin, WHERE())
