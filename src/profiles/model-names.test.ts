import { expect, it } from "vitest";
import { setupHub, writer } from "./profiles.fixture.ts";

const read = async (aliases: string, settings: Parameters<typeof setupHub>[1] = {}) => {
  const { agent } = await setupHub({ [writer("agent.yml")]: "", "hub/aliases.yaml": aliases }, settings);
  return agent.read();
};

it("an alias leads to the agent, to a tier of it, to a bare tier, or to another alias", async () => {
  const { models, cliModel } = await read(
    "gpt-4o: quick\nquick: writer:haiku\nbig: opus\nw: writer\nacme/w: w\n4: big",
  );
  expect(models.map((name) => `${name}=${cliModel(name)}`).join(" ")).toBe(
    "writer=null writer:haiku=haiku writer:sonnet=sonnet writer:opus=opus haiku=haiku sonnet=sonnet opus=opus 4=opus gpt-4o=haiku quick=haiku big=opus w=null acme/w=null",
  );
});

it("aliases of other agents are left out, and so are names in another case", async () => {
  const { models, cliModel } = await read("e: editor\nf: e\ng: editor:opus\nok: writer");
  expect(models.slice(7)).toEqual(["ok"]);
  for (const name of ["e", "f", "g", "editor", "OK", "Writer", "writer:", "", "constructor", "__proto__"])
    expect(cliModel(name)).toBeUndefined();
});

it("the agent `default` has the hub's aliases too", async () => {
  const { cliModel } = await read("main: default\nfast: haiku\nw: writer", { hubAgent: null });
  expect(["main", "fast", "w"].map(cliModel)).toEqual([null, "haiku", undefined]);
});

it("an agent called like a tier keeps its name", async () => {
  const { agent } = await setupHub({ "hub/agents/opus/agent.yml": "" }, { hubAgent: "opus" });
  const { models, cliModel } = await agent.read();
  expect(models).toEqual(["opus", "opus:haiku", "opus:sonnet", "opus:opus", "haiku", "sonnet"]);
  expect(cliModel("opus")).toBeNull();
});

it("a chain of thousands is followed at once", async () => {
  const lines = Array.from({ length: 2000 }, (_, index) => `a${index}: a${index + 1}`);
  const { cliModel } = await read(`${lines.join("\n")}\na2000: writer:opus`);
  expect([cliModel("a0"), cliModel("a2000")]).toEqual(["opus", "opus"]);
});

it.each([
  ["writer: haiku", /writer is a model's own name/],
  ["sonnet: haiku", /sonnet is a model's own name/],
  ["writer:opus: haiku", /writer:opus is a model's own name/],
  ["a: a", /a → a is a circle/],
  ["x: a\na: b\nb: c\nc: a", /: a → b → c → a is a circle/],
  ["a: writer:opsu", /there is no model writer:opsu; there are writer, /],
  ["a: 5", /a must be followed by the name/],
  ["a:", /a must be followed by the name/],
  ["a: {b: c}", /a must be followed by the name/],
  ["'a b': writer", /"a b" must be a name without spaces/],
  ["a: writer\na: opus", /is not valid YAML at line 2/],
  ["- a", /must hold `key: value` lines/],
  [`a: ${"x".repeat(70_000)}`, /at most 65536/],
])("aliases.yaml with %j is refused", async (aliases, message) => {
  await expect(read(aliases)).rejects.toThrow(message);
});
