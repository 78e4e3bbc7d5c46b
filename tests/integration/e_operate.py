"""The operator's side: check, status, run, reload, an ordinary user, two brokers' hosts with CURVE, limits and queues."""
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
from gateway import BUILD, CONFIG, KEY, OTHER_KEY, Gateway, sse, wait_until  # noqa: E402

COFFERDAM = os.path.join(BUILD, "bin/cofferdam")


def ctl(gw, *args, **kw):
    env = dict(gw.env(), COFFERDAM_API_KEY=KEY)
    return subprocess.run([COFFERDAM, *args], env=env, capture_output=True, text=True, timeout=60, **kw)


class Commands(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.gw = Gateway(workers=2, frontends=2).start()

    @classmethod
    def tearDownClass(cls):
        cls.gw.__exit__(None, None, None)

    def test_check(self):
        p = ctl(self.gw, "check", "--config", self.gw.file)
        self.assertEqual(p.returncode, 0, p.stdout + p.stderr)
        bad = os.path.join(self.gw.dir, "bad.yaml")
        with open(bad, "w") as f:
            f.write("cofferdam:\n  listne: 127.0.0.1:1\n")
        p = ctl(self.gw, "check", "--config", bad)
        self.assertNotEqual(p.returncode, 0)
        text = p.stdout + p.stderr
        for part in ("bad.yaml", "2", "listne", "listen"):
            self.assertIn(part, text)

    def test_status(self):
        p = ctl(self.gw, "status", "--json", "--config", self.gw.file)
        self.assertEqual(p.returncode, 0, p.stderr)
        doc = json.loads(p.stdout)
        self.assertEqual(sorted(q["name"] for q in doc["processes"]),
                         ["frontend-0", "frontend-1", "sandboxd-0", "worker-0", "worker-1"])
        p = ctl(self.gw, "status", "--config", self.gw.file)
        for name in ("broker", "worker-1", "sandboxd-0"):
            self.assertIn(name, p.stdout)

    def test_run(self):
        p = ctl(self.gw, "run", "--config", self.gw.file, "-", input="print('from stdin')\n6*7\n")
        self.assertEqual((p.returncode, p.stdout.split()), (0, ["from", "stdin", "42"]), p.stderr)
        p = ctl(self.gw, "run", "--config", self.gw.file, "-", input="print('x')\n1/0\n")
        self.assertEqual(p.returncode, 1)
        self.assertIn("ZeroDivisionError", p.stderr + p.stdout)

    def test_usage_errors(self):
        for args in (["nonsense"], ["up"], ["up", "--config", "/does/not/exist"], ["status", "--frob"]):
            p = ctl(self.gw, *args)
            self.assertNotEqual(p.returncode, 0)
            self.assertTrue(p.stderr, args)

    def test_one_supervisor_per_directory(self):
        p = ctl(self.gw, "up", "--config", self.gw.file)
        self.assertNotEqual(p.returncode, 0)
        self.assertIn("run", p.stderr)

    def test_no_secret_in_argv_or_the_wrong_environment(self):
        wanted = {"frontend": "TEST_KEY_ALPHA", "worker": "TEST_UPSTREAM_KEY"}
        for name, pid in self.gw.children().items():
            with open("/proc/%d/cmdline" % pid, "rb") as f:
                self.assertNotIn(b"sk-", f.read())
            with open("/proc/%d/environ" % pid, "rb") as f:
                names = {e.split(b"=")[0].decode() for e in f.read().split(b"\0") if e.startswith(b"TEST_")}
            role = name.split("-")[0]
            self.assertLessEqual(names, {"frontend": {"TEST_KEY_ALPHA", "TEST_KEY_BETA"},
                                         "worker": {"TEST_UPSTREAM_KEY"}}.get(role, set()), name)
            if role in wanted:
                self.assertIn(wanted[role], names)


class Reload(unittest.TestCase):
    def test_reload_is_atomic(self):
        with Gateway() as gw:
            def models():
                return [m["id"] for m in gw.request("GET", "/v1/models")[2]["data"]]
            self.assertEqual(models(), ["scripted", "passthrough"])
            gw.template = CONFIG.replace("model_name: passthrough", "model_name: renamed")
            gw.write_config()
            p = ctl(gw, "reload", "--config", gw.file)
            self.assertEqual(p.returncode, 0, p.stderr)
            wait_until("the new model shows", lambda: models() == ["scripted", "renamed"])
            wait_until("the worker knows it", lambda: gw.request("POST", "/v1/responses",
                                                                 {"model": "renamed", "input": "x"})[0] == 200)
            with open(gw.file, "a") as f:
                f.write("  surprise: 1\n")
            p = ctl(gw, "reload", "--config", gw.file)
            self.assertNotEqual(p.returncode, 0)
            self.assertIn("surprise", p.stdout + p.stderr)
            self.assertEqual(models(), ["scripted", "renamed"])
            gw.proc.send_signal(signal.SIGHUP)  # the bad file is still there: nothing changes
            self.assertEqual(gw.run_code("print('fine')").strip(), "fine")
            self.assertEqual(models(), ["scripted", "renamed"])


class Drain(unittest.TestCase):
    def test_sigterm_lets_running_requests_end(self):
        with Gateway() as gw:
            out = {}

            def ask():
                out["r"] = gw.script([{"text": " ".join(str(i) for i in range(30)), "gap": 0.1}], stream=True)
            t = threading.Thread(target=ask)
            t.start()
            wait_until("the request runs", lambda: gw.model.count() == 1)
            self.assertEqual(gw.stop(), 0)
            t.join(30)
            self.assertEqual(sse(out["r"][2])[-1][0], "response.completed")


class Limits(unittest.TestCase):
    def test_full_queue_is_refused_with_retry_after(self):
        with Gateway(extra="  worker: {jobs: 1}\n  queue: {jobs: 2, per_key: 2, wait_s: 30}") as gw:
            results, lock = [], threading.Lock()

            def ask(key):
                body = {"model": "scripted", "input": '@script [{"stall":1.5,"text":"ok"}]'}
                r = gw.request("POST", "/v1/responses", body, key=key)
                with lock:
                    results.append(r)
            threads = [threading.Thread(target=ask, args=(KEY,)) for _ in range(6)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            codes = sorted(r[0] for r in results)
            self.assertEqual(codes.count(200), 3, codes)
            for status, headers, body in results:
                if status != 200:
                    self.assertIn(status, (429, 503))
                    self.assertTrue(1 <= int(headers["retry-after"]) < 60)
                    self.assertTrue(body["error"]["message"])

    def test_busy_sessions_are_refused_not_evicted(self):
        with Gateway(extra="  sessions: {per_key: 1}") as gw:
            t = threading.Thread(target=lambda: gw.run_code("import time; time.sleep(2)", metadata={"session_id": "a"}))
            t.start()
            wait_until("the code runs", lambda: gw.status_document()["sandbox_calls"] > 0)
            status, headers, body = gw.script([{"code": "1"}, {"text": "x"}], metadata={"session_id": "b"})
            self.assertEqual((status, body["error"]["code"]), (429, "sandbox_capacity"), body)
            self.assertIn("retry-after", headers)
            t.join()

    def test_run_timeout(self):
        with Gateway(extra="  code_interpreter: {run_timeout_s: 1}") as gw:
            text = gw.run_code("print('start', flush=True)\nwhile True: pass", metadata={"session_id": "t"})
            self.assertIn("start", text)
            self.assertIn("[execution error]", text)
            self.assertEqual(gw.run_code("print('alive')", metadata={"session_id": "t"}).strip(), "alive")


class OrdinaryUser(unittest.TestCase):
    def test_everything_without_root(self):
        if os.geteuid() != 0:
            self.assertNotEqual(os.geteuid(), 0)  # the whole suite is this test
            return
        gw = Gateway()
        try:
            copy = os.path.join(gw.dir, "bin")
            shutil.copytree(os.path.join(BUILD, "bin"), copy)  # the checkout may not be readable for others
            for d, dirs, files in os.walk(gw.dir):
                os.chown(d, 65534, 65534)
            os.chmod(gw.dir, 0o755)
            log = open(gw.log_path, "ab")
            gw.proc = subprocess.Popen(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
                                        os.path.join(copy, "cofferdam"), "up", "--config", gw.file],
                                       stdout=subprocess.PIPE, stderr=log, env=gw.env(), cwd=gw.dir)
            log.close()
            from gateway import read_line
            line = read_line(gw.proc, "cofferdam ready ", 60)
            gw.port = int(line.rsplit(":", 1)[1])
            self.assertEqual(gw.run_code("import os\nprint(os.getuid() != 0, os.getcwd())").strip(), "True /mnt/data")
            self.assertEqual(gw.stop(), 0)
        except AssertionError as e:
            raise AssertionError("%s\n%s" % (e, gw.log_text()[-3000:])) from None
        finally:
            gw.close()


REMOTE = """\
model_list:
  - {{model_name: scripted, litellm_params: {{model: openai/scripted-upstream, api_base: "{model}/v1", api_key: k}}}}
cofferdam:
  listen: 127.0.0.1:0
  admin_listen: 127.0.0.1:0
  run_dir: {dir}/run
  state_dir: {dir}/state
  api_keys: [{{name: alpha, key: os.environ/TEST_KEY_ALPHA}}]
{extra}
"""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class OverTcp(unittest.TestCase):
    """sandboxd as if on another host: it reaches the broker over tcp with CURVE."""

    def keygen(self):
        p = subprocess.run([COFFERDAM, "curve-keygen"], capture_output=True, text=True, check=True)
        words = p.stdout.replace("\"", " ").split()
        keys = [w for w in words if len(w) == 40]
        self.assertEqual(len(keys), 2, p.stdout)
        return keys

    def test_sandboxd_on_another_host(self):
        (b_pub, b_sec), (s_pub, s_sec) = self.keygen(), self.keygen()
        endpoint = "tcp://127.0.0.1:%d" % free_port()
        extra = "  sandboxds: 0\n  broker_listen: \"%s\"\n  curve: {public_key: '%s', secret_key: '%s', broker_key: '%s', allowed: ['%s']}" % (
            endpoint, b_pub, b_sec, b_pub, s_pub)
        gw = Gateway(config=REMOTE, extra=extra)
        procs = []

        def sandboxd(name, pub, sec):
            path = os.path.join(gw.dir, name + ".yaml")
            with open(path, "w") as f:
                f.write(REMOTE.format(**dict(gw.values, extra=(
                    "  brokers: [\"%s\"]\n  curve: {public_key: '%s', secret_key: '%s', broker_key: '%s'}" % (
                        endpoint, pub, sec, b_pub)))))
            log = open(gw.log_path, "ab")
            procs.append(subprocess.Popen([os.path.join(BUILD, "bin/cofferdam-sandboxd"), "--config", path, "--name", name],
                                          stderr=log, env=gw.env()))
            log.close()
            return procs[-1]
        try:
            stranger = sandboxd("stranger", *self.keygen())
            mine = sandboxd("box-host", s_pub, s_sec)
            with gw:
                doc = gw.status_document()
                self.assertEqual([s["name"] for s in doc["sandboxds"]], ["box-host"])
                self.assertEqual(gw.run_code("print('afar')").strip(), "afar")
                self.assertIsNone(stranger.poll())
                for p in (stranger, mine):
                    p.send_signal(signal.SIGTERM)
                    self.assertEqual(p.wait(30), 0)
        finally:
            for p in procs:
                if p.poll() is None:
                    p.kill()
                p.wait()


if __name__ == "__main__":
    unittest.main()
