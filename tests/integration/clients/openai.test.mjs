// The official client, unmodified, against the running gateway (GATEWAY_URL, GATEWAY_KEY) and the scripted model.
import assert from "node:assert/strict";
import { test } from "node:test";
import OpenAI from "openai";

const client = new OpenAI({ baseURL: process.env.GATEWAY_URL + "/v1", apiKey: process.env.GATEWAY_KEY });
const model = "scripted";
const tools = [{ type: "code_interpreter", container: { type: "auto" } }];
const script = (...steps) => "@script " + JSON.stringify(steps);
const calls = (r) => r.output.filter((i) => i.type === "code_interpreter_call");

test("responses.create: one round", async () => {
  const r = await client.responses.create({ model, tools, input: script({ code: "print(6*7)" }, { echo: true }) });
  assert.equal(r.output_text.trim(), "42");
  assert.equal(calls(r).length, 1);
  assert.equal(calls(r)[0].code, "print(6*7)");
  assert.ok(calls(r)[0].container_id.startsWith("cntr_"));
  assert.equal(calls(r)[0].outputs, null);
  assert.equal(r.usage.total_tokens, 36);
  assert.match(r._request_id, /^req_/);
});

test("responses.create: outputs when included", async () => {
  const r = await client.responses.create({
    model, tools, include: ["code_interpreter_call.outputs"], input: script({ code: "print('a')\n'b'" }, { text: "ok" }),
  });
  assert.deepEqual(calls(r)[0].outputs, [{ type: "logs", logs: "a\n" }, { type: "logs", logs: "'b'" }]);
});

test("responses.create: three rounds in order, usage summed", async () => {
  const r = await client.responses.create({
    model, tools, input: script({ code: "a = 1" }, { code: "a += 1" }, { code: "print(a)" }, { echo: true }),
  });
  assert.deepEqual(calls(r).map((c) => c.code), ["a = 1", "a += 1", "print(a)"]);
  assert.equal(r.output_text.trim(), "2");
  assert.equal(r.usage.total_tokens, 72);
});

test("responses.create: two calls in one round", async () => {
  const r = await client.responses.create({
    model, tools, input: script({ calls: [{ code: "b = 3" }, { code: "print(b)" }] }, { echo: true }),
  });
  assert.equal(calls(r).length, 2);
  assert.equal(r.output_text.trim(), "3");
});

test("responses.create: a client function beside the tool", async () => {
  const fn = { type: "function", name: "weather", parameters: { type: "object", properties: {} }, strict: false };
  const r = await client.responses.create({
    model, tools: [...tools, fn], input: script({ calls: [{ code: "print(1)" }, { fn: "weather", args: { city: "Rome" } }] }),
  });
  assert.deepEqual(r.output.map((i) => i.type), ["code_interpreter_call", "function_call"]);
  assert.equal(r.output[1].name, "weather");
  assert.deepEqual(r.tools, [...tools, fn]);
});

test("responses.create: raising code, bad arguments", async () => {
  let r = await client.responses.create({ model, tools, input: script({ code: "print('p')\n{}['k']" }, { echo: true }) });
  assert.match(r.output_text, /^\[execution error\] /);
  assert.match(r.output_text, /p\n/);
  assert.match(r.output_text, /KeyError/);
  r = await client.responses.create({ model, tools, input: script({ calls: [{ raw: "{oops" }] }, { echo: true }) });
  assert.equal(r.output_text, "[invalid tool arguments: could not parse code]");
});

test("responses.create: forced and required choices", async () => {
  for (const tool_choice of [{ type: "code_interpreter" }, "required"]) {
    const r = await client.responses.create({ model, tools, tool_choice, input: script({ code: "1" }, { text: "end" }) });
    assert.equal(r.output_text, "end");
    assert.deepEqual(r.tool_choice, tool_choice);
  }
});

test("responses.create: a model that never stops", async () => {
  const r = await client.responses.create({
    model, tools, input: script({ code: "import os; print(os.urandom(8))" }, { goto: 0 }),
  });
  assert.equal(r.status, "completed");
  assert.ok(r.output_text.length > 0);
});

test("responses.create with stream", async () => {
  const names = [];
  let text = "", code = "", seq = 0;
  for await (const e of await client.responses.create({
    model, tools, stream: true, input: script({ code: "print(1)" }, { text: "one two" }),
  })) {
    assert.equal(e.sequence_number, seq++);
    names.push(e.type);
    if (e.type === "response.output_text.delta") text += e.delta;
    if (e.type === "response.code_interpreter_call_code.delta") code += e.delta;
  }
  assert.equal(names[0], "response.created");
  assert.equal(names.at(-1), "response.completed");
  assert.equal(text, "one two");
  assert.equal(code, "print(1)");
});

