#!/usr/bin/python3
"""When the owner of local sandboxes dies, in whatever way, nothing of them is left: processes, control groups.
Speaks to a zygote directly (sb_zygote_proto.h), so that each of the two can be killed on its own."""
import array
import glob
import os
import signal
import socket
import struct
import sys
import time

ZYGOTE = sys.argv[1]


def start(*options):
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        os.dup2(theirs.fileno(), 3)
        os.set_inheritable(3, True)
        os.closerange(4, 64)
        os.execv(ZYGOTE, ["cofferdam-zygote", *options])
    theirs.close()
    ours.settimeout(60)
    return pid, ours


def message(s):
    data, ancillary, _, _ = s.recvmsg(4096, socket.CMSG_SPACE(8))
    assert len(data) >= 12, "the zygote ended"
    fds = array.array("i")
    for _, _, raw in ancillary:
        fds.frombytes(raw)
    kind, _, _, _, seq, num = struct.unpack_from("<BBBBIi", data)
    return kind, num, list(fds), data[12:].decode()


def wait_for(s, wanted):
    while True:
        m = message(s)
        if m[0] == wanted:
            return m
        assert m[0] != 2, m


def exact(s, n):
    data = b""
    while len(data) < n:
        piece = s.recv(n - len(data))
        assert piece, "the sandbox ended"
        data += piece
    return data


def run(s, code):
    code = code.encode()
    s.sendall(struct.pack("<BBHI", 3, 1, 0, 16 + len(code)) + struct.pack("<IIQ", 1, 10, 1 << 20) + code)
    text = b""
    while True:
        kind, _, _, n = struct.unpack("<BBHI", exact(s, 8))
        data = exact(s, n)
        if kind == 9:
            return text
        text += data if kind in (4, 5) else b""


SEEN = []  # every control group that a zygote of this test named; others' are not looked at


def world():
    """A zygote with two sandboxes, one of them with a background process."""
    pid, control = start()
    groups = wait_for(control, 1)[3].split()
    SEEN.extend(groups)
    boxes = []
    for seq in (1, 2):
        control.send(struct.pack("<BBBBIi", 4, 1, 0, 0, seq, 0))
        _, child, fds, _ = wait_for(control, 5)
        boxes.append((child, socket.socket(fileno=fds[0]), fds[1]))
    run(boxes[0][1], "import subprocess\nsubprocess.Popen(['sleep', '1000'])")
    return pid, control, groups, boxes


def pids_of(groups):
    found = set()
    for g in groups:
        for path in glob.glob(g + "/*/cgroup.procs"):
            found.update(int(p) for p in open(path).read().split())
    return found


def gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    try:
        return open("/proc/%d/stat" % pid).read().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def until(what, condition):
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.01)


def check(how, groups_too):
    pid, control, groups, boxes = world()
    pids = pids_of(groups) | {child for child, _, _ in boxes}
    how(pid, control)
    until("processes are left: %s" % how.__name__, lambda: all(gone(p) for p in pids - {pid}))
    os.waitpid(pid, 0)
    if groups_too:
        until("control groups are left: %s" % how.__name__, lambda: not any(os.path.exists(g) for g in groups))
    for _, s, fd in boxes:
        s.close()
        os.close(fd)
    control.close()


def owner_dies(_pid, control):
    control.shutdown(socket.SHUT_RDWR)


def zygote_is_stopped(pid, _control):
    os.kill(pid, signal.SIGTERM)


def zygote_is_killed(pid, _control):
    os.kill(pid, signal.SIGKILL)


def calls_are_named():
    """--seccomp-trace: what the filter refuses or kills for is named, and refused."""
    pid, control = start("--seccomp-trace")
    wait_for(control, 1)
    control.send(struct.pack("<BBBBIi", 4, 1, 0, 0, 1, 0))
    _, _, fds, _ = wait_for(control, 5)
    s = socket.socket(fileno=fds[0])
    assert exact(s, 8)[0] == 1
    text = run(s, "import ctypes\nl = ctypes.CDLL(None)\nfor n in (250, 319, 425): print(l.syscall(n, 0, 0, 0))")
    for name in (b"keyctl (250)", b"memfd_create (319)", b"io_uring_setup (425)"):
        assert b"system call " + name + b" is not allowed" in text, text
    assert text.count(b"-1") == 3, text
    s.close()
    os.close(fds[1])
    control.close()
    os.waitpid(pid, 0)


calls_are_named()
check(owner_dies, True)
check(zygote_is_stopped, True)
check(zygote_is_killed, False)  # its groups are the owner's to remove, or ...
check(owner_dies, True)         # ... the next zygote's, which has just swept them
left = [g for g in SEEN if os.path.exists(g)]
assert not left, "left behind: %s" % left
print("ok")
