# Tries to get out of a sandbox; `cofferdam-zygote --check` runs it inside one. One line per protection.
import ctypes
import os
import socket

libc = ctypes.CDLL(None, use_errno=True)


def line(name, is_there, detail):
    print("%s: %s %s" % (name, "yes" if is_there else "no", detail))


def refused(name, call, *args):
    try:
        call(*args)
        line(name, False, "was possible")
    except OSError as e:
        line(name, True, e.strerror)


def libc_call(function, *args):
    if function(*args) < 0:
        e = ctypes.get_errno()
        raise OSError(e, os.strerror(e))


def killed(name, call):
    """The filter kills whoever makes such a call: a child, here."""
    pid = os.fork()
    if pid == 0:
        call()
        os._exit(0)
    status = os.waitpid(pid, 0)[1]
    line(name, os.WIFSIGNALED(status) and os.WTERMSIG(status) == 31, "who tries is killed")


def connect(family, address):
    with socket.socket(family, socket.SOCK_STREAM) as s:
        s.settimeout(1)
        s.connect(address)


refused("no-network", connect, socket.AF_INET, ("192.0.2.1", 80))
refused("no-loopback", connect, socket.AF_INET, ("127.0.0.1", 80))
refused("no-raw-sockets", socket.socket, socket.AF_INET, socket.SOCK_RAW, 1)
refused("no-netlink", socket.socket, socket.AF_NETLINK, socket.SOCK_RAW, 0)
refused("no-vsock", socket.socket, 40, socket.SOCK_STREAM, 0)
refused("read-only-usr", open, "/usr/cofferdam-probe", "w")
refused("read-only-root", open, "/cofferdam-probe", "w")
refused("no-host-files", os.stat, "/root")
killed("no-mount", lambda: libc.mount(b"x", b"/tmp", b"tmpfs", 0, None))
killed("no-unshare", lambda: libc.unshare(0x10000000))
killed("no-ptrace", lambda: libc.ptrace(0, 0, 0, 0))
refused("no-kill-outside", os.kill, 2 ** 22 - 1, 9)
status = dict(l.rstrip("\n").split(":\t", 1) for l in open("/proc/self/status") if ":\t" in l)
line("no-capabilities", all(int(status[k], 16) == 0 for k in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")), "all sets empty")
line("seccomp-active", status["Seccomp"] == "2", "filter mode")
line("no-new-privs-active", status["NoNewPrivs"] == "1", "set")
line("own-pids", sum(p.isdigit() for p in os.listdir("/proc")) == 1 and os.getpid() == 1, "one process in sight")
line("no-host-facts", not os.path.exists("/proc/cpuinfo") and not os.path.exists("/sys/kernel"), "/proc shows processes only")
with open("/mnt/data/probe", "w") as f:
    f.write("x")
line("private-files", os.getcwd() == "/mnt/data" and os.listdir("/tmp") == [], "own /mnt/data and /tmp")
