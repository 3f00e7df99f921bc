import { describe, expect, test } from "vitest";
import { saying, startDoor } from "./openai.fixture.ts";
import { titleOf } from "./side-requests.ts";

const door = await startDoor();

const history = `<chat_history>
USER: /show-tools Fix the **date** test that fails at night, please.
It is urgent.
ASSISTANT: I look at "title": and so on.
USER: thanks
</chat_history>`;

const openWebUi = (task: string, output: string): string =>
  `### Task:\n${task}\n\n### Guidelines:\n- Be short.\n\n### Output:\n${output}\n\n### Chat History:\n${history}`;

const title = "Fix the date test that fails";

const prompts: [ui: string, prompt: string, answer: string][] = [
  ["Open WebUI's title", openWebUi("Write a concise title", '{ "title": "…" }'), JSON.stringify({ title })],
  [
    "Open WebUI's tags",
    openWebUi("Write 1-3 tags for the themes", '{ "tags": ["a"] }'),
    '{"tags":["General"]}',
  ],
  [
    "Open WebUI's follow-ups",
    openWebUi("Suggest follow-ups", '{ "follow_ups": ["a?"] }'),
    '{"follow_ups":[]}',
  ],
  ["Open WebUI's title of old", openWebUi("Write a title of 3 words, as text", "The title"), title],
  [
    "LibreChat's title",
    "Provide a concise, 5-word-or-less title for the chat. Only the title.\n\nConversation:\nUser: Why is the build red?\nAI: It is the clock.",
    "Why is the build red",
  ],
];

describe("what chat UIs ask on the side", () => {
  test.each(prompts)("%s is answered without the agent, also in a stream", async (_ui, prompt, answer) => {
    const before = door.asked.length;
    const whole = await door.post(saying(prompt), { "x-conversation-id": "the live chat" });
    expect(await whole.json()).toEqual({ object: "chat.completion", said: answer });
    // A client that asks for its answer in a form of its own is given that form anyway.
    const more = { stream: true, response_format: { type: "json_schema" } };
    const messages = [
      { role: "system", content: "Be helpful." },
      { role: "user", content: [{ type: "text", text: prompt }] },
    ];
    const streamed = await door.post({ model: "helper", messages, ...more });
    expect(await streamed.text()).toContain(`data: ${answer.split("\n")[0]}`);
    expect(door.asked).toHaveLength(before);
    expect(whole.headers.get("x-service-conversation-source")).toBe(null);
  });

  const kinds: [task: string, answer: string][] = [
    ["title_generation", JSON.stringify({ title: "Hello there" })],
    ["tags_generation", '{"tags":["General"]}'],
    ["follow_up_generation", '{"follow_ups":[]}'],
    ["something_else", "Hello there"],
  ];

  test.each(kinds)("the header says so: %s", async (task, said) => {
    const messages = [
      { role: "user", content: "before" },
      { role: "assistant", content: "yes" },
      { role: "user", content: "Hello there" },
    ];
    const answer = await door.post({ model: "helper", messages }, { "x-service-task": task });
    expect(await answer.json()).toMatchObject({ said });
  });
});

describe("what is for the agent", () => {
  const first = prompts[0]?.[1] ?? "";
  const real: [what: string, content: unknown][] = [
    ["a wish for a title", "Provide a concise title for my post about clocks"],
    [
      "a wish in the words of LibreChat, without a chat",
      "Provide a concise, 5-word-or-less title for my post.",
    ],
    ["a task", '### Task:\nAdd a field "title": to the form'],
    ["a chat that is asked about", `What went wrong here?\n${history}`],
    ["a text about the history", `### Task:\nSummarise this.\n${history}`],
    ["a wish for a chat's title", "Given the following text, please reply with a title for the chat"],
    ["an analysis", "Analyze this conversation and provide:\na list of its faults"],
    ["a task with a slash token", `/show-all ${first}`],
    ["a task with a slash token in it", `${first}\n/hide-all`],
    ["an emoji", "Your task is to add an emoji picker"],
    [
      "a task with an image",
      [
        { type: "text", text: first },
        { type: "image_url", image_url: { url: "data:image/png;base64,iVBORw0KGgo=" } },
      ],
    ],
  ];

  test.each(real)("%s", async (_what, content) => {
    const before = door.asked.length;
    expect(await (await door.post(saying(content))).json()).toMatchObject({ said: "hello" });
    expect(door.asked).toHaveLength(before + 1);
  });

  test("a prompt of a UI within a conversation, and an unfilled header", async () => {
    const before = door.asked.length;
    const messages = [
      { role: "user", content: "hi" },
      { role: "assistant", content: "yes" },
      { role: "user", content: first },
    ];
    await door.post({ model: "helper", messages });
    await door.post(saying("hi"), { "x-service-task": "{{TASK}}" });
    await door.post(saying("hi"), { "x-service-task": "" });
    expect(door.asked).toHaveLength(before + 3);
  });

  test("everything, where side requests are off", async () => {
    const off = await startDoor({ sideRequests: false });
    await off.post(saying(first));
    await off.post(saying(first), { "x-service-task": "title_generation" });
    expect([off.asked.length, off.prepared]).toEqual([2, []]);
  });
});

test.each([
  ["", "New chat"],
  ["  \n ## Über `den` Wecker!\nund mehr", "Über den Wecker"],
  ["/hide-all /stream-status", "New chat"],
  ["x".repeat(100), "x".repeat(60)],
  ["a/b/c and /show-all paths", "a/b/c and paths"],
])("the title of %j is %j", (said, expected) => {
  expect(titleOf(said)).toBe(expected);
});

test("megabytes are looked through without harm", async () => {
  const megabytes = 4_000_000;
  const hostile = [
    " ".repeat(megabytes),
    `### Task:\n<chat_history>${"\nUSER: x".repeat(megabytes / 8)}</chat_history>`,
    `Analyze this conversation and provide: title\nUser: ${"/show-al ".repeat(megabytes / 9)}`,
  ];
  for (const text of hostile) expect((await door.post(saying(`${text}x`))).status).toBe(200);
});
