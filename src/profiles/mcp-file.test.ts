import { execFile } from "node:child_process";
import { mkdir, readFile, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { custom, launchOf, request, setup } from "./profiles.fixture.ts";

const servers = (name: string) =>
  JSON.stringify({ mcpServers: { [name]: { command: name, args: ["${HOME}"] } } });

const hostile = await setup({
  "outside/x.json": servers("x"),
  "shared-not/x.json": servers("x"),
  "shared/text.json": "token=hunter2",
  "shared/list.json": '{"mcpServers": []}',
  "shared/none.json": '{"servers": {}}',
  "shared/string.json": '{"mcpServers": {"a": "run"}}',
});
const base = join(hostile.shared, "..");
await symlink(join(base, "outside/x.json"), join(hostile.shared, "escape.json"));
await symlink(join(base, "outside"), join(hostile.shared, "escape"));
await mkdir(join(hostile.shared, "directory.json"));
await writeFile(join(hostile.shared, "large.json"), servers("x").padEnd(1_048_577));
await promisify(execFile)("mkfifo", [join(hostile.shared, "pipe.json")]);

describe("file_path", () => {
  it("has its servers merged over the profile's, and nothing else of it taken", async () => {
    const state = await setup({
      [custom("p/profile.yml")]: "",
      [custom("p/.mcp.json")]: '{"mcpServers": {"a": {"command": "old"}, "b": {"command": "b"}}}',
      "shared/mcp/job.json": '{"mcpServers": {"a": {"command": "${NEW}"}}, "other": 1}',
    });
    for (const filePath of [join(state.shared, "mcp/job.json"), "mcp/job.json"]) {
      const { mcpConfigFile } = await launchOf(state.profiles, { ...request("p"), filePath });
      expect(JSON.parse(await readFile(mcpConfigFile ?? "", "utf8"))).toEqual({
        mcpServers: { a: { command: "${NEW}" }, b: { command: "b" } },
      });
    }
  });

  it("may be a link that stays under the shared root", async () => {
    const state = await setup({ "shared/real.json": servers("x") });
    await symlink(join(state.shared, "real.json"), join(state.shared, "link.json"));
    expect(
      (await launchOf(state.profiles, { ...request("code"), filePath: "link.json" })).mcpConfigFile,
    ).not.toBeNull();
  });

  it("without a shared root is refused with the way out", async () => {
    const { profiles } = await setup({}, { withShared: false });
    await expect(launchOf(profiles, { ...request("code"), filePath: "/x.json" })).rejects.toMatchObject({
      reason: "mcp_config_invalid",
      message: expect.stringContaining("set it, or leave file_path out"),
    });
  });

  it.each<[string, string, RegExp]>([
    ["outside", join(base, "outside/x.json"), /must lie under SERVICE_SHARED_FS_ROOT/],
    ["outside by dots", "../outside/x.json", /must lie under/],
    ["in a directory whose name begins alike", join(base, "shared-not/x.json"), /must lie under/],
    ["outside by a link", "escape.json", /leads outside .* through a link/],
    ["outside by a link to a directory", "escape/x.json", /leads outside .* through a link/],
    ["missing", "nowhere.json", /there is no file/],
    ["a directory", "directory.json", /is not a regular file/],
    ["a pipe", "pipe.json", /is not a regular file/],
    ["the shared root", ".", /must lie under/],
    ["too large", "large.json", /has 1048577 bytes; at most 1048576 are taken/],
    ["not JSON", "text.json", /is not valid JSON$/],
    ["without a map of servers", "list.json", /must have an object "mcpServers"/],
    ["without servers", "none.json", /must have an object "mcpServers"/],
    ["with a server that is no object", "string.json", /must have an object "mcpServers"/],
    ["with a NUL", "a\0b", /NUL/],
  ])("that is %s is refused", async (_, filePath, message) => {
    const materialised = launchOf(hostile.profiles, { ...request("code"), filePath });
    await expect(materialised).rejects.toMatchObject({
      reason: "mcp_config_invalid",
      message: expect.stringMatching(message),
    });
    await expect(hostile.profiles.checkMcpFile(filePath)).rejects.toMatchObject({
      code: "invalid_request",
      message: expect.stringMatching(message),
    });
  });

  it("that is none is nothing to refuse", async () => {
    await expect(hostile.profiles.checkMcpFile("")).resolves.toBeUndefined();
  });
});
