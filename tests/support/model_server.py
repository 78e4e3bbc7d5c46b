#!/usr/bin/python3
"""A scripted model server for the tests: OpenAI's /v1/responses and /v1/chat/completions, streamed and not.

It keeps no conversation. The script travels in the request itself: the last user message holds

    @script [STEP, STEP, ...]

and the step is chosen by how many model turns the conversation already shows after that message, so a request that is
repeated gets the same answer. A STEP is an object:

    {"text": "..."}                     answer with text
    {"echo": true}                      answer with the tool outputs seen so far, joined by newlines
    {"code": "print(1)"}                call the gateway's function (the one with a "code" property)
    {"calls": [{"code": ...} | {"fn": name, "args": {...}} | {"raw": "arguments text"}, ...]}
    {"reasoning": "..."}                may be added to any step; encrypted content comes with it
    {"status": 429, "headers": {...}, "error": "..."}  refuse; "times": n refuses only the first n times, then goes on
    {"cut": n}                          with text or code, streamed: close the connection after n events
    {"stall": s}                        wait before answering;  {"gap": s} wait between stream events
    {"finish": "length"}                end early
    {"goto": i}                         use step i instead (a script can loop)

GET /_log returns the requests seen ({"method","path","headers","body"}), POST /_reset forgets them, GET /_count
returns {"count": n}. Any other path is echoed as JSON, which shows what the gateway passes on.
Not an AI: it only reads its script.
"""
import argparse
import asyncio
import json
import sys
import time

USAGE = (11, 7)  # tokens in and out of every model call


class Model:
    def __init__(self):
        self.log = []
        self.refused = {}
        self.serial = 0

    def next_id(self, prefix):
        self.serial += 1
        return "%s%024x" % (prefix, self.serial)


def text_of(content):
    if isinstance(content, str):
        return content
    return "".join(p.get("text", "") for p in content or [] if isinstance(p, dict))


def script_of(items, is_turn, is_output):
    """The script of the last user message, the number of model turns after it, and the tool outputs after it."""
    script, turns, outputs, was_turn = None, 0, [], False
    for it in items:
        if it.get("role") == "user" and "@script" in text_of(it.get("content")):
            text = text_of(it["content"])
            script, _ = json.JSONDecoder().raw_decode(text[text.index("@script") + 7:].lstrip())
            turns, outputs, was_turn = 0, [], False
        elif is_turn(it):
            turns += 0 if was_turn else 1
            was_turn = True
        else:
            if is_output(it):
                out = it.get("output", it.get("content"))
                outputs.append(out if isinstance(out, str) else text_of(out))
            was_turn = False
    return script, turns, outputs


def read_request(path, body):
    if path == "/responses":
        items = body.get("input")
        items = [{"role": "user", "content": items}] if isinstance(items, str) else items or []
        return script_of(
            items,
            lambda i: i.get("type") in ("function_call", "reasoning") or i.get("role") == "assistant",
            lambda i: i.get("type") == "function_call_output")
    return script_of(body.get("messages") or [], lambda i: i.get("role") == "assistant",
                     lambda i: i.get("role") == "tool")


def tool_name(body):
    for t in body.get("tools") or []:
        f = t.get("function", t)
        if t.get("type") == "function" and "code" in (f.get("parameters") or {}).get("properties", {}):
            return f["name"]
    return None


def calls_of(step, body):
    calls = step.get("calls") or ([{"code": step["code"]}] if "code" in step else [])
    out, name = [], tool_name(body)
    for c in calls:
        if "fn" in c:
            out.append((c["fn"], json.dumps(c.get("args", {}))))
        elif name is not None:
            out.append((name, c["raw"] if "raw" in c else json.dumps({"code": c["code"]})))
    return out


