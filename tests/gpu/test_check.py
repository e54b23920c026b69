# SPDX-License-Identifier: Apache-2.0
"""The check of a card, as far as no card is needed: `make gpu-check` runs it on one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.gpu.check import children, page, parts

ROOT = Path(__file__).resolve().parents[2]
WELL = {"losses": [1.0], "digest": "a"}


def ended(name, **changes):
    told = {"pid": 1, "status": 0, "seconds": 1.0, "answer": WELL, "stats": None, "words": []}
    return children.Outcome(name=name, **(told | changes))


def child(tmp_path, monkeypatch, text, **options):
    """Runs a module of that text."""
    (tmp_path / "told.py").write_text(text)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    return children.run(children.Job("told", "told", **options))


def test_a_child_answers_with_its_last_line(tmp_path, monkeypatch):
    found = child(tmp_path, monkeypatch, "print('first')\nprint('{\"peak\": 3}')")
    assert found.is_well
    assert found.answer == {"peak": 3}
    assert found.words == []


def test_a_child_that_fails_leaves_its_last_words(tmp_path, monkeypatch):
    found = child(tmp_path, monkeypatch, "raise SystemExit('it does not fit')")
    assert found.status == 1
    assert found.words[-1] == "it does not fit"
    (fault,) = parts.faults_of([found])
    assert fault.endswith("it does not fit")


def test_a_child_without_end_says_where_it_is(tmp_path, monkeypatch):
    text = "import time\ndef hangs(): time.sleep(100)\nhangs()"
    found = child(tmp_path, monkeypatch, text, limit=2)
    assert found.status == "no end"
    assert any("in hangs" in line for line in found.words)


def test_a_childs_settings_are_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("SPILLWAY_MODE", "fuzz")
    text = "import json, os\nprint(json.dumps({'mode': os.environ.get('SPILLWAY_MODE')}))"
    assert child(tmp_path, monkeypatch, text).answer == {"mode": None}


def test_other_bits_are_a_fault():
    assert parts.same_bits(ended("stock"), ended("fuzz")) == []
    other = ended("fuzz", answer=WELL | {"digest": "b"})
    assert parts.same_bits(ended("stock"), other) == ["fuzz: other bits than unmanaged"]


@pytest.mark.parametrize(
    ("told", "overshoot", "faults"), [(900, 0, 0), (None, 0, 0), (1100, 0, 1), (900, 5, 1)]
)
def test_more_than_the_budget_is_a_fault(told, overshoot, faults):
    class Driver:
        @staticmethod
        def bytes_of(_):
            return told

    stats = {"peak_device_bytes": 400, "overshoot_bytes": overshoot, "unmanaged_bytes": 500}
    found = parts.held_its_budget(ended("50 %", stats=stats), 1000, Driver)
    assert len(found) == faults


def test_the_page_has_what_was_found(tmp_path, capsys, monkeypatch):
    seconds = [1.0] * parts.WARM_UP
    none = {"moved": [0] * 7, "stalled": [0] * 7, "mapping": [0] * 7}
    some = {"moved": [11 * 10**9] * 7, "stalled": [0.02] * 7, "mapping": [0.05] * 7}
    stock = {"seconds": [*seconds, 0.1], **none, "peak": parts.GIB}
    tight = {"seconds": [*seconds, 0.2], **some, "peak": parts.GIB}
    outcomes = [
        ended("resnet50: stock", answer=stock),
        ended("resnet50: 50 %", answer=tight, stats={"peak_device_bytes": parts.GIB // 2}),
        ended("resnet50: offload", status="no end", answer=None),
    ]
    part = {**parts.result(["offload: no end"], outcomes), "seconds": 3}
    here = {
        "card": "A CARD",
        "bytes": 80 << 30,
        "pytorch": "2",
        "python": "3",
        "date": "2026-01-02",
    }
    file = tmp_path / "found.json"
    file.write_text(json.dumps({"here": here, "parts": {"resnet50": part}}))
    monkeypatch.setattr(sys, "argv", ["page", str(file)])
    assert page.main() == 0
    told = capsys.readouterr().out
    assert "# The check on one A CARD" in told
    assert "| 50 % | 200 ms | 2.00 | 0.50 GiB | 10.2 GiB | 100 ms | 20 ms | 50 ms |" in told
    assert "| offload | did not end well |" in told
    assert "- fault: offload: no end" in told


def test_the_page_tells_what_handles_and_events_cost():
    ranges = [
        {
            "handles": 8,
            "map_all_us": 9.4,
            "allow_access_us": 44,
            "unmap_us": 27,
            "unmapped_at_once": False,
        }
    ]
    found = {"handles_in_a_range": ranges, "events": {"query_pending_us": 0.5}}
    told = page.ranges_and_events(found)
    assert "| 8 | 9 µs | 44 µs | 27 µs | no |" in told
    assert told[-1] == "Events: query pending 0.50 µs."
    assert page.ranges_and_events({}) == []


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a card here")
def test_without_a_card_it_says_so_in_its_folder_too(tmp_path):
    """As it is made for a machine without network: here with a gate that is none."""
    gate = tmp_path / "gate"
    gate.write_bytes(Path("/bin/true").read_bytes())
    folder = tmp_path / "folder"
    make = [sys.executable, ROOT / "scripts" / "card_folder.py", gate, folder]
    subprocess.run(make, check=True, capture_output=True)
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        [folder / "check"], env=environment, capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "SKIPPED: PyTorch sees no graphics card here\n"
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    assert size < 60 * parts.MIB
