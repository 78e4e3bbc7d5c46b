#!/usr/bin/python3
"""Runs unittest files, each in a process of its own, a few at a time. Ends with "N passed, N failed"."""
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

PARALLEL = int(os.environ.get("CFD_TEST_PARALLEL", "2"))


def run(path):
    p = subprocess.run([sys.executable, "-u", path, "-v"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                       errors="replace")
    ran = re.search(r"^Ran (\d+) tests?", p.stdout, re.M)
    total = int(ran.group(1)) if ran else 0
    bad = sum(int(n) for n in re.findall(r"(?:failures|errors|unexpected successes)=(\d+)", p.stdout))
    skipped = sum(int(n) for n in re.findall(r"skipped=(\d+)", p.stdout))
    failed = max(bad, 1) if p.returncode != 0 or total == 0 else 0  # a file that ran nothing has failed
    print("=== %s\n%s" % (path, p.stdout), flush=True)
    return max(total - failed - skipped, 0), failed


def main():
    with ThreadPoolExecutor(PARALLEL) as pool:
        results = list(pool.map(run, sys.argv[1:]))
    passed, failed = sum(r[0] for r in results), sum(r[1] for r in results)
    print("%d passed, %d failed" % (passed, failed))
    return 0 if failed == 0 and passed > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
