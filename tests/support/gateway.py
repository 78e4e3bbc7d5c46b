"""Starts the real processes for tests: a model server and `cofferdam up`, on free loopback ports, in a directory of
their own that is removed at the end.

    with Gateway() as gw:
        status, headers, body = gw.request("POST", "/v1/responses", {...})
"""
import http.client
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("CFD_BUILD", os.path.join(ROOT, "build"))
PYTHON = "/usr/bin/python3"
KEY = "sk-test-alpha"
OTHER_KEY = "sk-test-beta"
UPSTREAM_KEY = "sk-upstream-secret"

CONFIG = """\
model_list:
  - model_name: scripted
    litellm_params: {{model: openai/scripted-upstream, api_base: "{model}/v1", api_key: os.environ/TEST_UPSTREAM_KEY}}
  - model_name: passthrough
    litellm_params: {{model: openai/passthrough, api_base: "{model}/v1", api_key: os.environ/TEST_UPSTREAM_KEY}}
litellm_settings:
  callbacks: ["code_interpreter_interception"]
  num_retries: {num_retries}
cofferdam:
  listen: 127.0.0.1:0
  admin_listen: 127.0.0.1:0
  run_dir: {dir}/run
  state_dir: {dir}/state
  frontends: {frontends}
  workers: {workers}
  api_keys:
    - {{name: alpha, key: os.environ/TEST_KEY_ALPHA}}
    - {{name: beta, key: os.environ/TEST_KEY_BETA}}
{extra}
"""


def wait_until(what, cond, timeout=30.0, step=0.02):
    """Polls an observable condition; returns its value. The deadline only bounds a failure."""
    end = time.monotonic() + timeout
    while True:
        value = cond()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError("not within %g s: %s" % (timeout, what))
        time.sleep(step)


def read_line(proc, prefix, timeout):
    """The first line of proc's stdout that starts with prefix, or an error with what it said instead."""
    end, seen = time.monotonic() + timeout, b""
    fd = proc.stdout.fileno()
    while time.monotonic() < end:
        for line in seen.split(b"\n")[:-1]:
            if line.decode().startswith(prefix):
                return line.decode().strip()
        if select.select([fd], [], [], 0.2)[0]:
            data = os.read(fd, 65536)
            if not data:
                break
            seen += data
    raise AssertionError("no '%s' from %s within %g s: %r" % (prefix, proc.args[0], timeout, seen))


class ModelServer:
    def __init__(self):
        self.proc = subprocess.Popen([PYTHON, os.path.join(ROOT, "tests/support/model_server.py")],
                                     stdout=subprocess.PIPE)
        self.url = read_line(self.proc, "model ", 20).split()[1]
        self.port = int(self.url.rsplit(":", 1)[1])

    def get(self, path):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        c.request("GET", path)
        out = json.loads(c.getresponse().read())
        c.close()
        return out

    def log(self):
        return self.get("/_log")

    def count(self):
        return self.get("/_count")["count"]

    def reset(self):
        self.get("/_reset")

    def stop(self):
        self.proc.kill()
        self.proc.wait()
        self.proc.stdout.close()