class Reply:
    def __init__(self, writer):
        self.w = writer

    def head(self, status, headers):
        lines = ["HTTP/1.1 %d X" % status] + ["%s: %s" % kv for kv in headers.items()]
        self.w.write(("\r\n".join(lines) + "\r\n\r\n").encode())

    def json(self, status, obj, headers=None):
        data = json.dumps(obj).encode()
        h = {"Content-Type": "application/json", "Content-Length": str(len(data)), "x-request-id": "req_model",
             "x-ratelimit-remaining-requests": "99"}
        h.update(headers or {})
        self.head(status, h)
        self.w.write(data)

    def stream(self):
        self.head(200, {"Content-Type": "text/event-stream; charset=utf-8", "Transfer-Encoding": "chunked",
                        "x-request-id": "req_model"})

    def chunk(self, data):
        self.w.write(b"%x\r\n" % len(data) + data + b"\r\n")

    def end(self):
        self.w.write(b"0\r\n\r\n")


def plan_step(model, path, body):
    script, turn, outputs = read_request(path, body)
    if script is None:
        return {"text": "no script"}, turn, outputs
    step = script[min(turn, len(script) - 1)]
    if "goto" in step:
        step = script[step["goto"]]
    if "status" in step and "times" in step:
        key = json.dumps([script, turn])
        model.refused[key] = model.refused.get(key, 0) + 1
        if model.refused[key] > step["times"]:
            step = {k: v for k, v in step.items() if k not in ("status", "times")}
    return step, turn, outputs


def answer_text(step, outputs):
    return "\n".join(outputs) if step.get("echo") else step.get("text")


def response_items(model, step, body, outputs):
    items = []
    if "reasoning" in step:
        items.append({"id": model.next_id("rs_"), "type": "reasoning",
                      "summary": [{"type": "summary_text", "text": step["reasoning"]}],
                      "encrypted_content": "enc:" + step["reasoning"]})
    text, calls = answer_text(step, outputs), calls_of(step, body)
    if text is None and not calls:
        text = "no tool offered"
    if text is not None:
        items.append({"id": model.next_id("msg_"), "type": "message", "status": "completed", "role": "assistant",
                      "content": [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}]})
    for name, args in calls:
        items.append({"id": model.next_id("fc_"), "type": "function_call", "status": "completed",
                      "call_id": model.next_id("call_"), "name": name, "arguments": args})
    return items


def response_object(model, step, body, items):
    length = step.get("finish") == "length"
    return {
        "id": model.next_id("resp_"), "object": "response", "created_at": int(time.time()),
        "status": "incomplete" if length else "completed", "background": False, "completed_at": int(time.time()),
        "error": None, "incomplete_details": {"reason": "max_output_tokens"} if length else None,
        "instructions": body.get("instructions"), "max_output_tokens": body.get("max_output_tokens"),
        "max_tool_calls": None, "model": body.get("model"), "output": items, "parallel_tool_calls": True,
        "previous_response_id": None, "reasoning": {"effort": None, "summary": None}, "service_tier": "default",
        "store": body.get("store", True), "temperature": 1.0,
        "text": {"format": {"type": "text"}, "verbosity": "medium"}, "tool_choice": body.get("tool_choice", "auto"),
        "tools": body.get("tools", []), "top_p": 1.0, "truncation": "disabled",
        "usage": {"input_tokens": USAGE[0], "input_tokens_details": {"cached_tokens": 3},
                  "output_tokens": USAGE[1], "output_tokens_details": {"reasoning_tokens": 2},
                  "total_tokens": sum(USAGE)},
        "user": None, "metadata": body.get("metadata") or {}}


