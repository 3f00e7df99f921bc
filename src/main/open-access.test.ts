import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { svc } from "../../test/cli/run-svc.ts";
import { startService, svcProgram } from "../../test/service.ts";
import { temporaryDirectory } from "../../test/temporary.ts";

const system = [
  "root:x:0:0:root:/root:/bin/bash",
  "daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin",
  "sync:x:4:65534:sync:/bin:/bin/sync",
  "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin",
  "app:x:1500:1500::/srv/app:/bin/false",
  `own:x:${process.getuid?.()}:1000::/home/own:/bin/bash`,
];
const people = ["alice", "bob", "carol", "dave", "erin"].map(
  (name, nth) => `${name}:x:${2000 + nth}:2000::/home/${name}:/bin/zsh`,
);

/** A program that sees a machine with these accounts. */
const machineWith = async (lines: readonly string[]): Promise<string[]> => {
  const passwd = join(await temporaryDirectory(), "passwd");
  await writeFile(passwd, `${lines.join("\n")}\n`);
  return ["bwrap", "--die-with-parent", "--dev-bind", "/", "/", "--ro-bind", passwd, "/etc/passwd"];
};

const access = async (under: string[], env: Record<string, string> = {}): Promise<string> => {
  const home = join(await temporaryDirectory(), "home");
  await mkdir(home);
  const { stdout } = await svc(["doctor", "--offline", "--json"], {
    env: { HOME: home, ...env },
    program: [...under, ...svcProgram],
  });
  const { checks } = JSON.parse(stdout) as { checks: { name: string; status: string; message: string }[] };
  const { status, message } = checks.find(({ name }) => name === "access") ?? {};
  return `${status}: ${message}`;
};

test("svc doctor says who may use the service without a key, and which keys can be guessed", async () => {
  const [alone, shared, crowded] = [
    await machineWith(system),
    await machineWith([...system, ...people.slice(0, 2)]),
    await machineWith([...system, ...people]),
  ];
  expect(await access(alone)).toBe("ok: Without a key, for what runs on this machine");
  expect(await access(shared)).toMatch(
    /^warning: SERVICE_API_KEYS is not set: .*\(alice, bob\) may use the /,
  );
  expect(await access(crowded)).toContain("(alice, bob, carol and 2 more)");
  expect(await access(shared, { SERVICE_API_KEYS: "sixteen-letters-,another-good-key-1" })).toBe(
    "ok: By 2 API keys",
  );
  expect(await access(shared, { SERVICE_API_KEYS: "sixteen-letters-,fifteen-letters" })).toBe(
    "warning: SERVICE_API_KEYS: key number 2 has fewer than 16 characters and can be guessed",
  );
});

test("so does svc serve when it starts", async () => {
  const serve = async (lines: readonly string[], env: Record<string, string> = {}): Promise<string> => {
    const service = await startService({ under: await machineWith(lines), env });
    await service.stop();
    return service.output.stderr;
  };
  expect(await serve([...system, ...people])).toMatch(
    /"level":"warn".*\(alice, bob, carol and 2 more\) may use/,
  );
  expect(await serve(system)).not.toContain("may use the service");
  const keyed = await serve([...system, ...people], { SERVICE_API_KEYS: "fifteen-letters" });
  expect(keyed).toMatch(/"level":"warn".*key number 1 has fewer than 16 characters/);
  expect(keyed).not.toContain("may use the service");
});
