import { PassThrough } from "node:stream";
import { setImmediate as turnOfLoop } from "node:timers/promises";
import { afterEach, describe, expect, test } from "vitest";
import {
  answer,
  chatStub,
  chunk,
  hanging,
  refusal,
  role,
  text,
  type Reply,
} from "../../../test/cli/chat-stub.ts";
import { until } from "../../../test/until.ts";
import { createClient } from "../../client/client.ts";
import { sanitise } from "../../view/sanitise.ts";
import { converse } from "./converse.ts";
import type { TalkOptions } from "./turn.ts";

/** Until what was typed has been read: what comes later is not pasted together with it. */
const apart = async (): Promise<void> => {
  await turnOfLoop();
  await turnOfLoop();
};

const key = { interrupt: "\u0003", end: "\u0004" };

/** A conversation at a terminal that is no process of its own. */
const scene = async (reply: Reply = answer(text("Hello.")), changes: Partial<TalkOptions> = {}) => {
  const stub = await chatStub();
  stub.reply = reply;
  const baseUrl = `http://127.0.0.1:${stub.port}`;
  const talk: TalkOptions = {
    conversation: "c-1",
    model: "agent",
    user: null,
    timeout: null,
    live: true,
    hide: new Set(),
    full: false,
    ...changes,
  };
  const input = new PassThrough();
  const output = Object.assign(new PassThrough({ encoding: "utf8" }), { isTTY: true, columns: 60 });
  let written = "";
  output.on("data", (piece: string) => (written += piece));
  const terminal = { input, output } as unknown as { input: NodeJS.ReadStream; output: NodeJS.WriteStream };
  const ended = converse({ client: createClient({ baseUrl }), talk, baseUrl, terminal });
  leavers.push(async () => {
    input.end(key.interrupt);
    await ended;
  });
  const prompts = (): number => screen(written).split("\n> ").length - 1;
  return {
    stub,
    ended,
    type: (keys: string) => void input.write(keys),
    seen: () => screen(written),
    /** Types a message and waits until it is answered. */
    say: async (message: string): Promise<string> => {
      const before = written.length;
      const count = prompts();
      input.write(`${message}\r`);
      await until(() => prompts() > count);
      return screen(written.slice(before));
    },
    said: () => stub.asked().map(({ messages }) => messages[0]?.content),
  };
};

/** What was written, without colours and cursor movements. */
const screen = (written: string): string => sanitise(written);

const leavers: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  await Promise.all(leavers.splice(0).map((leave) => leave()));
});

describe("a conversation", () => {
  test("says where it is, answers each message, and how to continue at its end", async () => {
    const { ended, type, say, seen, said, stub } = await scene();
    await until(() => seen().includes("> "));
    expect(seen()).toMatch(/^Talking with agent at http:.+\nConversation c-1\n[^]*\/help lists commands/);
    expect(await say("one")).toMatch(/\nHello\.\n[\d.]+ m?s\n\n/);
    await say("two");
    type(key.end);
    expect(await ended).toBe(0);
    expect(seen()).toMatch(/\nGo on with: svc chat --conversation c-1\n$/);
    expect(said()).toEqual(["one", "two"]);
    expect(stub.requests.map(({ headers }) => headers["x-conversation-id"])).toEqual(["c-1", "c-1"]);
  });

  test("takes a message of several lines, typed or pasted", async () => {
    const { say, said, type } = await scene();
    type("first\\\r");
    await apart();
    await say("second");
    await say("a\rb\\\rc");
    expect(said()).toEqual(["first\nsecond", "a\nb\\\nc"]);
  });

  test("keeps what is typed during an answer for after it, unseen till then", async () => {
    const { say, type, seen, said, stub } = await scene();
    await say("one");
    let finish = (): void => undefined;
    stub.reply = (write, response) => {
      for (const each of [role, text("wait")]) write(each);
      finish = () => answer(text("ed."))(write, response);
    };
    type("two\r");
    await until(() => seen().includes("wait"));
    stub.reply = answer(text("Third."));
    type("three\r");
    await apart();
    type("four");
    finish();
    await until(() => seen().includes("Third."));
    expect(seen()).toContain("waited.\n");
    expect(said()).toEqual(["one", "two", "three"]);
    await until(() => seen().endsWith("> four"));
  });

  test("sends the service's words as they were typed, and reports what they did", async () => {
    const config = {
      show_thinking: false,
      show_tools: true,
      show_text: true,
      show_narration: true,
      show_final: true,
    };
    const { say, said } = await scene(
      answer(chunk({ content: JSON.stringify(config) }, { x_service_event_type: "stream_config" })),
    );
    expect(await say("/hide-thinking")).toContain("It hides: thinking\n");
    await say("/stream-status");
    await say("/show-tools and list the files");
    expect(said()).toEqual(["/hide-thinking", "/stream-status", "/show-tools and list the files"]);
  });

  test("shows that it waits while nothing comes", async () => {
    const { type, seen, stub } = await scene(hanging());
    type("x\r");
    await until(() => seen().includes("waiting for the agent · 0:00"));
    expect(stub.gone).toBe(0);
  });
});