def response_events(full):
    """The native event order, wire format of the Responses API."""
    start = dict(full, status="in_progress", output=[], usage=None, completed_at=None, incomplete_details=None)
    yield {"type": "response.created", "response": start}
    yield {"type": "response.in_progress", "response": start}
    for oi, it in enumerate(full["output"]):
        at = {"output_index": oi}
        ref = {"item_id": it["id"], "output_index": oi}
        if it["type"] == "reasoning":
            yield {"type": "response.output_item.added", **at, "item": dict(it, summary=[])}
            text = it["summary"][0]["text"]
            yield {"type": "response.reasoning_summary_part.added", **ref, "summary_index": 0,
                   "part": {"type": "summary_text", "text": ""}}
            yield {"type": "response.reasoning_summary_text.delta", **ref, "summary_index": 0, "delta": text}
            yield {"type": "response.reasoning_summary_text.done", **ref, "summary_index": 0, "text": text}
            yield {"type": "response.reasoning_summary_part.done", **ref, "summary_index": 0,
                   "part": it["summary"][0]}
        elif it["type"] == "message":
            part = it["content"][0]
            yield {"type": "response.output_item.added", **at, "item": dict(it, status="in_progress", content=[])}
            yield {"type": "response.content_part.added", **ref, "content_index": 0, "part": dict(part, text="")}
            for word in split_words(part["text"]):
                yield {"type": "response.output_text.delta", **ref, "content_index": 0, "delta": word, "logprobs": []}
            yield {"type": "response.output_text.done", **ref, "content_index": 0, "text": part["text"],
                   "logprobs": []}
            yield {"type": "response.content_part.done", **ref, "content_index": 0, "part": part}
        else:
            yield {"type": "response.output_item.added", **at, "item": dict(it, status="in_progress", arguments="")}
            for piece in split_chars(it["arguments"], 7):
                yield {"type": "response.function_call_arguments.delta", **ref, "delta": piece}
            yield {"type": "response.function_call_arguments.done", **ref, "arguments": it["arguments"]}
        yield {"type": "response.output_item.done", **at, "item": it}
    yield {"type": "response.incomplete" if full["status"] == "incomplete" else "response.completed",
           "response": full}


def split_words(text):
    return [w + " " for w in text.split(" ")[:-1]] + [text.split(" ")[-1]] if text else []


def split_chars(text, n):
    return [text[i:i + n] for i in range(0, len(text), n)]


def chat_message(model, step, body, outputs):
    text, calls = answer_text(step, outputs), calls_of(step, body)
    if text is None and not calls:
        text = "no tool offered"
    msg = {"role": "assistant", "content": text, "refusal": None, "annotations": []}
    if calls:
        msg["tool_calls"] = [{"id": model.next_id("call_"), "type": "function",
                              "function": {"name": n, "arguments": a}} for n, a in calls]
    finish = step.get("finish") or ("tool_calls" if calls else "stop")
    usage = {"prompt_tokens": USAGE[0], "completion_tokens": USAGE[1], "total_tokens": sum(USAGE),
             "prompt_tokens_details": {"cached_tokens": 3}, "completion_tokens_details": {"reasoning_tokens": 2}}
    return msg, finish, usage


def chat_chunks(model, msg, finish, usage, body):
    base = {"id": model.next_id("chatcmpl-"), "object": "chat.completion.chunk", "created": int(time.time()),
            "model": body.get("model"), "system_fingerprint": "fp_1"}
    with_usage = (body.get("stream_options") or {}).get("include_usage")

    def chunk(delta, fin=None):
        c = dict(base, choices=[{"index": 0, "delta": delta, "logprobs": None, "finish_reason": fin}])
        return dict(c, usage=None) if with_usage else c

    yield chunk({"role": "assistant", "content": "" if msg["content"] is not None else None, "refusal": None})
    for word in split_words(msg["content"] or ""):
        yield chunk({"content": word})
    for i, call in enumerate(msg.get("tool_calls", [])):
        f = call["function"]
        yield chunk({"tool_calls": [{"index": i, "id": call["id"], "type": "function",
                                     "function": {"name": f["name"], "arguments": ""}}]})
        for piece in split_chars(f["arguments"], 7):
            yield chunk({"tool_calls": [{"index": i, "function": {"arguments": piece}}]})
    yield chunk({}, finish)
    if with_usage:
        yield dict(base, choices=[], usage=usage)


