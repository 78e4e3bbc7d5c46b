#!/usr/bin/python3
"""Stands in for every daemon when the supervisor is tested alone. Copied as cofferdam-broker and so on. Writes what it
was given to STATE_DIR/NAME.start.N; a frontend answers on the sockets it inherited."""
import json
import os
import signal
import socket
import sys
import threading

argv = sys.argv
name = argv[argv.index("--name") + 1] if "--name" in argv else "zygote"


def state_dir():
    with open(argv[argv.index("--config") + 1]) as f:
        for line in f:
            if "state_dir:" in line:
                return line.split("state_dir:")[1].strip()
    raise SystemExit("no state_dir")


if name == "zygote":
    print("namespaces: yes")
    sys.exit(int(os.path.exists(os.path.join(os.path.dirname(argv[0]), "zygote-fails"))))

DIR = state_dir()


def note(kind, value):
    n = 0
    while True:
        try:
            with open("%s/%s.%s.%d" % (DIR, name, kind, n), "x") as f:
                f.write(json.dumps(value))
                return
        except FileExistsError:
            n += 1


def has(flag):
    return os.path.exists("%s/%s.%s" % (DIR, name, flag))


if has("fails"):
    sys.exit(3)


def on_term(*_):
    note("term", None)
    if not has("ignores-term"):
        os._exit(0)


def on_hup(*_):
    with open(argv[argv.index("--config") + 1]) as f:
        note("hup", f.read())


signal.signal(signal.SIGTERM, on_term)
signal.signal(signal.SIGHUP, on_hup)


def serve(listener):
    while True:
        c, _ = listener.accept()
        threading.Thread(target=answer, args=(c,), daemon=True).start()


def answer(c):
    data = b""
    while b"\r\n\r\n" not in data:
        more = c.recv(65536)
        if not more:
            return
        data += more
    head, body = data.split(b"\r\n\r\n", 1)
    lines = head.decode().split("\r\n")
    headers = {k.lower(): v.strip() for k, v in (x.split(":", 1) for x in lines[1:])}
    while len(body) < int(headers.get("content-length", 0)):
        body += c.recv(65536)
    path, status = lines[0].split()[1], 200
    if path == "/readyz":
        status = 503 if has("not-ready") else 200
        out = {}
    elif path == "/status":
        out = {"version": "x", "broker": {"queued": 0}, "processes": [{"name": "worker-0", "role": "worker", "in_flight": 2}],
               "sandboxds": []}
    elif headers.get("authorization") not in (["Bearer good"] if has("needs-key") else [None, "Bearer good"]):
        status, out = 401, {"error": {"message": "incorrect API key provided"}}
    else:
        code = json.loads(body)["code"]
        out = {"stdout": code, "stderr": "warn\n", "results": [{"text/plain": "42", "image/png": "AAAA"}], "error": None}
        if "raise" in code:
            out["error"] = {"name": "ValueError", "value": "x", "traceback": "Traceback: ValueError: x"}
    text = json.dumps(out).encode()
    c.sendall(b"HTTP/1.1 %d X\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" %
              (status, len(text)) + text)
    c.close()


with open("/proc/self/status") as f:
    caps = [line.split()[1] for line in f if line.startswith("CapEff")][0]
note("start", {"pid": os.getpid(), "argv": argv, "env": dict(os.environ), "caps": caps,
               "fds": sorted(int(x) for x in os.listdir("/proc/self/fd"))})
if "LISTEN_FDS" in os.environ and int(os.environ["LISTEN_PID"]) == os.getpid():
    for i in range(int(os.environ["LISTEN_FDS"])):
        s = socket.socket(fileno=3 + i)
        s.setblocking(True)
        threading.Thread(target=serve, args=(s,), daemon=True).start()
while True:
    signal.pause()
