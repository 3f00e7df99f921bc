import { beforeAll, expect, test } from "vitest";
import { startService, type Service } from "../service.ts";
import { until } from "../until.ts";
import { allChunks, chunksOf, contentOf, kindsOf, post, saying, type Body } from "./asking.ts";

/*
 * Conversations through the real service: who goes on with which session, in which process. The agent says what it was told.
 */

type Told = {
  prompt: string;
  turn: number;
  session: string;
  resumed: boolean;
  pid: number;
  cwd: string;
  append: string | null;
};

let service: Service;
beforeAll(async () => {
  service = await startService({
    env: {
      AGENT_MODE: "true",
      // The agents tell their pids.
      SERVICE_AGENT_SANDBOX: "off",
      AGENT_MODE_MAX_CONCURRENT: "3",
      AGENT_MODE_ON_DISCONNECT: "cancel",
    },
  });
});

const told = async (body: Body, headers: Record<string, string> = {}, at = service): Promise<Told> =>
  toldBy(await post(at, body, { headers }));
const toldBy = async (response: Response | undefined): Promise<Told> => {
  const text = (await response?.text()) ?? "no answer";
  if (!response?.ok) throw new Error(text);
  const answer = JSON.parse(text) as { choices: { message: { content: string } }[] };
  return JSON.parse(answer.choices[0]?.message.content ?? "") as Told;
};
const echo = (word: string): Body => saying(`scenario: echo {} ${word}`);
const inConversation = (id: string, more: Record<string, string> = {}) => ({
  "x-conversation-id": id,
  ...more,
});

test("the second turn of a conversation gets only the new messages, in the same process", async () => {
  const first = await told(echo("one"), inConversation("a"));
  const second = await told(
    {
      messages: [
        ...(echo("one").messages as []),
        { role: "assistant", content: "x" },
        ...(echo("two").messages as []),
      ],
    },
    inConversation("a"),
  );
  expect(first).toMatchObject({ turn: 1, resumed: false });
  expect(second).toMatchObject({
    turn: 2,
    pid: first.pid,
    session: first.session,
    prompt: "scenario: echo {} two",
  });
});

test("the same id of another user is another conversation, in another process and directory", async () => {
  const mine = await told(echo("one"), inConversation("b", { "x-user-id": "me" }));
  const yours = await told(echo("one"), inConversation("b", { "x-user-id": "you" }));
  expect(yours.session).not.toBe(mine.session);
  expect(yours.pid).not.toBe(mine.pid);
  expect(yours.cwd).not.toBe(mine.cwd);
});

test("metadata.conversation_id and the header lead to the same conversation", async () => {
  const first = await told(echo("one"), inConversation("c"));
  const second = await told({ ...echo("two"), metadata: { conversation_id: "c" } });
  expect(second).toMatchObject({ session: first.session, turn: 2 });
});

test("without an id the first message leads to it, with the answers that its session gave", async () => {
  const response = await post(service, echo("by its first words"));
  const { choices } = (await response.json()) as { choices: { message: { content: string } }[] };
  const answer = choices[0]?.message.content ?? "";
  const first = JSON.parse(answer) as Told;
  const history = (text: string) => ({
    messages: [
      { role: "user", content: "scenario: echo {} by its first words" },
      { role: "assistant", content: text },
      { role: "user", content: "scenario: echo {} and on" },
    ],
  });
  expect(response.headers.get("x-service-conversation-source")).toBe("hash");
  expect(await told(history(answer))).toMatchObject({
    session: first.session,
    prompt: "scenario: echo {} and on",
  });
  const foreign = await told(history("an answer of somebody else"));
  expect(foreign.session).not.toBe(first.session);
  expect(foreign.prompt).toContain("an answer of somebody else");
});

test("the same first message at the same time without an id is not one conversation: each gets an answer", async () => {
  const body = saying('scenario: echo {"ms": 300} at the same time');
  const [one, two] = await Promise.all([told(body), told(body)]);
  expect(one.session).not.toBe(two.session);
  expect([one.turn, two.turn]).toEqual([1, 1]);
});

test("what is hidden is not reported by an error either", async () => {
  const failing = saying('scenario: chat {"steps": [{"text": "a secret thought"}], "status": 500}', {
    stream: true,
  });
  const open = await post(service, failing).then(allChunks);
  await post(service, saying("/hide-narration /hide-final"));
  const hidden = await post(service, failing).then(allChunks);
  await post(service, saying("/show-all"));
  expect(JSON.stringify(open.at(-1))).toContain("a secret thought");
  expect(hidden.at(-1)?.error?.code).toBe("model_failed");
  expect(JSON.stringify(hidden)).not.toContain("a secret thought");
});

test("system messages are added to the system prompt, and another one begins a process that resumes", async () => {
  const withSystem = (text: string): Body => ({
    messages: [{ role: "system", content: text }, ...(echo("x").messages as [])],
  });
  const first = await told(withSystem("Be brief."), inConversation("d"));
  const second = await told(withSystem("Be verbose."), inConversation("d"));
  expect(first.append).toBe("Be brief.");
  expect(second).toMatchObject({ session: first.session, resumed: true, append: "Be verbose." });
  expect(second.pid).not.toBe(first.pid);
});

