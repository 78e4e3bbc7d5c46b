"""Flow control end to end: a client that does not read stops the provider's stream, and nothing grows without bound."""
import json
import os
import sys
import threading
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
from gateway import KEY, Gateway, wait_until  # noqa: E402

SENT = {"bytes": 0}
TOTAL = 256 * 1024 * 1024


class Flood(BaseHTTPRequestHandler):
    """A provider that streams as fast as it may."""
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Content-Length", str(TOTAL))
        self.end_headers()
        event = b"data: " + b"x" * 16376 + b"\n\n"
        event = event[:16384 - 2] + b"\n\n" if len(event) != 16384 else event
        try:
            while SENT["bytes"] < TOTAL:
                self.wfile.write(event)
                SENT["bytes"] += len(event)
        except OSError:
            pass

    def log_message(self, *args):
        pass


class Flow(unittest.TestCase):
    def test_a_slow_client_pauses_the_provider(self):
        server = ThreadingHTTPServer(("127.0.0.1", 0), Flood)
        threading.Thread(target=server.serve_forever, daemon=True).start()

        class Model:
            url = "http://127.0.0.1:%d" % server.server_port
        try:
            gw = Gateway(model=Model).start()
            try:
                self.use(gw)
            finally:
                gw.close_processes()
        finally:
            server.shutdown()
            server.server_close()

    def use(self, gw):
        c = gw.connection()
        body = {"model": "passthrough", "input": "x", "stream": True}
        c.request("POST", "/v1/responses", json.dumps(body), {"Authorization": "Bearer " + KEY})
        r = c.getresponse()
        seen, calm = 0, 0
        # the provider stops: the same count again and again while nobody reads
        while calm < 10:
            before = SENT["bytes"]
            threading.Event().wait(0.1)
            calm = calm + 1 if SENT["bytes"] == before and before > 0 else 0
        self.assertLess(SENT["bytes"], TOTAL // 4, "the stream is buffered without a bound")
        self.assertEqual(gw.request("GET", "/healthz", key=None)[0], 200)
        while True:
            part = r.read(1 << 20)
            if not part:
                break
            seen += len(part)
        c.close()
        self.assertEqual(seen, TOTAL)

    def test_a_vanished_slow_client_frees_everything(self):
        with Gateway() as gw:
            c = gw.connection()
            steps = [{"text": " ".join("word" for _ in range(2000)), "gap": 0.01}]
            body = {"model": "scripted", "input": "@script " + json.dumps(steps), "stream": True}
            c.request("POST", "/v1/responses", json.dumps(body), {"Authorization": "Bearer " + KEY})
            c.getresponse().read1(100)
            c.close()
            wait_until("the job is gone", lambda: all(p["in_flight"] == 0 for p in gw.status_document()["processes"]
                                                      if p["role"] == "worker"))


if __name__ == "__main__":
    unittest.main()
