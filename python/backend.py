"""Builds the wheel: what `pip install .` calls (PEP 517), and `make wheel`.

A wheel is a zip of the package as `make python` makes it, with four files about it. In the
environment BUILD names the build folder (default build, or a temporary one if that cannot be
written), PLATFORM the platform of the wheel's tag (default this one's; manylinux_2_28_x86_64, where
the compiler was for that).
"""

import base64
import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def _version():
    with open(os.path.join(ROOT, "include", "netc.h"), encoding="utf-8") as f:
        text = f.read()
    return ".".join(re.search(rf"#define NETC_VERSION_{part} (\d+)", text)[1] for part in ("MAJOR", "MINOR", "PATCH"))


def _metadata():
    with open(os.path.join(ROOT, "docs", "python.md"), encoding="utf-8") as f:
        description = f.read()
    return "\n".join([
        "Metadata-Version: 2.1",
        "Name: netc",
        f"Version: {_version()}",
        "Summary: A compiler for neural networks: compile, train and run them from Python",
        "Requires-Python: >=3.10",
        "Classifier: Programming Language :: Python :: 3",
        "Classifier: Operating System :: POSIX :: Linux",
        "Description-Content-Type: text/markdown",
        "", description])


def _tag():
    return "cp310-abi3-" + re.sub(r"[-.]", "_", os.environ.get("PLATFORM") or sysconfig.get_platform())


def _check_platform(entries):
    """A manylinux tag says which glibc is enough: that of the symbols the library asks for."""
    wanted = re.search(r"manylinux_2_(\d+)_", _tag())
    needed = [int(v) for _, data in entries for v in re.findall(rb"GLIBC_2\.(\d+)", data)]
    if wanted and max(needed, default=0) > int(wanted[1]):
        raise SystemExit(f"this build needs glibc 2.{max(needed)}, so its wheel is none for {_tag()}: "
                         "build it for that (docs/python.md)")


def _wheel_text():
    return f"Wheel-Version: 1.0\nGenerator: netc\nRoot-Is-Purelib: false\nTag: {_tag()}\n"


def _writable(folder):
    if not os.path.isdir(folder):
        return os.access(os.path.dirname(folder), os.W_OK)
    return all(os.access(d, os.W_OK) for d, _, _ in os.walk(folder))  # (another user may have built in it)


def _make(spare):
    """The folder of the package, built in the tree or, where that cannot be written, in [spare]."""
    build = os.environ.get("BUILD") or ("build" if _writable(os.path.join(ROOT, "build")) else spare)
    jobs = f"-j{len(os.sched_getaffinity(0))}"
    command = ["make", "--no-print-directory", jobs, "python", f"BUILD={build}", f"PYTHON={sys.executable}"]
    command += [f"{name}={os.environ[name]}" for name in ("CC", "SANITIZE", "OPT") if os.environ.get(name)]
    if subprocess.run(command, cwd=ROOT).returncode:
        raise SystemExit("netc could not be built; it needs a C compiler, make, flex, bison, zlib's and Python's "
                         "headers (`make deps` installs them on Debian and Ubuntu)")
    return os.path.join(ROOT, build, "python")


def _files(folder):
    """(name in the wheel, path) of the package."""
    for name in sorted(os.listdir(os.path.join(folder, "netc"))):
        if name.endswith((".py", ".pyi", ".typed", ".so")):
            yield f"netc/{name}", os.path.join(folder, "netc", name)


def _contents(path):
    if path.endswith(".so") and shutil.which("strip"):
        with tempfile.TemporaryDirectory() as folder:
            bare = os.path.join(folder, "bare.so")
            subprocess.run(["strip", "-s", "-o", bare, path], check=True)
            path = bare
            with open(bare, "rb") as f:
                return f.read()
    with open(path, "rb") as f:
        return f.read()


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    about = f"netc-{_version()}.dist-info"
    with tempfile.TemporaryDirectory(prefix="netc-build-") as spare:
        entries = [(name, _contents(path)) for name, path in _files(_make(spare))]
    with open(os.path.join(ROOT, "LICENSE"), encoding="utf-8") as f:
        licence = f.read()
    _check_platform(entries)
    entries += [(f"{about}/METADATA", _metadata().encode()), (f"{about}/WHEEL", _wheel_text().encode()),
                (f"{about}/LICENSE", licence.encode())]
    record = ""
    for name, data in entries:
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(data)}\n"
    entries.append((f"{about}/RECORD", (record + f"{about}/RECORD,,\n").encode()))
    wheel = f"netc-{_version()}-{_tag()}.whl"
    with zipfile.ZipFile(os.path.join(wheel_directory, wheel), "w", zipfile.ZIP_DEFLATED, compresslevel=9) as z:
        for name, data in entries:
            info = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
            info.external_attr = (0o755 if name.endswith(".so") else 0o644) << 16
            z.writestr(info, data, zipfile.ZIP_DEFLATED)
    return wheel


def build_sdist(sdist_directory, config_settings=None):
    """The files that git knows, or without git those of the folder as it was unpacked."""
    top = f"netc-{_version()}"
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    names = [n for n in listed.stdout.decode().split("\0") if n]
    if not names:
        names = [os.path.relpath(os.path.join(d, f), ROOT) for d, _, files in os.walk(ROOT) for f in files]
        names = [n for n in names if not n.startswith(("build", ".git/")) and n != "PKG-INFO"]
    with tempfile.NamedTemporaryFile("w", suffix="PKG-INFO") as about:
        about.write(_metadata())
        about.flush()
        with tarfile.open(os.path.join(sdist_directory, f"{top}.tar.gz"), "w:gz", format=tarfile.PAX_FORMAT) as t:
            for name in sorted(names):
                path = os.path.join(ROOT, name)
                if os.path.exists(path):
                    t.add(path, f"{top}/{name}", recursive=False)
            t.add(about.name, f"{top}/PKG-INFO")
    return f"{top}.tar.gz"


if __name__ == "__main__":
    print(build_wheel(sys.argv[1]))
