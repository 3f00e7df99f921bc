import { readdir, readFile, rm } from "node:fs/promises";
import { basename, join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { isRunning } from "../../processes.ts";
import { startService, type Service } from "../../service.ts";
import { message, text } from "../../fake-model/answer.ts";
import { until } from "../../until.ts";
import { livingAgents } from "../agents.ts";
import { askedOf, key, startScene, type Scene } from "./scene.ts";
import { checkWire, recordingFetch } from "./wire.ts";

/*
 * A conversation with the real agent CLI through crashes: what the model is sent is what counts. Each word is said once by
 * the user and once, in capitals, by the model.
 */

type Message = { role: "user" | "assistant"; content: string };
type Asked = { service: Service; before: Message[]; word: string };

let scene: Scene;
const wire = recordingFetch();
beforeAll(async () => {
  scene = await startScene();
  scene.model.script(({ prompt }) => {
    const word = /(\S+)!$/.exec(prompt)?.[1];
    return word === undefined ? null : message([text(word.toUpperCase())]);
  });
});

const userSays = (word: string): Message => ({ role: "user", content: `${word}!` });
const said = (...words: string[]): Message[] =>
  words.flatMap((word) => [userSays(word), { role: "assistant" as const, content: word.toUpperCase() }]);

const ask = async (
  { service: { url }, before, word }: Asked,
  headers: Record<string, string>,
): Promise<Response> => {
  const messages = [...before, userSays(word)];
  const response = await wire.fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json", ...headers },
    body: JSON.stringify({ model: "default", messages }),
  });
  const { choices } = (await response.json()) as { choices: { message: { content: string } }[] };
  expect(choices[0]?.message.content).toBe(word.toUpperCase());
  return response;
};

/** What the model was sent last, as `role: text` without what the CLI adds. */
const told = (word: string): string[] => {
  const request = askedOf(scene.model).findLast(({ body }) => JSON.stringify(body).includes(`${word}!`));
  const { messages } = (request?.body ?? { messages: [] }) as {
    messages: { role: string; content: unknown }[];
  };
  return messages
    .filter(({ role }) => role !== "system")
    .flatMap(({ role, content }) =>
      textsOf(content)
        .filter((part) => !part.trimStart().startsWith("<system-reminder>"))
        .map((part) => `${role}: ${part.trim()}`),
    );
};
const textsOf = (content: unknown): string[] =>
  typeof content === "string"
    ? [content]
    : (content as { text?: string }[]).flatMap((block) => block.text ?? []);
const asTold = (messages: readonly Message[]): string[] =>
  messages.map(({ role, content }) => `${role}: ${content}`);

/** By an id, whose client need not repeat what was said, and by the first message. */
const ways = [
  { source: "header", headers: (id: string) => ({ "x-conversation-id": id }), repeats: false },
  { source: "hash", headers: () => ({}), repeats: true },
];

const answersOnRecord = async ({ home }: Service): Promise<number[]> => {
  const files = await readdir(home, { recursive: true });
  const records = files.filter((file) => /conversations\/[^/]+\.json$/.test(file));
  return await Promise.all(
    records.map(async (file) => JSON.parse(await readFile(join(home, file), "utf8")).answers.length),
  );
};

const transcriptsOf = async ({ home }: Service): Promise<string[]> =>
  (await readdir(home, { recursive: true }))
    .filter((file) => file.includes("projects/") && file.endsWith(".jsonl"))
    .map((file) => join(home, file));

/** Crashes the service, and starts it again on its home. */
const crash = async (service: Service, env: Record<string, string> = {}): Promise<Service> => {
  const agents = await livingAgents(service);
  await service.kill();
  const next = await startService({ home: service.home, env: { ...scene.env, ...env } });
  await until(() => !agents.some(isRunning), { what: "the agents of the crashed service to be gone" });
  return next;
};

test("a conversation outlives a crash by its transcript, and the transcript's loss by its messages", async () => {
  let { service } = scene;
  const say = (word: string, before: string[], { whole = false } = {}) =>
    Promise.all(
      ways.map(async ({ source, headers, repeats }) => {
        const own = (each: string): string => `${each}-${source}`;
        const response = await ask(
          { service, before: repeats || whole ? said(...before.map(own)) : [], word: own(word) },
          headers(source),
        );
        expect(response.headers.get("x-service-conversation-source")).toBe(source);
        return { lines: told(own(word)), own };
      }),
    );

  await say("one", []);
  await say("two", ["one"]);
  // The answer is sent a moment before it is on record, and in the agent's transcript.
  await until(async () => (await answersOnRecord(service)).every((count) => count === 2));
  await until(async () => {
    const texts = await Promise.all((await transcriptsOf(service)).map((path) => readFile(path, "utf8")));
    return ways.every(({ source }) => texts.join("").includes(`TWO-${source}`.toUpperCase()));
  });
  service = await crash(service, { AGENT_MODE_KEEP_ALIVE: "0" });
  for (const { lines, own } of await say("three", ["one", "two"]))
    expect(lines).toEqual(asTold([...said(own("one"), own("two")), userSays(own("three"))]));

  // Until the end an agent may write to its transcript.
  await until(async () => (await livingAgents(service)).length === 0, { what: "the agents to be gone" });
  const transcripts = await transcriptsOf(service);
  // Each is found by more than one path.
  expect(new Set(transcripts.map((path) => basename(path))).size).toBe(ways.length);
  for (const transcript of transcripts) await rm(transcript, { force: true });
  for (const { lines, own } of await say("four", ["one", "two", "three"], { whole: true })) {
    expect(lines).toHaveLength(1);
    const [line = ""] = lines;
    const words = ["one", "two", "three"].flatMap((each) => [`${own(each)}!`, own(each).toUpperCase()]);
    const order = [...words, "</conversation-", `${own("four")}!`].map((word) => line.indexOf(word));
    expect(order).not.toContain(-1);
    expect(order).toEqual(order.toSorted((a, b) => a - b));
  }
  checkWire(wire.exchanges);
  expect(wire.exchanges).toHaveLength(4 * ways.length);
});
