import { chmod } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { bothClis } from "../../test/agent-clis.ts";
import { startFakeModel } from "../../test/fake-model/fake-model.ts";
import { runClaude } from "../../test/fake-model/run-claude.ts";
import { afterFile } from "../../test/cleanup.ts";
import { setupHub, process, writer } from "./profiles.fixture.ts";

const noteHook = { hooks: [{ type: "command", command: '"$CLAUDE_CONFIG_DIR"/hooks/note.sh' }] };

it.each(bothClis)("$which CLI takes an agent's package as it is meant", async ({ cli }) => {
  const model = await startFakeModel();
  afterFile(model.close);
  const { agent, directory } = await setupHub({
    [writer("agent.yml")]: "claude: {model: opus, effort: low}",
    [writer("package/CLAUDE.md")]: "always-be-kind",
    [writer("package/.mcp.json")]: JSON.stringify({
      mcpServers: { kept: { command: "false" }, dropped: { command: "false" } },
    }),
    [writer("package/.claude/settings.json")]: JSON.stringify({ hooks: { UserPromptSubmit: [noteHook] } }),
    [writer("package/.claude/hooks/note.sh")]: "#!/bin/sh\necho noted-by-the-hook\n",
    [writer("package/.claude/agents/helper.md")]: "---\nname: helper\ndescription: helps\n---\nHelp.",
    [writer("package/.claude/skills/deploy/SKILL.md")]:
      "---\nname: deploy\ndescription: deploys\n---\nDeploy.",
    [writer("package/.claude/commands/greet.md")]: "Greet.",
  });
  await chmod(join(directory, writer("package/.claude/hooks/note.sh")), 0o755);
  const launch = await agent.materialise({ ...process, maxTurns: 5, disabledMcpServers: ["dropped"] });
  const { code, events, result } = await runClaude('scenario: text {"text": "Hello."}', {
    cli,
    url: model.url,
    home: launch.configDir,
    cwd: directory,
    args: [
      ...launch.args,
      "--mcp-config",
      launch.mcpConfigFile ?? "",
      "--settings",
      launch.settingsFile ?? "",
      "--session-id",
      process.processId,
    ],
  });
  expect({ code, result }).toMatchObject({ code: 0, result: { is_error: false, result: "Hello." } });
  const init = events.find(({ subtype }) => subtype === "init");
  expect(init).toMatchObject({
    cwd: directory,
    permissionMode: "bypassPermissions",
    model: expect.stringMatching(/opus/),
    mcp_servers: [{ name: "kept" }],
    agents: expect.arrayContaining(["helper"]),
    skills: expect.arrayContaining(["deploy"]),
    slash_commands: expect.arrayContaining(["greet"]),
  });
  const sent = JSON.stringify(model.requests.find(({ url }) => url.startsWith("/v1/messages"))?.body);
  expect(sent).toContain("always-be-kind");
  expect(sent).toContain("noted-by-the-hook");
  const transcript = await agent.findTranscript(process.processId, directory);
  expect(transcript).toContain(join(directory, "shared/projects"));
});
