import { createServer, type AddressInfo } from "node:net";
import { chmod, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { svcProgram } from "../service-process.ts";
import { startService } from "../service.ts";
import { temporaryDirectory } from "../temporary.ts";
import { until } from "../until.ts";
import { startSvc, svc } from "./run-svc.ts";
import { afterFile } from "../cleanup.ts";

const listening = async (): Promise<number> => {
  const server = createServer();
  const { promise, resolve } = Promise.withResolvers<void>();
  server.listen(0, "127.0.0.1", resolve);
  await promise;
  afterFile(() => void server.close());
  return (server.address() as AddressInfo).port;
};

describe("svc serve", () => {
  test.each(["SIGTERM", "SIGINT"] as const)(
    "says on stdout that it listens, logs to stderr, and ends with 0 on %s",
    async (signal) => {
      const home = await temporaryDirectory();
      const { child, output, ended } = startSvc(["serve", "--port", "0", "--host", "127.0.0.1"], {
        env: { HOME: home, SERVICE_PORT: "1" },
      });
      await until(() => output.stdout.includes("\n"));
      const url = /^svc \d+\.\d+\.\d+ listening on (http:\/\/127\.0\.0\.1:\d+)\n$/.exec(output.stdout)?.[1];
      expect(url).toBeDefined();
      const { code, stdout } = await svc(["status"], { env: { SERVICE_PORT: new URL(url ?? "").port } });
      // Its words are one sentence: it takes no jobs.
      expect(code).toBe(1);
      expect(stdout).toMatch(/^Status +New jobs are refused: No model credential is set/m);
      expect(stdout).toMatch(/^Disk +ok .* GiB free at /m);
      expect(stdout).toMatch(/^Model +fault: No model credential is set/m);
      child.kill(signal);
      const end = await ended;
      expect(end.code).toBe(0);
      expect(end.stdout.split("\n")).toHaveLength(2);
      for (const line of end.stderr.trim().split("\n")) expect(JSON.parse(line)).toHaveProperty("level");
    },
  );

  test("on a terminal says where things are and what is missing, and logs for people; the format can be forced", async () => {
    const home = await temporaryDirectory();
    const { output, child, ended } = startSvc(
      ["-qec", `${svcProgram.join(" ")} serve --port 0`, "/dev/null"],
      {
        program: ["script"],
        env: { HOME: home, NO_COLOR: "1", SERVICE_API_KEYS: "a-long-enough-key" },
      },
    );
    await until(() => output.stdout.includes("Next "));
    expect(output.stdout).toMatch(/^\d\d:\d\d:\d\d WARN {2}No model credential is set/m);
    expect(output.stdout).toMatch(/^\d\d:\d\d:\d\d INFO {2}listening url=http/m);
    const page = output.stdout.slice(output.stdout.indexOf("svc 0."));
    expect(page).toMatch(/^Jobs +\/.*jobs\r$/m);
    expect(page).toMatch(/^Model +no credential: .*Set AGENT_CLI_OAUTH_TOKEN/m);
    expect(page).toMatch(/^Git host +github\.com, without a token/m);
    expect(page).toMatch(/^Access +1 API key /m);
    expect(page).toMatch(/^Page +http:\/\/127\.0\.0\.1:\d+\/ui\/\r$/m);
    expect(page).toMatch(/^Next +SERVICE_PORT=\d+ svc run /m);
    expect(page).not.toContain("a-long-enough-key");
    child.kill("SIGTERM");
    await ended;
    const forced = startSvc(["serve", "--port", "0"], {
      env: { HOME: await temporaryDirectory(), SERVICE_LOG_FORMAT: "text" },
    });
    await until(() => / INFO {2}listening/.test(forced.output.stderr));
    expect(forced.output.stdout).not.toContain("Next");
  });

  test("on a taken port: one line, exit 1", async () => {
    const port = await listening();
    const { code, stdout, stderr } = await svc(["serve", "--port", String(port)], {
      env: { HOME: await temporaryDirectory(), SERVICE_LOG_LEVEL: "error" },
    });
    expect(stderr.trim().split("\n")).toEqual([expect.stringMatching(new RegExp(`^svc: .*${port}.*taken`))]);
    expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
  });

  test("with a configuration file that does not parse: names it, exit 1", async () => {
    const home = await temporaryDirectory();
    await mkdir(join(home, ".service"));
    await writeFile(join(home, ".service", "config.yml"), "port: [");
    const { code, stdout, stderr } = await svc(["serve"], { env: { HOME: home } });
    expect(stderr).toMatch(/config\.yml is not valid YAML/);
    expect(stderr).not.toMatch(/^\s+at /m);
    expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
  });

  test("in a place where nothing can be made: one line without a stack, exit 1", async () => {
    const home = await temporaryDirectory();
    await writeFile(join(home, "file"), "");
    await chmod(join(home, "file"), 0o400);
    const { code, stderr } = await svc(["serve", "--port", "0"], {
      env: { HOME: home, SERVICE_LOG_LEVEL: "error", SERVICE_JOBS_DIR: join(home, "file", "jobs") },
    });
    expect(stderr.trim().split("\n")).toEqual([expect.stringMatching(/^svc: .*jobs/)]);
    expect(code).toBe(1);
  });
});

describe("the commands against the real service", () => {
  test("submit, follow, show, list and cancel a job", async () => {
    const service = await startService();
    const env = { SERVICE_PORT: new URL(service.url).port };
    const { code, stdout } = await svc(["run", "Say hello", "--wait"], { env });
    const id = stdout.split("\n", 1)[0] ?? "";
    expect(stdout).toMatch(/^ +0:0\d {2}stage {4}queued$/m);
    expect(stdout.match(/stage +claimed/g)).toHaveLength(1);
    expect(stdout).toMatch(/^Status +succeeded$/m);
    expect(code).toBe(0);

    const shown = await svc(["job", id], { env });
    expect(shown.stdout).toMatch(/Where the time went\nqueue +[^]*first answer[^]*commit/);
    expect((await svc(["jobs"], { env })).stdout).toMatch(
      new RegExp(`^${id.slice(0, 8)}  succeeded  changed  –  +code `, "m"),
    );
    expect((await svc(["profiles"], { env })).stdout).toMatch(/^code\n {2}description .*[^]*^review\n/m);
    expect((await svc(["cancel", id], { env })).stdout).toBe(`Job ${id} had ended before: succeeded\n`);
    const unknown = await svc(["job", "../../etc/passwd"], { env });
    expect(unknown.code).toBe(1);
    const badRef = await svc(["run", "x", "--base-ref", "a..b"], { env });
    expect(badRef.code).toBe(2);
    const noProfile = await svc(["run", "x", "-p", "nosuch"], { env });
    expect(noProfile.code).toBe(2);
    expect(noProfile.stderr).toContain("nosuch");
  });
});
