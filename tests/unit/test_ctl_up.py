#!/usr/bin/python3
"""The `cofferdam` command alone: the real binary, fake daemons beside it. Usage: test_ctl_up.py PATH_OF_COFFERDAM"""
import json
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

BINARY = sys.argv.pop(1)
FAKE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support", "fake_daemon.py")
DAEMONS = ("broker", "worker", "frontend", "sandboxd", "zygote")
CONFIG = """\
model_list:
  - model_name: m
    litellm_params: {model: openai/m, api_base: "http://127.0.0.1:1/v1", api_key: os.environ/CTL_T_MODEL}
sandbox_tools:
  - sandbox_tool_name: e
    litellm_params: {sandbox_provider: e2b, api_key: os.environ/CTL_T_E2B}
cofferdam:
  listen: 127.0.0.1:0
  admin_listen: 127.0.0.1:0
  run_dir: DIR/run
  state_dir: DIR/state
  workers: 2
  drain_s: 1
  api_keys: [{name: a, key: os.environ/CTL_T_KEY}]
"""


def wait_until(what, cond, timeout=20.0):
    end = time.monotonic() + timeout
    while not cond():
        if time.monotonic() > end:
            raise AssertionError("not within %g s: %s" % (timeout, what))
        time.sleep(0.01)


