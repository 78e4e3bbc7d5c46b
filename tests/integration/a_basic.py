"""The main path over plain HTTP: answers, items, streaming, pass-through, models, direct sandboxes, errors."""
import json
import os
import socket
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from gateway import Gateway, KEY, OTHER_KEY, UPSTREAM_KEY, sse, wait_until  # noqa: E402

CI = [{"type": "code_interpreter", "container": {"type": "auto"}}]
GW = None


def setUpModule():
    global GW
    GW = Gateway().start()


def tearDownModule():
    GW.__exit__(None, None, None)


def texts(body):
    return [p["text"] for it in body["output"] if it["type"] == "message" for p in it["content"]]


def calls(body):
    return [it for it in body["output"] if it["type"] == "code_interpreter_call"]


class Responses(unittest.TestCase):
    def test_one_round(self):
        status, headers, body = GW.script([{"code": "print(6*7)"}, {"text": "it is 42"}])
        self.assertEqual(status, 200, body)
        self.assertEqual(texts(body), ["it is 42"])
        [call] = calls(body)
        self.assertEqual(call["code"], "print(6*7)")
        self.assertEqual(call["status"], "completed")
        self.assertTrue(call["container_id"].startswith("cntr_"))
        self.assertIsNone(call["outputs"])
        self.assertEqual(body["tools"], CI)
        self.assertEqual(body["tool_choice"], "auto")
        self.assertEqual(body["usage"]["input_tokens"], 22)
        self.assertEqual(body["usage"]["output_tokens"], 14)
        self.assertEqual(body["usage"]["total_tokens"], 36)
        self.assertTrue(headers["x-request-id"].startswith("req_"))
        self.assertIn("x-cofferdam-overhead-ms", headers)
        self.assertEqual([it["type"] for it in body["output"]], ["code_interpreter_call", "message"])

    def test_outputs_when_included(self):
        code = "import sys\nprint('out')\nprint('warn', file=sys.stderr)\n6*7"
        status, _, body = GW.script([{"code": code}, {"echo": True}], include=["code_interpreter_call.outputs"])
        self.assertEqual(status, 200, body)
        logs = [o["logs"] for o in calls(body)[0]["outputs"]]
        self.assertEqual(sorted(logs), sorted(["out\n", "42", "warn\n"]))
        for part in ("out", "42", "warn"):
            self.assertIn(part, texts(body)[0])

    def test_matplotlib_image(self):
        code = "import matplotlib.pyplot as plt\nplt.plot([1,2,3])\nplt.show()"
        status, _, body = GW.script([{"code": code}, {"text": "drawn"}], include=["code_interpreter_call.outputs"])
        self.assertEqual(status, 200, body)
        urls = [o["url"] for o in calls(body)[0]["outputs"] if o["type"] == "image"]
        self.assertEqual(len(urls), 1)
        self.assertTrue(urls[0].startswith("data:image/png;base64,iVBOR"))

    def test_many_rounds_in_order_with_state(self):
        steps = [{"code": "x = 1"}, {"code": "x += 1"}, {"code": "print('x is', x)"}, {"echo": True}]
        status, _, body = GW.script(steps)
        self.assertEqual(status, 200, body)
        self.assertEqual([c["code"] for c in calls(body)], ["x = 1", "x += 1", "print('x is', x)"])
        self.assertIn("x is 2", texts(body)[0])
        self.assertEqual(body["usage"]["total_tokens"], 4 * 18)
        self.assertEqual(len({c["container_id"] for c in calls(body)}), 1)
        self.assertEqual(len({c["id"] for c in calls(body)}), 3)

    def test_two_calls_in_one_round(self):
        steps = [{"calls": [{"code": "a = 5\nprint('first')"}, {"code": "print(a * 2)"}]}, {"echo": True}]
        status, _, body = GW.script(steps)
        self.assertEqual(status, 200, body)
        self.assertEqual(len(calls(body)), 2)
        self.assertEqual(texts(body)[0].split(), ["first", "10"])

    def test_mixed_turn_returns_the_clients_call(self):
        steps = [{"calls": [{"code": "print('ran')"}, {"fn": "weather", "args": {"city": "Oslo"}}]}, {"text": "no"}]
        tools = CI + [{"type": "function", "name": "weather", "parameters": {"type": "object", "properties": {}}}]
        status, _, body = GW.script(steps, tools=tools)
        self.assertEqual(status, 200, body)
        self.assertEqual([it["type"] for it in body["output"]], ["code_interpreter_call", "function_call"])
        self.assertEqual(body["output"][1]["name"], "weather")
        self.assertEqual(json.loads(body["output"][1]["arguments"]), {"city": "Oslo"})
        self.assertEqual(body["tools"], tools)

    def test_raising_code_shows_stdout_and_traceback(self):
        status, _, body = GW.script([{"code": "print('before')\n1/0"}, {"echo": True}])
        self.assertEqual(status, 200, body)
        text = texts(body)[0]
        self.assertTrue(text.startswith("[execution error] "), text)
        for part in ("before", "ZeroDivisionError", "division by zero", "Traceback"):
            self.assertIn(part, text)
        self.assertNotIn("\x1b", text)
        self.assertEqual(calls(body)[0]["status"], "completed")

    def test_arguments_that_are_not_json(self):
        for raw in ("print(1)", "[]", "\"x\"", "{\"code\": null}", "{\"code\": 5}"):
            status, _, body = GW.script([{"calls": [{"raw": raw}]}, {"echo": True}])
            self.assertEqual(status, 200, (raw, body))
            self.assertEqual(texts(body)[0], "[invalid tool arguments: could not parse code]", raw)

    def test_forced_choice_applies_once(self):
        for choice in ({"type": "code_interpreter"}, "required",
                       {"type": "allowed_tools", "mode": "required", "tools": [{"type": "code_interpreter"}]}):
            GW.model.reset()
            status, _, body = GW.script([{"code": "print(1)"}, {"text": "done"}], tool_choice=choice)
            self.assertEqual(status, 200, (choice, body))
            self.assertEqual(texts(body), ["done"])
            self.assertEqual(body["tool_choice"], choice)
            first, second = [r["body"].get("tool_choice") for r in GW.model.log()]
            self.assertNotEqual(first, {"type": "code_interpreter"})
            self.assertNotEqual(first, "auto")
            if isinstance(second, dict):  # the caller's list of allowed tools still holds, its force does not
                self.assertEqual((second["type"], second["mode"]), ("allowed_tools", "auto"))
            else:
                self.assertIn(second, (None, "auto"))

    def test_a_model_that_never_stops_ends_in_an_answer(self):
        status, _, body = GW.script([{"code": "import random\nprint(random.random())"}, {"goto": 0}])
        self.assertEqual(status, 200, body)
        self.assertEqual(body["status"], "completed")
        self.assertEqual(texts(body), ["no tool offered"])
        self.assertEqual(len(calls(body)), 10)
        for item in body["output"]:
            self.assertNotEqual(item["type"], "function_call")

    def test_the_same_result_three_times_is_enough(self):
        status, _, body = GW.script([{"code": "print(1)"}, {"goto": 0}])
        self.assertEqual(status, 200, body)
        self.assertEqual(len(calls(body)), 3)
        self.assertEqual(len(texts(body)), 1)

    def test_max_tool_calls(self):
        steps = [{"code": "print(%d)" % i} for i in range(5)] + [{"text": "end"}]
        status, _, body = GW.script(steps, max_tool_calls=2)
        self.assertEqual(status, 200, body)
        self.assertEqual(len(calls(body)), 2)
        self.assertEqual(len(texts(body)), 1)

    def test_reasoning_is_replayed_in_order(self):
        GW.model.reset()
        steps = [{"reasoning": "think", "code": "print(1)"}, {"text": "done"}]
        status, _, body = GW.script(steps, store=False, include=["reasoning.encrypted_content"])
        self.assertEqual(status, 200, body)
        self.assertEqual([i["type"] for i in body["output"]], ["reasoning", "code_interpreter_call", "message"])
        second = GW.model.log()[1]["body"]["input"]
        types = [i.get("type") for i in second if i.get("type") in ("reasoning", "function_call", "function_call_output")]
        self.assertEqual(types, ["reasoning", "function_call", "function_call_output"])
        self.assertEqual([i for i in second if i.get("type") == "reasoning"][0]["encrypted_content"], "enc:think")

    def test_forged_control_fields_do_not_reach_the_provider(self):
        GW.model.reset()
        status, _, body = GW.script([{"text": "hi"}], _agentic_loop_depth=1, max_agentic_loops=99, user_api_key_hash="x",
                                    mock_response="y", metadata={"session_id": "s-forged", "keep": "1"})
        self.assertEqual(status, 200, body)
        sent = GW.model.log()[0]["body"]
        for key in ("_agentic_loop_depth", "max_agentic_loops", "user_api_key_hash", "mock_response"):
            self.assertNotIn(key, sent)
        self.assertEqual(sent.get("metadata"), {"keep": "1"})
        self.assertEqual(sent["model"], "scripted-upstream")

    def test_upstream_error_reaches_the_client(self):
        status, headers, body = GW.script([{"status": 400, "error": "bad thing", "headers": {"x-ratelimit-x": "1"}}])
        self.assertEqual(status, 400)
        self.assertEqual(body["error"]["message"], "bad thing")
        status, _, body = GW.script([{"code": "print(1)"}, {"status": 418, "error": "later"}])
        self.assertGreaterEqual(status, 400)
        self.assertIn("later", body["error"]["message"])

    def test_heads_that_no_message_can_carry(self):
        """A provider's odd head is that request's trouble alone: the worker lives."""
        def worker():
            return [p["pid"] for p in GW.status_document()["processes"] if p["role"] == "worker"]
        before = worker()
        for step in ({"status": 600}, {"status": 999}, {"status": 400, "headers": {"h%d" % i: "b" for i in range(9000)}},
                     {"status": 400, "headers": {"long": "x" * 120000}}):
            for tools in (CI, []):
                status, _, body = GW.script([step], tools=tools)
                self.assertEqual((status, body["error"]["code"]), (502, "upstream_invalid_response"), str(step)[:60])
        self.assertEqual(worker(), before)

    def test_upstream_refusals_are_retried(self):
        status, _, body = GW.script([{"status": 503, "times": 1, "text": "at last"}])
        self.assertEqual((status, texts(body)), (200, ["at last"]))
        status, _, body = GW.script([{"code": "print(1)"}, {"status": 429, "times": 1, "text": "again",
                                                            "headers": {"Retry-After": "0"}}])
        self.assertEqual((status, texts(body)), (200, ["again"]))


