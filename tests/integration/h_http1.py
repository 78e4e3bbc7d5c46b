#!/usr/bin/python3
"""Every row of the HTTP/1.1 table against the running gateway (http1_cases.py)."""
import os
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, "..", "support"))
import http1_cases  # noqa: E402
from gateway import Gateway, KEY  # noqa: E402

SHORT = """\
  limits: {head_timeout_ms: 1500, body_timeout_ms: 1500, idle_timeout_ms: 2500, body_bytes: 1048576}
"""


class Http1(unittest.TestCase):
    def test_every_row(self):
        with Gateway(extra=SHORT, num_retries=0) as gw:

            def metric(start):
                raw = gw.admin("/metrics")[2]
                lines = raw.decode().splitlines() if isinstance(raw, bytes) else []
                return sum(float(ln.split()[-1]) for ln in lines if ln.startswith(start))

            results = http1_cases.run(
                "127.0.0.1", gw.port, KEY, gw.model.count, upstream_log=gw.model.log,
                in_flight=lambda: metric("cofferdam_frontend_in_flight_requests"),
                cancelled=lambda: metric('cofferdam_broker_jobs_total{outcome="cancelled"'))
        self.assertGreater(len(results), 150)
        self.assertEqual([(name, detail) for name, ok, detail in results if not ok], [])


if __name__ == "__main__":
    unittest.main()
