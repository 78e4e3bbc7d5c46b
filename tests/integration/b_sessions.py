"""Sessions: state across requests, tenants apart, the cap, the time to live, concurrency, nothing left behind."""
import os
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from gateway import Gateway, OTHER_KEY, descendants, wait_until  # noqa: E402


def session(name):
    return {"metadata": {"session_id": name}}


def mounts():
    with open("/proc/self/mountinfo") as f:
        return len(f.readlines())


def cgroups(pids):
    """Control groups of these zygotes, named after their process ids; other gateways may run beside this test."""
    names = tuple("-%d" % p for p in pids)
    return sum(1 for d, _, _ in os.walk("/sys/fs/cgroup")
               if any(part.startswith("cofferdam-") and part.endswith(names) for part in d.split("/")))


class Sessions(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.gw = Gateway().start()

    @classmethod
    def tearDownClass(cls):
        cls.gw.__exit__(None, None, None)

    def code_as(self, key, code, name):
        import json
        body = {"model": "scripted", "input": "@script " + json.dumps([{"code": code}, {"echo": True}]),
                "tools": [{"type": "code_interpreter", "container": {"type": "auto"}}], **session(name)}
        status, _, out = self.gw.request("POST", "/v1/responses", body, key=key)
        self.assertEqual(status, 200, out)
        return [p["text"] for i in out["output"] if i["type"] == "message" for p in i["content"]][-1].strip()

    def test_state_across_requests_and_tenants_apart(self):
        self.gw.run_code("x = 42", **session("s1"))
        self.assertEqual(self.gw.run_code("print(x + 1)", **session("s1")).strip(), "43")
        self.assertIn("NameError", self.code_as(OTHER_KEY, "print(x + 1)", "s1"))
        self.assertIn("NameError", self.gw.run_code("print(x + 1)", **session("s2")))
        self.assertIn("NameError", self.gw.run_code("print(x + 1)"))

    def test_the_eleventh_session_evicts_the_least_recently_used(self):
        for i in range(10):
            self.code_as(OTHER_KEY, "v = %d" % i, "cap-%d" % i)
        self.assertEqual(self.code_as(OTHER_KEY, "print(v)", "cap-0"), "0")  # now cap-1 is the oldest
        self.code_as(OTHER_KEY, "v = 10", "cap-10")
        for i in (0, 2, 9, 10):
            self.assertEqual(self.code_as(OTHER_KEY, "print(v)", "cap-%d" % i), str(i))
        alive = {b["session_id"] for b in self.gw.request("GET", "/v1/sandboxes", key=OTHER_KEY)[2]["data"]}
        self.assertEqual(len(alive), 10)
        self.assertNotIn("cap-1", alive)

    def test_concurrent_first_requests_make_one_sandbox(self):
        out = []
        threads = [threading.Thread(target=lambda: out.append(self.gw.run_code(
            "import os\ny = globals().get('y', 0) + 1\nprint(y)", **session("race")).strip())) for _ in range(6)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(sorted(out, key=int), [str(i) for i in range(1, 7)])

    def test_session_id_must_be_a_short_string(self):
        for bad, param in (("", "metadata.session_id"), ("x" * 257, "metadata.session_id"), (5, "metadata.session_id")):
            status, _, body = self.gw.script([{"text": "x"}], metadata={"session_id": bad})
            self.assertEqual(status, 400, (bad, body))
            self.assertEqual(body["error"]["param"], param)

    def test_requests_without_session_leave_nothing(self):
        def alive():
            return sum(s["sandboxes"] for s in self.gw.status_document()["sandboxds"])
        before_mounts = mounts()
        self.gw.run_code("1", **session("keeps"))
        before, pids = alive(), descendants(self.gw.proc.pid)
        before_cgroups = cgroups(pids)
        for i in range(20):
            self.gw.run_code("open('/tmp/f%d', 'w').write('x')\nprint(1)" % i)
        wait_until("sandboxes of finished requests are gone", lambda: alive() <= before)
        self.assertEqual(mounts(), before_mounts)
        wait_until("no cgroups pile up", lambda: cgroups(pids) <= before_cgroups + 12)


class Expiry(unittest.TestCase):
    def test_ttl_counts_from_the_last_access(self):
        with Gateway(extra="  sessions: {ttl_s: 2}") as gw:
            gw.run_code("x = 1", **session("ttl"))
            end = time.monotonic() + 4
            while time.monotonic() < end:
                self.assertEqual(gw.run_code("print(x)", **session("ttl")).strip(), "1")
            wait_until("the session expires", lambda: not gw.request("GET", "/v1/sandboxes")[2]["data"], 15)
            self.assertIn("NameError", gw.run_code("print(x)", **session("ttl")))


class Stop(unittest.TestCase):
    def test_nothing_outlives_the_supervisor(self):
        before = mounts()
        gw = Gateway()
        with gw:
            gw.run_code("import subprocess\nsubprocess.Popen(['sleep', '1000'])", **session("left"))
            pids = descendants(gw.proc.pid)
            self.assertGreater(len(pids), 5)
            self.assertEqual(gw.stop(), 0)
            wait_until("every process is gone", lambda: not [p for p in pids if os.path.exists("/proc/%d" % p)])
            self.assertEqual([f for f in os.listdir(os.path.join(gw.dir, "run")) if f.endswith(".sock")], [])
        wait_until("no control group is left", lambda: cgroups(pids) == 0)
        self.assertEqual(mounts(), before)


if __name__ == "__main__":
    unittest.main()