describe("Ctrl-C", () => {
  test("stops the answer, and the next message can be written", async () => {
    const { type, say, seen, stub, said } = await scene(hanging(text("half an ans")));
    type("one\r");
    await until(() => seen().includes("half an ans"));
    type(key.interrupt);
    await until(() => seen().includes("half an ans\nStopped\n"));
    expect(stub.requests.at(-1)?.url).toBe("/v1/chat/completions/chatcmpl-1/cancel");
    await until(() => stub.gone === 1);
    stub.reply = answer(text("Hello."));
    expect(await say("two")).toContain("Hello.");
    expect(said()).toEqual(["one", "two"]);
  });

  test("takes back what is typed, and leaves when nothing is, at the second time", async () => {
    const { type, say, seen, ended, said } = await scene();
    await say("one");
    type("half\\\rand hal");
    await until(() => seen().endsWith("and hal"));
    type(key.interrupt);
    await say("two");
    expect(said()).toEqual(["one", "two"]);
    type(key.interrupt);
    await until(() => seen().includes("Ctrl-C again, or Ctrl-D, leaves\n> "));
    await say("three");
    type(key.interrupt);
    await until(() => seen().match(/Ctrl-C again/g)?.length === 2);
    type(key.interrupt);
    expect(await ended).toBe(0);
    expect(said()).toEqual(["one", "two", "three"]);
  });
});

describe("a failed answer is reported, and the conversation continues:", () => {
  const failure = {
    error: { message: "The model is away", type: "api_error", param: null, code: "model_failed" },
  };
  test.each<[string, Reply, string]>([
    ["no room", refusal(503, "capacity_full", "Full", { "retry-after": "7" }), "Full (try again in 7 s)"],
    [
      "a failure in mid-stream",
      (write, response) => {
        for (const each of [role, text("half"), failure, "[DONE]"]) write(each);
        response.end();
      },
      "half\nThe model is away",
    ],
    [
      "a lost connection",
      (write, response) => {
        for (const each of [role, text("half")]) write(each);
        response.end();
      },
      "stopped in mid-answer; continue with: svc chat --conversation c-1",
    ],
  ])("%s", async (_what, reply, sentence) => {
    const { say, stub } = await scene();
    await say("one");
    stub.reply = reply;
    expect(await say("two")).toContain(sentence);
    stub.reply = answer(text("Hello again."));
    expect(await say("three")).toContain("Hello again.");
  });

  test("a service that is gone for a while", async () => {
    const { say, stub } = await scene();
    await say("one");
    await stub.stop();
    expect(await say("two")).toMatch(/No service answers|broke off/);
    expect(await say("/models")).toContain("No service answers");
    await stub.start();
    expect(await say("three")).toContain("Hello.");
  });
});

describe("the prompt's own commands", () => {
  test("do not reach the service, nor does what is mistyped", async () => {
    const { say, said } = await scene();
    await say("one");
    expect(await say("/help")).toMatch(/\/models +list what can be talked to[^]*everyone who talks to it/);
    expect(await say("/hlep")).toContain("There is no command /hlep");
    expect(await say("  ")).not.toContain("Hello.");
    expect(await say("/id")).toContain("Go on with: svc chat --conversation c-1");
    expect(said()).toEqual(["one"]);
    await say(" /hlep");
    await say("/help me with this");
    expect(said()).toEqual(["one", " /hlep", "/help me with this"]);
  });

  test("change the model and the conversation of what is said next", async () => {
    const { say, stub, type, ended, seen } = await scene();
    await say("one");
    expect(await say("/models")).toContain("* agent\n  haiku\n");
    expect(await say("/model haiku")).toContain("Model haiku\n");
    const conversation = /New conversation (\S+)/.exec(await say("/new"))?.[1];
    await say("two");
    expect(stub.asked().map(({ model }) => model)).toEqual(["agent", "haiku"]);
    expect(stub.requests.at(-1)?.headers["x-conversation-id"]).toBe(conversation);
    expect(conversation).toMatch(/^[0-9a-f-]{36}$/);
    type("/exit\r");
    expect(await ended).toBe(0);
    expect(seen()).toContain(`Go on with: svc chat --conversation ${conversation}\n`);
  });

  test("show whole what was shortened", async () => {
    const lines = Array.from({ length: 8 }, (_, index) => `line ${index}`).join("\n");
    const content = `\n\`\`\`tool_result\n${lines}\n\`\`\`\n`;
    const { say } = await scene(answer(chunk({ content }, { x_service_event_type: "tool_result" })));
    expect(await say("one")).not.toContain("line 7");
    expect(await say("/full")).toContain(`${lines}\n`);
  });
});