class Gateway:
    """extra: lines under `cofferdam:` (indented by two). config: a whole other template."""

    def __init__(self, extra="", frontends=1, workers=1, num_retries=2, config=CONFIG, model=None):
        self.dir = tempfile.mkdtemp(prefix="cfd-", dir="/tmp")
        self.own_model = model is None
        self.model = model or ModelServer()
        self.values = dict(dir=self.dir, frontends=frontends, workers=workers, num_retries=num_retries, extra=extra,
                           model=self.model.url)
        self.template = config
        self.file = os.path.join(self.dir, "config.yaml")
        self.proc = None
        self.drainer = threading.Thread(target=lambda: None)
        self.log_path = os.path.join(self.dir, "log")
        self.write_config()

    def write_config(self, **changes):
        self.values.update(changes)
        with open(self.file, "w") as f:
            f.write(self.template.format(**self.values))

    def env(self):
        keep = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "LANG", "TMPDIR") or "SAN_OPTIONS" in k}
        return dict(keep, TEST_UPSTREAM_KEY=UPSTREAM_KEY, TEST_KEY_ALPHA=KEY, TEST_KEY_BETA=OTHER_KEY)

    def start(self):
        with open(self.log_path, "ab") as log:
            self.proc = subprocess.Popen([os.path.join(BUILD, "bin/cofferdam"), "up", "--config", self.file],
                                         stdout=subprocess.PIPE, stderr=log, env=self.env(), cwd=self.dir)
        try:
            line = read_line(self.proc, "cofferdam ready ", 90)
        except AssertionError as e:
            self.proc.kill()
            self.proc.wait()
            raise AssertionError("%s\nlog:\n%s" % (e, self.log_text()[-6000:])) from None
        self.url = line.split()[2]
        self.port = int(self.url.rsplit(":", 1)[1])
        self.drainer = threading.Thread(target=self.proc.stdout.read, daemon=True)
        self.drainer.start()
        return self

    def admin_port(self):
        """The admin address the supervisor chose, from its run directory."""
        with open(os.path.join(self.dir, "run", "admin.addr")) as f:
            return int(f.read().strip().rsplit(":", 1)[1])

    def log_text(self):
        with open(self.log_path, "rb") as f:
            return f.read().decode("utf-8", "replace")

    def stop(self, timeout=60):
        rc = None
        if self.proc is not None and self.proc.poll() is None:
            self.proc.send_signal(signal.SIGTERM)
            try:
                rc = self.proc.wait(timeout)
            except subprocess.TimeoutExpired:
                self.proc.kill()
                self.proc.wait()
                raise AssertionError("did not stop within %g s\n%s" % (timeout, self.log_text()[-4000:])) from None
        elif self.proc is not None:
            rc = self.proc.returncode
        if self.proc is not None:
            if self.drainer.ident:
                self.drainer.join(5)
            self.proc.stdout.close()
        self.proc = None
        return rc

    def close(self):
        try:
            self.stop()
        finally:
            if self.own_model:
                self.model.stop()
            if os.environ.get("CFD_KEEP"):
                print("kept", self.dir)
            else:
                shutil.rmtree(self.dir, ignore_errors=True)

    def close_processes(self):
        """For callers whose model server is not ours."""
        self.stop()
        shutil.rmtree(self.dir, ignore_errors=True)

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *exc):
        log = self.log_text()
        self.close()
        if exc[0] is None:
            for sign in ("AddressSanitizer", "LeakSanitizer", "runtime error:", "ThreadSanitizer", "INVARIANT", "REQUIRE"):
                assert sign not in log, "the log of the processes shows %s:\n%s" % (sign, log[-8000:])
            for secret in (UPSTREAM_KEY, KEY, OTHER_KEY):
                assert secret not in log, "a secret is in the log"

    # --- using it ---------------------------------------------------------------------------------------------

    def connection(self, timeout=60):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def request(self, method, path, body=None, key=KEY, headers=None, timeout=60, port=None):
        c = http.client.HTTPConnection("127.0.0.1", port or self.port, timeout=timeout)
        h = {"Content-Type": "application/json"}
        if key is not None:
            h["Authorization"] = "Bearer " + key
        h.update(headers or {})
        data = body if isinstance(body, (bytes, str)) or body is None else json.dumps(body)
        try:
            c.request(method, path, data, h)
            r = c.getresponse()
            raw = r.read()
        finally:
            c.close()
        try:
            parsed = json.loads(raw)
        except ValueError:
            parsed = raw
        return r.status, r.headers, parsed

    def admin(self, path):
        return self.request("GET", path, key=None, port=self.admin_port())

    def status_document(self):
        return self.admin("/status")[2]

    def script(self, steps, **fields):
        """A /v1/responses request for the scripted model with the code interpreter."""
        body = {"model": "scripted", "input": "@script " + json.dumps(steps),
                "tools": [{"type": "code_interpreter", "container": {"type": "auto"}}]}
        body.update(fields)
        return self.request("POST", "/v1/responses", body)

    def run_code(self, code, **fields):
        status, _, body = self.script([{"code": code}, {"echo": True}], **fields)
        assert status == 200, body
        return [p["text"] for it in body["output"] if it["type"] == "message" for p in it["content"]][-1]

    def children(self):
        """{name: pid} of the supervisor's live children, by the name they were given."""
        out = {}
        for pid in children_of(self.proc.pid):
            try:
                with open("/proc/%d/cmdline" % pid, "rb") as f:
                    argv = f.read().decode().split("\0")
            except OSError:
                continue
            if "--name" in argv:
                out[argv[argv.index("--name") + 1]] = pid
        return out

    def wait_ready(self, timeout=30):
        wait_until("ready again", lambda: self.try_ready(), timeout)

    def try_ready(self):
        try:
            return self.request("GET", "/readyz", key=None)[0] == 200
        except OSError:
            return False


def children_of(pid):
    try:
        with open("/proc/%d/task/%d/children" % (pid, pid)) as f:
            return [int(x) for x in f.read().split()]
    except OSError:
        return []


def descendants(pid):
    out = []
    for child in children_of(pid):
        out += [child] + descendants(child)
    return out


def sse(raw):
    """Events of a stream as (event name or None, parsed data or text)."""
    out = []
    text = raw.decode() if isinstance(raw, bytes) else raw
    for block in text.split("\n\n"):
        name, data = None, []
        for line in block.split("\n"):
            if line.startswith("event: "):
                name = line[7:]
            elif line.startswith("data: "):
                data.append(line[6:])
        if data:
            joined = "\n".join(data)
            out.append((name, joined if joined == "[DONE]" else json.loads(joined)))
    return out