async def send_stream(reply, step, frames):
    reply.stream()
    for i, frame in enumerate(frames):
        if step.get("cut") == i:
            await reply.w.drain()
            reply.w.transport.abort()
            return False
        reply.chunk(frame)
        await reply.w.drain()
        if "gap" in step:
            await asyncio.sleep(step["gap"])
    reply.end()
    return True


async def handle_model(model, reply, path, body):
    step, _, outputs = plan_step(model, path, body)
    if "stall" in step:
        await asyncio.sleep(step["stall"])
    if "status" in step:
        err = {"error": {"message": step.get("error", "scripted refusal"), "type": "scripted_error", "param": None,
                         "code": "scripted"}}
        reply.json(step["status"], err, step.get("headers"))
        return True
    if path == "/responses":
        full = response_object(model, step, body, response_items(model, step, body, outputs))
        if not body.get("stream"):
            reply.json(200, full)
            return True
        frames = (("event: %s\ndata: %s\n\n" % (e["type"], json.dumps(dict(e, sequence_number=i)))).encode()
                  for i, e in enumerate(response_events(full)))
        return await send_stream(reply, step, frames)
    msg, finish, usage = chat_message(model, step, body, outputs)
    if not body.get("stream"):
        reply.json(200, {"id": model.next_id("chatcmpl-"), "object": "chat.completion", "created": int(time.time()),
                         "model": body.get("model"), "system_fingerprint": "fp_1", "usage": usage,
                         "choices": [{"index": 0, "message": msg, "logprobs": None, "finish_reason": finish}]})
        return True
    chunks = [b"data: " + json.dumps(c).encode() + b"\n\n" for c in chat_chunks(model, msg, finish, usage, body)]
    return await send_stream(reply, step, chunks + [b"data: [DONE]\n\n"])


async def handle(model, reply, method, target, headers, raw):
    path = target.split("?")[0]
    if path == "/_log":
        reply.json(200, model.log)
        return True
    if path == "/_count":
        reply.json(200, {"count": len(model.log)})
        return True
    if path == "/_reset":
        model.log.clear()
        model.refused.clear()
        reply.json(200, {})
        return True
    try:
        body = json.loads(raw) if raw else None
    except ValueError:
        body = None
    model.log.append({"method": method, "path": target, "headers": headers, "body": body,
                      "raw": raw.decode("latin-1")})
    path = path[3:] if path.startswith("/v1/") else path
    if method == "POST" and path in ("/responses", "/chat/completions") and isinstance(body, dict):
        return await handle_model(model, reply, path, body)
    reply.json(200, {"object": "echo", "method": method, "path": target, "body": raw.decode("latin-1")})
    return True


async def serve_connection(model, reader, writer):
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            lines = head.decode("latin-1").split("\r\n")
            method, target, _ = lines[0].split(" ")
            headers = {k.strip().lower(): v.strip() for k, v in (ln.split(":", 1) for ln in lines[1:] if ln)}
            raw = await reader.readexactly(int(headers.get("content-length", 0)))
            if headers.get("transfer-encoding") == "chunked":
                raw = await read_chunked(reader)
            if not await handle(model, Reply(writer), method, target, headers, raw):
                return
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError, asyncio.LimitOverrunError):
        pass
    finally:
        writer.close()


async def read_chunked(reader):
    out = b""
    while True:
        size = int((await reader.readline()).split(b";")[0], 16)
        out += await reader.readexactly(size)
        await reader.readline()
        if size == 0:
            return out


async def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--port", type=int, default=0)
    args = ap.parse_args()
    model = Model()
    server = await asyncio.start_server(lambda r, w: serve_connection(model, r, w), "127.0.0.1", args.port,
                                        limit=64 * 1024 * 1024)
    print("model http://127.0.0.1:%d" % server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
