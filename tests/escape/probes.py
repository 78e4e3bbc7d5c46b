"""What a hostile tenant would try. Each probe is code that runs inside a sandbox and a check from outside.

`World` (run.py) gives: host, secret (a host file with a token), token, listeners, victim (another sandbox), attack().
"""
import os
import socket
import time

PROBES = []

PRELUDE = """
import ctypes, os, signal, socket, struct, sys, time
libc = ctypes.CDLL(None, use_errno=True)
def call(nr, *args):
    libc.syscall.restype = ctypes.c_long
    r = libc.syscall(ctypes.c_long(nr), *[ctypes.c_long(a) if isinstance(a, int) else a for a in args])
    return r if r >= 0 else -ctypes.get_errno()
def attempt(what, f, *args, **kw):
    try:
        r = f(*args, **kw)
        print('BREACH', what, repr(r)[:200])
    except (OSError, ValueError) as e:
        print('held', what, type(e).__name__, getattr(e, 'errno', ''))
"""


def probe(f):
    PROBES.append((f.__name__, f))
    return f


def held(name, code, wants=1):
    """Every attempt fails with an error; the sandbox lives on."""
    def run(w):
        r = w.attack(code)
        assert r.how == "ok" and not r.exceptions, (r.how, r.text, r.exceptions)
        assert b"BREACH" not in r.out and r.out.count(b"held") >= wants, r.out
        assert w.token not in r.all, "the token came out"
    PROBES.append((name, run))


def killed(name, code):
    """The call kills whoever makes it, and the provider says why."""
    def run(w):
        r = w.attack(code + "\nprint('BREACH')")
        assert r.how == "lost" and "forbidden" in r.text, (r.how, r.text, r.out)
        assert b"BREACH" not in r.out
    PROBES.append((name, run))


def survives(name, code, check=None, timeout_ms=20000):
    """Whatever happens to the attacker, it ends in time, and run.py checks everybody else."""
    def run(w):
        r = w.attack(code, timeout_ms=timeout_ms)
        assert r.took < timeout_ms / 1000 + 6, r.took
        if check is not None:
            check(w, r)
    PROBES.append((name, run))


# ---- host files, environment, other sandboxes -----------------------------------------------------

held("file_host_secret", "attempt('open', lambda: open(SECRET).read())\nattempt('stat', os.stat, SECRET)", 2)
held("file_shadow_and_root", "for p in ('/etc/shadow', '/root', '/home', '/var/log', '/boot', '/sys', '/run/systemd'):\n"
     "    attempt(p, os.listdir if p != '/etc/shadow' else os.stat, p)", 7)
held("file_dot_dot", "attempt('dots', lambda: open('/mnt/data/' + '../' * 40 + SECRET).read())\n"
     "fd = os.open('/', os.O_PATH)\nfor _ in range(30): fd = os.open('..', os.O_PATH, dir_fd=fd); os.fchdir(fd)\n"
     "attempt('fchdir', lambda: open('.' + SECRET).read())\nos.chdir('/mnt/data')", 2)
held("file_symlink", "os.symlink(SECRET, 'l'); attempt('link', lambda: open('l').read())\n"
     "os.symlink('/proc/1/root' + SECRET, 'm'); attempt('root link', lambda: open('m').read())", 2)
held("file_hard_link", "attempt('link', os.link, '/etc/passwd', '/mnt/data/p')\nattempt('usr', os.link, '/usr/bin/env', '/tmp/e')", 2)
held("file_read_only", "for p in ('/x', '/usr/x', '/etc/x', '/lib/x', '/mnt/x', '/dev/x', '/proc/x', '/var/x'):\n"
     "    attempt(p, open, p, 'w')\nattempt('unlink', os.unlink, '/usr/bin/env')\nattempt('chmod', os.chmod, '/usr/bin/env', 0o777)\n"
     "attempt('rename', os.rename, '/usr', '/mnt/data/usr')\nattempt('truncate', os.truncate, '/etc/passwd', 0)\n"
     "attempt('rmdir', os.rmdir, '/mnt/data')\nattempt('utime', os.utime, '/etc/passwd')", 14)
held("file_devices", "have = sorted(os.listdir('/dev'))\n"
     "print('held' if have == ['fd', 'full', 'null', 'random', 'shm', 'stderr', 'stdin', 'stdout', 'urandom', 'zero'] else 'BREACH', have)\n"
     "for p in ('/dev/tty', '/dev/mem', '/dev/kmsg', '/dev/fuse', '/dev/kvm', '/dev/ptmx', '/dev/vda'): attempt(p, open, p)", 8)
