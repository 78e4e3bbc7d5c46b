#!/usr/bin/python3
"""cofferdam-zygote --check: every protection is there, as root and as an ordinary user; bad options are refused."""
import os
import subprocess
import sys
import tempfile
import shutil

ZYGOTE = sys.argv[1]
NOT_REQUIRED = {"distinct-uids", "memory-limit", "process-limit", "cpu-limit", "landlock-kernel", "notice"}


def check(what, program, prefix):
    done = subprocess.run(prefix + [program, "--check"], capture_output=True, text=True, timeout=120)
    lines = dict(l.split(": ", 1) for l in done.stdout.splitlines() if ": " in l)
    missing = [n for n, v in lines.items() if not v.startswith("yes") and n not in NOT_REQUIRED]
    assert done.returncode == 0 and not missing, (what, missing, done.stdout, done.stderr)
    for name in ("user-namespace", "seccomp", "no-network", "read-only-root", "no-capabilities", "own-pids"):
        assert lines[name].startswith("yes"), (what, name)


def refused(*args):
    done = subprocess.run([ZYGOTE, *args], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and done.stderr.startswith("cofferdam-zygote: "), (args, done)


refused("--nonsense")
refused("--memory=12")
refused("--memory=1x")
refused("--pids=-1")
refused("--bind=relative/path")
refused("--bind=/usr/../etc")
check("as started", ZYGOTE, [])
if os.geteuid() == 0 and shutil.which("setpriv"):
    with tempfile.TemporaryDirectory() as d:  # the build folder may be out of an ordinary user's reach
        os.chmod(d, 0o755)
        copy = shutil.copy(ZYGOTE, d)
        check("ordinary user", copy, ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"])
print("ok")
