import { spawn } from "node:child_process";
import { describe, expect, test } from "vitest";
import { sanitise } from "../../src/view/sanitise.ts";
import { afterFile } from "../cleanup.ts";
import { startService, svcProgram } from "../service.ts";
import { until } from "../until.ts";
import { answer, chatStub, chunk, hanging, refusal, role, stop, text } from "./chat-stub.ts";
import { startSvc, svc } from "./run-svc.ts";
import { stubService } from "./stub-service.ts";

const uuid = /[0-9a-f]{8}-[0-9a-f-]{27}/;
const thinking = chunk({ reasoning_content: "Hm." }, { x_service_event_type: "thinking" });

describe("svc chat with a message", () => {
  test("asks once and prints the answer; prints how to continue", async () => {
    const { env, asked, requests } = Object.assign(await chatStub(), { reply: answer(text("Hello.")) });
    const { code, stdout, stderr } = await svc(["chat", "Hi there"], { env });
    expect({ code, stdout }).toEqual({ code: 0, stdout: "Hello.\n" });
    const id = uuid.exec(stderr)?.[0];
    expect(stderr).toBe(`Go on with: svc chat --conversation ${id}\n`);
    expect(requests.at(-1)?.headers["x-conversation-id"]).toBe(id);
    expect(asked()).toEqual([
      {
        model: "agent",
        messages: [{ role: "user", content: "Hi there" }],
        metadata: { live_text: "true" },
        stream: true,
      },
    ]);
  });

  test("sends what its options say", async () => {
    const { env, asked, requests } = await chatStub();
    const options = "-c größe -m haiku --timeout 60 --user ann --no-live";
    const { code, stderr } = await svc(["chat", "x", ...options.split(" ")], { env });
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(requests).toHaveLength(1);
    // Headers come as bytes.
    const conversation = Buffer.from("größe").toString("latin1");
    expect(requests[0]?.headers).toMatchObject({ "x-conversation-id": conversation, "x-user-id": "ann" });
    expect(asked()[0]).toMatchObject({ model: "haiku", timeout: 60, metadata: { live_text: "false" } });
  });

  test("reads it from standard input, and leaves out what is to be hidden", async () => {
    const stub = await chatStub();
    const final = chunk({ content: "Done." }, { x_service_event_type: "final" });
    const narration = chunk({ content: "I look." }, { x_service_event_type: "narration" });
    stub.reply = answer(thinking, narration, final);
    const args = ["chat", "--hide", "thinking,narration"];
    const { code, stdout } = await svc(args, { env: stub.env, input: "line 1\nline 2\n" });
    expect({ code, stdout }).toEqual({ code: 0, stdout: "Done.\n" });
    expect(stub.asked()[0]).toMatchObject({
      messages: [{ role: "user", content: "line 1\nline 2" }],
      metadata: { live_text: "false" },
    });
  });

  test("with --json prints each chunk as it came, one a line, and a failure as the last", async () => {
    const stub = await chatStub();
    const hostile = text("\u001b[2J");
    stub.reply = answer(thinking, hostile);
    const whole = await svc(["chat", "x", "--json"], { env: stub.env });
    expect(linesOf(whole.stdout)).toEqual([role, thinking, hostile, stop]);
    expect(whole.stdout).not.toContain("\u001b");
    expect(whole).toMatchObject({ code: 0, stderr: "" });
    stub.reply = refusal(503, "capacity_full", "All places are taken", { "retry-after": "7" });
    const refused = await svc(["chat", "x", "--json"], { env: stub.env });
    const error = "All places are taken (try again in 7 s)";
    expect(linesOf(refused.stdout)).toEqual([{ success: false, error, code: "capacity_full" }]);
    expect(refused).toMatchObject({ code: 1, stderr: `svc: ${error}\n` });
    const nobody = await svc(["chat", "x", "--json"], { env: { ...stub.env, SERVICE_PORT: "1" } });
    expect(linesOf(nobody.stdout)).toEqual([
      { success: false, error: expect.any(String), code: "unreachable" },
    ]);
  });

  test.each([
    ["SIGINT", 130],
    ["SIGTERM", 143],
  ] as const)("on %s stops the turn and ends with %i", async (signal, exit) => {
    const stub = await chatStub();
    stub.reply = hanging(text("half\nan ans"));
    const { child, output, ended } = startSvc(["chat", "x", "-c", "it's"], { env: stub.env });
    await until(() => output.stdout === "half\n");
    child.kill(signal);
    const { code, stdout, stderr } = await ended;
    expect({ code, stdout }).toEqual({ code: exit, stdout: "half\nan ans\n" });
    expect(stderr).toBe(String.raw`Stopped. Go on with: svc chat --conversation 'it'\''s'` + "\n");
    expect(stub.requests.at(-1)?.url).toBe("/v1/chat/completions/chatcmpl-1/cancel");
    await until(() => stub.gone === 1);
  });

  test("whose answer breaks off says so and how to continue", async () => {
    const stub = await chatStub();
    stub.reply = (write, response) => {
      write(role);
      write(text("half"));
      response.end();
    };
    const { code, stdout, stderr } = await svc(["chat", "x", "-c", "c-1"], { env: stub.env });
    expect({ code, stdout }).toEqual({ code: 1, stdout: "half\n" });
    expect(stderr).toMatch(
      /broke off[^]*stopped in mid-answer; continue with: svc chat --conversation c-1\n$/,
    );
  });

  test("whose answer fails says why", async () => {
    const stub = await chatStub();
    const error = {
      message: "The model\u001b[2J is away",
      type: "api_error",
      param: null,
      code: "model_failed",
    };
    stub.reply = (write, response) => {
      for (const each of [role, text("half"), { error }, "[DONE]"]) write(each);
      response.end();
    };
    const { code, stdout, stderr } = await svc(["chat", "x"], { env: stub.env });
    expect({ code, stdout, stderr }).toEqual({
      code: 1,
      stdout: "half\n",
      stderr: "svc: The model is away\n",
    });
  });

  test.each([
    [refusal(400, "invalid_request", "messages: too long"), 2, "svc: The messages: too long\n"],
    [refusal(404, "model_not_found", "There is no model x"), 1, "svc: There is no model x\n"],
    [refusal(401, "invalid_api_key", "no"), 1, /asks for an API key: set SERVICE_API_KEY/],
  ])("that is refused: %#", async (reply, exit, message) => {
    const stub = Object.assign(await chatStub(), { reply });
    const { code, stdout, stderr } = await svc(["chat", "x", "-m", "x"], { env: stub.env });
    expect(stderr).toEqual(expect.stringMatching(message));
    expect({ code, stdout }).toEqual({ code: exit, stdout: "" });
  });

  test("to a service without agent mode, or to none, says what to do", async () => {
    const stub = await stubService({});
    const env = { SERVICE_PORT: String(stub.port) };
    for (const args of [[], ["-m", "x"]]) {
      const { code, stderr } = await svc(["chat", "x", ...args], { env });
      expect({ code, stderr }).toEqual({
        code: 1,
        stderr: expect.stringContaining("AGENT_MODE=true") as string,
      });
    }
    await stub.stop();
    const { code, stderr } = await svc(["chat", "x"], { env });
    expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringContaining("svc serve") as string });
  });
});

