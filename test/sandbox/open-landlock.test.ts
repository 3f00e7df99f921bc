import { writeFile } from "node:fs/promises";
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { asks } from "../asks.ts";
import { startService, svcProgram } from "../service.ts";
import { temporaryDirectory } from "../temporary.ts";

/**
 * A program and its arguments, where seccomp filters of Landlock's runs hold nothing: in mounts of its own `perl`, which sets
 * them, is one that puts an empty filter in their place. `bwrap` does not start there.
 */
const withOpenLandlock = async (): Promise<string[]> => {
  const directory = await temporaryDirectory();
  const perl = join(directory, "perl");
  // Debian has the program under a second name. A filter begins with the load of the architecture.
  const { stdout } = await promisify(execFile)(
    "find",
    "/usr/bin -samefile /usr/bin/perl ! -name perl".split(" "),
  );
  const script = `#!/bin/sh
    case "$3" in 2000000004000000*) ;; *) exec ${stdout.trim()} "$@" ;; esac
    option=$1 script=$2; shift 3
    exec ${stdout.trim()} "$option" "$script" 060000000000ff7f "$@"
`;
  await writeFile(perl, script, { mode: 0o755 });
  const mine = process.getuid?.() === 0 ? [] : ["--user", "--map-current-user", "--keep-caps"];
  const mounts = `mount --bind ${perl} /usr/bin/perl && mount --bind /bin/false /usr/bin/bwrap && exec "$@"`;
  return ["unshare", ...mine, "--mount", "sh", "-c", mounts, "sh"];
};

const open =
  /^Agents run in a sandbox \(landlock\) that does not hold all here: TCP by fast open \(sendto\), .*\(sendmsg\), .*limits of other processes \(prlimit64\).*\(ioprio_set\)\./;

test("where Landlock's trials pass and bubblewrap does not start, Landlock is taken, and what is open is said everywhere", async () => {
  const under = await withOpenLandlock();
  const env = {
    SERVICE_AGENT_SANDBOX: "auto",
    SERVICE_AGENT_SANDBOX_READ: join(import.meta.dirname, "../fake-agent"),
  };
  const service = await startService({ under, env });
  expect(service.output.stderr + service.output.stdout).toMatch(
    /does not hold all here: TCP by fast open \(sendto\)/,
  );
  const { checks } = (await (await fetch(`${service.url}/ready`)).json()) as {
    checks: { name: string; status: string; message: string }[];
  };
  const [check] = checks.filter(({ name }) => name === "sandbox");
  expect(check).toMatchObject({ status: "warning", message: expect.stringMatching(open) as string });
  expect(check?.message).toContain("bwrap: bubblewrap does not start");
  const job = await asks(service).run({ task: "scenario: noop" });
  expect(job).toMatchObject({ status: "succeeded", sandbox: { mode: "landlock" } });
  expect(job.warnings).toContainEqual(expect.stringMatching(open));
  const [command, ...args] = [...under, ...svcProgram, "doctor", "--json"];
  const doctor = await promisify(execFile)(command, args, { env: service.env }).catch(
    (error: unknown) => error,
  );
  const { stdout } = doctor as { stdout: string };
  const found = (JSON.parse(stdout) as { checks: { name: string; status: string; message: string }[] })
    .checks;
  expect(found.find(({ name }) => name === "sandbox")).toMatchObject({
    status: "warning",
    message: expect.stringMatching(/can be changed\. Agents run in a sandbox .* fast open/) as string,
  });
});
