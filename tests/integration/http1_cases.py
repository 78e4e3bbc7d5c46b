#!/usr/bin/python3
"""What the listener must do with every kind of HTTP/1.1 input, over raw sockets.

    results = run(host, port, key, upstream_count)         # [(name, ok, detail), ...]
    ./http1_cases.py HOST:PORT KEY [--model NAME] [--head-s S] ...

run() needs a server with short limits (see LIMITS: the values the server was configured with) and a model that answers
a chat request. upstream_count() gives how many requests the model has seen; upstream_log(), when given, the requests
themselves ({"headers": {...}, "body": ...}); in_flight() the number of requests in flight at the gateway, cancelled() how
many jobs were cancelled so far. Each case also checks that the server still answers GET /healthz afterwards.
"""
import argparse
import json
import socket
import struct
import sys
import time

LIMITS = {"head_s": 1.5, "body_s": 1.5, "idle_s": 2.5, "body_max": 1 << 20}
SLACK_S = 8.0  # on a loaded machine


class Bad(Exception):
    pass


class Reply:
    def __init__(self, status, headers, body, complete):
        self.status, self.headers, self.body, self.complete = status, headers, body, complete

    def get(self, name):
        return [v for k, v in self.headers if k == name]

    def says_close(self):
        return "close" in ",".join(self.get("connection")).lower()

    def __repr__(self):
        return "<%d %r%s>" % (self.status, self.body[:160], "" if self.complete else " cut")


class Conn:
    """A raw connection with a reader for answers."""

    def __init__(self, cx, timeout=SLACK_S):
        self.s = socket.create_connection((cx.host, cx.port), timeout=timeout)
        self.s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buf, self.eof = b"", False

    def send(self, data):
        try:
            self.s.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass

    def fin(self):
        try:
            self.s.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def rst(self):
        self.s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.s.close()

    def fill(self, timeout=SLACK_S):
        if self.eof:
            return False
        self.s.settimeout(timeout)
        try:
            data = self.s.recv(65536)
        except ConnectionResetError:
            data = b""
        if not data:
            self.eof = True
            return False
        self.buf += data
        return True

    def until(self, mark, timeout=SLACK_S):
        while mark not in self.buf:
            if not self.fill(timeout):
                return None
        i = self.buf.index(mark) + len(mark)
        out, self.buf = self.buf[:i], self.buf[i:]
        return out

    def take(self, n):
        while len(self.buf) < n and self.fill():
            pass
        out, self.buf = self.buf[:n], self.buf[n:]
        return out

    def reply(self, is_head=False, timeout=SLACK_S, skip_100=True):
        """The next answer, or None when the connection ended before one began."""
        while True:
            head = self.until(b"\r\n\r\n", timeout)
            if head is None:
                if self.buf:
                    raise Bad("a part of an answer head: %r" % self.buf[:200])
                return None
            lines = head[:-4].split(b"\r\n")
            parts = lines[0].split(b" ", 2)
            if len(parts) < 2 or parts[0] != b"HTTP/1.1" or not parts[1].isdigit():
                raise Bad("not a status line: %r" % lines[0])
            status = int(parts[1])
            headers = []
            for line in lines[1:]:
                name, sep, value = line.partition(b":")
                if not sep or b"\r" in line or b"\n" in line:
                    raise Bad("malformed header in an answer: %r" % line)
                headers.append((name.decode("latin-1").lower(), value.strip().decode("latin-1")))
            if status == 100 and skip_100:
                continue
            break
        r = Reply(status, headers, b"", True)
        if is_head or status in (204, 304) or status < 200:
            return r
        if r.get("transfer-encoding"):
            if r.get("content-length"):
                raise Bad("an answer with both framings")
            while True:
                line = self.until(b"\r\n")
                if line is None:
                    r.complete = False
                    return r
                n = int(line.strip(), 16)
                data = self.take(n + 2)
                if len(data) < n + 2:
                    r.complete = False
                    return r
                if n == 0:
                    return r
                r.body += data[:-2]
        elif r.get("content-length"):
            n = int(r.get("content-length")[0])
            r.body = self.take(n)
            r.complete = len(r.body) == n
        else:
            while self.fill():
                pass
            r.body, self.buf = self.buf, b""
        return r

    def is_closed(self, timeout=SLACK_S):
        """True when the server ends the connection without another byte."""
        try:
            while self.fill(timeout):
                pass
        except socket.timeout:
            return False
        return not self.buf

    def close(self):
        self.s.close()


