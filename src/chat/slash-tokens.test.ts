import fc from "fast-check";
import { expect, test } from "vitest";
import { longestBlock } from "../../test/longest-block.ts";
import { everythingVisible, type Visibility } from "../contract/visibility.ts";
import type { ChatMessage } from "./chat.ts";
import { applySlashTokens, readMessageTokens, readSlashTokens, slashTokens } from "./slash-tokens.ts";

const token = fc.constantFrom(...slashTokens);
const space = fc.constantFrom(" ", "  ", "\n", "\t", "\r\n", " \n ");
const word = fc.oneof(
  fc.string({ unit: "grapheme", minLength: 1, maxLength: 12 }),
  fc.constantFrom(
    "/show-toolset",
    "x/show-tools",
    "/Show-tools",
    "/usr/show-all",
    "/show-text",
    "/",
    "`/hide-all`",
  ),
);
const isPlain = (text: string): boolean => !/\s/.test(text) && !slashTokens.some((known) => known === text);
const words = fc.array(fc.tuple(word.filter(isPlain), space), { minLength: 1, maxLength: 12 });

test("text without tokens comes back byte for byte, whatever looks like one", () => {
  const text = fc.oneof(
    fc.string({ unit: fc.nat(0xffff).map((code) => String.fromCharCode(code)) }),
    words.map((list) => list.flat().join("")),
  );
  fc.assert(
    fc.property(text, (plain) => {
      fc.pre(!plain.split(/\s/).some((part) => slashTokens.some((known) => known === part)));
      expect(readSlashTokens(plain)).toEqual({ text: plain, tokens: [] });
    }),
  );
});

test("tokens anywhere between words are found in order, and with one space each they leave the rest as it was", () => {
  fc.assert(
    fc.property(words, fc.array(fc.tuple(fc.nat(12), token)), (list, inserted) => {
      const before = (index: number): string[] =>
        inserted.flatMap(([at, known]) => (at % list.length === index ? [known] : []));
      const text = list
        .map(
          ([plain, gap], index) =>
            `${before(index)
              .map((known) => `${known} `)
              .join("")}${plain}${gap}`,
        )
        .join("");
      expect(readSlashTokens(text)).toEqual({
        text: list.flat().join(""),
        tokens: list.flatMap((_, index) => before(index)),
      });
    }),
  );
});

test.for([
  ["/show-tools do it", "do it"],
  ["do /show-tools it", "do it"],
  ["do it /show-tools", "do it"],
  ["do  /show-tools  it", "do   it"],
  ["do it\n/show-tools", "do it\n"],
  ["/show-tools\ndo it", "\ndo it"],
  ["do /show-tools\nit", "do\nit"],
  ["do\t/show-tools\tit", "do\t\tit"],
  ["do it /show-tools /hide-final", "do it"],
  [" /show-tools ", " "],
  ["/show-tools", ""],
] as const)("%j without its tokens is %j", ([text, rest]) => {
  expect(readSlashTokens(text).text).toBe(rest);
});

test.for([
  "/show-toolset",
  "x/show-tools",
  "/Show-tools",
  "/show-tools.",
  "see https://a.example/show-tools",
  "//show-all",
])("%j is no token", (text) => {
  expect(readSlashTokens(text)).toEqual({ text, tokens: [] });
});

test("a long text full of near tokens is read in no time", () => {
  const text = "/show-tool /hide-al ".repeat(50_000);
  expect(readSlashTokens(text).text).toBe(text);
});

test("messages with very many tokens are refused, and nobody is held up", async () => {
  const read = (...texts: string[]) => readMessageTokens(texts.map((text) => user(text)));
  for (const messages of [
    ["/show-all ".repeat(1_900_000)],
    Array<string>(100).fill("/show-all ".repeat(200)),
  ]) {
    const ms = await longestBlock(async () =>
      expect(() => read(...messages)).toThrow("The messages have more than 10,000 slash tokens; send fewer"),
    );
    // The bound of a request near the limit, as below.
    expect(ms).toBeLessThan(2000);
  }
  const few = `${"x".repeat(1_000_000)} /show-all\n`;
  // In one piece, as a request's text is.
  const text = Buffer.from(`${few.repeat(19)}${"a /show-all\n".repeat(9000)}`).toString();
  const ms = await longestBlock(async () => expect(read(text).tokens).toHaveLength(9019));
  expect(ms).toBeLessThan(2000);
});

