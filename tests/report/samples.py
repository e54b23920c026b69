# SPDX-License-Identifier: Apache-2.0
"""A step, a plan and a simulation small enough to check by hand.

op        0 forward      1 loss        2 backward
weight    r              .             r w           400 bytes, persistent
hidden    c              .             r f           100 bytes, evicted before 1, fetched for 2
loss      .              c             f             10 bytes
"""

import json

TRACE = {
    "spillway_trace": 2,
    "machine": "h200",
    "framework": "torch 2.15.0",
    "storages": [
        {"id": 0, "bytes": 400, "role": "parameter", "persistent": True, "name": "weight"},
        {"id": 1, "bytes": 100, "role": "activation"},
        {"id": 2, "bytes": 10, "role": "activation", "name": "<b>loss</b>"},
    ],
    "ops": [
        {"name": "forward", "ns": 100, "creates": [1], "reads": [0], "writes": [1],
         "module": "layer1"},
        {"name": "loss", "ns": 50, "workspace": 30, "creates": [2], "writes": [2]},
        {"name": "backward", "ns": 200, "reads": [0, 1], "writes": [0], "frees": [1, 2]},
    ],
}  # fmt: skip

PLAN = {
    "spillway_plan": 1,
    "planner": "hybrid",
    "machine": "h200",
    "device_budget": 505,
    "host_budget": 1000,
    "disk_budget": 0,
    "places": [],
    "actions": [
        {"at": 1, "do": "evict", "storage": 1, "tier": "host"},
        {"at": 2, "do": "fetch", "storage": 1},
    ],
}

SIMULATION = {
    "feasible": True,
    "step_ns": 420,
    "compute_ns": 350,
    "stall_ns": {"allocation": 40, "input": 30},
    "peak": {"device": {"bytes": 540, "op": 1}, "host": {"bytes": 100, "op": 1}},
    "links": {
        "device-to-host": {"bytes": 100, "copies": 1, "busy_ns": 40},
        "host-to-device": {"bytes": 100, "copies": 1, "busy_ns": 40},
    },
    "timeline": {
        "spans": [
            {"kind": "op", "begin": 0, "end": 100, "op": 0},
            {"kind": "copy", "begin": 100, "end": 140, "storage": 1, "link": "device-to-host"},
            {"kind": "stall", "begin": 100, "end": 140, "op": 1, "cause": "allocation"},
            {"kind": "op", "begin": 140, "end": 190, "op": 1},
            {"kind": "copy", "begin": 180, "end": 220, "storage": 1, "link": "host-to-device"},
            {"kind": "stall", "begin": 190, "end": 220, "op": 2, "cause": "input"},
            {"kind": "op", "begin": 220, "end": 420, "op": 2},
        ],
        "levels": [
            [0, 500, 0, 0],
            [100, 500, 100, 0],
            [140, 440, 100, 0],
            [180, 540, 100, 0],
            [190, 510, 100, 0],
            [420, 400, 0, 0],
        ],
        "roles": {
            "parameter": [400, 400, 400, 400, 400, 400],
            "activation": [100, 100, 10, 110, 110, 0],
            "workspace": [0, 0, 30, 30, 0, 0],
        },
    },
    "bound_ns": 400,
    "bound": {"step_ns": 400, "binds": "fetching"},
}


def without_host(value):
    """The same on a machine that trains on its processor: the disk is next to the device."""
    text = json.dumps(value)
    for host, disk in (
        ("device-to-host", "host-to-disk"),
        ("host-to-device", "disk-to-host"),
        ('"tier": "host"', '"tier": "disk"'),
    ):
        text = text.replace(host, disk)
    return json.loads(text)


COMPARED = {
    "points": [
        {"planner": "hybrid", "budget_bytes": 505, "step_ns": 420},
        {"planner": "hybrid", "budget_bytes": 510, "step_ns": 380},
        {"planner": "lru", "budget_bytes": 505, "step_ns": 460},
        {"planner": "lru", "budget_bytes": 510, "step_ns": 390},
    ],
    "bound": [
        {"budget_bytes": 505, "step_ns": 400},
        {"budget_bytes": 510, "step_ns": 350},
    ],
}

STATISTICS = {
    "mode": "enforce", "budget_bytes": 505, "peak_device_bytes": 505, "peak_live_bytes": 500,
    "steps": 7, "last_step_ns": 500, "last_step_moved_bytes": 200, "stall_ns": 10,
    "elapsed_ns": 1000,
}  # fmt: skip