class Cx:
    def __init__(self, host, port, key, upstream_count, **kw):
        self.host, self.port, self.key = host, port, key
        self.count = upstream_count or (lambda: 0)
        self.has_count = upstream_count is not None
        self.log = kw.get("upstream_log")
        self.in_flight = kw.get("in_flight")
        self.cancelled = kw.get("cancelled")
        self.limits = dict(LIMITS, **(kw.get("limits") or {}))
        model = kw.get("model") or "scripted"
        self.body = json.dumps({"model": model, "messages": [
            {"role": "user", "content": '@script [{"text": "hello"}]'}]}).encode()
        self.slow_body = json.dumps({"model": model, "messages": [
            {"role": "user", "content": '@script [{"text": "late", "stall": 4}]'}]}).encode()
        auth = b"Authorization: Bearer " + key.encode() + b"\r\n"
        self.H = b"Host: x\r\n" + auth
        self.P = b"POST /v1/chat/completions HTTP/1.1\r\n" + self.H + b"Content-Type: application/json\r\n"
        self.CH = self.P + b"Transfer-Encoding: chunked\r\n\r\n"
        self.G = b"GET /healthz HTTP/1.1\r\n"
        self.OK = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"

    def chunks(self, ext=b"", trailer=b"", body=None):
        body = self.body if body is None else body
        a, b = len(body) // 3, 2 * len(body) // 3
        out = b""
        for part in (body[:a], body[a:b], body[b:]):
            out += b"%x%s\r\n%s\r\n" % (len(part), ext, part)
        return out + b"0" + ext + b"\r\n" + trailer + b"\r\n"

    def with_length(self, extra=b"", body=None):
        body = self.body if body is None else body
        return self.P + extra + b"Content-Length: %d\r\n\r\n" % len(body) + body


def need(cond, *what):
    if not cond:
        raise Bad(" ".join(str(w) for w in what))


def simple(raw, statuses, closed=None, answers=1, is_head=False, fin=False, check=None):
    """A case: send raw, expect `answers` answers whose last has one of `statuses`; closed: True, False or None."""

    def case(cx):
        c = Conn(cx)
        try:
            c.send(raw(cx) if callable(raw) else raw)
            if fin:
                c.fin()
            for i in range(answers):
                r = c.reply(is_head)
                need(r is not None, "no answer", i + 1)
                need(r.complete, "an answer that is cut:", r)
            need(r.status in statuses, "status", r.status, "instead of", statuses, r.body[:200])
            if r.status >= 400 and not is_head:
                check_error(r)
            if check:
                check(cx, r)
            if closed:
                need(r.says_close(), "the answer does not say close:", r.headers)
                need(c.is_closed(), "not closed, or more was answered:", c.buf[:200])
            elif closed is False:
                need(not r.says_close(), "says close")
                c.send(cx.OK)
                again = c.reply()
                need(again is not None and again.status == 200, "not kept open")
        finally:
            c.close()

    return case


def check_error(r):
    need(r.get("content-type") and r.get("content-type")[0].startswith("application/json"), "error type", r.headers)
    e = json.loads(r.body)["error"]
    need(set(e) == {"message", "type", "param", "code"} and e["message"], "error object", e)


def bad(raw, statuses=(400,)):
    return simple(raw, statuses, closed=True)


def split_case(cx):
    for raw in (cx.with_length(), cx.CH + cx.chunks()):
        c = Conn(cx)
        for i in range(len(raw)):
            c.send(raw[i:i + 1])
        r = c.reply()
        need(r is not None and r.status == 200, "byte by byte", r)
        c.close()


