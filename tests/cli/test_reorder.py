# SPDX-License-Identifier: Apache-2.0
"""A recorded step with its ops in depth-first order, as a person makes it and plans for it."""

import json
import pathlib

import pytest

MIB = 2**20
GIB = 2**30
ROOT = pathlib.Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "planners" / "README.md"


def towers(count, layers):
    """Towers side by side, run layer by layer: every layer but the last makes 64 MiB of 64 MiB."""
    storages = [{"id": 0, "bytes": MIB, "role": "parameter", "persistent": True, "name": "weight"}]
    ops = []
    tops = [0] * count
    for layer in range(layers):
        for tower in range(count):
            below, made = tops[tower], len(storages)
            size = 64 * MIB if layer + 1 < layers else MIB
            storages.append({"id": made, "bytes": size, "role": "activation"})
            op = {
                "name": f"layer{layer}", "module": f"tower{tower}", "ns": 10_000_000,
                "recomputable": True, "creates": [made], "reads": [below], "writes": [made],
            }  # fmt: skip
            ops.append(op | ({"frees": [below]} if below else {}))
            tops[tower] = made
    ops.append({"name": "sum", "ns": 1_000_000, "reads": [0, *tops], "writes": [0], "frees": tops})
    return {"spillway_trace": 2, "framework": "none", "storages": storages, "ops": ops}


@pytest.fixture
def step(tmp_path):
    path = tmp_path / "step.json"
    path.write_text(json.dumps(towers(4, 3)), encoding="utf-8")
    return str(path)


def test_towers_run_one_after_the_other(spillway, step, tmp_path):
    other = str(tmp_path / "other.json")
    made = spillway("trace", "reorder", step, "--depth-first", "-o", other, "--json")
    assert (made.returncode, made.stderr) == (0, "")
    # By layers: the weight, 64 MiB of every tower and those being made. By towers: two layers of
    # one tower, and the ends of those before.
    assert json.loads(made.stdout) == {
        "trace": other, "ops": 13, "moved": 10,
        "peak_before": (1 + 4 * 64 + 64) * MIB, "peak": (1 + 3 + 2 * 64) * MIB,
    }  # fmt: skip
    ops = json.loads(spillway("trace", "show", other, "--json").stdout)
    assert [op.get("module") for op in ops] == [
        *(f"tower{tower}" for tower in range(4) for _ in range(3)), None,
    ]  # fmt: skip
    assert "ops in depth-first order" in spillway("trace", "stats", other).stdout


def test_every_planner_plans_the_other_step(spillway, step, tmp_path):
    other, plan = str(tmp_path / "other.json.zst"), str(tmp_path / "plan.json")
    assert spillway("trace", "reorder", step, "--depth-first", "-o", other).returncode == 0
    words = ("--machine", "v100-pcie", "--budget", "160MiB", "--planner", "partitioned")
    assert spillway("plan", other, *words, "-o", plan).returncode == 0
    assert spillway("simulate", other, "--plan", plan).returncode == 0
    refused = spillway("simulate", step, "--plan", plan)
    assert refused.returncode == 2 and "made for another trace" in refused.stderr
    compared = spillway("compare", other, "--budget", "160MiB", "--machine", "v100-pcie")
    assert compared.returncode == 0, compared.stderr


def test_no_order_is_a_mistake_that_says_what_to_give(spillway, step, tmp_path):
    other = tmp_path / "other.json"
    for words, text in (
        (("-o", str(other)), "give --depth-first"),
        (("--depth-first",), "give -o FILE"),
        (("--depth-first", "-o", str(tmp_path / "no" / "folder.json")), "folder.json"),
    ):
        result = spillway("trace", "reorder", step, *words)
        assert result.returncode == 2, (words, result.stderr)
        assert result.stdout == "" and text in result.stderr
    assert not other.exists()


def rows_of_the_page():
    """The table of what depth-first order gains: recording, figures, budget."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    head = lines.index(next(line for line in lines if line.startswith("| recording |")))
    rows = []
    for line in lines[head + 2 :]:
        if not line:
            break
        rows.append([cell.strip(" `") for cell in line.strip("|").split("|")])
    return rows


@pytest.mark.parametrize("row", rows_of_the_page(), ids=lambda row: row[0])
def test_the_page_says_what_depth_first_order_gains(spillway, row, tmp_path):
    step = str(ROOT / "benchmarks" / "paper_tables" / "recordings" / f"{row[0]}.json.zst")
    other = str(tmp_path / "other.json.zst")
    made = spillway("trace", "reorder", step, "--depth-first", "-o", other, "--json")
    peaks = json.loads(made.stdout)
    smallest, seconds = [], []
    words = ("--planner", "partitioned", "--machine", "titan-x-maxwell", "--json", "--budget")
    for trace in (step, other):
        smallest.append(json.loads(spillway("plan", trace, *words, "1MiB").stdout))
        seconds.append(json.loads(spillway("plan", trace, *words, row[5]).stdout)["step_ns"] / 1e9)
    assert row[1:] == [
        f"{peaks['peak_before'] / GIB:.2f}", f"{peaks['peak'] / GIB:.2f}",
        *(f"{answer['smallest_budget'] / GIB:.2f}" for answer in smallest),
        row[5], *(f"{each:.2f}" for each in seconds),
    ]  # fmt: skip


def test_the_page_has_all_three_networks_of_the_paper():
    networks = [row[0].split("-")[0] for row in rows_of_the_page()]
    assert networks == ["resnet_layers", "mixture_of_experts", "deep_speech"]
