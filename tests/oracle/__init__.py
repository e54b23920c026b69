# SPDX-License-Identifier: Apache-2.0
"""Bitwise oracle: a managed training run must equal the unmanaged one in every bit."""