def expect_case(cx):
    c = Conn(cx)
    c.send(cx.P + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(cx.body))
    r = c.reply(skip_100=False)
    need(r is not None and r.status == 100, "no 100", r)
    c.send(cx.body)
    r = c.reply()
    need(r is not None and r.status == 200, "after 100", r)
    c.close()
    c = Conn(cx)  # a refusal comes instead of the 100
    c.send(cx.P.replace(b"Bearer ", b"Bearer wrong-") + b"Expect: 100-continue\r\nContent-Length: 10\r\n\r\n")
    r = c.reply(skip_100=False)
    need(r is not None and r.status == 401, "refused at once", r)
    c.close()


def pipeline_case(cx):
    c = Conn(cx)
    c.send(b"GET /v1/models HTTP/1.1\r\n" + cx.H + b"\r\n" + b"GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n" + cx.OK)
    got = [c.reply().status for _ in range(3)]
    need(got == [200, 404, 200], "in order", got)
    c.close()


def pipeline_mixed_case(cx):
    c = Conn(cx)
    c.send(cx.CH + cx.chunks() + cx.OK)
    first, second = c.reply(), c.reply()
    need(first.status == 200 and b"hello" in first.body, "first", first)
    need(second.status == 200 and b"ok" in second.body, "second", second)
    c.close()


def trailer_case(cx):
    simple(lambda cx: cx.CH + cx.chunks(trailer=b"X-T: 1\r\n"), (200,), closed=False)(cx)
    if cx.log:
        seen = cx.log()[-1]
        need("x-t" not in {k.lower() for k in seen["headers"]}, "the trailer reached the model", seen["headers"])


def hop_case(cx):
    extra = (b"Proxy-Authorization: Basic eA==\r\nKeep-Alive: 5\r\nTE: trailers\r\nProxy-Connection: keep-alive\r\n"
             b"Cookie: a=b\r\nX-Api-Key: zzz\r\n")
    simple(lambda cx: cx.with_length(extra), (200,))(cx)
    if cx.log:
        names = {k.lower() for k in cx.log()[-1]["headers"]}
        for n in ("proxy-authorization", "keep-alive", "te", "proxy-connection", "cookie", "x-api-key"):
            need(n not in names, n, "was forwarded")
        need(cx.key not in json.dumps(cx.log()[-1]["headers"]), "the client's key was forwarded")


def closed_unanswered(raw):
    """Half-close in the middle of a request: the connection ends, no answer of the model is invented."""

    def case(cx):
        c = Conn(cx)
        c.send(raw(cx))
        c.fin()
        r = c.reply()
        need(r is None or r.status in (400, 408), "answered", r)
        need(c.is_closed(), "not closed")
        c.close()

    return case


def body_large_case(cx):
    c = Conn(cx)
    c.send(cx.P + b"Content-Length: %d\r\n\r\n" % (cx.limits["body_max"] + 1))  # and nothing of the body
    r = c.reply()
    need(r is not None and r.status == 413 and r.says_close(), "413 before the body", r)
    check_error(r)
    need(c.is_closed(), "not closed")
    c.close()


