import fc from "fast-check";
import { readdirSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { createDecoder } from "../agents/claude/decode.ts";
import type { AgentEvent } from "../contract/event.ts";
import type { Visibility } from "../contract/visibility.ts";
import { createLineSplitter } from "../lib/lines.ts";
import { checkChunk, checkError } from "../../test/openai-schemas.ts";
import { createChunks, doneEvent, errorEvent } from "./chunks.ts";
import { createLabeller } from "./label.ts";
import { record } from "./recordings/record.fixture.ts";
import { isLive, shows } from "./delta.ts";

/**
 * What the real CLI wrote (NAME.ndjson) and what of it is sent (NAME.golden.txt), for each visibility. The recordings
 * are made anew by RECORD_TURNS=1, the golden files by RECORD_GOLDEN=1; look at the difference before you commit it.
 */
const directory = join(import.meta.dirname, "recordings");
const names = readdirSync(directory).flatMap((file) => /^(.+)\.ndjson$/.exec(file)?.[1] ?? []);

beforeAll(async () => {
  if (process.env["RECORD_TURNS"] === "1") await record(directory);
  if (process.env["RECORD_GOLDEN"] !== "1") return;
  for (const name of names) await writeFile(golden(name), render(await readFile(recording(name))));
});

const recording = (name: string): string => join(directory, `${name}.ndjson`);
const golden = (name: string): string => join(directory, `${name}.golden.txt`);

const flags = ["thinking", "tools", "text", "narration", "final"] as const;
const visibilities = Array.from({ length: 32 }, (_, number): Visibility => {
  const [show_thinking, show_tools, show_text, show_narration, show_final] = flags.map(
    (_flag, bit) => (number & (16 >> bit)) === 0,
  ) as [boolean, boolean, boolean, boolean, boolean];
  return { show_thinking, show_tools, show_text, show_narration, show_final };
});
const [everything] = visibilities as [Visibility];
const flagsOf = (visibility: Visibility): string =>
  flags.filter((flag) => visibility[`show_${flag}`]).join(" ") || "nothing";

const head = { id: "chatcmpl-1", created: 1_795_266_000, model: "agent" };
const failure = errorEvent({
  message: "It failed.",
  type: "server_error",
  param: null,
  code: "agent_failed",
});

/** All server-sent events of a turn. */
const streamOf = (events: readonly AgentEvent[], visibility: Visibility, wantLive = false): string[] => {
  const chunks = createChunks(head);
  const labeller = createLabeller({ live: isLive(visibility, wantLive) });
  const result = events.find((event) => event.type === "result");
  const [ok, resultText] = [result?.ok ?? false, result?.text ?? ""];
  const deltas = [...events.flatMap(labeller.take), ...labeller.finish({ ok, resultText })];
  const shown = deltas.filter((delta) => shows(visibility, delta)).map(chunks.delta);
  return [chunks.role(), ...shown, ok ? chunks.stop(result?.usage ?? null, false) : failure, doneEvent];
};

const decode = (bytes: Buffer, points: readonly number[] = []): AgentEvent[] => {
  const events: AgentEvent[] = [];
  const decoder = createDecoder();
  const splitter = createLineSplitter({
    onLine: (line) => events.push(...decoder.decode(line).events),
    onOversized: () => expect.unreachable("no line is that long"),
  });
  const cuts = [0, ...points.toSorted((a, b) => a - b), bytes.length];
  for (const [index, end] of cuts.slice(1).entries()) splitter.push(bytes.subarray(cuts[index], end));
  splitter.end();
  return events;
};

/** Every event that is ever sent, one a line, and for each visibility which of them are sent in which order. */
const render = (bytes: Buffer): string => {
  const events = decode(bytes);
  const all: string[] = [];
  const numbered = (event: string): number =>
    all.includes(event) ? all.indexOf(event) : all.push(event) - 1;
  const row = (name: string, stream: string[]): string => `${name}: ${stream.map(numbered).join(" ")}`;
  const rows = [
    ...visibilities.map((visibility) => row(flagsOf(visibility), streamOf(events, visibility))),
    row("live text", streamOf(events, everything, true)),
  ];
  return `${all.map((event, number) => `${number} ${event.trimEnd()}\n`).join("")}\n${rows.join("\n")}\n`;
};

test("there are recordings", () => expect(names.length).toBeGreaterThanOrEqual(9));

test.each(names)("%s is labelled as before, for each of the 32 visibilities", async (name) => {
  expect(render(await readFile(recording(name)))).toBe(await readFile(golden(name), "utf8"));
});

test.each(names)("%s is labelled the same wherever its bytes are split", async (name) => {
  const bytes = await readFile(recording(name));
  const whole = streamOf(decode(bytes), everything);
  fc.assert(
    fc.property(fc.array(fc.nat(bytes.length), { maxLength: 40 }), (points) => {
      expect(streamOf(decode(bytes, points), everything)).toEqual(whole);
    }),
    { numRuns: 30 },
  );
});

type Chunk = {
  choices: {
    delta: { content?: string; role?: string };
    finish_reason: string | null;
    x_service_event_type?: string;
  }[];
};
const dataOf = (stream: string[]): Chunk[] =>
  stream.slice(0, -1).map((event) => JSON.parse(event.slice("data: ".length)) as Chunk);

test.each(names)(
  "%s begins with one role, ends with one stop or error and [DONE], and is valid throughout",
  async (name) => {
    const events = decode(await readFile(recording(name)));
    for (const visibility of visibilities) {
      const stream = streamOf(events, visibility);
      expect(stream.indexOf(doneEvent)).toBe(stream.length - 1);
      const data = dataOf(stream);
      const last = data.at(-1);
      expect(data.findLastIndex((chunk) => chunk.choices?.[0]?.delta.role !== undefined)).toBe(0);
      expect(data.findIndex((chunk) => chunk.choices?.[0]?.finish_reason !== null)).toBe(data.length - 1);
      expect(data.slice(0, -1).flatMap(checkChunk)).toEqual([]);
      expect(checkChunk(last).length * checkError(last).length).toBe(0);
      const finals = data.filter((chunk) => chunk.choices?.[0]?.x_service_event_type === "final");
      expect(finals.length).toBeLessThanOrEqual(1);
    }
  },
);

/** A turn's steps; each says a word that occurs nowhere else. */
const steps = fc.array(fc.constantFrom("thinking", "text", "use", "result"), { maxLength: 12 });
const turnOf = (list: string[]): AgentEvent[] =>
  list.flatMap((kind, index): AgentEvent[] => {
    const word = `${kind}-${index}-`;
    if (kind === "use") return [{ type: "tool_use", id: word, name: "Read", input: { word }, parent: null }];
    if (kind === "result")
      return [{ type: "tool_result", tool_use_id: word, content: word, is_error: false, parent: null }];
    const type = kind === "thinking" ? "thinking" : "text";
    const half = Math.floor(word.length / 2);
    return [
      { type, block: index, text: word.slice(0, half) },
      { type, block: index, text: word.slice(half) },
      { type: "block_end", block: index },
    ];
  });
const endOf = (ok: boolean): AgentEvent => ({
  type: "result",
  ok,
  text: "the result",
  subtype: "success",
  api_status: null,
  session_id: null,
  num_turns: 1,
  cost_usd: 0,
  usage: null,
  duration_ms: 1,
});

test("in any turn what is shown is sent once and in order, and what is hidden occurs nowhere in the bytes", () => {
  fc.assert(
    fc.property(
      steps,
      fc.constantFrom(...visibilities),
      fc.boolean(),
      fc.boolean(),
      (list, visibility, ok, live) => {
        const stream = streamOf([...turnOf(list), endOf(ok)], visibility, live).join("");
        const data = dataOf(streamOf([...turnOf(list), endOf(ok)], visibility, live));
        const told = data.map((chunk) => Object.values(chunk.choices?.[0]?.delta ?? {}).join("")).join("");
        const isShown = (kind: string, index: number): boolean => {
          if (kind === "thinking") return visibility.show_thinking;
          if (kind !== "text") return visibility.show_tools;
          const isFinal = ok && index === list.length - 1;
          return visibility.show_text && (isFinal ? visibility.show_final : visibility.show_narration);
        };
        const shown = list.flatMap((kind, index) => (isShown(kind, index) ? `${kind}-${index}-` : []));
        const hidden = list.flatMap((kind, index) => (isShown(kind, index) ? [] : `${kind}-${index}-`));
        expect(told.match(/(?:thinking|text|use|result)-\d+-/g) ?? []).toEqual(shown);
        expect(hidden.filter((word) => stream.includes(word.slice(0, -1)))).toEqual([]);
      },
    ),
    { numRuns: 400 },
  );
});
