# SPDX-License-Identifier: Apache-2.0
"""``python -m spillway.report``, which the command ``spillway report`` runs."""

import sys

from spillway.report.command import main

if __name__ == "__main__":
    sys.exit(main())
