# SPDX-License-Identifier: Apache-2.0
"""Settings of child processes, by their variables' last words."""


def variables_of(settings, prefix="SPILLWAY"):
    """The environment variables, as SPILLWAY_HOST_BUDGET for `host_budget`."""
    return {f"{prefix}_{name.upper()}": str(value) for name, value in settings.items()}