def body_large_chunked_case(cx):
    c = Conn(cx)
    c.send(cx.CH)
    chunk = b"10000\r\n" + b" " * 65536 + b"\r\n"
    for _ in range(cx.limits["body_max"] // 65536 + 2):
        c.send(chunk)
    r = c.reply()
    need(r is not None and r.status == 413 and r.says_close(), "413", r)
    need(c.is_closed(), "not closed")
    c.close()


def slow_head_case(cx):
    c = Conn(cx)
    began, status = time.monotonic(), None
    c.send(b"G")
    while time.monotonic() - began < cx.limits["head_s"] + SLACK_S:
        try:
            r = c.reply(timeout=0.4)
            status = r.status if r else None
            break
        except socket.timeout:
            c.send(b"E")
    took = time.monotonic() - began
    need(status == 408, "status", status, "after", took)
    need(c.is_closed(), "not closed")
    c.close()


def slow_body_case(cx):
    c = Conn(cx)
    c.send(cx.P + b"Content-Length: 100\r\n\r\n{")
    r = c.reply(timeout=cx.limits["body_s"] + SLACK_S)
    need(r is not None and r.status == 408 and r.says_close(), "408", r)
    need(c.is_closed(), "not closed")
    c.close()


def idle_case(cx):
    c = Conn(cx)
    need(c.is_closed(cx.limits["idle_s"] + SLACK_S), "still open")
    c.close()
    c = Conn(cx)
    c.send(cx.OK)
    need(c.reply().status == 200, "200")
    need(c.is_closed(cx.limits["idle_s"] + SLACK_S), "still open after an answer")
    c.close()


def early_auth_case(cx):
    """Refused for its key before more than 64 KiB of the body was taken."""
    c = Conn(cx)
    c.send(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer wrong\r\nContent-Length: 900000\r\n\r\n")
    r = c.reply()
    need(r is not None and r.status == 401, "401 without the body", r)
    c.close()


def half_close_case(cx):
    for raw in (cx.OK, cx.with_length(), cx.with_length(body=cx.slow_body)):
        c = Conn(cx)
        c.send(raw)
        c.fin()
        r = c.reply(timeout=SLACK_S)
        need(r is not None and r.status == 200 and r.complete, "answered after half-close", r)
        need(c.is_closed(), "not closed")
        c.close()


def wait_for(what, cond):
    end = time.monotonic() + SLACK_S
    while not cond():
        need(time.monotonic() < end, "not in time:", what)
        time.sleep(0.1)


def expect_cancel(cx, leave):
    """A request that the model is busy with is cancelled once its client has left in this way."""
    before = cx.cancelled() if cx.cancelled else 0
    seen = cx.count()
    c = Conn(cx)
    c.send(cx.with_length(body=cx.slow_body))
    wait_for("the model is called", lambda: not cx.has_count or cx.count() > seen)
    leave(c)
    if cx.cancelled:
        wait_for("the job is cancelled", lambda: cx.cancelled() > before)
    if cx.in_flight:
        wait_for("no request in flight", lambda: cx.in_flight() == 0)


def reset_case(cx):
    c = Conn(cx)
    c.send(cx.P + b"Content-Length: 1000\r\n\r\n{\"a\"")
    time.sleep(0.1)
    c.rst()
    expect_cancel(cx, Conn.rst)


def gone_case(cx):
    """A client that closes while it waits: the request is cancelled although a half-close looks the same."""
    expect_cancel(cx, Conn.close)


def cases():
    """(name, function, None or 0: the model must not have been called)"""
    out = []

    def add(name, fn, upstream=None):
        out.append((name, fn, upstream))

    def framing(name, raw, statuses=(400,)):
        add(name, bad(raw, statuses), 0)

    add("ok-get", simple(lambda x: b"GET /v1/models HTTP/1.1\r\n" + x.H + b"\r\n", (200,), closed=False))
    add("ok-chunked", simple(lambda x: x.CH + x.chunks(), (200,), closed=False), 1)
    add("ok-chunked-ext", simple(lambda x: x.CH + x.chunks(ext=b";a=b"), (200,), closed=False), 1)
    add("ok-trailer", trailer_case, 1)
    add("ok-case", simple(lambda x: x.P.replace(b"Host", b"hOST") + b"transfer-encoding: CHUNKED\r\n\r\n" + x.chunks(),
                          (200,)), 1)
    add("ok-ows", simple(lambda x: x.P + b"Content-Length:\t 5 \t\r\n\r\nhello", (200, 400), closed=False))
    add("ok-leading-crlf", simple(lambda x: b"\r\n" + x.OK, (200,), closed=False))
    add("ok-absolute", simple(b"GET http://x/healthz HTTP/1.1\r\nHost: x\r\n\r\n", (200,), closed=False))
    add("ok-10", simple(b"GET /healthz HTTP/1.0\r\n\r\n", (200,), closed=True))
    add("ok-10-ka", ka_10_case)
    add("ok-10-post", simple(lambda x: x.with_length().replace(b"HTTP/1.1", b"HTTP/1.0"), (200,), closed=True), 1)
    add("ok-close", simple(lambda x: x.G + b"Host: x\r\nConnection: close\r\n\r\n", (200,), closed=True))
    add("ok-pipeline", pipeline_case)
    add("ok-pipeline-mixed", pipeline_mixed_case, 1)
    add("ok-split", split_case, 2)
    add("ok-head", simple(lambda x: b"HEAD /healthz HTTP/1.1\r\nHost: x\r\n\r\n", (200,), closed=False, is_head=True,
                          check=lambda x, r: need(int(r.get("content-length")[0]) > 0, "length")))
    add("ok-expect", expect_case, 1)
    add("ok-empty-value", simple(lambda x: x.G + b"Host: x\r\nX-A:\r\n\r\n", (200,), closed=False))
    add("ok-utf8-value", simple(lambda x: x.G + b"Host: x\r\nX-A: \xc3\xa9\r\n\r\n", (200,), closed=False))
    add("ok-query", simple(lambda x: b"GET /v1/models?limit=1&a[]=b HTTP/1.1\r\n" + x.H + b"\r\n", (200,), closed=False))

    add("host-none", bad(lambda x: x.G + b"\r\n"))
    add("host-two", bad(lambda x: x.G + b"Host: x\r\nHost: x\r\n\r\n"))
    add("host-two-other", bad(lambda x: x.G + b"Host: x\r\nHost: y\r\n\r\n"))
    for i, h in enumerate((b"a b", b"x/y", b"x,y", b"u@x")):
        add("host-bad-%d" % i, bad(lambda x, h=h: x.G + b"Host: " + h + b"\r\n\r\n"))
    add("host-empty", simple(lambda x: x.G + b"Host:\r\n\r\n", (200, 400)))

    cl, te, tail = b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n", b"\r\n0\r\n\r\n"
    framing("cl-te", lambda x: x.P + cl + te + tail)
    framing("te-cl", lambda x: x.P + te + cl + tail)
    framing("cl-two-same", lambda x: x.P + cl + cl + b"\r\nhello")
    framing("cl-two-other", lambda x: x.P + cl + b"Content-Length: 6\r\n\r\nhello")
    framing("cl-list-same", lambda x: x.P + b"Content-Length: 5, 5\r\n\r\nhello")
    framing("cl-list-other", lambda x: x.P + b"Content-Length: 5, 6\r\n\r\nhello")
    for v in (b"+5", b"-1", b"5x", b"0x5", b"5 5", b"", "１".encode(), b"5;", b"1" * 30, b"9223372036854775808"):
        framing("cl-bad-%s" % v[:12].decode("utf-8", "replace"),
                lambda x, v=v: x.P + b"Content-Length: " + v + b"\r\n\r\nhello")
    add("cl-short", closed_unanswered(lambda x: x.P + b"Content-Length: 50\r\n\r\n0123456789"), 0)
    for v in (b"xchunked", b"chunked, identity", b"identity", b"gzip, chunked", b"chunked, chunked", b"\r\n chunked",
              b"chunked;q=1", b'"chunked"', b"chunk ed", b"\x0bchunked", b""):
        framing("te-bad-%r" % v.decode(), lambda x, v=v: x.P + b"Transfer-Encoding: " + v + b"\r\n" + tail, (400, 501))
    framing("te-two", lambda x: x.P + te + te + tail, (400, 501))
    framing("te-10", lambda x: x.P.replace(b"HTTP/1.1", b"HTTP/1.0") + te + tail)
    framing("te-space-colon", lambda x: x.P + b"Transfer-Encoding : chunked\r\n" + tail)
    add("te-underscore", simple(lambda x: x.with_length(b"Transfer_Encoding: chunked\r\n"), (200,), closed=False), 1)

    for v in (b"g", b"0x5", b"+5", b"-1", b" 5", b"5 ", b"5\t", b"", b"0" * 16 + b"5", b"8000000000000000"):
        framing("chunk-bad-%r" % v.decode(), lambda x, v=v: x.CH + v + b"\r\nhello\r\n0\r\n\r\n", (400, 413))
    framing("chunk-bad-lf", lambda x: x.CH + b"5\nhello\r\n0\r\n\r\n")
    framing("chunk-nocrlf", lambda x: x.CH + b"5\r\nhello0\r\n\r\n")
    framing("chunk-nocrlf-lf", lambda x: x.CH + b"5\r\nhello\n0\r\n\r\n")
    framing("chunk-nocrlf-extra", lambda x: x.CH + b"5\r\nhelloX\r\n0\r\n\r\n")
    framing("chunk-ext-long", lambda x: x.CH + b"5;" + b"a" * (1 << 20) + b"\r\nhello\r\n0\r\n\r\n", (400, 431))
    framing("chunk-ext-lf", lambda x: x.CH + b"5;a\nb\r\nhello\r\n0\r\n\r\n")
    add("chunk-early-end", closed_unanswered(lambda x: x.CH + b"50\r\nhello"), 0)
    for i, v in enumerate((b"Content-Length: 1\r\n", b"Host: y\r\n", b"X: 1\r\n" * 1000)):
        add("trailer-bad-%d" % i, simple(lambda x, v=v: x.CH + x.chunks(trailer=v), (200, 400, 431)))
    framing("trailer-bad-nul", lambda x: x.CH + x.chunks(trailer=b"X: \0\r\n"), (400, 431))

    for v in (b"X A: 1", b"X(: 1", b": 1", b"X\0: 1", b"\xc3\xa9: 1", b"no colon"):
        framing("name-bad-%r" % v, lambda x, v=v: x.G + b"Host: x\r\n" + v + b"\r\n\r\n")
    for v in (b"a\0b", b"a\rb", b"\x01", b"\x7f"):
        framing("value-bad-%r" % v, lambda x, v=v: x.G + b"Host: x\r\nX: " + v + b"\r\n\r\n")
    framing("fold-space", lambda x: x.G + b"Host: x\r\nX: a\r\n b\r\n\r\n")
    framing("fold-tab", lambda x: x.G + b"Host: x\r\nX: a\r\n\tb\r\n\r\n")
    framing("lf-only", b"GET /healthz HTTP/1.1\nHost: x\n\n")
    framing("lf-first", b"GET /healthz HTTP/1.1\nHost: x\r\n\r\n")
    framing("lf-last", b"GET /healthz HTTP/1.1\r\nHost: x\r\n\n")
    framing("cr-only", b"GET /healthz HTTP/1.1\rHost: x\r\r")
    framing("space-before-name", lambda x: x.G + b" Host: x\r\n\r\n")
    for v in (b"GET  /healthz HTTP/1.1", b"GET /healthz  HTTP/1.1", b"GET\t/healthz HTTP/1.1", b"GET /healthz HTTP/1.1 ",
              b"GET /healthz http/1.1", b"GET /healthz HTTP/1.1x", b"GET /healthz HTTP/01.1", b"GET /healthz HTTP /1.1",
              b"GET /healthz", b"GET HTTP/1.1", b" /healthz HTTP/1.1"):
        framing("line-bad-%r" % v.decode(), lambda x, v=v: v + b"\r\n" + x.H + b"\r\n", (400, 505))
    for v in (b"HTTP/2.0", b"HTTP/1.2", b"HTTP/0.9", b"HTTP/3"):
        framing("version-%s" % v.decode(), lambda x, v=v: b"GET /healthz " + v + b"\r\n" + x.H + b"\r\n", (400, 505))
    framing("h2-preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", (400, 505))
    framing("tls-hello", bytes.fromhex("16030100c8010000c40303") + bytes(range(200)))

    for v in (b"/a b", b"/a\x01", b"/a\0", "/é".encode(), b"/healthz#frag", b"healthz", b"http://", b"*", b"//v1/models",
              b"/v1/../healthz", b"/%", b"/%zz", b"/%00", b"/%2e%2e", b"/v1/models/..", b"/v1/%2e%2e/healthz",
              b"/v1//models", b"/./healthz", b"/healthz/", b"/healthz;a", b"/v1/responses/a%2f..%2fb"):
        add("target-bad-%r" % v, simple(lambda x, v=v: b"GET " + v + b" HTTP/1.1\r\n" + x.H + b"\r\n", (400, 404)), 0)
    add("target-bad-post", simple(lambda x: x.with_length().replace(b"/v1/chat/completions", b"/v1/x/../chat/completions"),
                                  (400, 404)), 0)

    def allows(*methods):
        return lambda x, r: need(r.status != 405 or all(m in r.get("allow")[0] for m in methods), "Allow", r.headers)

    add("method-foo", simple(lambda x: b"FOO /healthz HTTP/1.1\r\n" + x.H + b"\r\n", (405, 501), check=allows("GET")))
    add("method-lower", simple(lambda x: b"get /healthz HTTP/1.1\r\n" + x.H + b"\r\n", (405, 501), check=allows("GET")))
    add("method-post", simple(lambda x: b"POST /healthz HTTP/1.1\r\n" + x.H + b"\r\n", (405,), check=allows("GET", "HEAD")))
    add("method-get", simple(lambda x: b"GET /v1/chat/completions HTTP/1.1\r\n" + x.H + b"\r\n", (405,),
                             check=allows("POST")))
    add("method-connect", simple(lambda x: b"CONNECT x:80 HTTP/1.1\r\n" + x.H + b"\r\n", (400, 405, 501), closed=True))
    add("method-trace", simple(lambda x: b"TRACE /healthz HTTP/1.1\r\n" + x.H + b"\r\n", (405,), check=allows("GET")))
    add("method-options-star", simple(b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", (200, 204, 404)))
    add("method-options", simple(b"OPTIONS /v1/responses HTTP/1.1\r\nHost: x\r\n\r\n", (204,), closed=False,
                                 check=lambda x, r: need("POST" in r.get("allow")[0], r.headers)))
    add("expect-other", simple(lambda x: x.P + b"Expect: 200-ok\r\nContent-Length: 2\r\n\r\n{}", (417,)), 0)
    for v in (b"websocket", b"h2c"):
        add("upgrade-%s" % v.decode(), simple(lambda x, v=v: x.G + b"Host: x\r\nConnection: Upgrade\r\nUpgrade: " + v +
                                              b"\r\n\r\n", (200, 400, 426)))
    add("uri-long", simple(lambda x: b"GET /" + b"a" * 16384 + b" HTTP/1.1\r\n" + x.H + b"\r\n", (414,), closed=True))
    add("head-large", simple(lambda x: x.G + b"Host: x\r\nX: " + b"a" * 102400 + b"\r\n\r\n", (431,), closed=True))
    add("head-many", simple(lambda x: x.G + b"Host: x\r\n" + b"X: 1\r\n" * 1000 + b"\r\n", (431,), closed=True))
    add("body-large", body_large_case, 0)
    add("body-large-chunked", body_large_chunked_case, 0)
    add("body-none", simple(lambda x: x.P + b"\r\n", (400,), closed=False), 0)
    add("body-zero", simple(lambda x: x.P + b"Content-Length: 0\r\n\r\n", (400,), closed=False), 0)
    add("body-zero-chunked", simple(lambda x: x.CH + b"0\r\n\r\n", (400,), closed=False), 0)
    add("get-body", simple(lambda x: x.G + b"Host: x\r\nContent-Length: 5\r\n\r\nhello" + x.OK, (200,), answers=2))
    add("slow-head", slow_head_case)
    add("slow-body", slow_body_case, 0)
    add("idle", idle_case)
    for i, raw in enumerate((lambda x: x.P + cl + te + tail, lambda x: x.G + b"\r\n", lambda x: b"BAD\r\n\r\n",
                             lambda x: x.CH + b"z\r\n", lambda x: x.G + b"Host: x\r\nConnection: close\r\n\r\n")):
        add("after-error-%d" % i, simple(lambda x, raw=raw: raw(x) + x.with_length() + x.OK, (200, 400), closed=True), 0)
    for v in (b"Authorization", b"Host", b"Content-Length, keep-alive"):
        add("conn-nominated-%s" % v.decode(), simple(lambda x, v=v: x.with_length(b"Connection: " + v + b"\r\n"), (200,),
                                                     closed=False), 1)
    add("hop-by-hop", hop_case, 1)
    for i, v in enumerate((b"", b"Authorization: Basic x\r\n", b"Authorization: Bearer\r\n", b"Authorization: Bearer \r\n",
                           b"Authorization: Bearer a\r\nAuthorization: Bearer b\r\n",
                           b"Authorization: Bearer " + b"k" * 10240 + b"\r\n")):
        add("auth-forms-%d" % i, simple(lambda x, v=v: b"GET /v1/models HTTP/1.1\r\nHost: x\r\n" + v + b"\r\n", (401,),
                                        closed=False))
    add("auth-two-valid", simple(lambda x: b"GET /v1/models HTTP/1.1\r\n" + x.H + x.H[9:] + b"\r\n", (401,)))
    add("auth-nul", simple(b"GET /v1/models HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer a\0b\r\n\r\n", (400,), closed=True))
    add("auth-x-api-key", simple(lambda x: b"GET /v1/models HTTP/1.1\r\nHost: x\r\nx-api-key: " + x.key.encode() +
                                 b"\r\n\r\n", (200,)))
    add("auth-early", early_auth_case, 0)
    add("half-close", half_close_case)
    add("reset", reset_case)
    add("client-gone", gone_case)
    return out


def ka_10_case(cx):
    c = Conn(cx)
    c.send(b"GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
    r = c.reply()
    need(r is not None and r.status == 200, "200", r)
    if "keep-alive" in ",".join(r.get("connection")).lower():
        c.send(b"GET /healthz HTTP/1.0\r\n\r\n")
        r = c.reply()
        need(r is not None and r.status == 200, "said keep-alive but is not kept", r)
    need(c.is_closed(), "not closed in the end")
    c.close()


def run(host, port, key, upstream_count=None, only="", **kw):
    cx = Cx(host, port, key, upstream_count, **kw)
    results = []
    for name, fn, upstream in cases():
        if only and only not in name:
            continue
        before, detail = cx.count(), ""
        try:
            fn(cx)
            if cx.has_count and upstream is not None:
                got = cx.count() - before
                need(got == upstream, "the model was called %d times instead of %d" % (got, upstream))
            c = Conn(cx)
            c.send(cx.OK)
            r = c.reply()
            c.close()
            need(r is not None and r.status == 200, "no longer healthy", r)
        except (Bad, OSError, ValueError, KeyError, IndexError, AttributeError) as e:
            detail = "%s: %s" % (type(e).__name__, e)
        results.append((name, not detail, detail))
    return results


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("address", help="HOST:PORT")
    ap.add_argument("key")
    ap.add_argument("--model")
    ap.add_argument("--only", default="")
    for name, value in LIMITS.items():
        ap.add_argument("--" + name.replace("_", "-"), type=type(value), default=value)
    a = ap.parse_args()
    host, port = a.address.rsplit(":", 1)
    limits = {k: getattr(a, k) for k in LIMITS}
    results = run(host, int(port), a.key, only=a.only, model=a.model, limits=limits)
    for name, ok, detail in results:
        print("%s %s %s" % ("ok  " if ok else "FAIL", name, detail))
    failed = [r for r in results if not r[1]]
    print("%d passed, %d failed" % (len(results) - len(failed), len(failed)))
    return 1 if failed or not results else 0


if __name__ == "__main__":
    sys.exit(main())