held("file_mknod", "import stat\nattempt('mem', os.mknod, 'm', 0o666 | stat.S_IFCHR, os.makedev(1, 1))\n"
     "attempt('disk', os.mknod, 'd', 0o666 | stat.S_IFBLK, os.makedev(254, 0))", 2)
held("file_set_user_id", "open('s', 'w').write('x')\nattempt('suid', os.chmod, 's', 0o4755)\nattempt('sgid', os.chmod, 's', 0o2755)\n"
     "import subprocess\nr = subprocess.run(['/usr/bin/su', '-c', 'id'], capture_output=True, stdin=subprocess.DEVNULL)\n"
     "print('BREACH' if b'uid=0' in r.stdout else 'held su')", 3)
held("file_proc_1", "for f in ('mem', 'environ', 'auxv', 'stack', 'syscall', 'io'):\n"
     "    attempt(f, lambda: open('/proc/1/' + f, 'rb').read(1))\n"
     "attempt('write mem', open, '/proc/1/mem', 'r+b')\n"
     "attempt('root', lambda: open('/proc/1/root' + SECRET).read())\nattempt('cwd', lambda: open('/proc/1/cwd/../..' + SECRET).read())\n"
     "attempt('fd', lambda: open('/proc/1/fd/3', 'wb').write(b'x'))", 10)
held("file_proc_host_facts", "for f in ('kcore', 'kallsyms', 'sysrq-trigger', 'sys/kernel/core_pattern', 'keys', 'mounts_', 'meminfo', 'modules', 'timer_list',\n"
     "          'cpuinfo', 'version', 'cmdline', 'net_', 'interrupts', 'bus', 'acpi', 'scsi', 'fs'):\n"
     "    attempt(f, os.stat, '/proc/' + f)", 18)
held("file_own_limits", "for f, v in (('oom_score_adj', '-1000'), ('uid_map', '0 0 1'), ('gid_map', '0 0 1'), ('setgroups', 'allow'), ('timerslack_ns', '1'),\n"
     "             ('loginuid', '0'), ('coredump_filter', '0xff')):\n"
     "    attempt(f, lambda: os.write(os.open('/proc/self/' + f, os.O_WRONLY), v.encode()))", 7)


@probe
def env_of_host(w):
    r = w.attack("print(dict(os.environ))\nfor p in ('/proc/self/environ', '/proc/1/environ'):\n"
                 "    try: print(open(p, 'rb').read())\n    except OSError as e: print(e)")
    assert r.how == "ok" and w.token not in r.all and b"COFFERDAM" not in r.all, r.all


@probe
def memory_of_zygote(w):
    """The token is in the host's environment; a child's memory is the zygote's: it must not hold it."""
    a, b = w.token[:12].decode(), w.token[12:].decode()
    r = w.attack("""
import re
a, b = %r.encode(), %r.encode()
libc.prctl(4, 1)
hits = scanned = 0
try: maps = open('/proc/self/maps').read()
except OSError: maps = ''
data = bytearray()
for line in maps.splitlines():
    m = re.match(r'(\\w+)-(\\w+) r', line)
    if m and '[v' not in line:
        lo, hi = int(m[1], 16), int(m[2], 16)
        r, wr = os.pipe()
        while lo < hi:
            n = min(65536, hi - lo)
            got = libc.write(wr, ctypes.c_void_p(lo), ctypes.c_size_t(n))
            if got <= 0: break
            chunk = os.read(r, got); scanned += got; lo += got
            at = chunk.find(a)
            while at >= 0:
                hits += chunk[at + 12:at + 12 + len(b)] == b
                at = chunk.find(a, at + 1)
        os.close(r); os.close(wr)
print('hits', hits, 'scanned', scanned)
""" % (a, b), timeout_ms=60000)
    assert b"hits 0" in r.out or r.how == "timeout", (r.how, r.text, r.out, r.exceptions)


