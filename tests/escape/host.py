"""Sandboxes behind tests/escape/box_host.c, driven and watched from outside."""
import os
import queue
import subprocess
import threading
import time


class Run:
    """What one run sent, and how it ended."""

    def __init__(self):
        self.out = self.err = b""
        self.displays, self.exceptions = [], []
        self.how = None
        self.is_truncated = False
        self.text = ""
        self.began = time.monotonic()
        self.took = self.first_after = None
        self.done = threading.Event()

    @property
    def all(self):
        return b"".join([self.out, self.err, *self.displays, *self.exceptions, self.text.encode()])


class Box:
    def __init__(self, host, n):
        self.host, self.n = host, n
        self.id = self.dead = self.failure = None
        self.run_now = None
        self.created, self.gone = threading.Event(), threading.Event()

    def start(self, code, timeout_ms=20000):
        data = code.encode("utf-8", "surrogatepass") if isinstance(code, str) else code
        self.run_now = Run()
        self.host.send(b"run %d %d %d\n" % (self.n, timeout_ms, len(data)) + data)
        return self.run_now

    def run(self, code, timeout_ms=20000):
        r = self.start(code, timeout_ms)
        assert r.done.wait(timeout_ms / 1000 + 30), "a run does not end"
        return r

    def interrupt(self):
        self.host.send(b"interrupt %d\n" % self.n)

    def destroy(self):
        self.host.send(b"destroy %d\n" % self.n)
        assert self.gone.wait(30), "a sandbox does not go"
        self.host.boxes.pop(self.n, None)


class Host:
    """One box_host process. `user` = (uid, gid) to become first."""

    def __init__(self, program, config, user=None, env=None):
        def become():
            os.setgroups([])
            os.setgid(user[1])
            os.setuid(user[0])

        self.boxes, self.next_n = {}, 0
        self.lock = threading.Lock()
        self.process = subprocess.Popen([program, config], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, env=dict(os.environ, **(env or {})),
                                        preexec_fn=become if user else None, cwd="/")
        self.log = []
        self.replies = queue.Queue()
        threading.Thread(target=self._log, daemon=True).start()
        line = self.process.stdout.readline()
        if line != b"ready\n":
            time.sleep(0.2)
            raise RuntimeError("box_host: %r %s" % (line, b"".join(self.log[-5:]).decode()))
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _log(self):
        for line in self.process.stderr:
            self.log.append(line)

    def send(self, data):
        with self.lock:
            self.process.stdin.write(data)
            self.process.stdin.flush()

    def _read(self):
        f = self.process.stdout
        for line in f:
            w = line.decode().split()
            if w[0] == "reloaded":
                self.replies.put(w)
                continue
            box = self.boxes.get(int(w[1]))
            data = f.read(int(w[-1])) if w[0] in ("event", "end", "dead", "failed") else b""
            if box is not None:
                self._take(box, w, data)

    def _take(self, box, w, data):
        r = box.run_now
        if w[0] == "created":
            box.id = w[2]
            box.created.set()
        elif w[0] == "failed":
            box.failure = data.decode()
            box.created.set()
        elif w[0] == "dead":
            box.dead = data.decode()
        elif w[0] in ("gone", "stuck"):
            box.gone.set()
        elif w[0] == "event":
            if r.first_after is None:
                r.first_after = time.monotonic() - r.began
            if w[2] == "O":
                r.out += data
            elif w[2] == "E":
                r.err += data
            elif w[2] in "DX":
                (r.displays if w[2] == "D" else r.exceptions).append(data)
        elif w[0] == "end":
            r.how, r.is_truncated, r.text = w[2], w[3] == "1", data.decode()
            r.took = time.monotonic() - r.began
            r.done.set()

    def create(self):
        box = self.create_start()
        assert box.created.wait(40), "no sandbox comes"
        if box.failure:
            raise RuntimeError(box.failure)
        return box

    def create_start(self):
        self.next_n += 1
        box = self.boxes[self.next_n] = Box(self, self.next_n)
        self.send(b"create %d\n" % box.n)
        return box

    def reload(self, config):
        self.send(b"reload %s\n" % config.encode())
        assert self.replies.get(timeout=30)

    def stop(self):
        try:
            self.send(b"quit\n")
            self.process.stdin.close()
        except OSError:
            pass
        return self.process.wait(60)

    # ---- seen from outside -------------------------------------------------------------------

    def zygote(self):
        found = [p for p in children(self.process.pid) if comm(p).startswith("cofferdam-zygot")]
        return found[-1] if found else None

    def sandboxes(self):
        z = self.zygote()
        return children(z) if z else []

    def descriptors(self):
        return len(os.listdir("/proc/%d/fd" % self.process.pid))


def comm(pid):
    try:
        with open("/proc/%d/comm" % pid) as f:
            return f.read().strip()
    except OSError:
        return ""


def children(pid):
    try:
        with open("/proc/%d/task/%d/children" % (pid, pid)) as f:
            return [int(p) for p in f.read().split()]
    except OSError:
        return []


def tree(pid):
    found = [pid]
    for p in found:
        found.extend(children(p))
    return found
