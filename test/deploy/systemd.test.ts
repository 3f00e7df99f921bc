import { execFile } from "node:child_process";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { agentVariables } from "../../src/config/variables/jobs.ts";
import { clusterVariables } from "../../src/config/variables/server.ts";
import { findExecutable } from "../../src/lib/process/executable.ts";
import { temporaryDirectory } from "../temporary.ts";
import { deploy } from "./rendered.ts";

const run = promisify(execFile);

const units = [
  ["the system's unit", "svc.service", "--system"],
  ["the unit of a user", join("user", "svc.service"), "--user"],
] as const;

const read = (path: string): Promise<string> => readFile(join(deploy, "systemd", path), "utf8");

/** The settings of a unit; a name that is there twice has its last value. */
const settingsOf = (unit: string): Map<string, string> =>
  new Map([...unit.matchAll(/^(\w+)=(.*)$/gm)].map(([, name = "", value = ""]) => [name, value]));

test.each(units)(
  "%s has lines that systemd knows, as far as systemd is here to say so",
  async (_, path, scope) => {
    const unit = await read(path);
    for (const line of unit.split("\n"))
      expect(line).toMatch(/^(|#.*|\[(Unit|Service|Install)\]|[A-Z]\w+=.*)$/);
    const tool = await findExecutable("systemd-analyze", process.env["PATH"] ?? "");
    if (!tool.ok) return;
    const directory = await temporaryDirectory();
    await mkdir(join(directory, "run"), { mode: 0o700 });
    const copy = join(directory, "svc.service");
    await writeFile(copy, unit.replace(/^ExecStart=\S+/m, "ExecStart=/bin/true"));
    const { stderr } = await run(tool.path, [scope, "verify", "--man=no", copy], {
      env: { PATH: process.env["PATH"], HOME: directory, XDG_RUNTIME_DIR: join(directory, "run") },
    });
    expect(stderr).toBe("");
  },
);

test.each(units)(
  "%s lets the service drain before it ends what is left, and starts it again after any end",
  async (_, path) => {
    const settings = settingsOf(await read(path));
    const drain = Number(clusterVariables.drainTimeout.default);
    const grace = Number(agentVariables.agentCliKillGrace.default);
    expect(Number(settings.get("TimeoutStopSec"))).toBeGreaterThanOrEqual(drain + grace + 30);
    // With `control-group` the agents would get the SIGTERM too; with `process` they would outlive the service.
    expect(settings.get("KillMode")).toBe("mixed");
    expect(settings.get("OOMPolicy")).toBe("continue");
    expect(settings.get("Restart")).toBe("always");
  },
);

test("the system's unit gives agents no way to the rights of root, and lets them compile", async () => {
  const settings = settingsOf(await read("svc.service"));
  expect(Object.fromEntries(settings)).toMatchObject({
    User: "svc",
    NoNewPrivileges: "yes",
    CapabilityBoundingSet: "",
    ProtectSystem: "strict",
  });
  expect(settings.has("MemoryDenyWriteExecute")).toBe(false);
});

test.each(units)("%s lets agents be put into a sandbox, and limits on them", async (_, path) => {
  const settings = settingsOf(await read(path));
  // Seen with systemd 252 and 257: each of them makes bubblewrap fail.
  const masksProc = ["ProtectKernelTunables", "ProtectKernelLogs", "ProtectHostname", "ProcSubset"];
  const refusesCalls = ["RestrictNamespaces", "RestrictSUIDSGID", "SystemCallFilter"];
  const hidesGroups = ["ProtectControlGroups"];
  for (const name of [...masksProc, ...refusesCalls, ...hidesGroups]) expect(settings.has(name)).toBe(false);
  expect(settings.get("Delegate")).toBe("yes");
});
