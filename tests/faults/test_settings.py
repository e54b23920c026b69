# SPDX-License-Identifier: Apache-2.0
"""Settings that cannot be honoured end the program before it trains; nothing is guessed."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.in_child import in_child
from tests.faults.starter import activate, clean_environment

WRONG = [
    ("BUDGET", "0", "leaves nothing"),
    ("BUDGET", "0GiB", "leaves nothing"),
    ("BUDGET", "-1", "is not a budget"),
    ("BUDGET", "", "is not a budget"),
    ("BUDGET", "lots", "is not a budget"),
    ("BUDGET", "12 GiBs", "12 GiBs"),
    ("BUDGET", "nan", "is not a budget"),
    ("BUDGET", "1e9", "1e9"),
    ("BUDGET", "120%", "not a share of the whole"),
    ("BUDGET", "0%", "not a share of the whole"),
    ("BUDGET", "1EiB", "short"),
    ("BUDGET", "99999999999999999999", "99999999999999999999"),
    (
        "BUDGET",
        "4KiB",
        "SPILLWAY_BUDGET: 4 KiB is too little: need 1 MiB, short 1020 KiB. Give more.",
    ),
    ("BUDGET", "1,5GiB", "with a point, such as 1.5GiB"),
    ("MIN_SIZE", "1,5MiB", "with a point"),
    ("BUDGET", "cuda:1GiB,cpu:1GiB", "not supported yet"),
    ("MODE", "enfroce", 'SPILLWAY_MODE: "enfroce" is not one of'),
    ("MODE", "enfroce", 'Did you mean "enforce"?'),
    ("START_AT", "1.5", "share from 0 to 1"),
    ("MIN_SIZE", "-3", "-3"),
    ("OVER", "perhaps", "allow, refuse"),
    ("STRICT", "maybe", "neither 1 nor 0"),
    ("EMULATE_DEVICE", "1", "less than"),
    ("DISK_BUDGET", "0", "leaves nothing"),
    ("DISK_BUDGET", "4KiB", "SPILLWAY_DISK_BUDGET: 4 KiB is too little"),
    ("TRACE", "step.json", 'SPILLWAY_TRACE: "step.json" is written by SPILLWAY_MODE=record alone.'),
    ("FAULTS", "spool.write", "spool.write"),
    ("FAULTS", "spool.write=EFOO@1", "EFOO"),
    ("SPOOL_DIR", "/no/such/directory", "/no/such/directory"),
    (
        "SPOOL_DIR",
        "/proc",
        "the spool directory /proc cannot be used: its file system takes no new",
    ),
    ("PLANNER", "lms", "PyTorch's steps follow no planner's plan yet"),
    ("PLAN_CACHE", "/tmp", "PyTorch's steps follow no planner's plan yet"),
    ("BUGDET", "1GiB", 'Did you mean "SPILLWAY_BUDGET"?'),
    ("XYZZYX", "1", "there are"),
]


def _train():
    import torch

    print("trained", torch.zeros(3).sum().item())


def _require_refused(child, *texts):
    assert child.status == 2, child.describe()
    assert "trained" not in child.stdout
    assert child.stderr.startswith("spillway: error: "), child.describe()
    assert "Traceback" not in child.stderr, child.describe()
    for text in texts:
        assert text in child.stderr, child.describe()


@pytest.mark.parametrize(("name", "value", "text"), WRONG)
def test_a_wrong_setting_ends_the_program(starter, name, value, text):
    _require_refused(starter.run(_train, **{"BUDGET": "64MiB", "STRICT": "0", name: value}), text)


def test_a_budget_above_the_memory_says_need_have_short(starter):
    child = starter.run(_train, BUDGET="900TiB")
    _require_refused(child, "need 900 TiB", "have ", "short ", "auto")


def test_a_spool_directory_that_is_a_file(starter, tmp_path):
    file = tmp_path / "file"
    file.touch(mode=0o777)
    child = starter.run(_train, BUDGET="64MiB", SPOOL_DIR=file)
    _require_refused(child, str(file), "SPILLWAY_SPOOL_DIR", "Not a directory")


def _train_in_a_read_only_file_system():
    """Status 77 where the kernel does not allow a mount to be tried."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    new_mounts, new_users, read_only = 0x00020000, 0x10000000, 1
    Path("mounted").mkdir()
    if libc.unshare(new_users | new_mounts) != 0 or libc.mount(
        b"none", b"mounted", b"tmpfs", read_only, None
    ):
        sys.exit(77)
    activate(BUDGET="64MiB", SPOOL_DIR=os.path.abspath("mounted"))
    _train()


def test_a_spool_directory_on_a_read_only_file_system(starter):
    child = starter.run(_train_in_a_read_only_file_system)
    if child.status == 77:
        pytest.skip("this kernel lets us mount nothing")
    _require_refused(child, "Read-only file system", "SPILLWAY_SPOOL_DIR")


@in_child
def test_no_permission_in_the_spool_directory():
    """Seen when the first storage leaves. Values stay right, and raising the budget helps."""
    import spillway
    from tests.faults.pressure import filled, is_intact

    activate(BUDGET="12MiB", FAULTS="spool.open=EACCES@1+")
    held, reason = [], ""
    try:
        for value in range(24):
            held.append(filled(value))
    except RuntimeError as error:
        reason = str(error)
    assert "no permission" in reason and "SPILLWAY_SPOOL_DIR" in reason, reason
    held.pop()  # comparing takes memory too
    assert all(is_intact(tensor, value) for value, tensor in enumerate(held))
    spillway.enable("64MiB")
    held += [filled(value) for value in range(len(held), 24)]
    assert all(is_intact(tensor, value) for value, tensor in enumerate(held))


