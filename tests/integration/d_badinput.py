"""What a client can do wrong: every row of the HTTP table over raw sockets, and every malformed body, each with the
status and error object expected; after each the gateway still serves."""
import json
import os
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "support")]
import http1_cases  # noqa: E402
from gateway import Gateway, KEY  # noqa: E402


class Http1(unittest.TestCase):
    def test_every_row(self):
        extra = ("  limits: {head_timeout_ms: 1500, body_timeout_ms: 1500, idle_timeout_ms: 2500, body_bytes: 1048576}\n")
        with Gateway(extra=extra) as gw:
            def in_flight():
                return sum(p["in_flight"] for p in gw.status_document()["processes"] if p["role"] == "worker")
            results = http1_cases.run("127.0.0.1", gw.port, KEY, gw.model.count, model="scripted",
                                      upstream_log=gw.model.log, in_flight=in_flight)
            bad = ["%s: %s" % (name, detail) for name, ok, detail in results if not ok]
            print("%d rows" % len(results))
            self.assertGreater(len(results), 60)
            self.assertEqual(bad, [], "\n".join(bad))


class Bodies(unittest.TestCase):
    def test_every_row(self):
        with open(os.path.join(HERE, "bad_bodies.json")) as f:
            rows = json.load(f)
        self.assertGreaterEqual(len(rows), 40)
        bad = []
        with Gateway() as gw:
            for row in rows:
                body = row["body"] if isinstance(row["body"], str) else json.dumps(row["body"])
                status, headers, out = gw.request("POST", row["path"], body.encode("utf-8", "surrogateescape"))
                error = out.get("error", {}) if isinstance(out, dict) else {}
                got = {"status": status, **{k: error.get(k) for k in ("type", "param", "code")}}
                want = {k: row[k] for k in got}
                if got != want or row["message_contains"] not in (error.get("message") or ""):
                    bad.append("%s: want %s, got %s %s" % (row["name"], want, got, out))
                elif set(error) != {"message", "type", "param", "code"}:
                    bad.append("%s: error object has keys %s" % (row["name"], sorted(error)))
                elif not headers["x-request-id"]:
                    bad.append("%s: no request id" % row["name"])
            self.assertEqual(gw.run_code("print('still here')").strip(), "still here")
        print("%d bodies" % len(rows))
        self.assertEqual(bad, [], "\n".join(bad))


if __name__ == "__main__":
    unittest.main()
