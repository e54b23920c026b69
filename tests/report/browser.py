# SPDX-License-Identifier: Apache-2.0
"""A page as headless Chromium sees it, without a driver: console, picture, widths."""

import dataclasses
import functools
import json
import os
import pathlib
import re
import shutil
import subprocess


@functools.cache
def find() -> str | None:
    """The browser, if there is one. Ubuntu's package is a script that asks for another one."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return next((path for name in names if (path := shutil.which(name)) and _runs(path)), None)


def _runs(path: str) -> bool:
    try:
        done = subprocess.run([path, "--version"], capture_output=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


@dataclasses.dataclass
class Seen:
    console: list[str]  #: lines that the page or the browser wrote about it
    answers: dict  #: what `script` returned
    screenshot: pathlib.Path


# Put beside the page in a frame: a window of headless Chromium is at least 500 pixels wide.
_FRAME = """<!doctype html><style>body{{margin:0}}iframe{{border:0;display:block}}</style>
<iframe src="{page}" width="{width}" height="{height}"></iframe>
<script>
onload = () => setTimeout(() => {{
  const seen = document.querySelector("iframe").contentWindow;
  const answer = ((window) => {{ const document = window.document; {script} }})(seen);
  console.log("ANSWER " + JSON.stringify(answer));
}}, 1500);
</script>"""


def look(page: pathlib.Path, width: int, height: int, script: str = "return {};") -> Seen:
    """Opens `page` in a frame of that size, runs `script` in it and takes a picture."""
    frame = page.with_name(f"{page.stem}-{width}.html")
    frame.write_text(
        _FRAME.format(page=page.name, width=width, height=height, script=script), encoding="utf-8"
    )
    screenshot = page.with_name(f"{page.stem}-{width}.png")
    command = [
        find(), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
        "--allow-file-access-from-files", "--enable-logging=stderr", "--disable-dev-shm-usage",
        f"--user-data-dir={page.parent / 'profile'}", "--virtual-time-budget=10000",
        f"--window-size={max(width, 500)},{height}", f"--screenshot={screenshot}",
        frame.resolve().as_uri(),
    ]  # fmt: skip
    environment = {**os.environ, "DBUS_SESSION_BUS_ADDRESS": "disabled:"}
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=300, env=environment
    )
    lines = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    answers = {}
    others = []
    for line in lines:
        answer = re.search(r'"ANSWER (.*)", source: ', line)
        if answer:
            answers = json.loads(answer[1])
        else:
            others.append(line)
    return Seen(others, answers, screenshot)