test("responses.stream helper", async () => {
  const stream = client.responses.stream({
    model, tools, include: ["code_interpreter_call.outputs"], input: script({ code: "print('s')" }, { text: "streamed" }),
  });
  const seen = new Set();
  stream.on("event", (e) => seen.add(e.type));
  const final = await stream.finalResponse();
  assert.equal(final.output_text, "streamed");
  assert.equal(calls(final)[0].outputs[0].logs, "s\n");
  assert.ok(seen.has("response.code_interpreter_call.interpreting"));
});

test("responses.stream helper with two rounds, reasoning and a client function", async () => {
  const fn = { type: "function", name: "f", parameters: { type: "object", properties: {} }, strict: false };
  const stream = client.responses.stream({
    model, tools: [...tools, fn], input: script({ reasoning: "r", code: "c = 1" }, { code: "print(c)" }, { calls: [{ fn: "f" }] }),
  });
  const final = await stream.finalResponse();
  assert.deepEqual(final.output.map((i) => i.type),
    ["reasoning", "code_interpreter_call", "code_interpreter_call", "function_call"]);
});

test("chat.completions.create", async () => {
  const messages = [{ role: "user", content: script({ code: "print(9)" }, { echo: true }) }];
  const r = await client.chat.completions.create({ model, tools, messages });
  assert.equal(r.choices[0].message.content.trim(), "9");
  assert.equal(r.usage.total_tokens, 36);
  assert.equal(r.choices[0].message.provider_specific_fields.code_interpreter_calls[0].code, "print(9)");
});

test("chat.completions.create with stream", async () => {
  const messages = [{ role: "user", content: script({ code: "print(9)" }, { text: "nine is it" }) }];
  let text = "", finish = [], usage;
  for await (const c of await client.chat.completions.create({
    model, tools, messages, stream: true, stream_options: { include_usage: true },
  })) {
    text += c.choices[0]?.delta?.content ?? "";
    if (c.choices[0]?.finish_reason) finish.push(c.choices[0].finish_reason);
    if (c.usage) usage = c.usage;
  }
  assert.equal(text, "nine is it");
  assert.deepEqual(finish, ["stop"]);
  assert.equal(usage.total_tokens, 36);
});

test("chat.completions.stream helper", async () => {
  const messages = [{ role: "user", content: script({ code: "print(9)" }, { text: "fin" }) }];
  const final = await client.chat.completions.stream({ model, tools, messages }).finalChatCompletion();
  assert.equal(final.choices[0].message.content, "fin");
});

test("sessions keep state", async () => {
  const metadata = { session_id: "client-session" };
  await client.responses.create({ model, tools, metadata, input: script({ code: "x = 42" }, { text: "set" }) });
  const r = await client.responses.create({ model, tools, metadata, input: script({ code: "print(x + 1)" }, { echo: true }) });
  assert.equal(r.output_text.trim(), "43");
});

test("without the tool the request passes through", async () => {
  const r = await client.responses.create({ model, input: script({ text: "plain" }) });
  assert.equal(r.output_text, "plain");
  const messages = [{ role: "user", content: script({ text: "plain chat" }) }];
  const c = await client.chat.completions.create({ model, messages });
  assert.equal(c.choices[0].message.content, "plain chat");
});

test("errors are typed", async () => {
  const bad = new OpenAI({ baseURL: process.env.GATEWAY_URL + "/v1", apiKey: "sk-none", maxRetries: 0 });
  await assert.rejects(bad.models.list(), OpenAI.AuthenticationError);
  await assert.rejects(client.responses.create({ model: "nope", input: "x" }), (e) => e.status === 404 && e.code === "model_not_found");
  await assert.rejects(client.responses.create({ model, input: "x", tools: [{ type: "code_interpreter" }] }),
    (e) => e.status === 400 && e.param === "tools[0].container");
  await assert.rejects(
    client.responses.create({ model, tools, input: script({ status: 400, error: "refused" }) }),
    (e) => e.status === 400 && /refused/.test(e.message));
});

test("models", async () => {
  const ids = [];
  for await (const m of client.models.list()) ids.push(m.id);
  assert.ok(ids.includes("scripted"));
});
