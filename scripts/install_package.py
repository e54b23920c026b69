# SPDX-License-Identifier: Apache-2.0
"""Installs a finished build into the environment of the interpreter that runs this.

    .venv/bin/python scripts/install_package.py BUILD_FOLDER

The files and metadata are those of the wheel that pyproject.toml describes, without building
everything a second time under a build backend, and without a package index. The header and the
CMake package for libtorch programs are left out: `cmake --install BUILD_FOLDER` has them. What is
up to date is left alone, so that a second run costs nothing.
"""

import filecmp
import pathlib
import shutil
import sys
import sysconfig

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    from pip._vendor import tomli as tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent


def wanted_files(build):
    """Yields (target folder, path in it, content's path or bytes, executable)."""
    site = pathlib.Path(sysconfig.get_path("platlib"))
    scripts = pathlib.Path(sysconfig.get_path("scripts"))
    for source in sorted((ROOT / "python/spillway").rglob("*")):
        if source.is_file() and "__pycache__" not in source.parts:
            yield site, str(source.relative_to(ROOT / "python")), source, False
    for library in sorted((build / "adapters/torch").glob("libspillway_torch-*.so")):
        yield site, f"spillway/lib/{library.name}", library, True
    plugins = build / "adapters/tensorflow"
    for library in sorted(plugins.glob("libspillway_tensorflow-*.so")):
        yield site, f"spillway/lib/{library.name}", library, True
    # `import tensorflow` opens every library in this folder.
    for library in plugins.glob("libspillway_tensorflow_loader.so"):
        yield site, f"tensorflow-plugins/{library.name}", library, True
    for machine in sorted((ROOT / "machines").glob("*.json")):
        yield site, f"spillway/machines/{machine.name}", machine, False
    yield scripts, "spillway", build / "tools/spillway", True


def metadata():
    """The dist-info folder's name and files, from pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    entry_points = ""
    for group, entries in project["entry-points"].items():
        entry_points += f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in entries.items())
    header = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    return f"{project['name']}-{project['version']}.dist-info", {
        "METADATA": header,
        "INSTALLER": "scripts/install_package.py\n",
        "entry_points.txt": entry_points,
    }


def put(target, content, executable):
    """Replaces rather than overwrites: a running process may have the old file mapped."""
    if isinstance(content, bytes):
        if target.is_file() and target.read_bytes() == content:
            return False
    elif target.is_file() and filecmp.cmp(content, target, shallow=False):
        return False
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_name(target.name + ".new")
    if isinstance(content, bytes):
        fresh.write_bytes(content)
    else:
        shutil.copyfile(content, fresh)
    fresh.chmod(0o755 if executable else 0o644)
    fresh.replace(target)
    return True


def main(build):
    if sys.prefix == sys.base_prefix:
        sys.exit(f"{sys.executable} is not in a virtual environment: use pip install there")
    site = pathlib.Path(sysconfig.get_path("platlib"))
    info, texts = metadata()
    wanted = list(wanted_files(build))
    wanted += [(site, f"{info}/{name}", text.encode(), False) for name, text in texts.items()]
    paths = [pathlib.Path(folder, name) for folder, name, _, _ in wanted]
    changed = [put(p, content, x) for p, (_, _, content, x) in zip(paths, wanted)]

    # A file of a former version that this one does not have must not linger.
    record = site / info / "RECORD"
    for old in sorted(site.glob("spillway-*.dist-info")):
        if old.name != info:
            shutil.rmtree(old)
    for file in sorted((site / "spillway").rglob("*")):
        if file.is_file() and file not in paths and "__pycache__" not in file.parts:
            file.unlink()
            changed.append(True)
    scripts = pathlib.Path(sysconfig.get_path("scripts"))
    names = [str(p.relative_to(site)) for p in paths if p.is_relative_to(site)]
    names += [f"../../../bin/{p.name}" for p in paths if p.is_relative_to(scripts)]
    record.write_text("".join(f"{name},,\n" for name in [*names, f"{info}/RECORD"]))
    if any(changed):
        print(f"installed spillway into {sys.prefix}")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]).resolve())
