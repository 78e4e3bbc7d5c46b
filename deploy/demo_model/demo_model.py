#!/usr/bin/python3
"""A stand-in for a model provider. It is NOT an AI: it reads the first fenced Python block of the last user prompt, calls
the function tool it is offered with it, and quotes what the tool returned. For trying Cofferdam without a provider.

    demo_model.py [--host 127.0.0.1] [--port 0]

Speaks POST /v1/responses and /v1/chat/completions (streaming too) and GET /v1/models. Prints its address on one line."""
import argparse
import http.server
import json
import re
import secrets
import socket
import sys
import time

MODEL = "demo-model-not-an-ai"
LABEL = "[demo model, not an AI] "
BODY_MAX = 64 * 1024 * 1024
FENCE = re.compile(r"```[ \t]*(?:python3?|py)?[ \t]*\r?\n(.*?)```", re.DOTALL | re.IGNORECASE)
NO_BLOCK = "I can only run code: put a fenced Python block into the prompt and offer a tool."


class BadRequest(Exception):
    def __init__(self, message, param=None):
        super().__init__(message)
        self.param = param


# --- what it "thinks" ----------------------------------------------------------------------------------------------


def text_of(content):
    """The text of a content field: a string, or a list of parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(p["text"] for p in content if isinstance(p, dict) and isinstance(p.get("text"), str))
    return ""


def code_in(prompt):
    found = FENCE.search(prompt)
    return found.group(1).rstrip() if found else None


def argument_name(function):
    """The first required parameter of the tool, or the first one, or `code`."""
    parameters = function.get("parameters")
    parameters = parameters if isinstance(parameters, dict) else {}
    for names in (parameters.get("required"), parameters.get("properties")):
        for name in names or ():
            return name
    return "code"


def decide(prompt, tool_outputs, function, tool_choice):
    """("call", name, arguments) or ("say", text). `tool_outputs`: texts that came back since the prompt."""
    if tool_outputs:
        return "say", LABEL + "The code returned:\n" + "\n".join(t.rstrip("\n") for t in tool_outputs)
    code = code_in(prompt)
    if code is None or function is None or tool_choice == "none":
        return "say", LABEL + NO_BLOCK
    return "call", function["name"], json.dumps({argument_name(function): code})


def pick_function(functions):
    return next((f for f in functions if isinstance(f, dict) and isinstance(f.get("name"), str)), None)


def decide_responses(body):
    items = body.get("input", "")
    if isinstance(items, str):
        items = [{"role": "user", "content": items}]
    if not isinstance(items, list):
        raise BadRequest("input must be a string or a list of items", "input")
    prompt, outputs = "", []
    for item in items:
        if not isinstance(item, dict):
            raise BadRequest("input items must be objects", "input")
        if item.get("role") == "user":
            prompt, outputs = text_of(item.get("content")), []
        elif item.get("type") == "function_call_output":
            outputs.append(text_of(item.get("output")))
    tools = [t for t in body.get("tools") or [] if isinstance(t, dict) and t.get("type") == "function"]
    return decide(prompt, outputs, pick_function(tools), body.get("tool_choice"))


def decide_chat(body):
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise BadRequest("messages must be a non-empty list", "messages")
    prompt, outputs = "", []
    for m in messages:
        if not isinstance(m, dict):
            raise BadRequest("messages must be objects", "messages")
        if m.get("role") == "user":
            prompt, outputs = text_of(m.get("content")), []
        elif m.get("role") == "tool":
            outputs.append(text_of(m.get("content")))
    tools = [t.get("function") for t in body.get("tools") or [] if isinstance(t, dict) and t.get("type") == "function"]
    return decide(prompt, outputs, pick_function(tools), body.get("tool_choice"))


def pieces(text, size=12):
    return [text[i:i + size] for i in range(0, len(text), size)] or [""]


def new_id(prefix):
    return prefix + secrets.token_hex(24)


# --- /v1/responses --------------------------------------------------------------------------------------------------


def response_item(act):
    if act[0] == "call":
        return {"id": new_id("fc_"), "type": "function_call", "status": "completed", "call_id": "call_" + secrets.token_hex(12),
                "name": act[1], "arguments": act[2]}
    return {"id": new_id("msg_"), "type": "message", "status": "completed", "role": "assistant",
            "content": [{"type": "output_text", "text": act[1], "annotations": [], "logprobs": []}]}


def response_object(body, rid, created, output, status):
    words = len(json.dumps(body.get("input", "")).split())
    said = len(json.dumps(output).split())
    usage = {"input_tokens": words, "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
             "output_tokens": said, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": words + said}
    done = status == "completed"
    return {"id": rid, "object": "response", "created_at": created, "status": status, "background": False,
            "completed_at": int(time.time()) if done else None, "error": None, "incomplete_details": None,
            "instructions": body.get("instructions"), "max_output_tokens": body.get("max_output_tokens"),
            "max_tool_calls": body.get("max_tool_calls"), "model": MODEL, "output": output,
            "parallel_tool_calls": body.get("parallel_tool_calls", True),
            "previous_response_id": body.get("previous_response_id"),
            "reasoning": {"effort": None, "summary": None}, "store": bool(body.get("store", True)),
            "temperature": body.get("temperature", 1.0), "text": body.get("text") or {"format": {"type": "text"}},
            "tool_choice": body.get("tool_choice") or "auto", "tools": body.get("tools") or [],
            "top_p": body.get("top_p", 1.0), "truncation": "disabled", "usage": usage if done else None, "user": None,
            "metadata": body.get("metadata") or {}}


def item_events(item):
    """Events of one output item, without the fields that count."""
    if item["type"] == "function_call":
        yield "response.output_item.added", {"item": dict(item, status="in_progress", arguments="")}
        for piece in pieces(item["arguments"]):
            yield "response.function_call_arguments.delta", {"item_id": item["id"], "delta": piece}
        yield "response.function_call_arguments.done", {"item_id": item["id"], "arguments": item["arguments"], "name": item["name"]}
    else:
        part = item["content"][0]
        at = {"item_id": item["id"], "content_index": 0}
        yield "response.output_item.added", {"item": dict(item, status="in_progress", content=[])}
        yield "response.content_part.added", dict(at, part=dict(part, text=""))
        for piece in pieces(part["text"]):
            yield "response.output_text.delta", dict(at, delta=piece, logprobs=[])
        yield "response.output_text.done", dict(at, text=part["text"], logprobs=[])
        yield "response.content_part.done", dict(at, part=part)
    yield "response.output_item.done", {"item": item}


def responses_events(body, act):
    rid, created, item = new_id("resp_"), int(time.time()), response_item(act)
    start = response_object(body, rid, created, [], "in_progress")
    number = 0
    events = [("response.created", {"response": start}), ("response.in_progress", {"response": start})]
    events += [(name, dict(fields, output_index=0)) for name, fields in item_events(item)]
    events.append(("response.completed", {"response": response_object(body, rid, created, [item], "completed")}))
    for name, fields in events:
        yield "event: %s\ndata: %s\n\n" % (name, json.dumps(dict({"type": name, "sequence_number": number}, **fields)))
        number += 1


def responses_answer(body, act):
    return response_object(body, new_id("resp_"), int(time.time()), [response_item(act)], "completed")


# --- /v1/chat/completions -------------------------------------------------------------------------------------------


def chat_usage(body, act):
    words, said = len(json.dumps(body["messages"]).split()), len(act[-1].split())
    return {"prompt_tokens": words, "completion_tokens": said, "total_tokens": words + said,
            "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0, "accepted_prediction_tokens": 0,
                                          "rejected_prediction_tokens": 0}}


def tool_call(act, arguments):
    return {"id": "call_" + secrets.token_hex(12), "type": "function", "function": {"name": act[1], "arguments": arguments}}


def chat_answer(body, act):
    message = {"role": "assistant", "content": act[1] if act[0] == "say" else None, "refusal": None, "annotations": []}
    if act[0] == "call":
        message["tool_calls"] = [tool_call(act, act[2])]
    return {"id": "chatcmpl-" + secrets.token_hex(14), "object": "chat.completion", "created": int(time.time()), "model": MODEL,
            "choices": [{"index": 0, "message": message, "logprobs": None,
                         "finish_reason": "stop" if act[0] == "say" else "tool_calls"}],
            "usage": chat_usage(body, act), "service_tier": "default", "system_fingerprint": "fp_demo"}


def chat_events(body, act):
    options = body.get("stream_options")
    with_usage = isinstance(options, dict) and bool(options.get("include_usage"))
    base = {"id": "chatcmpl-" + secrets.token_hex(14), "object": "chat.completion.chunk", "created": int(time.time()),
            "model": MODEL, "service_tier": "default", "system_fingerprint": "fp_demo"}
    if with_usage:
        base["usage"] = None

    def chunk(delta, reason=None):
        return dict(base, choices=[{"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}])
    if act[0] == "say":
        yield chunk({"role": "assistant", "content": "", "refusal": None})
        for piece in pieces(act[1]):
            yield chunk({"content": piece})
        yield chunk({}, "stop")
    else:
        first = dict(tool_call(act, ""), index=0)
        yield chunk({"role": "assistant", "content": None, "tool_calls": [first], "refusal": None})
        for piece in pieces(act[2]):
            yield chunk({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})
        yield chunk({}, "tool_calls")
    if with_usage:
        yield dict(base, choices=[], usage=chat_usage(body, act))


def chat_stream(body, act):
    for event in chat_events(body, act):
        yield "data: " + json.dumps(event) + "\n\n"
    yield "data: [DONE]\n\n"


# --- HTTP -----------------------------------------------------------------------------------------------------------

ROUTES = {"/v1/responses": (decide_responses, responses_answer, responses_events),
          "/v1/chat/completions": (decide_chat, chat_answer, chat_stream)}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "cofferdam-demo-model"
    disable_nagle_algorithm = True
    timeout = 120

    def log_message(self, *_):
        pass

    def head(self, status, content_type, length):
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("x-request-id", "req_" + secrets.token_hex(16))
        self.send_header("x-demo-model", "not an AI; a scripted stand-in")
        if length is None:
            self.send_header("Cache-Control", "no-cache")
            self.send_header("Transfer-Encoding", "chunked")
        else:
            self.send_header("Content-Length", str(length))
        self.end_headers()

    def send_json(self, status, value):
        data = json.dumps(value).encode()
        self.head(status, "application/json", len(data))
        self.wfile.write(data)

    def send_failure(self, status, message, param=None, code=None):
        self.send_json(status, {"error": {"message": LABEL + message, "type": "invalid_request_error", "param": param,
                                          "code": code}})

    def send_events(self, events):
        self.head(200, "text/event-stream; charset=utf-8", None)
        for event in events:
            data = event.encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.write(b"0\r\n\r\n")

    def read_body(self):
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            data = b""
            while True:
                size = int(self.rfile.readline(64).split(b";")[0], 16)
                if size < 0 or len(data) + size > BODY_MAX:
                    raise ValueError("too large")
                data += self.rfile.read(size)
                self.rfile.readline(4)
                if size == 0:
                    return data
        size = int(self.headers.get("Content-Length", 0))
        if not 0 <= size <= BODY_MAX:
            raise ValueError("too large")
        return self.rfile.read(size)

    def do_GET(self):
        card = {"id": MODEL, "object": "model", "created": 0, "owned_by": "cofferdam-demo"}
        path = self.path.split("?")[0]
        if path == "/v1/models":
            self.send_json(200, {"object": "list", "data": [card]})
        elif path == "/v1/models/" + MODEL:
            self.send_json(200, card)
        elif path == "/healthz":
            self.send_json(200, {"status": "ok", "model": MODEL})
        else:
            self.send_failure(404, "no such route")

    def do_POST(self):
        try:
            raw = self.read_body()
        except ValueError:
            self.close_connection = True
            self.send_failure(400, "unreadable body")
            return
        route = ROUTES.get(self.path.split("?")[0])
        if route is None:
            self.send_failure(404, "no such route")
            return
        try:
            body = json.loads(raw)
            if not isinstance(body, dict):
                raise BadRequest("the body must be a JSON object")
            act = route[0](body)
        except ValueError:
            self.send_failure(400, "the body is not valid JSON", code="invalid_json")
        except BadRequest as e:
            self.send_failure(400, str(e), e.param, "invalid_value")
        else:
            if body.get("stream") is True:
                self.send_events(route[2](body, act))
            else:
                self.send_json(200, route[1](body, act))

    def handle(self):
        try:
            super().handle()
        except (ConnectionError, socket.timeout):
            pass  # the peer went away


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256


def main():
    parser = argparse.ArgumentParser(description="A scripted stand-in for a model provider. It is not an AI.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 = any free port")
    args = parser.parse_args()
    server = Server((args.host, args.port), Handler)
    print("demo model (not an AI) http://%s:%d" % server.server_address[:2], flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
