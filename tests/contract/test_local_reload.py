#!/usr/bin/python3
"""Limits that change with a reload: sandboxes that exist keep theirs and their state, new ones have the new ones, and the
old zygote ends with its last sandbox. And local.root: sandboxes see a prepared root instead of the host's directories."""
import ctypes
import os
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "escape"))
from host import Host, children, comm  # noqa: E402

FILES = "import resource\nprint(resource.getrlimit(resource.RLIMIT_NOFILE)[0])"


def config(folder, text):
    path = os.path.join(folder, "config.yaml")
    with open(path, "w") as f:
        f.write("cofferdam:\n  local: {%s, pool_parked: 2, pool_warm: 1}\n" % text)
    return path


def zygotes(host):
    return [p for p in children(host.process.pid) if comm(p).startswith("cofferdam-zygot")]


def until(what, f):
    end = time.monotonic() + 60
    while not f():
        assert time.monotonic() < end, what
        time.sleep(.02)


def reload_changes_limits(program, folder):
    host = Host(program, config(folder, "memory: 256m, files: 100"))
    old = host.create()
    assert old.run("x = 5\n" + FILES).out == b"100\n"
    first = zygotes(host)
    host.reload(config(folder, "memory: 256m, files: 50"))
    new = host.create()  # waits for the new zygote
    assert new.run(FILES).out == b"50\n"
    assert old.run("print(x)\n" + FILES).out == b"5\n100\n"
    assert len(zygotes(host)) == 2
    old.destroy()
    until("the old zygote stays", lambda: len(zygotes(host)) == 1 and zygotes(host) != first)
    host.reload(config(folder, "memory: 256m, files: 50"))  # nothing that concerns a zygote
    assert new.run("print(1)").out == b"1\n"
    now = zygotes(host)
    assert len(now) == 1
    new.destroy()
    assert host.stop() == 0


def prepared_root(program, folder):
    root = os.path.join(folder, "root")
    os.makedirs(os.path.join(root, "usr"))
    os.makedirs(os.path.join(root, "etc"))
    for name in ("lib", "lib64", "bin", "sbin"):
        os.symlink("usr/" + name, os.path.join(root, name))
    with open(os.path.join(root, "etc", "mime.types"), "w") as f:
        f.write("of the prepared root")
    text = "memory: 256m, root: '%s'" % root
    try:
        Host(program, config(folder, text)).stop()
        raise AssertionError("a root without an interpreter started")
    except RuntimeError as e:
        assert "zygote" in str(e), e
    if os.geteuid() != 0:
        return  # an ordinary user has no root at hand that holds an interpreter
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.unshare(0x20000) == 0 and libc.mount(b"none", b"/", None, 0x44000, None) == 0  # private mounts
    assert libc.mount(b"/usr", os.path.join(root, "usr").encode(), None, 0x5000, None) == 0
    host = Host(program, config(folder, text))
    box = host.create()
    r = box.run("import os\nprint(open('/etc/mime.types').read(), os.path.exists('/etc/alternatives'))")
    assert r.out == b"of the prepared root False\n", (r.out, r.exceptions)
    box.destroy()
    assert host.stop() == 0
    assert libc.umount2(os.path.join(root, "usr").encode(), 2) == 0


def main():
    program = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="cfd-reload-") as folder:
        reload_changes_limits(program, folder)
        prepared_root(program, folder)
    print("ok")


main()
