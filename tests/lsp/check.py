"""Counting for the parts of tests/lsp/run.sh: python3 PART.py NETC ROOT FOLDER."""
import os, sys, traceback
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
netc, root, folder = sys.argv[1:4]
passed = failed = 0


def check(ok, *what):
    global passed, failed
    if ok:
        passed += 1
    else:
        failed += 1
        print("failed:", *what, "at line", sys._getframe(1).f_lineno)


def part(f):
    """Runs a part at once; what it raises is a failure."""
    global failed
    try:
        f()
    except Exception:
        failed += 1
        print("failed:", f.__name__, traceback.format_exc().replace("\n", " | "))


def finish():
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


def uri(path):
    return "file://" + path


def write(name, text):
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as f:
        f.write(text)
    return path
