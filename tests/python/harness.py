"""Counts checks and prints the last line that tests/run.sh reads. Every test_… function of a file is run."""

import contextlib
import sys
import traceback

passed = failed = skipped = 0


def check(ok, what=""):
    global passed, failed
    if ok:
        passed += 1
    else:
        failed += 1
        frame = sys._getframe(1)
        print(f"failed: {frame.f_code.co_filename}:{frame.f_lineno} {what}")


def same(got, want):
    check(got == want, f"got {got!r}, wanted {want!r}") if got != want else check(True)


def skip(why):
    global skipped
    skipped += 1
    print(f"skip: {why}")


@contextlib.contextmanager
def raises(kind, *words):
    """The block raises [kind], whose text has all the words."""
    global passed, failed
    try:
        yield
    except kind as e:
        lost = [w for w in words if w not in str(e)]
        if not lost:
            passed += 1
            return
        message = f"no {lost} in: {e}"
    except BaseException as e:
        message = f"raised {type(e).__name__}: {e}"
    else:
        message = "nothing was raised"
    failed += 1
    frame = sys._getframe(2)
    print(f"failed: {frame.f_code.co_filename}:{frame.f_lineno} {message}")


def run(module):
    global failed
    for name, test in list(module.items()):
        if not name.startswith("test_"):
            continue
        try:
            test()
        except Exception:
            failed += 1
            print(f"failed: {name}")
            traceback.print_exc(file=sys.stdout)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    sys.exit(failed > 0)