test("a second request waits for the first answer, a third is refused", async () => {
  const slow = await post(
    service,
    saying('scenario: slow-deltas {"count": 160, "rate": 40}', { stream: true }),
    {
      headers: inConversation("e"),
    },
  );
  const two = await Promise.all(
    ["second", "third"].map((word) => post(service, echo(word), { headers: inConversation("e") })),
  );
  const refused = two.find(({ status }) => status === 409);
  const answered = two.find(({ status }) => status === 200);
  expect(await refused?.json()).toMatchObject({ error: { code: "conversation_busy" } });
  expect(kindsOf(await allChunks(slow)).at(-1)).toBe("stop");
  expect((await toldBy(answered)).turn).toBeGreaterThan(1);
});

test("who leaves stops the agent; its place is free again and the session can be continued", async () => {
  const leaving = new AbortController();
  const response = await post(service, saying("scenario: sleep {}", { stream: true }), {
    headers: inConversation("f"),
    signal: leaving.signal,
  });
  const chunks = chunksOf(response);
  await chunks.next();
  leaving.abort();
  const after = await told(echo("after"), inConversation("f"));
  expect(after.turn).toBe(2);
  await until(async () => /svc_chat_turns 0/.test(await (await fetch(`${service.url}/metrics`)).text()));
});

test("a cancelled turn ends with an error, not with a good end", async () => {
  const response = await post(service, saying("scenario: sleep {}", { stream: true }));
  const chunks = chunksOf(response);
  const first = await chunks.next();
  const cancel = await fetch(`${service.url}/v1/chat/completions/${first.value?.id ?? ""}/cancel`, {
    method: "POST",
  });
  expect(cancel.status).toBe(200);
  const rest = kindsOf(await Array.fromAsync(chunks));
  expect(rest.at(-1)).toBe("error turn_cancelled");
  expect(rest).not.toContain("stop");
});

test("an agent that dies in mid-stream is reported as an error, and the conversation resumes from its transcript", async () => {
  const before = await told(echo("before"), inConversation("g"));
  const response = await post(service, saying("scenario: die {}", { stream: true }), {
    headers: inConversation("g"),
  });
  expect(kindsOf(await allChunks(response)).at(-1)).toBe("error agent_crashed");
  const after = await told(echo("after"), inConversation("g"));
  expect(after).toMatchObject({ session: before.session, resumed: true });
});

test("a message of tokens alone is answered without an agent, and what it sets is kept", async () => {
  const off = await post(service, saying("/hide-thinking /hide-tools", { stream: true })).then(allChunks);
  expect(kindsOf(off)).toEqual(["role", "stream_config", "stop"]);
  expect(JSON.parse(contentOf(off))).toMatchObject({
    show_thinking: false,
    show_tools: false,
    show_text: true,
  });
  const steps = JSON.stringify({
    steps: [{ thinking: "hm" }, { tool: { name: "Bash", input: {}, result: "ok" } }, { text: "done" }],
  });
  const shown = await post(service, saying(`scenario: chat ${steps}`, { stream: true })).then(allChunks);
  expect(kindsOf(shown)).toEqual(["role", "final", "stop"]);
  await post(service, saying("/show-all"));
});

test("all places taken is 503 with Retry-After, and slash tokens need no place", async () => {
  const leaving = new AbortController();
  const taken = await Promise.all(
    [1, 2, 3].map((n) =>
      post(service, saying(`scenario: sleep {} ${n}`, { stream: true }), { signal: leaving.signal }),
    ),
  );
  const refused = await post(service, echo("fourth"));
  expect(refused.status).toBe(503);
  expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(0);
  expect(await refused.json()).toMatchObject({ error: { code: "capacity_full", type: "server_error" } });
  expect((await post(service, saying("/stream-status"))).status).toBe(200);
  expect(taken.map(({ status }) => status)).toEqual([200, 200, 200]);
  leaving.abort();
  await until(async () => (await post(service, echo("free"))).status === 200);
});

test("the log line of a turn has the ids that its caller gave", async () => {
  await told(echo("one"), { "x-user-id": "ann", "x-request-id": "trace-7" });
  const line = await until(() =>
    `${service.output.stdout}${service.output.stderr}`
      .split("\n")
      .find((text) => text.includes("answer ended") && text.includes("trace-7")),
  );
  expect(line).toContain("ann");
});

const state = {
  show_thinking: true,
  show_tools: false,
  show_text: true,
  show_narration: true,
  show_final: true,
};

test("/stream-status in a longer message: one line with the five names goes before the answer to the other words", async () => {
  const status = `${JSON.stringify(state)}\n\n`;
  const text = "scenario: echo {} with /hide-tools /stream-status words";
  const chunks = await allChunks(await post(service, saying(text, { stream: true })));
  expect(kindsOf(chunks)).toEqual(["role", "text", "final", "stop"]);
  expect(chunks[1]?.choices[0]?.delta.content).toBe(status);
  const first = JSON.parse(contentOf(chunks).slice(status.length)) as Told;
  expect(first.prompt).toBe("scenario: echo {} with words");
  // What the client shows is what its next request repeats.
  const history = [
    { role: "user", content: text },
    { role: "assistant", content: contentOf(chunks) },
  ];
  const next = await told({ messages: [...history, ...(echo("next").messages as [])] });
  expect([next.session, next.turn]).toEqual([first.session, 2]);
  const whole = await post(service, saying(text.replace("/hide-tools", "and")));
  const { choices } = (await whole.json()) as { choices: { message: { content: string } }[] };
  expect(choices[0]?.message.content.startsWith(status)).toBe(true);
  await post(service, saying("/show-all"));
});