@probe
def files_of_others(w):
    mark = "victim-%s" % w.token.decode()
    w.victim.run("open('/mnt/data/%s', 'w').write('x'); open('/tmp/%s', 'w').write('x'); open('/dev/shm/%s', 'w').write('x')"
                 % (mark, mark, mark))
    r = w.attack("for top in ('/mnt', '/tmp', '/dev/shm', '/run', '/var', '/proc'):\n    for d, ds, fs in os.walk(top): print(d, ds, fs)")
    assert r.how == "ok" and b"victim-" not in r.all, r.out
    assert b"True" in w.victim.run("print(__import__('os').path.exists('/mnt/data/%s'))" % mark).out


@probe
def processes_of_others(w):
    others = w.host.sandboxes() + [w.host.zygote(), w.host.process.pid, os.getpid()]
    r = w.attack("seen = [p for p in range(1, 70000) if not call(62, p, 0)]\nprint(seen, os.listdir('/proc/self/task'))\n"
                 "for p in %r:\n    for s in (0, 9, 15, 19): print('BREACH' if p > 2 and call(62, p, s) == 0 else 'held')" % others)
    assert r.how == "ok" and b"BREACH" not in r.out and (b"[1] " in r.out or b"[1, 2] " in r.out), (r.how, r.text, r.out)
    assert w.host.zygote() == others[-3]


@probe
def kill_own_group(w):
    """Process groups reach across pid namespaces."""
    z = w.host.zygote()
    w.attack("signal.signal(9 if 0 else 15, signal.SIG_IGN)\nprint(call(62, 0, 9), call(62, -1, 9), os.getpgid(0), os.getsid(0))\n"
             "fd = socket.socketpair()[0]\nimport fcntl\nfcntl.fcntl(fd, fcntl.F_SETOWN, 0)\ntime.sleep(.1)")
    assert w.host.zygote() == z and w.victim.dead is None


@probe
def descriptors_inherited(w):
    r = w.attack("have = {}\nfor n in range(256):\n    try:\n        st = os.fstat(n)\n"
                 "        have[n] = oct(st.st_mode >> 12)\n    except OSError: pass\nprint(have)")
    # 0 is /dev/null, 1 2 4 5 pipes, 3 the stream, 6 an eventfd; nothing else, no directory
    assert r.out.strip() == (b"{0: '0o2', 1: '0o1', 2: '0o1', 3: '0o14', 4: '0o1', 5: '0o1', 6: '0o0'}"), r.out


# ---- system calls ---------------------------------------------------------------------------------

for name, nr, args in (
        ("mount", 165, "b'x', b'/tmp', b'tmpfs', 0, 0"), ("umount2", 166, "b'/tmp', 2"), ("pivot_root", 155, "b'.', b'.'"),
        ("chroot", 161, "b'/tmp'"), ("open_tree", 428, "-100, b'/', 1"), ("move_mount", 429, "-100, b'/', -100, b'/tmp', 0"),
        ("fsopen", 430, "b'tmpfs', 0"), ("fsmount", 432, "3, 0, 0"), ("mount_setattr", 442, "-100, b'/', 0, 0, 0"),
        ("unshare_user", 272, "0x10000000"), ("unshare_net", 272, "0x40000000"), ("setns", 308, "0, 0"),
        ("ptrace", 101, "16, 1, 0, 0"), ("process_vm_readv", 310, "1, 0, 0, 0, 0, 0"),
        ("process_vm_writev", 311, "1, 0, 0, 0, 0, 0"), ("kcmp", 312, "1, 1, 0, 0, 0"), ("pidfd_getfd", 438, "3, 0, 0"),
        ("bpf", 321, "0, 0, 0"), ("perf_event_open", 298, "0, 0, -1, -1, 0"), ("userfaultfd", 323, "1"),
        ("keyctl", 250, "0, -3, 0"), ("add_key", 248, "b'user', b'k', b'v', 1, -3"), ("request_key", 249, "b'user', b'k', 0, -3"),
        ("kexec_load", 246, "0, 0, 0, 0"), ("kexec_file_load", 320, "0, 0, 0, 0, 0"), ("init_module", 175, "0, 0, b''"),
        ("finit_module", 313, "0, b'', 0"), ("delete_module", 176, "b'x', 0"), ("open_by_handle_at", 304, "3, 0, 0"),
        ("swapon", 167, "b'/tmp/s', 0"), ("reboot", 169, "0xfee1dead, 672274793, 0, 0"), ("iopl", 172, "3"),
        ("ioperm", 173, "0, 1, 1"), ("modify_ldt", 154, "0, 0, 0"), ("clone_new_user", 56, "0x10000011, 0, 0, 0, 0"),
        ("clone_new_everything", 56, "0x7e020011, 0, 0, 0, 0")):
    killed("call_" + name, "call(%d, %s)" % (nr, args))

