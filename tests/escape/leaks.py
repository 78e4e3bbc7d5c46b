#!/usr/bin/python3
"""Nothing is left: leaks.py BOX_HOST [SANDBOXES [KILLS]]

Makes and destroys SANDBOXES (300) sandboxes, several at a time, then kills -9 the zygote, the daemon or a sandbox at random
KILLS (12) times under load. Counts processes, descriptors, mounts, control groups, directories and memory before and after.
By hand: 100000 and 1000. Ends with "N passed, N failed".
"""
import os
import random
import signal
import sys
import tempfile
import threading
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from host import Host, tree  # noqa: E402
from probes import rss, state  # noqa: E402

CONFIG = "cofferdam:\n  local: {memory: 256m, pool_parked: 3, pool_warm: 1}\n"
LANES = 4


def until(what, f, seconds=30):
    deadline = time.monotonic() + seconds
    while not f():
        assert time.monotonic() < deadline, what
        time.sleep(.02)


def mounts(pid):
    with open("/proc/%d/mountinfo" % pid) as f:
        return len(f.readlines())


def groups(zygotes):
    """Control group directories of these zygotes."""
    names = {"cofferdam-%d" % z for z in zygotes}
    return [os.path.join(d, s) for d, subs, _ in os.walk("/sys/fs/cgroup") for s in subs if s in names]


def temporary():
    return {n for n in os.listdir("/tmp") if n.startswith("cofferdam")}


def ticks(pid):
    with open("/proc/%d/stat" % pid) as f:
        fields = f.read().rpartition(")")[2].split()
    return sum(int(v) for v in fields[11:15])  # own and reaped children's


def cycle(host, n):
    box = host.create()
    r = box.run("print(%d)" % n)
    assert r.how == "ok" and r.out == b"%d\n" % n, (r.how, r.text, r.out)
    box.destroy()


def settled(host):
    z = host.zygote()
    return z is not None and len(host.sandboxes()) == 4 and len(tree(z)) == 5


def created_and_destroyed(program, config, rounds):
    host = Host(program, config)
    until("pools", lambda: settled(host))
    for n in range(20):
        cycle(host, n)
    until("pools", lambda: settled(host))
    z = host.zygote()

    def now():
        return {"descriptors": host.descriptors(), "of the zygote": len(os.listdir("/proc/%d/fd" % z)), "mounts": mounts(z),
                "own mounts": mounts(os.getpid()), "groups": sum(len(os.listdir(g)) for g in groups([z])), "directories": temporary()}

    before, memory = now(), rss(host.process.pid) + rss(z)
    cpu, began = ticks(host.process.pid) + ticks(z), time.monotonic()
    failures = []

    def lane(i):
        try:
            for n in range(i, rounds, LANES):
                cycle(host, n)
        except Exception:
            failures.append(traceback.format_exc(limit=3))

    lanes = [threading.Thread(target=lane, args=(i,)) for i in range(LANES)]
    for t in lanes:
        t.start()
    for t in lanes:
        t.join()
    took = time.monotonic() - began
    assert not failures, failures[0]
    until("processes are left: %d" % len(tree(z)), lambda: settled(host))
    until("left: before %s, after %s" % (before, now()), lambda: now() == before)
    assert host.zygote() == z, "another zygote"
    cpu = ticks(host.process.pid) + ticks(z) - cpu
    grown = rss(host.process.pid) + rss(z) - memory
    print("%d sandboxes in %.1f s, %.2f ms of processor time each (daemon, zygote, sandboxes), memory grown by %d KiB"
          % (rounds, took, cpu * 1000 / os.sysconf("SC_CLK_TCK") / rounds, grown >> 10), flush=True)
    assert grown < (8 << 20), "memory grows"
    pids = tree(host.process.pid)
    assert host.stop() == 0
    until("processes are left", lambda: all(state(p) == "Z" for p in pids))
    assert not groups([z]), groups([z])



def killed(program, config, kills):
    seen, zygotes = set(), set()
    host = None
    rng = random.Random(int.from_bytes(os.urandom(4), "little"))
    done = {}
    for n in range(kills):
        if host is None:
            host = Host(program, config)
        until("a zygote", lambda: host.zygote() is not None and host.sandboxes())
        boxes = [host.create_start() for _ in range(3)]
        for b in boxes:
            b.created.wait(20)
        for b in boxes[:2]:
            if b.id:
                b.start("import subprocess, time\nsubprocess.Popen(['sleep', '1000'])\nwhile True: time.sleep(.01)")
        time.sleep(rng.random() * .05)
        pids = tree(host.process.pid)
        seen.update(pids)
        zygotes.add(host.zygote())
        kind = rng.choice(["zygote", "daemon", "sandbox", "both"])
        done[kind] = done.get(kind, 0) + 1
        victims = {"zygote": [host.zygote()], "daemon": [host.process.pid], "both": [host.zygote(), host.process.pid],
                   "sandbox": [rng.choice(host.sandboxes() or [host.zygote()])]}[kind]
        for v in victims:
            os.kill(v, signal.SIGKILL)
        if kind in ("daemon", "both"):
            host.process.wait(20)
            until("outlives the daemon", lambda: all(state(p) == "Z" for p in pids))
            host = None
        elif kind == "zygote":
            until("outlives the zygote", lambda: all(state(p) == "Z" for p in pids if p != host.process.pid))
            until("no new zygote", lambda: host.zygote() not in (None, victims[0]))
            for b in boxes:
                b.destroy()
        else:
            for b in boxes:
                b.destroy()
    if host is None:
        host = Host(program, config)
    zygotes.add(host.zygote())
    assert host.stop() == 0
    until("processes are left", lambda: all(state(p) == "Z" or p not in seen for p in seen))
    assert not groups(zygotes), groups(zygotes)
    print("killed %s, nothing left of %d processes" % (done, len(seen)))


def main():
    program = os.path.abspath(sys.argv[1])
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 300
    kills = int(sys.argv[3]) if len(sys.argv) > 3 else 12
    failed = 0
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as f:
        f.write(CONFIG)
        f.flush()
        for what, args in ((created_and_destroyed, rounds), (killed, kills)):
            try:
                what(program, f.name, args)
            except Exception:
                failed += 1
                print("%s FAILED\n%s" % (what.__name__, traceback.format_exc()))
    print("%d passed, %d failed" % (2 - failed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