class Base(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="cfd-ctl-", dir="/tmp")
        self.bin = os.path.join(self.dir, "bin")
        os.mkdir(self.bin)
        os.mkdir(os.path.join(self.dir, "state"), 0o700)
        shutil.copy(BINARY, os.path.join(self.bin, "cofferdam"))
        for d in DAEMONS:
            shutil.copy(FAKE, os.path.join(self.bin, "cofferdam-" + d))
            os.chmod(os.path.join(self.bin, "cofferdam-" + d), 0o755)
        self.config = os.path.join(self.dir, "config.yaml")
        self.write(CONFIG)
        self.procs = []

    def tearDown(self):
        for p in self.procs:
            if p.poll() is None:
                p.kill()
            p.communicate()
        shutil.rmtree(self.dir)

    def write(self, text):
        with open(self.config, "w") as f:
            f.write(text.replace("DIR", self.dir))

    def env(self, **more):
        keep = {k: v for k, v in os.environ.items() if k == "PATH" or k.endswith("SAN_OPTIONS")}
        return dict(keep, CTL_T_MODEL="sk-model", CTL_T_E2B="e2b-key", CTL_T_KEY="good", STRAY="stray", HOME="/root", **more)

    def flag(self, name, on=True):
        path = os.path.join(self.dir, "state", name)
        if on:
            open(path, "w").close()
        else:
            os.unlink(path)

    def notes(self, name, kind):
        out, n = [], 0
        while True:
            path = os.path.join(self.dir, "state", "%s.%s.%d" % (name, kind, n))
            try:
                with open(path) as f:
                    out.append(json.loads(f.read() or "null"))
            except (FileNotFoundError, ValueError):
                return out
            n += 1

    def ctl(self, *args, stdin=None, **env):
        return subprocess.run([os.path.join(self.bin, "cofferdam"), *args], input=stdin, capture_output=True, text=True,
                              timeout=60, env=self.env(**env))

    def spawn(self):
        p = subprocess.Popen([os.path.join(self.bin, "cofferdam"), "up", "--config", self.config], env=self.env(),
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.procs.append(p)
        return p

    def up(self):
        p = self.spawn()
        if not select.select([p.stdout], [], [], 20)[0]:
            p.kill()
            self.fail("no ready line: " + p.communicate()[1])
        line = p.stdout.readline()
        self.assertRegex(line, r"^cofferdam ready http://127\.0\.0\.1:\d+\n$", "" if line else p.communicate()[1])
        self.port = int(line.rsplit(":", 1)[1])
        return p

    def stop(self, p, rc=0):
        p.send_signal(signal.SIGTERM)
        out, err = p.communicate(timeout=30)
        self.assertEqual(p.returncode, rc, err)
        self.assertEqual(out, "")
        return err


class Up(Base):
    def test_children_get_what_they_need_and_no_more(self):
        p = self.up()
        wait_until("all started", lambda: all(self.notes(n, "start") for n in ("broker", "sandboxd-0", "worker-0", "worker-1", "frontend-0")))
        secrets = {"broker": set(), "sandboxd-0": {"CTL_T_E2B"}, "worker-0": {"CTL_T_MODEL"}, "frontend-0": {"CTL_T_KEY"}}
        for name, want in secrets.items():
            s = self.notes(name, "start")[0]
            self.assertEqual({k for k in s["env"] if k.startswith("CTL_T")}, want, name)
            self.assertNotIn("STRAY", s["env"])
            self.assertEqual(s["env"]["COFFERDAM_SUPERVISED"], "1")
            self.assertEqual(s["argv"][1:], ["--config", self.dir + "/run/config.yaml", "--name", name])
            self.assertNotIn("sk-model", " ".join(s["argv"]))
            self.assertEqual("LISTEN_FDS" in s["env"], name == "frontend-0")
            if name != "sandboxd-0":
                self.assertEqual(int(s["caps"], 16), 0)
        fe = self.notes("frontend-0", "start")[0]
        self.assertEqual(fe["env"]["LISTEN_FDS"], "2")
        self.assertEqual(fe["env"]["LISTEN_FDNAMES"], "http:admin")
        self.assertEqual(int(fe["env"]["LISTEN_PID"]), fe["pid"])
        self.assertEqual(fe["fds"][:5], [0, 1, 2, 3, 4])
        with open(self.dir + "/run/admin.addr") as f:
            self.assertRegex(f.read(), r"^127\.0\.0\.1:\d+$")
        self.assertEqual(os.stat(self.dir + "/run").st_mode & 0o777, 0o700)
        self.stop(p)
        self.assertEqual(os.listdir(self.dir + "/run"), [])

    def test_dead_child_is_started_again_at_once(self):
        p = self.up()
        wait_until("all up", lambda: all(self.notes(n, "start") for n in ("broker", "sandboxd-0", "worker-0", "worker-1")))
        for name in ("broker", "worker-1", "frontend-0", "sandboxd-0"):
            first = self.notes(name, "start")[0]["pid"]
            os.kill(first, signal.SIGKILL)
            wait_until(name + " is back", lambda: len(self.notes(name, "start")) == 2)
        self.stop(p)

    def test_connections_wait_while_a_frontend_restarts(self):
        p = self.up()
        self.flag("frontend-0.fails")
        pid = self.notes("frontend-0", "start")[0]["pid"]
        os.kill(pid, signal.SIGKILL)
        wait_until("it is dead", lambda: not os.path.exists("/proc/%d" % pid))
        c = socket.create_connection(("127.0.0.1", self.port), 5)
        c.sendall(b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n")
        self.flag("frontend-0.fails", False)
        c.settimeout(20)
        self.assertTrue(c.recv(100).startswith(b"HTTP/1.1 200"))
        c.close()
        self.stop(p)

    def test_ready_only_when_ready(self):
        self.flag("frontend-0.not-ready")
        p = self.spawn()
        wait_until("frontend up", lambda: self.notes("frontend-0", "start"))
        self.assertFalse(select.select([p.stdout], [], [], 0.3)[0])
        self.flag("frontend-0.not-ready", False)
        self.assertTrue(p.stdout.readline().startswith("cofferdam ready "))
        self.stop(p)

    def test_stop_before_ready(self):
        self.flag("frontend-0.not-ready")
        p = self.spawn()
        wait_until("frontend up", lambda: self.notes("frontend-0", "start"))
        self.stop(p)

    def test_stops_in_order(self):
        p = self.up()
        wait_until("all up", lambda: all(self.notes(n, "start") for n in ("broker", "sandboxd-0", "worker-0", "worker-1")))
        self.stop(p)
        times = [max(os.stat("%s/state/%s.term.0" % (self.dir, n)).st_mtime_ns for n in group)
                 for group in (["frontend-0"], ["worker-0", "worker-1"], ["sandboxd-0"], ["broker"])]
        self.assertEqual(times, sorted(times))

    def test_stuck_child_is_killed(self):
        self.flag("worker-0.ignores-term")
        p = self.up()
        wait_until("worker up", lambda: self.notes("worker-0", "start"))
        pid = self.notes("worker-0", "start")[0]["pid"]
        err = self.stop(p, rc=1)
        self.assertIn("killed", err)
        self.assertFalse(os.path.exists("/proc/%d" % pid))

    def test_second_signal_ends_at_once(self):
        self.flag("worker-0.ignores-term")
        p = self.up()
        wait_until("all up", lambda: self.notes("worker-0", "start") and self.notes("broker", "start"))
        p.send_signal(signal.SIGTERM)
        wait_until("draining", lambda: self.notes("worker-0", "term"))
        p.send_signal(signal.SIGTERM)
        p.communicate(timeout=5)
        self.assertEqual(p.returncode, 1)
        self.assertFalse(os.path.exists("/proc/%d" % self.notes("broker", "start")[0]["pid"]))

    def test_children_die_with_the_supervisor(self):
        p = self.up()
        wait_until("all up", lambda: all(self.notes(n, "start") for n in ("broker", "sandboxd-0", "worker-0")))
        pids = [self.notes(n, "start")[0]["pid"] for n in ("broker", "worker-0", "frontend-0", "sandboxd-0")]
        p.kill()
        p.communicate()
        wait_until("children are dead", lambda: not any(os.path.exists("/proc/%d" % x) for x in pids))
        q = self.up()  # what the killed one left behind does not matter
        self.stop(q)

    def test_a_child_that_cannot_start_ends_the_start(self):
        self.flag("sandboxd-0.fails")
        self.flag("frontend-0.not-ready")
        p = self.spawn()
        out, err = p.communicate(timeout=30)
        self.assertEqual(p.returncode, 1)
        self.assertIn("sandboxd-0", err)
        self.assertEqual(out, "")

    def test_only_one_per_run_dir(self):
        p = self.up()
        r = self.ctl("up", "--config", self.config)
        self.assertEqual(r.returncode, 1)
        self.assertIn("another cofferdam runs in " + self.dir + "/run", r.stderr)
        self.stop(p)

    def test_reload(self):
        p = self.up()
        wait_until("worker up", lambda: self.notes("worker-0", "start"))
        text = CONFIG.replace("workers: 2", "workers: 3")
        self.write(text)
        r = self.ctl("reload", "--config", self.config)
        self.assertEqual((r.returncode, r.stdout), (0, "configuration reloaded\n"), r.stderr)
        wait_until("worker-2", lambda: self.notes("worker-2", "start"))
        wait_until("worker-0 told", lambda: self.notes("worker-0", "hup"))
        self.assertIn("workers: 3", self.notes("worker-0", "hup")[0])
        # a bad file changes nothing, not even for a child that is started again
        self.write(text + "  nonsense: 1\n")
        r = self.ctl("reload", "--config", self.config)
        self.assertEqual(r.returncode, 1)
        self.assertIn("nonsense", r.stderr)
        self.write(text.replace("CTL_T_E2B", "CTL_T_GONE"))
        r = self.ctl("reload", "--config", self.config)
        self.assertEqual(r.returncode, 1)
        self.assertIn("refused, nothing changed", r.stderr)
        self.assertIn("CTL_T_GONE is not set", r.stderr)
        with open(self.dir + "/run/config.yaml") as f:
            self.assertEqual(f.read(), text.replace("DIR", self.dir))
        self.write(text.replace("listen: 127.0.0.1:0", "listen: 127.0.0.1:1", 1))
        self.assertIn("cofferdam.listen: cannot change while running", self.ctl("reload", "--config", self.config).stderr)
        self.write(text.replace("workers: 3", "workers: 1"))
        self.assertEqual(self.ctl("reload", "--config", self.config).returncode, 0)
        wait_until("surplus stopped", lambda: self.notes("worker-1", "term") and self.notes("worker-2", "term"))
        self.assertEqual(self.notes("worker-0", "term"), [])
        err = self.stop(p)
        self.assertEqual(re.findall(r"generation=(\d+)", err), ["1", "2", "3"])
        r = self.ctl("reload", "--config", self.config)
        self.assertEqual(r.returncode, 1)
        self.assertIn("nothing runs in", r.stderr)

    def test_bad_starts(self):
        cases = [(CONFIG + "  nonsense: 1\n", "config.yaml:15: cofferdam.nonsense: unknown key"),
                 (CONFIG.replace("run_dir: DIR/run", "run_dir: /proc/none"), "cofferdam.run_dir: /proc/none"),
                 (CONFIG.replace("CTL_T_MODEL", "CTL_T_NONE"), "environment variable CTL_T_NONE is not set")]
        for text, message in cases:
            self.write(text)
            r = self.ctl("up", "--config", self.config)
            self.assertEqual(r.returncode, 1)
            self.assertIn(message, r.stderr)
        s = socket.create_server(("127.0.0.1", 0))
        self.write(CONFIG.replace("listen: 127.0.0.1:0", "listen: 127.0.0.1:%d" % s.getsockname()[1], 1))
        for cmd in ("up", "check"):
            r = self.ctl(cmd, "--config", self.config)
            self.assertEqual(r.returncode, 1)
            self.assertIn("another program has it", r.stderr + r.stdout)
        s.close()
        os.unlink(self.bin + "/cofferdam-worker")
        self.write(CONFIG)
        for cmd in ("up", "check"):
            r = self.ctl(cmd, "--config", self.config)
            self.assertEqual(r.returncode, 1)
            self.assertIn("cofferdam-worker: No such file", r.stderr + r.stdout)


class Commands(Base):
    def test_usage(self):
        for args, rc, want in ((("--help",), 0, "usage: cofferdam COMMAND"), ((), 2, "usage:"), (("--version",), 0, "cofferdam 0."),
                               (("nope",), 2, "unknown command nope"), (("up", "--nope"), 2, "unknown option --nope"),
                               (("up", "--json"), 2, "does not take --json"), (("up", "--config"), 2, "a value is missing after --config"),
                               (("up", "extra"), 2, "unexpected argument extra"), (("run",), 2, "an argument is missing"),
                               (("status", "--help"), 0, "usage: cofferdam status"), (("check", "--version"), 0, "cofferdam 0.")):
            r = self.ctl(*args)
            self.assertEqual(r.returncode, rc, args)
            self.assertIn(want, r.stdout if rc == 0 else r.stderr)

    def test_keygen(self):
        r = self.ctl("curve-keygen")
        self.assertEqual(r.returncode, 0)
        self.assertRegex(r.stdout, r'^curve:\n  public_key: ".{40}"\n  secret_key: ".{40}"\n$')

    def test_check(self):
        r = self.ctl("check", "--config", self.config)
        self.assertEqual(r.returncode, 0, r.stdout + r.stderr)
        self.assertIn("ok   configuration", r.stdout)
        self.assertIn("namespaces: yes", r.stdout)
        self.assertFalse(os.path.exists(self.dir + "/run"))
        open(self.bin + "/zygote-fails", "w").close()
        r = self.ctl("check", "--config", self.config)
        self.assertEqual(r.returncode, 1)
        self.assertIn("FAIL local sandbox", r.stdout)
        self.write(CONFIG + "  nonsense: 1\n")
        r = self.ctl("check", "--config", self.config)
        self.assertEqual(r.returncode, 1)
        self.assertIn("FAIL configuration: ", r.stdout)
        self.assertEqual(self.ctl("check", "--config", "/nonexistent").returncode, 1)

    def test_run_and_status(self):
        r = self.ctl("status", "--config", self.config)
        self.assertEqual(r.returncode, 1)
        self.assertIn("is the gateway running?", r.stderr)
        p = self.up()
        r = self.ctl("run", "--config", self.config, "-", stdin="print(1)\n", COFFERDAM_API_KEY="good")
        self.assertEqual((r.returncode, r.stdout), (0, "print(1)\n42\n"))
        self.assertIn("warn\n", r.stderr)
        self.assertIn("[image/png, 4 bytes of text]", r.stderr)
        with open(self.dir + "/code.py", "w") as f:
            f.write("raise ValueError('\u00e9')\n")
        r = self.ctl("run", "--sandbox", "e", self.dir + "/code.py", COFFERDAM_CONFIG=self.config)
        self.assertEqual(r.returncode, 1)
        self.assertIn("Traceback: ValueError: x", r.stderr)
        r = self.ctl("run", "--config", self.config, "-", stdin="1", COFFERDAM_API_KEY="bad")
        self.assertEqual(r.returncode, 1)
        self.assertIn("answered 401: incorrect API key provided", r.stderr)
        self.assertNotIn("COFFERDAM_API_KEY", r.stderr)
        self.flag("frontend-0.needs-key")
        r = self.ctl("run", "--config", self.config, "-", stdin="1")
        self.assertEqual(r.returncode, 1)
        self.assertIn("set it", r.stderr)
        self.assertIn("COFFERDAM_API_KEY", r.stderr)
        self.assertIn("cannot open", self.ctl("run", "--config", self.config, "/nonexistent.py").stderr)
        r = self.ctl("status", "--config", self.config)
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn("broker.queued: 0", r.stdout)
        self.assertRegex(r.stdout, r"worker-0\s+worker\s+2")
        self.assertEqual(json.loads(self.ctl("status", "--json", "--config", self.config).stdout)["version"], "x")
        self.stop(p)


if __name__ == "__main__":
    unittest.main(verbosity=2)