test.each([
  [["chat", " "], /message is empty/],
  [["chat"], /message is empty/],
  [["chat", "x", "--hide", "thinking,all"], /list of thinking, tools, narration, final/],
  [["chat", "x", "-c", "{{ID}}"], /--conversation must have/],
  [["chat", "x", "--user", ""], /--user must have/],
])("%j is not understood", async (args, message) => {
  const { code, stdout, stderr } = await svc(args);
  expect(stderr).toMatch(message);
  expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
});

/** A conversation on a terminal of its own. */
const converse = async () => {
  const stub = await chatStub();
  const command = [...svcProgram, "chat"].map((word) => `'${word}'`).join(" ");
  const env = {
    PATH: process.env["PATH"],
    HOME: "/nonexistent",
    TERM: "xterm",
    LANG: "C.UTF-8",
    NO_COLOR: "1",
    ...stub.env,
  };
  const script = `trap : INT; stty cols 80 rows 24; ${command}; echo ended $?; stty -a`;
  const child = spawn("script", ["-qec", script, "/dev/null"], { env });
  afterFile(() => child.kill("SIGKILL"));
  let seen = "";
  child.stdout.setEncoding("utf8").on("data", (piece: string) => (seen += sanitise(piece)));
  const type = (keys: string) => void child.stdin.write(keys);
  const prompts = () => seen.match(/^> /gm)?.length ?? 0;
  await until(() => prompts() > 0);
  return {
    stub,
    type,
    shows: (what: RegExp) => until(() => what.test(seen), { what: String(what) }),
    /** Types a message and waits for the next prompt; returns what came between. */
    say: async (message: string): Promise<string> => {
      const [before, count] = [seen.length, prompts()];
      type(`${message}\r`);
      await until(() => prompts() > count + message.split("\r").length - 1, { what: message });
      return seen.slice(before);
    },
    said: () => stub.asked().map(({ messages }) => messages[0]?.content),
  };
};

