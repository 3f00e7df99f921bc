import { once } from "node:events";
import {
  createServer,
  request,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type ServerResponse,
} from "node:http";
import type { AddressInfo } from "node:net";
import { expect, test } from "vitest";
import { afterFile } from "../../test/cleanup.ts";
import { until } from "../../test/until.ts";
import { openDoor } from "./door.ts";
import { createMeter } from "./meter.ts";

/** A door whose model answers by the function. */
const open = async (answer: (response: ServerResponse) => unknown) => {
  const asked: IncomingHttpHeaders[] = [];
  const server = createServer((question, response) => {
    asked.push(question.headers);
    void answer(response);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  afterFile(async () => (server.closeAllConnections(), server.close()));
  const target = new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  const meter = createMeter();
  const routes = [{ paths: /^\/v1\//, target, headers: {}, meter }];
  const door = await openDoor({ routes, hosts: [], onDenied: () => undefined });
  afterFile(() => door[Symbol.asyncDispose]());
  const ask = async (): Promise<IncomingMessage> => {
    const headers = { "accept-encoding": "gzip, br" };
    const sent = request({ socketPath: door.socket, method: "POST", path: "/v1/messages", headers });
    sent.on("error", () => undefined).end("{}");
    const [got] = (await once(sent, "response")) as [IncomingMessage];
    return got.on("error", () => undefined);
  };
  /** Asks, and leaves when it is said. */
  const leave = async (when: Promise<unknown>): Promise<void> => {
    const sent = request({ socketPath: door.socket, method: "POST", path: "/v1/messages" });
    sent.on("error", () => undefined).end("{}");
    await when;
    await new Promise((resolve) => sent.once("close", resolve).destroy());
  };
  return { asked, meter, ask, leave };
};

const whole = async (answer: IncomingMessage): Promise<Buffer> => Buffer.concat(await answer.toArray());

const isSome = (sums: object): boolean => Object.keys(sums).length > 0;

const usage = (input: number, output: number, written = 0, read = 0) => ({
  input_tokens: input,
  cache_creation_input_tokens: written,
  cache_read_input_tokens: read,
  output_tokens: output,
});

const events = (...all: object[]): string =>
  all.map((each) => `event: ${(each as { type: string }).type}\ndata: ${JSON.stringify(each)}\n\n`).join("");

const liar = '{"usage":{"output_tokens":999999},"model":"cheap"}';
const begin = {
  type: "message_start",
  message: { id: "m", model: "claude-a", content: [], usage: usage(11, 1, 7, 5) },
};
const delta = (delta: object) => ({ type: "content_block_delta", index: 0, delta });
const streamed = events(
  begin,
  delta({ type: "text_delta", text: liar }),
  delta({ type: "input_json_delta", partial_json: liar }),
  { type: "message_delta", delta: { stop_reason: "end_turn" }, usage: { output_tokens: 345 } },
  { type: "message_stop" },
);
const json = (content: object[]): string =>
  JSON.stringify({ model: "claude-a", id: "m", type: "message", content, usage: usage(11, 345, 7, 5) });
const plain = json([{ type: "text", text: liar }]);
const expected = [["claude-a", usage(11, 345, 7, 5)]];

test.each([
  ["in one piece", [plain]],
  ["over several lines", [JSON.stringify(JSON.parse(plain), null, 2)]],
  ["as events", [streamed]],
  ["as events, byte by byte", streamed.split("")],
  ["in one piece, byte by byte", plain.split("")],
])("an answer %s is passed as it is, and counted once", async (_, pieces) => {
  const { asked, meter, ask } = await open(async (response) => {
    for (const piece of pieces) {
      response.write(piece);
      await new Promise((resolve) => setImmediate(resolve));
    }
    response.end();
  });
  expect((await whole(await ask())).toString()).toBe(pieces.join(""));
  await until(() => isSome(meter.ended));
  expect(Object.entries(meter.seen)).toEqual(expected);
  expect(Object.entries(meter.ended)).toEqual(expected);
  expect(asked[0]?.["accept-encoding"]).toBe("identity");
});

test("tokens are seen while the answer comes, and each piece arrives at once", async () => {
  const go = Promise.withResolvers<void>();
  const { meter, ask } = await open(async (response) => {
    response.write(events(begin));
    await go.promise;
    response.end(streamed.slice(events(begin).length));
  });
  const answer = await ask();
  const [first] = (await once(answer, "data")) as [Buffer];
  expect(first.toString()).toBe(events(begin));
  expect(Object.entries(meter.seen)).toEqual([["claude-a", usage(11, 1, 7, 5)]]);
  expect(meter.ended).toEqual({});
  go.resolve();
  answer.resume();
  await until(() => isSome(meter.ended));
  expect(Object.entries(meter.seen)).toEqual(expected);
});

test("whoever leaves before the last number is counted at least a token for each piece", async () => {
  const { meter, ask } = await open((response) => {
    response.write(
      events(begin, ...Array.from({ length: 40 }, () => delta({ type: "text_delta", text: "a" }))),
    );
  });
  const answer = await ask();
  let got = "";
  answer.on("data", (piece: Buffer) => (got += piece.toString()));
  await until(() => got.split("text_delta").length > 40);
  answer.destroy();
  await until(() => isSome(meter.ended));
  expect(Object.entries(meter.seen)).toEqual([["claude-a", usage(11, 40, 7, 5)]]);
});

test("whoever leaves before the answer begins is counted, for the model was asked", async () => {
  const begun = Promise.withResolvers<ServerResponse>();
  const { meter, leave } = await open((response) => begun.resolve(response));
  await leave(begun.promise);
  (await begun.promise).end(plain);
  await until(() => isSome(meter.ended));
  expect(Object.entries(meter.seen)).toEqual(expected);
});

test.each([
  ["a count of tokens", '{"input_tokens":12345}'],
  ["a list of models", '{"data":[{"type":"model","id":"claude-a"}]}'],
  ["an error", '{"type":"error","error":{"type":"overloaded_error"}}'],
  ["nothing", ""],
])("%s costs nothing", async (_, text) => {
  const { meter, ask } = await open((response) => response.end(text));
  await whole(await ask());
  await whole(await ask());
  expect(Object.entries({ ...meter.seen, ...meter.ended })).toEqual([]);
});

test("several answers add up by model, and a closed meter lets no request pass", async () => {
  const answers = [
    plain,
    plain,
    ...["claude-b", "__proto__"].map((name) => plain.replaceAll("claude-a", name)),
  ];
  const { asked, meter, ask } = await open((response) => response.end(answers.shift()));
  for (let n = 0; n < 4; n += 1) await whole(await ask());
  await until(() => Object.keys(meter.ended).length === 3);
  expect(Object.entries(meter.seen)).toEqual([
    ["claude-a", usage(22, 690, 14, 10)],
    ["claude-b", usage(11, 345, 7, 5)],
    ["", usage(11, 345, 7, 5)],
  ]);
  meter.isOpen = false;
  const refused = await ask();
  expect([refused.statusCode, (await whole(refused)).toString()]).toEqual([
    403,
    expect.stringContaining("no turn"),
  ]);
  expect(asked).toHaveLength(4);
});
