# SPDX-License-Identifier: Apache-2.0
"""Makes a function a test whose body runs in a child process of its own."""

import functools
import inspect


def in_child(function=None, *, timeout=60):
    """The test passes if the body returns, within `timeout` seconds, and the process ends well.

    Arguments come from pytest.mark.parametrize and go through JSON. The body starts without
    Spillway, so that it can compute what to compare with, and calls `activate` when it likes.
    """
    if function is None:
        return functools.partial(in_child, timeout=timeout)

    names = list(inspect.signature(function).parameters)

    @functools.wraps(function)
    def test(starter, **arguments):
        starter.run(test, *(arguments[name] for name in names), timeout=timeout).require_success()

    fixture = inspect.Parameter("starter", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    test.__signature__ = inspect.Signature(
        [fixture, *inspect.signature(function).parameters.values()]
    )
    test.program = function
    return test
