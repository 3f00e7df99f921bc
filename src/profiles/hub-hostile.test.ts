import { mkdir, rm, symlink } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { setupHub, process, writer } from "./profiles.fixture.ts";

const refusal = (message: RegExp) => ({
  name: "ServiceError",
  code: "invalid_profile",
  message: expect.stringMatching(message),
});

describe("an agent that is not there", () => {
  const editor = { "hub/agents/editor/agent.yml": "" };
  const there = /no directory .*agents\/writer; there are editor/;
  it.each<[string, Record<string, string>, RegExp]>([
    [
      "none of that name",
      { ...editor, "hub/agents/write/agent.yml": "" },
      /editor, write; did you mean write\?/,
    ],
    ["only a profile of its name", { ...editor, "shared/profiles/writer.yml": "" }, there],
    ["no agent.yml", { [writer("package/CLAUDE.md")]: "" }, /agents\/writer has no agent\.yml/],
  ])("is refused with what is there: %s", async (_, files, message) => {
    await expect((await setupHub(files)).agent.read()).rejects.toMatchObject(refusal(message));
  });

  it("is refused without a hub, and with one that is no directory", async () => {
    const { agent } = await setupHub({}, { hubPath: null });
    await expect(agent.read()).rejects.toMatchObject(
      refusal(/HUB_AGENT is writer, but neither SERVICE_HUB_PATH nor SERVICE_HUB_URL is set/),
    );
    const { agent: other, directory } = await setupHub();
    await rm(join(directory, "hub"), { recursive: true });
    await expect(other.read()).rejects.toMatchObject(refusal(/The agent hub \/.*\/hub is no directory/));
  });
});

describe("files of the wrong kind are refused, naming file and fault:", () => {
  const agentYml = writer("agent.yml");
  it.each<[string, Record<string, string | Buffer>, RegExp]>([
    [
      "10 MB",
      { [agentYml]: Buffer.alloc(10_000_000, "#") },
      /agent\.yml has 10000000 bytes; at most 262144 are/,
    ],
    [
      "another name",
      { [agentYml]: "name: editor" },
      /name is editor, but an agent is known by its directory/,
    ],
    [
      "a prompt without end",
      { [agentYml]: "", [writer("package/system.md")]: Buffer.alloc(300_000, "x") },
      /system\.md has 300000 bytes/,
    ],
    [
      "two memories",
      { [agentYml]: "", [writer("package/CLAUDE.md")]: "a", [writer("package/.claude/CLAUDE.md")]: "b" },
      /there are .*\.claude\/CLAUDE\.md and .*package\/CLAUDE\.md; keep one/,
    ],
    ["nobody to extend", { [agentYml]: "extends: nobody" }, /extends nobody, and there is no other agent/],
    [
      "a broken agent to extend",
      { [agentYml]: "extends: b", "hub/agents/b/agent.yml": "x: 1" },
      /agents\/b\/agent\.yml: unknown key x/,
    ],
    [
      "a broken profile to extend",
      { [agentYml]: "extends: p", "shared/profiles/p.yml": "x: 1" },
      /extends p, which cannot be used: .*unknown key x/,
    ],
    [
      "a profile to extend that extends an agent",
      { [agentYml]: "extends: p", "shared/profiles/p.yml": "extends: b", "hub/agents/b/agent.yml": "" },
      /p\.yml: extends b, and there is no profile of that name/,
    ],
    [
      "a circle",
      { [agentYml]: "extends: b", "hub/agents/b/agent.yml": "extends: writer" },
      /extends in a circle: writer → b → writer$/,
    ],
    [
      "a circle with itself",
      { [agentYml]: "extends: writer" },
      /extends writer, and there is no other agent/,
    ],
    ["broken aliases", { [agentYml]: "", "hub/aliases.yaml": "a: [b]" }, /aliases\.yaml: a must be followed/],
    [
      "circular aliases",
      { [agentYml]: "", "hub/aliases.yaml": "a: b\nb: a" },
      /aliases\.yaml: a → b → a is a/,
    ],
  ])("%s", async (_, files, message) => {
    const { agent } = await setupHub(files);
    await expect(agent.read()).rejects.toMatchObject(refusal(message));
    await expect(agent.materialise(process)).rejects.toMatchObject(refusal(message));
  });

  it("a broken profile `code` refuses the agent `default`", async () => {
    const { agent } = await setupHub({ "shared/profiles/code.yml": "x: 1" }, { hubAgent: null });
    await expect(agent.read()).rejects.toMatchObject(
      refusal(/Agent default cannot be used: it is made of the profile code, .*unknown key x/),
    );
  });
});

describe("links", () => {
  it.each(
    "agent.yml package/CLAUDE.md package/system.md package/.mcp.json package/.claude/settings.json package/.claude/skills package/.claude/hooks/passwd".split(
      " ",
    ),
  )("that lead out of the hub's agents are refused: %s", async (path) => {
    const { agent, directory } = await setupHub({
      [writer("package/.claude/agents/a.md")]: "",
      ...(path === "agent.yml" ? {} : { [writer("agent.yml")]: "" }),
    });
    await mkdir(join(directory, writer("package/.claude/hooks")));
    const target = path.endsWith("skills") ? "/etc" : "/etc/passwd";
    await symlink(target, join(directory, writer(path)));
    await expect(agent.read()).rejects.toMatchObject(refusal(/leads outside .*hub\/agents through a link/));
  });

  it("to what other agents have are followed, and what they lead to is watched", async () => {
    const { agent, directory, write, wait } = await setupHub({
      [writer("agent.yml")]: "",
      "hub/agents/shared/skills/one/SKILL.md": "one",
    });
    await mkdir(join(directory, writer("package/.claude")), { recursive: true });
    await symlink("../../../shared/skills", join(directory, writer("package/.claude/skills")));
    const before = await agent.read();
    await write({ "hub/agents/shared/skills/one/SKILL.md": "two" });
    wait();
    expect((await agent.read()).fingerprint).not.toBe(before.fingerprint);
  });

  it("in circles that branch end in a refusal soon", async () => {
    const { agent, directory } = await setupHub({
      [writer("agent.yml")]: "",
      [writer("package/.claude/skills/a/SKILL.md")]: "",
      [writer("package/.claude/skills/b/SKILL.md")]: "",
    });
    for (const name of ["a", "b"])
      await symlink("..", join(directory, writer(`package/.claude/skills/${name}/up`)));
    await expect(agent.read()).rejects.toMatchObject(refusal(/is one too many: at most 4000|ELOOP/));
  });
});

it("an id that is a path is nowhere", async () => {
  const { agent } = await setupHub({ [writer("agent.yml")]: "" });
  await expect(agent.materialise({ ...process, processId: "../x" })).rejects.toThrow(/is not the id/);
});
