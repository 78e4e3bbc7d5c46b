#!/usr/bin/python3
"""The escape suite: run.py BOX_HOST [--as-is | --user] [--sanitized] [PROBE...]

Starts local sandboxes through the real provider and zygote, attacks from inside (probes.py), asserts from outside. After
each probe a sandbox that existed before and a new one must work, in time, and the daemon and zygote must be the same. Run
by root it does all twice: as root, and as an ordinary user (65534). Ends with "N passed, N failed".
"""
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from host import Host, children, tree  # noqa: E402
import probes  # noqa: E402

CONFIG = """cofferdam:
  local: {memory: 256m, pids: 64, disk: 67108864, pool_parked: 3, pool_warm: 1}
"""
# What these measure is memory, of which the address sanitizer has its own ideas; all else must hold there too.
NOT_SANITIZED = {"memory_of_zygote", "bomb_memory", "bomb_memory_of_many", "bomb_shared_memory", "bomb_files"}
SLOW_S = 5.0  # a loaded machine with two processors; hangs are what this finds


class World:
    def __init__(self, program, folder, user):
        self.user = user
        self.token = secrets.token_hex(16).encode()
        self.secret = os.path.join(folder, "secret")
        with open(self.secret, "wb") as f:
            f.write(self.token)
        os.chmod(self.secret, 0o644)
        config = os.path.join(folder, "config.yaml")
        with open(config, "w") as f:
            f.write(CONFIG)
        os.chmod(config, 0o644)
        self.tcp, self.udp = socket.socket(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.abstract = socket.socket(socket.AF_UNIX)
        self.tcp.bind(("127.0.0.1", 0))
        self.udp.bind(("127.0.0.1", 0))
        self.abstract.bind(b"\0cofferdam-escape-" + self.token[:8])
        self.tcp.listen()
        self.abstract.listen()
        self.host = Host(program, config, user, {"COFFERDAM_PROBE": self.token.decode()})
        self.victim = self.host.create()
        self.victim.run("kept = 7")
        deadline = time.monotonic() + 60
        while len(self.host.sandboxes()) < 5 and time.monotonic() < deadline:  # the pools and the victim
            time.sleep(.02)
        time.sleep(.1)
        self.descriptors_full = self.host.descriptors()
        self.attacker = None
        self.peak_bytes = 0
        self.is_attacking = False
        threading.Thread(target=self.watch, daemon=True).start()

    def watch(self):
        """Memory that the attacker's processes hold, the zygote's own pages not counted."""
        while True:
            if self.is_attacking:
                pages = 0
                for p in self.descendants_of_zygote():
                    try:
                        pages += max(0, int(open("/proc/%d/statm" % p).read().split()[1]) - 25000)
                    except (OSError, IndexError, ValueError):
                        pass
                self.peak_bytes = max(self.peak_bytes, pages * 4096)
            time.sleep(.05)

    def descendants_of_zygote(self):
        z = self.host.zygote()
        return tree(z)[1:] if z else []

    def attack(self, code, timeout_ms=20000):
        self.attacker = self.host.create()
        self.peak_bytes = 0
        self.is_attacking = True
        try:
            return self.attacker.run(probes.PRELUDE + "SECRET = %r\n" % self.secret + code, timeout_ms)
        finally:
            self.is_attacking = False

    def one(self, f):
        zygote = self.host.zygote()
        stop = threading.Event()
        slowest = [0.0]
        failures = []

        def bystander():  # somebody else, all the time
            while not stop.is_set():
                r = self.victim.run("print(kept)")
                if r.out != b"7\n" or r.how != "ok":
                    failures.append((r.how, r.text, r.out))
                slowest[0] = max(slowest[0], r.took)
                stop.wait(.05)

        t = threading.Thread(target=bystander)
        if f.__name__ not in ("files_of_others", "background_output"):  # they use the victim themselves
            t.start()
        try:
            f(self)
        finally:
            stop.set()
            if t.ident:
                t.join()
            if self.attacker is not None:
                self.attacker.destroy()
                self.attacker = None
        assert not failures, ("another sandbox suffered", failures[:3])
        assert slowest[0] < SLOW_S, "another sandbox waited %.1f s" % slowest[0]
        assert self.host.process.poll() is None, "the daemon ended: " + b"".join(self.host.log[-5:]).decode()
        assert self.host.zygote() == zygote, "the zygote ended"
        box = self.host.create()
        assert box.run("6 * 7").displays, "a new sandbox does not work"
        box.destroy()
        with open(self.secret, "rb") as s:
            assert s.read() == self.token
        return slowest[0]

    def end(self):
        pids = tree(self.host.process.pid)
        assert self.host.stop() == 0, "the daemon did not end well: " + b"".join(self.host.log[-8:]).decode()
        probes.wait_gone(pids[1:])


def suite(program, user, wanted):
    passed = failed = 0
    kind = "user" if user else "root" if os.geteuid() == 0 else "as is"
    with tempfile.TemporaryDirectory(prefix="cfd-escape-") as folder:
        os.chmod(folder, 0o755)
        # the build folder may be out of an ordinary user's reach
        os.makedirs(folder + "/tests")
        os.makedirs(folder + "/bin")
        copy = shutil.copy(program, folder + "/tests")
        shutil.copy(os.path.join(os.path.dirname(program), "..", "bin", "cofferdam-zygote"), folder + "/bin")
        w = World(copy, folder, user)
        for name, f in probes.PROBES:
            if wanted and name not in wanted or "--sanitized" in sys.argv and name in NOT_SANITIZED:
                continue
            began = time.monotonic()
            try:
                slowest = w.one(f)
                passed += 1
                print("%s %-28s held   %.2f s, others at most %.3f s" % (kind, name, time.monotonic() - began, slowest), flush=True)
            except Exception:
                failed += 1
                print("%s %-28s FAILED\n%s" % (kind, name, traceback.format_exc(limit=3)), flush=True)
                if w.host.process.poll() is not None or w.victim.dead:
                    w.host.process.kill()
                    w = World(copy, folder, user)
        try:
            w.end()
            passed += 1
        except Exception:
            failed += 1
            print("%s end FAILED\n%s" % (kind, traceback.format_exc(limit=3)))
    return passed, failed


def main():
    program = os.path.abspath(sys.argv[1])
    names = [a for a in sys.argv[2:] if not a.startswith("--")]
    users = [None]
    if os.geteuid() == 0 and "--as-is" not in sys.argv:
        users = [(65534, 65534)] if "--user" in sys.argv else [None, (65534, 65534)]
    totals = [suite(program, u, names) for u in users]
    passed, failed = sum(t[0] for t in totals), sum(t[1] for t in totals)
    print("%d passed, %d failed" % (passed, failed))
    return 0 if failed == 0 and passed > len(users) else 1


if __name__ == "__main__":
    sys.exit(main())
