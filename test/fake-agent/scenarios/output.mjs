import { setTimeout as delay } from "node:timers/promises";
import { existsSync, writeFileSync } from "node:fs";
import { createProtocol } from "../protocol.mjs";
import { write } from "../write.mjs";

/** `megabytes` of pieces of text, of tool results, or of lines that are no JSON (`shape`: text, tool, garbage). */
export const flood = ({ options, init, stream, tool, result }) => {
  const { megabytes = 500, shape = "text" } = options;
  const text = "0123456789abcdef".repeat(2048);
  init();
  stream({ type: "message_start" });
  stream({ type: "content_block_start", index: 0, content_block: { type: "text" } });
  for (let left = megabytes * 2 ** 20; left > 0; left -= text.length) {
    if (shape === "garbage") write(`${text}\n`);
    else if (shape === "tool") tool("Bash", { command: "yes" }, text);
    else stream({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text } });
  }
  result({ result: "The flood is over." });
};

/** A good run whose bytes come in random pieces, characters and lines cut anywhere (`seed`, `gapMs`). */
export const split = async ({ options, args, common }) => {
  const { seed = 1, gapMs = 1 } = options;
  const lines = [];
  const turn = createProtocol({
    session: common().session_id,
    model: args.model,
    transcript: { add: () => {} },
    write: (value) => lines.push(`${JSON.stringify(value)}\n`),
  });
  turn.init();
  turn.think("Überlegen … 思考 🤔");
  turn.say("Grüße, 世界! 👩‍👩‍👧 ∑∫√", { pieces: 5 });
  turn.tool("Bash", { command: "echo 'ä\\n\"ö\"'" }, [{ type: "text", text: 'ä\n"ö" 🚀' }]);
  turn.result({ result: "Grüße, 世界! 👩‍👩‍👧 ∑∫√" });
  const bytes = Buffer.from(lines.join(""));
  const random = generator(seed);
  for (let at = 0; at < bytes.length;) {
    const size = 1 + Math.floor(random() ** 3 * 400);
    write(bytes.subarray(at, at + size));
    at += size;
    await delay(gapMs);
  }
};

/** Exactly 65,536 bytes of a good run, then exit 0: the result never arrives. */
export const cut65536 = ({ args, common }) => {
  const lines = [];
  const turn = createProtocol({
    session: common().session_id,
    model: args.model,
    transcript: { add: () => {} },
    write: (value) => lines.push(`${JSON.stringify(value)}\n`),
  });
  turn.init();
  while (lines.join("").length < 70_000) turn.say("A long answer, of which the end is lost. ".repeat(50));
  turn.result();
  write(Buffer.from(lines.join("")).subarray(0, 65_536));
  process.exit(0);
};

/** A line of `megabytes`, `times` times, then a good end. */
export const hugeLine = ({ options, init, tool, result }) => {
  init();
  const text = "x".repeat((options.megabytes ?? 20) * 2 ** 20);
  for (let n = 0; n < (options.times ?? 1); n += 1) tool("Bash", { command: "cat huge" }, text);
  result({ result: "That was a long line." });
};

export const invalidJson = ({ init, say, result }) => {
  write("(node:1) Warning: something is deprecated\n");
  init();
  write('{"type":"assistant","message":{"content":[\n');
  write("\u0000\u0001 not json\n[1,2,3]\n42\n\n");
  write(Buffer.from([0xff, 0xfe, 0xc3, 0x28, 10]));
  say("Fine all the same.");
  result({ result: "Fine all the same." });
};

export const unknownEvents = ({ init, line, stream, say, result, common }) => {
  init();
  line({ type: "command_lifecycle", phase: "started", ...common() });
  line({ type: "system", subtype: "background_tasks_changed", tasks: [], ...common() });
  line({ type: 7, nested: { type: "result" } });
  stream({ type: "novelty", index: 3 });
  line({ type: "assistant", message: "not as it should be" });
  say("Unimpressed.");
  result({ result: "Unimpressed.", novelty: { of: "a later version" } });
};

/** `megabytes` on standard error, then a good end, or with `code` a bad one. */
export const stderrFlood = ({ options, init, result }) => {
  init();
  const line = `${"warning: ünpleasant ".repeat(50)}\n`;
  for (let left = (options.megabytes ?? 5) * 2 ** 20; left > 0; left -= line.length) write(line, 2);
  if (options.code !== undefined) process.exit(options.code);
  result({ result: "Sorry for the noise." });
};

/**
 * `count` pieces at `rate` a second; each is the time it was written at: fractional ms since the epoch, or with
 * `clock: "monotonic"` of the clock that all processes of the machine share and nobody sets.
 */
export const slowDeltas = async ({ options, init, stream, assistant, result }) => {
  const { count = 100, rate = 100, clock, until } = options;
  init();
  stream({ type: "message_start" });
  stream({ type: "content_block_start", index: 0, content_block: { type: "text" } });
  const began = performance.now();
  let whole = "";
  for (let n = 0; until === undefined ? n < count : !existsSync(until); n += 1) {
    const wait = began + (n * 1000) / rate - performance.now();
    if (wait > 1) await delay(wait);
    const text = `${clock === "monotonic" ? Number(process.hrtime.bigint()) / 1e6 : performance.timeOrigin + performance.now()} `;
    whole += text;
    stream({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text } });
  }
  assistant([{ type: "text", text: whole }]);
  stream({ type: "content_block_stop", index: 0 });
  result({ result: `${count} pieces.` });
};

/** Streams until it is ended. */
export const sleep = (turn) =>
  slowDeltas({ ...turn, options: { rate: 20, ...turn.options, count: Number.POSITIVE_INFINITY } });

/** The model's stream breaks in the middle and the answer is given again, whole; `same: false`: another answer. */
export const brokenStream = ({ options, init, stream, assistant, result }) => {
  const answer = options.same === false ? "Quite another answer." : "The answer to everything is 42.";
  init();
  stream({ type: "message_start" });
  stream({ type: "content_block_start", index: 0, content_block: { type: "text" } });
  for (const text of ["The answer ", "to every"]) {
    stream({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text } });
  }
  assistant([{ type: "text", text: answer }]);
  result({ result: answer });
};

/** A subagent's calls and words come between the main agent's. */
export const subagent = ({ init, tool, say, assistant, result }) => {
  init();
  const parent = tool("Task", { prompt: "look around" }, "started");
  tool("Grep", { pattern: "x" }, "no matches", { parent });
  assistant([{ type: "text", text: "A subagent's words." }], { parent_tool_use_id: parent });
  say("The main answer.");
  result({ result: "The main answer." });
};

/** Its environment and arguments, as a tool's result and, with `file`, as JSON in a file. */
export const printEnv = ({ options, init, tool, result, args }) => {
  const { env } = process;
  if (options.file) writeFileSync(options.file, JSON.stringify({ env, argv: args.argv }));
  init();
  const listing = Object.entries(env).map(([name, value]) => `${name}=${value}`);
  tool("Bash", { command: "env" }, listing.join("\n"));
  result({ result: `${listing.length} variables.` });
};

/** `count` tool calls as fast as they can be written. */
export const burst = ({ options, init, tool, result }) => {
  init();
  for (let n = 0; n < (options.count ?? 1000); n += 1) tool("Bash", { command: `echo ${n}` }, `${n}`);
  result({ result: "The burst is over." });
};

/** A small seeded generator of numbers in [0, 1). */
const generator = (seed) => {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
};