describe("a conversation on a terminal", () => {
  test("takes messages of several lines, stops an answer, and leaves the terminal as it was", async () => {
    const { stub, type, shows, said } = await converse();
    stub.reply = hanging(text("half an ans"));
    type("count\r");
    await shows(/half an ans/);
    type("\u0003");
    await shows(/Stopped/);
    stub.reply = answer(text("wor"), text("ld."));
    type("two\rlines\r");
    await shows(/world\./);
    await shows(/\d m?s\n\n> /);
    type("\u001b[A\u001b[A\u001b[A\r");
    await until(() => said().length === 3);
    await shows(/\d m?s\n[^]*\d m?s\n\n> /);
    type("\u0004");
    await shows(/Go on with: svc chat --conversation [\w-]+\n+ended 0\n/);
    await shows(/[^-]echo\b/);
    expect(said()).toEqual(["count", "two\nlines", "count"]);
    expect(stub.requests.filter(({ url }) => url.endsWith("/cancel"))).toHaveLength(1);
  });

  test("has commands of its own; what is mistyped is not sent", async () => {
    const { stub, say, said } = await converse();
    const content = `\n\`\`\`tool_result\n${"line\n".repeat(8)}last\n\`\`\`\n`;
    stub.reply = answer(chunk({ content }, { x_service_event_type: "tool_result" }));
    expect(await say("one")).not.toContain("last");
    expect(await say("/full")).toContain("last");
    expect(await say("/help")).toMatch(/\/models +list what can be talked to/);
    expect(await say("/hlep")).toContain("There is no command /hlep");
    expect(await say("/models")).toMatch(/\* agent\n +haiku\n/);
    expect(await say("/model haiku")).toContain("Model haiku");
    const conversation = /New conversation (\S+)/.exec(await say("/new"))?.[1];
    await say("two");
    expect(said()).toEqual(["one", "two"]);
    expect(stub.asked().map(({ model }) => model)).toEqual(["agent", "haiku"]);
    expect(stub.requests.at(-1)?.headers["x-conversation-id"]).toBe(conversation);
  });

  test("goes on after an answer that failed", async () => {
    const { stub, say } = await converse();
    stub.reply = refusal(503, "capacity_full", "Full", { "retry-after": "7" });
    expect(await say("one")).toContain("Full (try again in 7 s)");
    await stub.stop();
    expect(await say("two")).toMatch(/No service answers|broke off/);
    await stub.start();
    stub.reply = answer(text("Hello again."));
    expect(await say("three")).toContain("Hello again.");
  });
});

test("the real service answers, continues a conversation, and stops its turn", async () => {
  const service = await startService({ env: { AGENT_MODE: "true" } });
  const env = { SERVICE_PORT: new URL(service.url).port };
  // What hangs is to fail with a sentence.
  const limit = ["--timeout", "20"];
  const steps = JSON.stringify({
    steps: [
      { thinking: "Hm." },
      { text: "I look." },
      { tool: { name: "Bash", input: { command: "ls" }, result: "a\nb" } },
      { text: "Two files." },
    ],
  });
  const whole = await svc(["chat", ...limit, `scenario: chat ${steps}`], { env });
  expect(whole).toMatchObject({
    code: 0,
    stdout: "│ Hm.\n\nI look.\n\n● Bash  ls\n  ⎿ a\n    b\n\nTwo files.\n",
  });
  const id = uuid.exec(whole.stderr)?.[0] ?? "";

  const endless = JSON.stringify({ deltaMs: 20, steps: [{ text: "word\n".repeat(2000) }] });
  const { child, output, ended } = startSvc(["chat", ...limit, "-c", id, `scenario: chat ${endless}`], {
    env,
  });
  await until(() => output.stdout.includes("word"));
  child.kill("SIGINT");
  expect((await ended).code).toBe(130);

  const later = await svc(["chat", ...limit, "-c", id, "scenario: echo"], { env });
  expect(JSON.parse(later.stdout)).toMatchObject({ earlierPrompts: 2 });
  const unknown = await svc(["chat", "x", "-m", "nosuch"], { env });
  expect(unknown).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('"nosuch" does not exist') as string,
  });
});

const linesOf = (output: string): unknown[] =>
  output
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as unknown);