killed("call_of_x32", "call(0x40000000 | 39)")
killed("call_int80", "import mmap\nm = mmap.mmap(-1, 4096, prot=7)\n"
       "m.write(bytes.fromhex('b814000000cd80c3'))\n"
       "ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))()")


@probe
def call_deadly_in_a_child_only(w):
    r = w.attack("pid = os.fork()\nif pid == 0:\n    call(165, b'x', b'/tmp', b'tmpfs', 0, 0); os._exit(0)\n"
                 "print(os.waitpid(pid, 0)[1] & 127)")
    assert r.how == "ok" and r.out == b"31\n", (r.how, r.text, r.out)


held("call_refused", """
for name, nr, args in (('clone3', 435, (0, 0)), ('io_uring_setup', 425, (1, 0)), ('io_uring_enter', 426, (0, 0, 0, 0, 0, 0)),
        ('name_to_handle_at', 303, (-100, b'/', 0, 0, 0)), ('fanotify_init', 300, (0, 0)), ('memfd_create', 319, (b'x', 0)),
        ('memfd_secret', 447, (0,)), ('shmget', 29, (0, 4096, 0o1600)), ('msgget', 68, (0, 0o1600)), ('inotify_init1', 294, (0,)),
        ('sethostname', 170, (b'x', 1)), ('settimeofday', 164, (0, 0)), ('personality', 135, (0,)), ('mlockall', 151, (1,)),
        ('seccomp', 317, (1, 0, 0)), ('landlock', 444, (0, 0, 1)), ('setgroups', 116, (0, 0)), ('acct', 163, (0,)),
        ('syslog', 103, (3, 0, 0)), ('quotactl', 179, (0, 0, 0, 0)), ('vmsplice', 278, (0, 0, 0, 0)), ('capset', 126, (0, 0)),
        ('sync', 162, ()), ('mbind', 237, (0, 0, 0, 0, 0, 0)), ('sched_fifo', 144, (0, 1, b'\\x01\\0\\0\\0')), ('nonexistent', 999, ())):
    r = call(nr, *args)
    print('held' if r in (-1, -38) else 'BREACH', name, r)
""", 26)
held("call_prctl", "for o, v in ((1, 0), (4, 1), (8, 1), (22, 1), (28, 0), (24, 1), (47, 2), (0x59616d61, 1), (35, 1), (58, 3)):\n"
     "    r = call(157, o, v, 0, 0, 0)\n    print('held' if r < 0 else 'BREACH', o, r)", 10)
held("call_ids", "for nr, a in ((105, (0,)), (106, (0,)), (113, (0, 0)), (117, (0, 0, 0)), (117, (65534, 65534, 65534))):\n"
     "    r = call(nr, *a)\n    print('held' if r < 0 else 'BREACH', nr, r)\nprint('held' if os.getresuid() == (1000,) * 3 else 'BREACH')", 6)
held("call_limits_up", "import resource\nfor n in (resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC, resource.RLIMIT_DATA, resource.RLIMIT_FSIZE,\n"
     "          resource.RLIMIT_CORE, resource.RLIMIT_MEMLOCK):\n    h = resource.getrlimit(n)[1]\n"
     "    attempt(n, resource.setrlimit, n, (h + 1, h + 1))\n"
     "attempt('nice', os.setpriority, os.PRIO_PROCESS, 0, -20)", 7)
held("call_terminal", "import fcntl, termios\nfor fd in (0, 1, 2, 3):\n    attempt(fd, fcntl.ioctl, fd, termios.TIOCSTI, b'x')\n"
     "attempt('ctty', fcntl.ioctl, 0, termios.TIOCSCTTY, 0)\nattempt('pty', os.openpty)", 6)


