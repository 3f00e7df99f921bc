import { request } from "node:http";
import { connect } from "node:net";
import { text } from "node:stream/consumers";
import { Ajv2020 } from "ajv/dist/2020.js";
import { expect, test } from "vitest";
import { createCompletionObject } from "../chat/turn.ts";
import { publicUsage } from "../chat/chunks.ts";
import { saying, startDoor, turnOf } from "./openai.fixture.ts";

/* Answers are what the document says of them. */

const completion = createCompletionObject({ id: "chatcmpl-1", created: 1, model: "helper" });
completion.take({ kind: "thinking", text: "Hm" });
completion.take({ kind: "final", text: "hello" });
const door = await startDoor({
  chat: { begin: async () => ({ ...turnOf("hello"), whole: async () => completion.finish(null) }) },
});
type Document = { paths: Record<string, Record<string, { responses: Record<string, object> }>> };
const document = (await (await fetch(`${door.url}/openapi.json`)).json()) as Document;
const ajv = new Ajv2020({ strict: false }).addSchema(document, "document");
const faultsOf = (path: string, method: string, status: number, body: unknown): unknown => {
  const place = ["paths", path, method, "responses", String(status), "content", "application/json", "schema"];
  const pointer = place.map((step) => step.replaceAll("~", "~0").replaceAll("/", "~1")).join("/");
  const isRight = ajv.compile({ $ref: `document#/${encodeURI(pointer)}` });
  return isRight(body) ? null : isRight.errors;
};

const described = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.keys(methods).map((method) => [method, path] as const),
);

test("an answer that is not streamed fits its schema, with each number of its usage", async () => {
  const answer = await door.post(saying("hi"));
  const body = (await answer.json()) as { usage: object };
  expect(body.usage).toEqual(publicUsage(null));
  expect(faultsOf("/v1/chat/completions", "post", answer.status, body)).toBe(null);
});

test.each(described)(
  "%s %s: a foreign Host and a missing one are answered as described",
  async (method, path) => {
    const asked = request({
      port: door.port,
      method,
      path: path.replaceAll(/\{\w+\}/g, "x"),
      headers: { host: "evil.example" },
    });
    const foreign = await new Promise<{ status: number; body: string }>((resolve, reject) => {
      asked.on("error", reject).on("response", (answer) => {
        void text(answer).then((body) => resolve({ status: answer.statusCode ?? 0, body }), reject);
      });
      asked.end();
    });
    expect(foreign.status).toBe(403);
    expect(faultsOf(path, method, 403, JSON.parse(foreign.body))).toBe(null);
    const socket = connect(door.port, "127.0.0.1");
    socket.write(`${method.toUpperCase()} ${path.replaceAll(/\{\w+\}/g, "x")} HTTP/1.1\r\n\r\n`);
    expect(await text(socket)).toMatch(/^HTTP\/1\.1 400 /);
    expect(document.paths[path]?.[method]?.responses).toHaveProperty("400");
  },
);
