"""Every malformed body, with the status and error object expected; afterwards the gateway still serves."""
import json
import os
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
from gateway import Gateway  # noqa: E402


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
