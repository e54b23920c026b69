# SPDX-License-Identifier: Apache-2.0
"""Programs that train on a graphics card, while Spillway moves what they keep in CPU memory."""