class ResponsesStream(unittest.TestCase):
    def stream(self, steps, **fields):
        status, headers, raw = GW.script(steps, stream=True, **fields)
        self.assertEqual(status, 200, raw)
        self.assertTrue(headers["content-type"].startswith("text/event-stream"))
        return sse(raw)

    def check(self, events):
        self.assertEqual([d["sequence_number"] for _, d in events], list(range(len(events))))
        for name, d in events:
            self.assertEqual(name, d["type"])
        self.assertEqual(events[0][0], "response.created")
        ids = {d["response"]["id"] for _, d in events if "response" in d}
        self.assertEqual(len(ids), 1)
        added = [d["output_index"] for n, d in events if n == "response.output_item.added"]
        self.assertEqual(added, list(range(len(added))))
        done = {d["output_index"]: d["item"]["id"] for n, d in events if n == "response.output_item.done"}
        final = events[-1][1]["response"]
        self.assertEqual([done[i] for i in sorted(done)], [i["id"] for i in final["output"]])

    def test_native_order(self):
        events = self.stream([{"code": "print('hello')"}, {"text": "all is well"}],
                             include=["code_interpreter_call.outputs"])
        self.check(events)
        names = [n for n, _ in events if not n.endswith(".delta")]
        self.assertEqual(names, [
            "response.created", "response.in_progress", "response.output_item.added",
            "response.code_interpreter_call.in_progress", "response.code_interpreter_call_code.done",
            "response.code_interpreter_call.interpreting", "response.code_interpreter_call.completed",
            "response.output_item.done", "response.output_item.added", "response.content_part.added",
            "response.output_text.done", "response.content_part.done", "response.output_item.done",
            "response.completed"])
        code = "".join(d["delta"] for n, d in events if n == "response.code_interpreter_call_code.delta")
        self.assertEqual(code, "print('hello')")
        text = "".join(d["delta"] for n, d in events if n == "response.output_text.delta")
        self.assertEqual(text, "all is well")
        final = events[-1][1]["response"]
        self.assertEqual(final["usage"]["total_tokens"], 36)
        self.assertEqual(calls(final)[0]["outputs"], [{"type": "logs", "logs": "hello\n"}])
        self.assertEqual(final["tools"], CI)

    def test_reasoning_and_client_call(self):
        tools = CI + [{"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}}]
        events = self.stream([{"reasoning": "hm", "calls": [{"code": "1+1"}, {"fn": "f"}]}], tools=tools)
        self.check(events)
        final = events[-1][1]["response"]
        self.assertEqual([i["type"] for i in final["output"]], ["reasoning", "code_interpreter_call", "function_call"])

    def test_error_before_the_stream_is_plain_http(self):
        status, headers, body = GW.script([{"status": 400, "error": "no"}], stream=True)
        self.assertEqual((status, body["error"]["message"]), (400, "no"))

    def test_error_in_a_later_round(self):
        events = self.stream([{"code": "print(1)"}, {"status": 400, "error": "late trouble"}])
        self.assertEqual([n for n, _ in events][-2:], ["error", "response.failed"])
        err = events[-2][1]
        self.assertIn("late trouble", err["message"])
        self.assertIn("late trouble", err["error"]["message"])
        self.assertEqual(events[-1][1]["response"]["status"], "failed")

    def test_upstream_cut_in_the_stream(self):
        events = self.stream([{"text": "one two three four", "cut": 5}])
        self.assertEqual([n for n, _ in events][-2:], ["error", "response.failed"])


class Chat(unittest.TestCase):
    def chat(self, steps, **fields):
        body = {"model": "scripted", "messages": [{"role": "user", "content": "@script " + json.dumps(steps)}],
                "tools": CI}
        body.update(fields)
        return GW.request("POST", "/v1/chat/completions", body)

    def test_plain(self):
        status, _, body = self.chat([{"code": "print(2+2)"}, {"echo": True}])
        self.assertEqual(status, 200, body)
        msg = body["choices"][0]["message"]
        self.assertEqual(msg["content"].strip(), "4")
        self.assertNotIn("tool_calls", msg)
        self.assertEqual(body["choices"][0]["finish_reason"], "stop")
        self.assertEqual(body["usage"]["total_tokens"], 36)
        [call] = msg["provider_specific_fields"]["code_interpreter_calls"]
        self.assertEqual(call["code"], "print(2+2)")

    def test_stream(self):
        status, _, raw = self.chat([{"code": "print(2+2)"}, {"text": "the answer is four"}], stream=True,
                                   stream_options={"include_usage": True})
        self.assertEqual(status, 200, raw)
        events = [d for _, d in sse(raw)]
        self.assertEqual(events[-1], "[DONE]")
        chunks = events[:-1]
        self.assertEqual(len({c["id"] for c in chunks}), 1)
        self.assertEqual(chunks[-1]["choices"], [])
        self.assertEqual(chunks[-1]["usage"]["total_tokens"], 36)
        deltas = [c["choices"][0]["delta"] for c in chunks if c["choices"]]
        self.assertEqual("".join(d.get("content") or "" for d in deltas), "the answer is four")
        self.assertEqual(sum("role" in d for d in deltas), 1)
        self.assertFalse(any("tool_calls" in d for d in deltas))
        self.assertEqual([c["choices"][0]["finish_reason"] for c in chunks
                          if c["choices"] and c["choices"][0]["finish_reason"]], ["stop"])

    def test_mixed(self):
        tools = CI + [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
        for stream in (False, True):
            status, _, body = self.chat([{"calls": [{"code": "print(1)"}, {"fn": "f", "args": {"a": 1}}]}], tools=tools,
                                        stream=stream)
            self.assertEqual(status, 200, body)
            if not stream:
                choice = body["choices"][0]
                self.assertEqual(choice["finish_reason"], "tool_calls")
                self.assertEqual([c["function"]["name"] for c in choice["message"]["tool_calls"]], ["f"])
            else:
                deltas = [t for _, c in sse(body)[:-1] for ch in c["choices"] for t in ch["delta"].get("tool_calls", [])]
                self.assertEqual({t["index"] for t in deltas}, {0})
                self.assertEqual("".join(t["function"].get("arguments", "") for t in deltas), json.dumps({"a": 1}))

    def test_n_is_refused(self):
        status, _, body = self.chat([{"text": "x"}], n=2)
        self.assertEqual((status, body["error"]["param"]), (400, "n"))


class PassThrough(unittest.TestCase):
    def test_a_request_without_the_tool_is_byte_identical(self):
        raw = b'{ "model":"passthrough" ,\n "input" : "h\\u00e9llo \xc3\xa9", "big":12345678901234567890.10, "n":[1, 2 ]}'
        GW.model.reset()
        status, headers, body = GW.request("POST", "/v1/responses", raw)
        self.assertEqual(status, 200, body)
        [seen] = GW.model.log()
        self.assertEqual(seen["raw"].encode("latin-1"), raw)
        self.assertEqual(seen["headers"]["authorization"], "Bearer " + UPSTREAM_KEY)
        self.assertEqual(headers["x-ratelimit-remaining-requests"], "99")
        self.assertNotIn(KEY, json.dumps(seen))

    def test_only_the_model_name_changes(self):
        raw = b'{"a":1,"model":"scripted","input":"x", "z" : {"model":"scripted"}}'
        GW.model.reset()
        GW.request("POST", "/v1/responses", raw)
        self.assertEqual(GW.model.log()[0]["raw"].encode(), raw.replace(b'"model":"scripted","input"',
                                                                        b'"model":"scripted-upstream","input"'))

    def test_stream_bytes_pass(self):
        body = {"model": "scripted", "input": '@script [{"text":"a b c"}]', "stream": True}
        GW.model.reset()
        status, headers, raw = GW.request("POST", "/v1/responses", body)
        self.assertEqual(status, 200)
        direct = [d["type"] for _, d in sse(raw)]
        self.assertEqual(direct[0], "response.created")
        self.assertEqual(direct[-1], "response.completed")

    def test_other_routes(self):
        status, _, body = GW.request("POST", "/v1/embeddings", {"model": "scripted", "input": "x"})
        self.assertEqual((status, body["path"]), (200, "/v1/embeddings"))
        status, _, body = GW.request("GET", "/v1/responses/resp_123?include[]=x")
        self.assertEqual((status, body["path"]), (200, "/v1/responses/resp_123?include[]=x"))
        status, _, body = GW.request("DELETE", "/v1/responses/resp_123")
        self.assertEqual((status, body["method"]), (200, "DELETE"))

    def test_models(self):
        status, _, body = GW.request("GET", "/v1/models")
        self.assertEqual(status, 200)
        self.assertEqual([m["id"] for m in body["data"]], ["scripted", "passthrough"])
        self.assertEqual(GW.request("GET", "/v1/models/scripted")[2]["object"], "model")
        status, _, body = GW.request("GET", "/v1/models/none")
        self.assertEqual((status, body["error"]["code"]), (404, "model_not_found"))

    def test_unknown_model(self):
        status, _, body = GW.request("POST", "/v1/responses", {"model": "nope", "input": "x"})
        self.assertEqual((status, body["error"]["code"]), (404, "model_not_found"))
        self.assertIn("nope", body["error"]["message"])


class Access(unittest.TestCase):
    def test_keys(self):
        for key, want in ((None, 401), ("wrong", 401), (KEY, 200), (OTHER_KEY, 200)):
            status, _, body = GW.request("GET", "/v1/models", key=key)
            self.assertEqual(status, want)
            if want == 401:
                self.assertEqual(body["error"]["code"], "invalid_api_key")
                self.assertNotIn("wrong", json.dumps(body))
        self.assertEqual(GW.request("GET", "/v1/models", key=None, headers={"x-api-key": KEY})[0], 200)

    def test_health_and_metrics(self):
        self.assertEqual(GW.request("GET", "/healthz", key=None)[0], 200)
        self.assertEqual(GW.request("GET", "/readyz", key=None)[0], 200)
        GW.run_code("1")
        names = ("cofferdam_broker_queue_depth_jobs", "cofferdam_broker_queue_oldest_wait_seconds",
                 "cofferdam_worker_in_flight_jobs", "cofferdam_broker_credit_jobs", "cofferdam_sandboxd_sessions",
                 "cofferdam_sandboxd_run_seconds_bucket", "cofferdam_worker_overhead_seconds_bucket",
                 "gen_ai_client_operation_duration_seconds_bucket")

        def missing():  # every process reports about once a second
            status, _, raw = GW.admin("/metrics")
            self.assertEqual(status, 200)
            return [n for n in names if n not in raw.decode()]
        wait_until("every family shows", lambda: not missing(), 10)
        doc = GW.status_document()
        roles = sorted(p["role"] for p in doc["processes"])
        self.assertEqual(roles, ["frontend", "sandboxd", "worker"])
        self.assertEqual(GW.request("GET", "/metrics", key=None)[0], 404)


class Sandboxes(unittest.TestCase):
    def test_life(self):
        status, _, box = GW.request("POST", "/v1/sandboxes", {})
        self.assertEqual((status, box["object"]), (200, "sandbox"), box)
        path = "/v1/sandboxes/" + box["id"]
        status, _, r = GW.request("POST", path + "/run", {"code": "x = 41\nprint('hi')\nx + 1"})
        self.assertEqual(status, 200, r)
        self.assertEqual((r["object"], r["stdout"], r["stderr"], r["error"]), ("code_execution", "hi\n", "", None))
        self.assertEqual(r["results"][0]["text/plain"], "42")
        self.assertEqual(r["execution_count"], 1)
        status, _, r = GW.request("POST", path + "/run", {"code": "print(x)\n1/0"})
        self.assertEqual((r["stdout"], r["error"]["name"]), ("41\n", "ZeroDivisionError"))
        self.assertIn(box["id"], [b["id"] for b in GW.request("GET", "/v1/sandboxes")[2]["data"]])
        self.assertNotIn(box["id"], [b["id"] for b in GW.request("GET", "/v1/sandboxes", key=OTHER_KEY)[2]["data"]])
        self.assertEqual(GW.request("GET", path)[0], 200)
        self.assertEqual(GW.request("GET", path, key=OTHER_KEY)[0], 404)
        self.assertEqual(GW.request("POST", path + "/run", {"code": "1"}, key=OTHER_KEY)[0], 404)
        self.assertEqual(GW.request("DELETE", path, key=OTHER_KEY)[0], 404)
        self.assertEqual(GW.request("DELETE", path)[0], 200)
        self.assertEqual(GW.request("GET", path)[0], 404)

    def test_one_shot(self):
        status, _, r = GW.request("POST", "/v1/sandboxes/run", {"code": "print(1)"})
        self.assertEqual((status, r["stdout"]), (200, "1\n"), r)
        before = len(GW.request("GET", "/v1/sandboxes")[2]["data"])
        GW.request("POST", "/v1/sandboxes/run", {"code": "1/0"})
        self.assertEqual(len(GW.request("GET", "/v1/sandboxes")[2]["data"]), before)

    def test_stream(self):
        status, headers, raw = GW.request("POST", "/v1/sandboxes/run", {"code": "print('a')\n5", "stream": True})
        self.assertEqual(status, 200)
        self.assertTrue(headers["content-type"].startswith("text/event-stream"))
        self.assertIn(b"a", raw)

    def test_errors(self):
        for body, param in (({}, "code"), ({"code": 5}, "code"), ({"code": "1", "sandbox_tool": "nope"}, "sandbox_tool")):
            status, _, r = GW.request("POST", "/v1/sandboxes/run", body)
            self.assertEqual(status, 400, (body, r))
            self.assertEqual(r["error"]["param"], param)


class RawModel:
    """A provider that answers with the bytes it is given, one entry a request; None after them = stay connected."""

    def __init__(self):
        self.sock = socket.create_server(("127.0.0.1", 0))
        self.url = "http://127.0.0.1:%d" % self.sock.getsockname()[1]
        self.answers, self.bodies, self.open = [], [], []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                conn = self.sock.accept()[0]
            except OSError:
                return
            threading.Thread(target=self.serve, args=(conn,), daemon=True).start()

    def serve(self, conn):
        data = b""
        while True:
            while b"\r\n\r\n" not in data:
                more = conn.recv(65536)
                if not more:
                    conn.close()
                    return
                data += more
            head, data = data.split(b"\r\n\r\n", 1)
            n = int(next(h.split(b":")[1] for h in head.split(b"\r\n") if h.lower().startswith(b"content-length:")))
            while len(data) < n:
                data += conn.recv(65536)
            self.bodies.append(json.loads(data[:n]))
            data = data[n:]
            answer, stays_open = self.answers.pop(0)
            conn.sendall(answer)
            if stays_open:
                self.open.append(conn)
            elif b"content-length" not in answer.split(b"\r\n\r\n")[0].lower():
                conn.close()
                return

    def will(self, *answers):
        self.answers, self.bodies = list(answers), []

    def stop(self):
        self.sock.close()
        for conn in self.open:
            conn.close()

    @staticmethod
    def stream(events, stays_open=False):
        body = b"".join(b"data: " + (e if isinstance(e, bytes) else json.dumps(e).encode()) + b"\n\n" for e in events)
        return b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + body, stays_open

    @staticmethod
    def whole(status, obj, headers=b""):
        body = obj if isinstance(obj, bytes) else json.dumps(obj).encode()
        return (b"HTTP/1.1 %d X\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n"
                % (status, headers, len(body)) + body, False)


class OddProviders(unittest.TestCase):
    """Providers that number, end and refuse in their own way; a gateway of their own that waits 20 s for a silent one."""

    NAME = "litellm_code_execution"
    CODE = "n = open('/mnt/data/n', 'a'); n.write('x'); n.close(); print(len(open('/mnt/data/n').read()))"

    @classmethod
    def setUpClass(cls):
        cls.model = RawModel()
        cls.gw = Gateway(model=cls.model, num_retries=0, extra="  upstream: {idle_timeout_ms: 20000}\n").start()

    @classmethod
    def tearDownClass(cls):
        cls.gw.__exit__(None, None, None)
        cls.model.stop()

    def ask(self, stream=True, chat=False):
        body = {"model": "scripted", "tools": CI, "stream": stream, "include": ["code_interpreter_call.outputs"]}
        body.update({"messages": [{"role": "user", "content": "x"}]} if chat else {"input": "x"})
        return self.gw.request("POST", "/v1/chat/completions" if chat else "/v1/responses", body)

    def call_item(self, arguments):
        return {"id": "fc_1", "type": "function_call", "status": "completed", "call_id": "call_1", "name": self.NAME,
                "arguments": arguments}

    def final(self, *items):
        return {"type": "response.completed", "response": {"id": "resp_1", "status": "completed", "output": list(items)}}

    def bye(self, stays_open=False):
        item = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed",
                "content": [{"type": "output_text", "text": "bye", "annotations": []}]}
        return RawModel.stream([self.final(item)], stays_open)

    def test_one_call_runs_once(self):
        args = json.dumps({"code": self.CODE})
        reasoning = {"id": "rs_1", "type": "reasoning", "summary": []}
        for where, last in (({"output_index": 1}, []), ({"output_index": 0}, [reasoning]), ({}, []),
                            ({"output_index": -1}, [])):
            events = [{"type": "response.created", "response": {"id": "resp_1"}},
                      {"type": "response.output_item.added", "item": self.call_item(""), **where},
                      {"type": "response.function_call_arguments.delta", "item_id": "fc_1", "delta": args, **where},
                      {"type": "response.output_item.done", "item": self.call_item(args), **where},
                      self.final(*last, self.call_item(args))]
            self.model.will(RawModel.stream(events), self.bye())
            status, _, raw = self.ask()
            self.assertEqual(status, 200, raw)
            events = [p for _, p in sse(raw)]
            final = events[-1]["response"]
            self.assertEqual([o["logs"] for c in calls(final) for o in c["outputs"]], ["1\n"], where)
            self.assertNotIn(b"function_call_arguments", raw)
            self.assertEqual(len(self.model.bodies[1]["input"]), 3 + len(last), where)

    def test_connection_that_stays_open(self):
        args = json.dumps({"code": "print(1)"})
        chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        call = [{"index": 0, "id": "a", "function": {"name": self.NAME, "arguments": args}}]
        for chat in (False, True):
            if chat:
                first = RawModel.stream([{**chunk, "choices": [{"index": 0, "delta": {"tool_calls": call}}]},
                                         b"[DONE]"], True)
                last = RawModel.stream([{**chunk, "choices": [{"index": 0, "delta": {"content": "bye"}}]}, b"[DONE]",
                                        b"garbage"], True)
            else:
                first, last = RawModel.stream([self.final(self.call_item(args))], True), self.bye(True)
            self.model.will(first, last)
            start = time.monotonic()
            status, _, raw = self.ask(chat=chat)
            self.assertEqual(status, 200, raw)
            self.assertIn(b"bye", raw)
            self.assertLess(time.monotonic() - start, 15, "waited for a provider that had said everything")

    def test_refusals(self):
        refusal = {"error": {"message": "bad key " + UPSTREAM_KEY, "type": "t", "code": "c"}}
        for chat in (False, True):
            for stream in (False, True):
                for status, want in ((401, 401), (200, 502)):
                    self.model.will(RawModel.whole(status, refusal))
                    got, _, body = self.ask(stream, chat)
                    self.assertEqual((got, body["error"]["message"]), (want, "bad key [redacted]"))
                self.model.will(RawModel.whole(307, b"", b"Location: http://127.0.0.1:9/\r\n"))
                got, headers, body = self.ask(stream, chat)
                self.assertEqual((got, body["error"]["code"]), (502, "upstream_invalid_response"))
                self.assertNotIn("location", headers)

    def test_text_that_is_not_utf8(self):
        body = (b'{"id":"r","output":[{"type":"message","id":"m","role":"assistant","status":"completed","content":'
                b'[{"type":"output_text","text":"a\xff\xc3","annotations":[]}]}]}')
        self.model.will(RawModel.whole(200, body))
        status, _, answer = self.ask(stream=False)
        self.assertEqual((status, texts(answer)), (200, ["a\ufffd\ufffd"]))


if __name__ == "__main__":
    unittest.main()