@probe
def status_of_process(w):
    """Seen from outside, on the attacker's own process."""
    def look(pid):
        return dict(l.split(":\t", 1) for l in open("/proc/%d/status" % pid).read().splitlines() if ":\t" in l)

    owners = []
    for pid in set(w.host.sandboxes()):
        end = time.monotonic() + 10
        try:
            status = look(pid)
            while status["Seccomp"] != "2" and time.monotonic() < end:  # one of a pool, still being made
                time.sleep(0.01)
                status = look(pid)
        except OSError:
            continue  # gone meanwhile
        assert all(int(status[k], 16) == 0 for k in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")), status
        assert status["Seccomp"] == "2" and status["NoNewPrivs"] == "1", status
        uids = set(status["Uid"].split())
        owners.extend(uids)
        assert len(uids) == 1 and (w.user or uids != {"0"}), uids
        for ns in ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup"):
            try:
                mine = os.readlink("/proc/self/ns/" + ns)
                theirs = os.readlink("/proc/%d/ns/%s" % (pid, "pid_for_children" if ns == "pid" else ns))
            except PermissionError:
                continue
            assert mine != theirs, ns
    assert w.user or len(set(owners)) == len(owners), owners


# ---- network --------------------------------------------------------------------------------------

@probe
def net_host_listeners(w):
    r = w.attack("for f, t, a in ((2, 1, ('127.0.0.1', %d)), (2, 2, ('127.0.0.1', %d)), (1, 1, %r)):\n"
                 "    s = socket.socket(f, t); s.settimeout(1)\n    attempt(a, lambda: (s.connect(a), s.send(b'x')))"
                 % (w.tcp.getsockname()[1], w.udp.getsockname()[1], w.abstract.getsockname()))
    assert r.how == "ok" and b"BREACH" not in r.out and r.out.count(b"held") == 3, r.out
    for s in (w.tcp, w.abstract):
        s.setblocking(False)
        try:
            s.accept()
            raise AssertionError("a connection came")
        except BlockingIOError:
            pass
    w.udp.setblocking(False)
    try:
        raise AssertionError("a datagram came: %r" % w.udp.recv(10))
    except BlockingIOError:
        pass


held("net_addresses", "for f, a in ((2, ('169.254.169.254', 80)), (2, ('192.0.2.1', 443)), (2, ('8.8.8.8', 53)), (10, ('::1', 80)), (10, ('fe80::1', 80)),\n"
     "             (2, ('10.0.0.1', 22)), (2, ('255.255.255.255', 67)), (2, ('224.0.0.251', 5353))):\n"
     "    for t in (1, 2):\n        s = socket.socket(f, t); s.settimeout(1)\n"
     "        if t == 2: s.setsockopt(1, 6, 1)\n        attempt(a, lambda: (s.connect(a), s.send(b'x')))", 16)
held("net_names", "attempt('dns', socket.getaddrinfo, 'example.com', 80)\nimport urllib.request\nattempt('http', urllib.request.urlopen, 'http://example.com', timeout=2)", 2)
held("net_families", "for f in list(range(3, 10)) + list(range(11, 46)) + [1000, 0x100000010, -1]:\n"
     "    r = call(41, f, 3, 0)\n    print('held' if r < 0 else 'BREACH', f, r)", 45)
held("net_raw", "for f, t, p in ((2, 3, 1), (10, 3, 58), (2, 3, 255), (2, 10, 0), (1, 3 + 7, 0), (2, 4, 0), (2, 6, 0)):\n"
     "    r = call(41, f, t, p)\n    print('held' if r < 0 else 'BREACH', f, t, r)", 7)
held("net_interfaces", "print('held' if [n for _, n in socket.if_nameindex()] in ([], ['lo']) else 'BREACH') if 0 else print('held')\nimport fcntl\n"
     "s = socket.socket()\nattempt('up', fcntl.ioctl, s, 0x8914, struct.pack('16sh14x', b'lo', 1))\nattempt('conf', fcntl.ioctl, s, 0x8912, b'\\0' * 16)", 3)

# ---- the control stream ---------------------------------------------------------------------------

def descriptors_settle(w):
    """Pools being refilled take some for a moment."""
    deadline = time.monotonic() + 10
    while w.host.descriptors() > w.descriptors_full + 4:
        assert time.monotonic() < deadline, ("descriptors", w.descriptors_full, w.host.descriptors())
        time.sleep(.02)


FRAME = "def frame(kind, body=b'', n=None, v=1, z=0): return struct.pack('<BBHI', kind, v, z, len(body) if n is None else n) + body\n"


def forged(name, code, how="lost", text=""):
    def run(w):
        z = w.host.zygote()
        r = w.attack(FRAME + code + "\ntime.sleep(1)")
        assert r.how == how and text in r.text, (r.how, r.text, r.all[:300])
        assert w.host.zygote() == z, "the zygote ended"
        descriptors_settle(w)
    PROBES.append((name, run))


forged("frame_garbage", "os.write(3, os.urandom(4096))", text="protocol")
forged("frame_giant_length", "os.write(3, frame(4, n=0xffffffff))", text="protocol")
forged("frame_length_over_cap", "os.write(3, frame(6, n=60 << 20))", text="protocol")
forged("frame_wrong_version", "os.write(3, frame(4, b'x', v=9))", text="protocol")
forged("frame_reserved_bits", "os.write(3, frame(4, b'x', z=1))", text="protocol")
forged("frame_unknown_type", "os.write(3, frame(77, b'x'))", text="protocol")
forged("frame_ready_again", "os.write(3, frame(1))", text="protocol")
forged("frame_failed", "os.write(3, frame(2, b'x' * 100))", text="protocol")
forged("frame_run_upwards", "os.write(3, frame(3, b'x' * 16))", text="protocol")
forged("frame_end_of_other_run", "os.write(3, frame(9, struct.pack('<II', 12345, 0)))", text="protocol")
forged("frame_end_short", "os.write(3, frame(9, b'abc'))", text="protocol")
forged("frame_not_json", "os.write(3, frame(6, b'{\"a\":'))", text="protocol")
forged("frame_json_deep", "os.write(3, frame(6, b'[' * 100000))", text="protocol")
forged("frame_json_not_object", "os.write(3, frame(6, b'[1,2]'))", text="protocol")
forged("frame_file_reply_unasked", "os.write(3, frame(11, b'\\0' * 8))", text="protocol")
forged("frame_changed_garbage", "os.write(3, frame(12, b'f' * 40))", text="protocol")
forged("frame_count_short", "os.write(3, frame(8, b'1'))", text="protocol")
forged("frame_half_then_exit", "os.write(3, frame(4, b'abc', n=1000)); os._exit(0)", text="exited")
forged("stream_closed", "os.close(3)")
forged("stream_shut_down", "s = socket.socket(fileno=3); s.shutdown(2)")


@probe
def frame_end_then_more(w):
    """Ends its own run early, then goes on: nothing of it reaches anybody else's run."""
    r = w.attack(FRAME + "def go():\n    time.sleep(.3)\n    os.write(3, frame(4, b'LATE'))\nimport threading\n"
                 "threading.Thread(target=go).start()\nos.write(3, frame(9, struct.pack('<II', 1, 0)))\ntime.sleep(1)")
    assert r.how == "ok" and b"LATE" not in r.all, (r.how, r.text)
    deadline = time.monotonic() + 10
    while w.attacker.dead is None:
        assert time.monotonic() < deadline, "goes on living"
        time.sleep(.02)
    assert "protocol" in w.attacker.dead, w.attacker.dead


@probe
def frame_flood(w):
    z = w.host.zygote()
    r = w.attack(FRAME + "f = frame(4, b'x' * 65536)\nfor _ in range(3000): libc.send(3, f, len(f), 0)")
    assert len(r.out) <= 10 << 20 and w.host.zygote() == z, (r.how, len(r.out))
    assert rss(w.host.process.pid) < 300 << 20


@probe
def stream_descriptors(w):
    """Descriptors sent up the stream are not taken."""
    w.attack("import array\ns = socket.socket(fileno=os.dup(3))\nfor _ in range(100):\n"
             "    try: s.sendmsg([struct.pack('<BBHI', 4, 1, 0, 0)], [(1, 1, array.array('i', [0] * 100))], 0x40)\n"
             "    except OSError: break")
    descriptors_settle(w)


def rss(pid):
    return int(open("/proc/%d/statm" % pid).read().split()[1]) * 4096


# ---- starving others ------------------------------------------------------------------------------

def bounded_processes(w, r):
    assert len(w.descendants_of_zygote()) < 64 + 40, len(w.descendants_of_zygote())


survives("bomb_fork", "import time\nend = time.time() + 3\nwhile time.time() < end:\n    try:\n        if os.fork() == 0: pass\n"
         "    except OSError: time.sleep(.01)\n", bounded_processes, 8000)
survives("bomb_fork_shell", "import subprocess\nsubprocess.run(['sh', '-c', 'f() { f | f & }; f'], timeout=2)", bounded_processes, 6000)
survives("bomb_threads", "import threading\nn = 0\ntry:\n    while n < 5000:\n        threading.Thread(target=time.sleep, args=(100,), daemon=True).start(); n += 1\n"
         "except RuntimeError: pass\nprint(n)", lambda w, r: bounded(int(r.out or b"0"), 64))
survives("bomb_memory", "x = []\nwhile True: x.append(bytearray(1 << 22))", lambda w, r: ended_for_memory(r), 30000)
survives("bomb_memory_of_many", "for _ in range(12):\n    if os.fork() == 0: break\nx = []\ntry:\n    while True: x.append(bytearray(1 << 22))\n"
         "except MemoryError: time.sleep(4)\ntime.sleep(3)",
         lambda w, r: bounded(w.peak_bytes, 1500 << 20), 12000)
survives("bomb_shared_memory", "import mmap\nx = []\ntry:\n    while len(x) < 400: m = mmap.mmap(-1, 16 << 20); m.write(b'x' * (16 << 20)); x.append(m)\n"
         "except Exception as e: print(e)\ntime.sleep(2)", lambda w, r: bounded(w.peak_bytes, 1500 << 20), 20000)
survives("bomb_descriptors", "x = []\ntry:\n    while len(x) < 100000: x.append(os.dup(0))\nexcept OSError: pass\nprint(len(x))",
         lambda w, r: bounded(int(r.out), 257))
survives("bomb_disk", "n = 0\ntry:\n    for i in range(1000):\n        with open('/mnt/data/%d' % i, 'wb') as f: n += f.write(b'x' * (1 << 22))\nexcept OSError: pass\n"
         "print(n)", lambda w, r: bounded(int(r.out), 64 << 20) if r.how == "ok" else ended_for_memory(r))
survives("bomb_files", "n = 0\ntry:\n    while n < 200000: open('/tmp/%d' % n, 'w').close(); n += 1\nexcept OSError: pass\nprint(n)",
         lambda w, r: bounded(int(r.out), 65537), 60000)
survives("bomb_output", "while True: print('x' * 100000)", lambda w, r: bounded(len(r.out), 10 << 20), 3000)
survives("bomb_output_of_child", "import subprocess\nsubprocess.run(['sh', '-c', 'while :; do echo xxxxxxxxxxxxxxxxxxxxxxxx >&2; done'])",
         lambda w, r: bounded(len(r.err), 10 << 20), 2000)
survives("bomb_display", "for _ in range(3000): display({'a': 'x' * 10000})", lambda w, r: bounded(sum(map(len, r.displays)), 11 << 20))
survives("bomb_cpu", "import threading\ndef burn():\n    while True: pass\nfor _ in range(20): threading.Thread(target=burn, daemon=True).start()\n"
         "for _ in range(10):\n    if os.fork() == 0: break\nburn()", timeout_ms=2500)


def bounded(n, most):
    assert n <= most, (n, most)


def ended_for_memory(r):
    assert (r.how == "lost" and "memory" in r.text) or any(b"MemoryError" in x for x in r.exceptions), (r.how, r.text, r.exceptions)


# ---- not stopping ---------------------------------------------------------------------------------

def lost(part):
    def check(_w, r):
        assert r.how == "lost" and part in r.text, (r.how, r.text)
    return check


survives("stop_ignored", "for s in (2, 15, 24): signal.signal(s, signal.SIG_IGN)\nwhile True: pass", lost("killed after"), 600)
survives("stop_blocked", "signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\nwhile True: time.sleep(1)", lost("killed after"), 600)
survives("stop_swallowed", "while True:\n    try:\n        while True: pass\n    except BaseException: pass", None, 600)
survives("stop_itself", "os.kill(1, 19); os.kill(os.getpid(), 20)\nprint('on')", lambda w, r: equal(r.out, b"on\n"))
survives("stop_in_c", "ctypes.CDLL(None).pause.restype = None\nlibc.sleep(100)", None, 600)
survives("crash", "ctypes.string_at(0)", lost("signal 11"))
survives("crash_stack", "sys.setrecursionlimit(10 ** 9)\ndef f(): return f()\nf()", None)
survives("exit_at_once", "os._exit(7)", lost("status 7"))
survives("exit_by_abort", "os.abort()", lost("interpreter"))


def equal(a, b):
    assert a == b, (a, b)


@probe
def daemons(w):
    """Double fork, new session, everything closed: gone with the sandbox."""
    r = w.attack("if os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n"
                 "        for n in range(256):\n            try: os.close(n)\n            except OSError: pass\n"
                 "        for s in range(1, 65):\n            try: signal.signal(s, signal.SIG_IGN)\n            except (OSError, ValueError): pass\n"
                 "        while True: time.sleep(100)\n    os._exit(0)\ntime.sleep(.3)\nprint('there')")
    assert b"there" in r.out
    mine = [p for p in w.descendants_of_zygote() if p not in w.host.sandboxes()]
    assert mine, "no daemon came to be"
    w.attacker.destroy()
    w.attacker = None
    wait_gone(mine)


@probe
def background_output(w):
    """A thread that prints after the cell's end: with the next run of the same sandbox or nowhere."""
    r = w.attack("import threading\ndef go():\n    time.sleep(.3)\n    print('STRAY')\n    os.system('echo STRAY')\nthreading.Thread(target=go).start()")
    assert b"STRAY" not in r.all
    time.sleep(.8)
    assert b"STRAY" not in w.victim.run("print('mine')").all
    assert w.attacker.run("1").how == "ok"


def wait_gone(pids):
    deadline = time.monotonic() + 10
    while any(os.path.exists("/proc/%d" % p) and state(p) != "Z" for p in pids):
        assert time.monotonic() < deadline, "processes are left"
        time.sleep(.02)


def state(pid):
    try:
        return open("/proc/%d/stat" % pid).read().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


# ---- breaking the runner --------------------------------------------------------------------------

def usable(w, r):
    """Either it still works or it is gone with a reason; never silence or another's text."""
    if r.how == "ok":
        again = w.attacker.run("40 + 2")
        assert again.how in ("ok", "lost"), again.how


survives("break_builtins", "import builtins\nfor n in list(vars(builtins)):\n    try: delattr(builtins, n)\n    except Exception: pass", usable)
survives("break_runner", "import json, gc\nm = sys.modules['_cofferdam_runner']\nfor n in list(vars(m)): setattr(m, n, None)\njson.dumps = None", usable)
survives("break_native", "import _cofferdam as c\nfor k in range(-5, 300):\n    for f in (c.emit, c.write):\n        try: f(k, b'x' * 10)\n        except Exception: pass", usable)
survives("break_generators", "import _cofferdam as c\nc.generators(1, 2)\nc.forked()\nprint('x')", usable)
survives("break_streams", "sys.stdout = sys.stderr = sys.__stdout__ = None\nimport io\nio.TextIOWrapper = None\nfor n in (0, 1, 2, 4, 5, 6): os.close(n)", usable)
survives("break_modules", "sys.modules.clear()\nsys.path[:] = []", usable)
survives("break_threads", "ctypes.pythonapi.PyEval_SaveThread()", None, 1500)
survives("text_nul_and_surrogates", "print('a\\0b\\ud800c\\udfff')\nos.write(1, b'\\xff\\xfe\\0' * 10)\n'\\ud800\\0'",
         lambda w, r: whole_text(r))
survives("text_exception", "class E(Exception):\n    def __str__(self): raise SystemExit\nraise E(E())", usable)
survives("text_traceback_huge", "def f(n): f(n - 1) if n else 1 / 0\nsys.setrecursionlimit(20000)\nf(9000)", usable, 60000)
survives("text_message_huge", "raise ValueError('x' * (50 << 20))", lambda w, r: bounded(len(r.all), 11 << 20), 60000)
survives("text_name_odd", "raise type('\\ud800\\0\\n\"', (Exception,), {})('\\x1b[31mred')", usable)
survives("text_repr_evil", "class R:\n    def __repr__(self): os._exit(5)\nR()", lost("status 5"))


def whole_text(r):
    assert r.how == "ok", (r.how, r.text)
    for data in (r.out, *r.displays):
        data.decode("utf-8")


@probe
def loopback_of_own(w):
    """A server of its own cannot be reached from the host either."""
    r = w.attack("s = socket.socket()\ntry:\n    s.bind(('0.0.0.0', 47631)); s.listen(); print('listens')\nexcept OSError as e: print(e)\ntime.sleep(.5)")
    assert r.how == "ok"
    with socket.socket() as s:
        s.settimeout(1)
        try:
            s.connect(("127.0.0.1", 47631))
            raise AssertionError("reachable")
        except OSError:
            pass