@in_child
def test_what_enable_does_not_name_is_as_the_environment_says():
    import torch

    import spillway
    from tests.faults.pressure import filled

    activate(BUDGET="1GiB", MIN_SIZE="8MiB")
    spillway.enable("24MiB")
    try:
        held = [filled(value, 4) for value in range(8)]
    except torch.OutOfMemoryError as error:
        assert "smaller than what is moved" in str(error), error
    else:
        raise AssertionError("32 MiB that do not move fitted 24 MiB")
    with spillway.budget("24MiB", min_size="1MiB"):
        held = [filled(value, 4) for value in range(8)]
        assert [tensor[0].item() for tensor in held] == list(range(8))


def test_statistics_asked_for_outside_are_written_though_the_program_enables(tmp_path):
    written = tmp_path / "stats.json"
    environment = clean_environment() | {
        "SPILLWAY_BUDGET": "1GiB", "SPILLWAY_STATS": str(written), "TMPDIR": str(tmp_path),
    }  # fmt: skip
    program = "import torch, spillway; spillway.enable('64MiB'); torch.ones(9)"
    subprocess.run([sys.executable, "-c", program], env=environment, check=True, timeout=120)
    assert json.loads(written.read_text())["budget_bytes"] == 64 << 20


@in_child
def test_an_error_of_enable_speaks_of_its_keywords():
    import spillway

    activate(BUDGET="1GiB")
    for wrong, expected in (
        ({"spooldir": "/tmp"}, 'spooldir is not a setting. Did you mean "spool_dir"?'),
        ({"budget": "lots"}, 'budget: "lots" is not a budget'),
        ({"budget": "4KiB"}, "budget: 4 KiB is too little"),
        ({"trace": "step.json"}, 'trace: "step.json" is written by mode=record alone'),
        ({"xyzzyx": 1}, "xyzzyx is not a setting; there are budget, host_budget, "),
        ({"spool_dir": "/proc"}, "the spool directory /proc cannot be used"),
    ):
        try:
            spillway.enable(**wrong)
        except spillway.UserError as error:
            assert str(error).startswith(expected), error
            assert not {"Unset", "unset"} & set(str(error).split()), error
        else:
            raise AssertionError(f"{wrong} was accepted")


def test_enabling_without_pytorch_is_told_in_a_sentence():
    ended = _fresh(
        "import sys; sys.modules['torch'] = None; import spillway; spillway.enable('64MiB')"
    )
    assert "spillway._native.UserError: this Python has no PyTorch" in ended.stderr, ended.stderr


@in_child
def test_a_refused_enable_changes_nothing():
    import spillway
    from tests.faults.training import BUDGET, require_budget_held, train

    expected = train()
    spillway.enable(BUDGET)
    before = spillway.stats().budget_bytes
    wrongs = [{"budget": 0}, {"budget": "1GiB", "mode": "x"}, {"bugdet": 3}, {"budget": "9PiB"}]
    for wrong in wrongs:
        try:
            spillway.enable(**wrong)
        except spillway.UserError as error:
            assert any(word in str(error) for word in ("SPILLWAY_", "budget", "mode")), error
        else:
            raise AssertionError(f"{wrong} was accepted")
        assert spillway.stats().budget_bytes == before
    assert train() == expected
    require_budget_held()


def _train_with_a_broken_installation(strict):
    """A copy of the package without the native library."""
    import spillway

    shutil.copytree(
        Path(spillway.__file__).parent, "broken/spillway", ignore=lambda *_: {"lib", "__pycache__"}
    )
    for name in [name for name in sys.modules if name.partition(".")[0] == "spillway"]:
        del sys.modules[name]
    sys.path.insert(0, os.path.abspath("broken"))
    activate(BUDGET="64MiB", STRICT=strict)
    _train()


def test_strict_decides_about_failures_of_our_own(starter):
    child = starter.run(_train_with_a_broken_installation, "1")
    _require_refused(child, "no adapter for torch", "SPILLWAY_STRICT=0")
    for word in ("0", " Off"):
        child = starter.run(_train_with_a_broken_installation, word).require_success()
        assert "spillway: not active: no adapter for torch" in child.stderr
        assert "trained 0.0" in child.stdout


def _fresh(code, **variables):
    """A new interpreter, as a user starts it."""
    return subprocess.run(
        [sys.executable, "-c", code],
        env=clean_environment() | variables,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_the_variables_of_planning_are_nothing_to_a_program():
    ended = _fresh("import torch; print('trained')", SPILLWAY_MACHINES="/m", SPILLWAY_COMMAND="/c")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == "trained\n"
    assert ended.stderr == ""


def test_import_torch_ends_with_status_2():
    ended = _fresh("import torch; print('trained')", SPILLWAY_BUGDET="64MiB")
    assert ended.returncode == 2, ended.stderr
    assert ended.stdout == ""
    assert ended.stderr.count("\n") == 1, ended.stderr
    assert 'Did you mean "SPILLWAY_BUDGET"?' in ended.stderr


def test_torch_can_be_told_to_load_no_plug_ins():
    """Then the variables have no effect, and the calls still work."""
    code = """if True:
        import torch, spillway
        try:
            spillway.stats()
        except RuntimeError as error:
            print("inactive" if "not active" in str(error) else error)
        spillway.enable("12MiB")
        tensors = [torch.full((1 << 18,), float(i)) for i in range(24)]
        print(all(bool((t == i).all()) for i, t in enumerate(tensors)))
        print(spillway.stats().evictions > 0)
    """
    ended = _fresh(code, SPILLWAY_BUDGET="64MiB", TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.split() == ["inactive", "True", "True"]
