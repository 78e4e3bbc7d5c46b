#!/usr/bin/python3
"""The demo model: what it answers, and that it always says what it is."""
import http.client
import json
import os
import subprocess
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROMPT = "What is it?\n```python\nprint(6 * 7)\n```\nThanks."
FLAT = {"type": "function", "name": "run", "parameters": {"type": "object", "properties": {"code": {"type": "string"}}, "required": ["code"]}}
NESTED = {"type": "function", "function": {"name": "run", "parameters": {"type": "object", "properties": {"src": {"type": "string"}}}}}
LABEL = "[demo model, not an AI] "


class Demo(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.proc = subprocess.Popen(["/usr/bin/python3", ROOT + "/deploy/demo_model/demo_model.py"], stdout=subprocess.PIPE, text=True)
        line = cls.proc.stdout.readline()
        assert line.startswith("demo model (not an AI) http://127.0.0.1:"), line
        cls.conn = http.client.HTTPConnection("127.0.0.1", int(line.rsplit(":", 1)[1]), timeout=20)

    @classmethod
    def tearDownClass(cls):
        cls.conn.close()
        cls.proc.kill()
        cls.proc.communicate()

    def ask(self, method, path, body=None):
        raw = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
        self.conn.request(method, path, raw, {"Content-Type": "application/json"})
        r = self.conn.getresponse()
        data = r.read()
        self.assertIn("not an AI", r.headers["x-demo-model"])
        return r.status, data if r.headers["Content-Type"].startswith("text/event") else json.loads(data)

    def responses(self, body):
        status, answer = self.ask("POST", "/v1/responses", dict({"model": "m"}, **body))
        self.assertEqual(status, 200, answer)
        self.assertEqual(answer["model"], "demo-model-not-an-ai")
        return answer["output"]

    def test_calls_the_tool_with_the_block(self):
        for prompt in (PROMPT, [{"role": "user", "content": [{"type": "input_text", "text": PROMPT}]}]):
            item, = self.responses({"input": prompt, "tools": [{"type": "web_search"}, FLAT]})
            self.assertEqual((item["type"], item["name"]), ("function_call", "run"))
            self.assertEqual(json.loads(item["arguments"]), {"code": "print(6 * 7)"})

    def test_quotes_the_output(self):
        items = [{"role": "user", "content": PROMPT}, {"type": "function_call", "call_id": "c", "name": "run", "arguments": "{}"},
                 {"type": "function_call_output", "call_id": "c", "output": "42\n"}]
        item, = self.responses({"input": items, "tools": [FLAT]})
        self.assertEqual(item["content"][0]["text"], LABEL + "The code returned:\n42")
        # a new prompt starts anew
        item, = self.responses({"input": items + [{"role": "user", "content": PROMPT}], "tools": [FLAT]})
        self.assertEqual(item["type"], "function_call")

    def test_does_not_call(self):
        for body in ({"input": PROMPT, "tools": [FLAT], "tool_choice": "none"}, {"input": PROMPT}, {"input": "no block", "tools": [FLAT]}):
            item, = self.responses(body)
            self.assertTrue(item["content"][0]["text"].startswith(LABEL))

    def test_responses_stream(self):
        for prompt, kind in ((PROMPT, "function_call"), ("hi", "message")):
            status, raw = self.ask("POST", "/v1/responses", {"input": prompt, "tools": [FLAT], "stream": True})
            self.assertEqual(status, 200)
            events = []
            for block in raw.decode().split("\n\n")[:-1]:
                name, data = block.split("\n")
                event = json.loads(data[6:])
                self.assertEqual(name, "event: " + event["type"])
                events.append(event)
            self.assertEqual([e["sequence_number"] for e in events], list(range(len(events))))
            self.assertEqual([events[0]["type"], events[1]["type"], events[-1]["type"]],
                             ["response.created", "response.in_progress", "response.completed"])
            item, = events[-1]["response"]["output"]
            self.assertEqual(item["type"], kind)
            self.assertTrue(all(e["item_id"] == item["id"] for e in events if "item_id" in e))
            deltas = "".join(e["delta"] for e in events if e["type"].endswith(".delta"))
            self.assertEqual(deltas, item["arguments"] if kind == "function_call" else item["content"][0]["text"])
            names = [e["type"] for e in events if not e["type"].endswith(".delta")]
            want = (["response.output_item.added", "response.function_call_arguments.done", "response.output_item.done"]
                    if kind == "function_call" else
                    ["response.output_item.added", "response.content_part.added", "response.output_text.done",
                     "response.content_part.done", "response.output_item.done"])
            self.assertEqual(names[2:-1], want)

    def test_chat(self):
        messages = [{"role": "user", "content": PROMPT}]
        status, a = self.ask("POST", "/v1/chat/completions", {"messages": messages, "tools": [NESTED]})
        call, = a["choices"][0]["message"]["tool_calls"]
        self.assertEqual((status, a["choices"][0]["finish_reason"]), (200, "tool_calls"))
        self.assertEqual(json.loads(call["function"]["arguments"]), {"src": "print(6 * 7)"})
        messages += [a["choices"][0]["message"], {"role": "tool", "tool_call_id": call["id"], "content": "42"}]
        status, a = self.ask("POST", "/v1/chat/completions", {"messages": messages, "tools": [NESTED]})
        self.assertEqual(a["choices"][0]["message"]["content"], LABEL + "The code returned:\n42")
        self.assertEqual(a["choices"][0]["finish_reason"], "stop")

    def test_chat_stream(self):
        for tools, usage in (([NESTED], False), ([], True)):
            _, raw = self.ask("POST", "/v1/chat/completions",
                              {"messages": [{"role": "user", "content": PROMPT}], "tools": tools, "stream": True,
                               "stream_options": {"include_usage": usage}})
            blocks = raw.decode().split("\n\n")[:-1]
            self.assertEqual(blocks[-1], "data: [DONE]")
            chunks = [json.loads(b[6:]) for b in blocks[:-1]]
            self.assertEqual(len({c["id"] for c in chunks}), 1)
            if usage:
                self.assertEqual(chunks[-1]["choices"], [])
                self.assertGreater(chunks.pop()["usage"]["total_tokens"], 0)
            self.assertEqual(chunks[0]["choices"][0]["delta"]["role"], "assistant")
            self.assertEqual(chunks[-1]["choices"][0]["finish_reason"], "tool_calls" if tools else "stop")
            if tools:
                text = "".join(c["choices"][0]["delta"].get("tool_calls", [{"function": {"arguments": ""}}])[0]["function"]["arguments"] for c in chunks)
                self.assertEqual(json.loads(text), {"src": "print(6 * 7)"})

    def test_errors_and_models(self):
        for path, body, status in (("/v1/responses", b"{", 400), ("/v1/responses", [], 400), ("/v1/responses", {"input": 5}, 400),
                                   ("/v1/chat/completions", {}, 400), ("/nope", {}, 404)):
            s, a = self.ask("POST", path, body)
            self.assertEqual(s, status)
            self.assertTrue(a["error"]["message"].startswith(LABEL))
        self.assertEqual(self.ask("GET", "/v1/models")[1]["data"][0]["id"], "demo-model-not-an-ai")
        self.assertEqual(self.ask("GET", "/nope")[0], 404)


if __name__ == "__main__":
    unittest.main(verbosity=2)