const nothing: Visibility = {
  show_thinking: false,
  show_tools: false,
  show_text: false,
  show_narration: false,
  show_final: false,
};

test("each token sets its flag, and the last one wins", () => {
  expect(applySlashTokens(nothing, ["/show-thinking", "/show-final"])).toEqual({
    ...nothing,
    show_thinking: true,
    show_final: true,
  });
  expect(applySlashTokens(everythingVisible, ["/hide-tools", "/hide-narration"])).toEqual({
    ...everythingVisible,
    show_tools: false,
    show_narration: false,
  });
  expect(applySlashTokens(nothing, ["/show-tools", "/hide-tools"])).toEqual(nothing);
  expect(applySlashTokens(nothing, ["/hide-tools", "/show-tools"])).toEqual({ ...nothing, show_tools: true });
});

test("everything can be shown, all but the final answer hidden, and the state asked without a change", () => {
  const answerOnly = { ...nothing, show_text: true, show_final: true };
  fc.assert(
    fc.property(fc.array(token), (tokens) => {
      const before = applySlashTokens(nothing, tokens);
      expect(applySlashTokens(before, ["/show-all"])).toEqual(everythingVisible);
      expect(applySlashTokens(before, ["/hide-all"])).toEqual(answerOnly);
      expect(applySlashTokens(before, ["/stream-status"])).toEqual(before);
    }),
  );
});

const image = { type: "image", mediaType: "image/png", base64: "AA==" } as const;
const user = (...texts: string[]): ChatMessage => ({
  role: "user",
  content: texts.map((text) => ({ type: "text", text })),
});
const assistant: ChatMessage = {
  role: "assistant",
  content: [{ type: "text", text: "Say /show-all to see all." }],
};

test("only the last user message's tokens count, those of earlier ones are taken out, and the agent's words stay", () => {
  const read = readMessageTokens([
    user("/hide-tools one"),
    assistant,
    user("/show-final two", "three /hide-final"),
  ]);
  expect(read).toEqual({
    messages: [user("one"), assistant, user("two", "three")],
    tokens: ["/show-final", "/hide-final"],
    isOnlyTokens: false,
  });
});

test.for<[ChatMessage, boolean]>([
  [user("/show-all"), true],
  [user(" /show-all\n", "/stream-status"), true],
  [user("/show-all x"), false],
  [user(" "), false],
  [user("/unknown"), false],
  [{ role: "user", content: [image, { type: "text", text: "/show-all" }] }, false],
])("of %j it is %s that it has nothing but tokens", ([message, isOnlyTokens]) => {
  expect(readMessageTokens([assistant, message]).isOnlyTokens).toBe(isOnlyTokens);
});

test("a part that was only tokens goes, an image stays", () => {
  const read = readMessageTokens([{ role: "user", content: [image, { type: "text", text: "/show-all" }] }]);
  expect(read.messages).toEqual([{ role: "user", content: [image] }]);
});

test("an earlier message of tokens alone is left out with its answer, so that the conversation begins after it", () => {
  const user = (text: string): ChatMessage => ({ role: "user", content: [{ type: "text", text }] });
  const status: ChatMessage = {
    role: "assistant",
    content: [{ type: "text", text: '{"show_tools":false}' }],
  };
  expect(readMessageTokens([user("/hide-tools "), status, user("hello")]).messages).toEqual([user("hello")]);
  const last = readMessageTokens([user("hello"), status, user("/show-all")]);
  expect(last).toMatchObject({ isOnlyTokens: true, tokens: ["/show-all"] });
});
