import { readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { isRunning } from "../processes.ts";
import { startService } from "../service.ts";
import { until } from "../until.ts";
import { install, makePackage, pack, type Installed } from "./installed.ts";

/*
 * From one packed version to another and back, with a service at work. The packages are this tree with two version
 * numbers; npm installs them as a user would.
 */

let installed: Installed;
let next: string;
beforeAll(async () => {
  const [older, newer] = await Promise.all(
    ["0.1.0", "0.2.0"].map(async (version) => await pack(await makePackage(version))),
  );
  next = newer ?? "";
  installed = await install(older ?? "");
});

const drainSeconds = 5;
const serve = () =>
  startService({
    home: installed.home,
    program: installed.program,
    env: {
      SERVICE_MAX_PARALLEL_JOBS: "2",
      SERVICE_DRAIN_TIMEOUT: String(drainSeconds),
      FAKE_AGENT_LOG: log(),
    },
  });
const log = (): string => join(installed.home, "agents.log");

/** The jobs that an agent was given, one line for each time. */
const given = (): { job: string; pid: number }[] =>
  readFileSync(log(), "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as { job: string; pid: number });

test("to another version and back with jobs at work: none is lost, none is run twice", async () => {
  const service = await serve();
  const finish = join(installed.home, "finish");
  const submit = async (scenario: string, options: object): Promise<string> => {
    const task = `scenario: ${scenario} ${JSON.stringify({ ...options, log: log() })}`;
    return (await service.client.run_task({ task })).job.id;
  };
  const finishes = await submit("slow-deltas", { rate: 20, until: finish });
  const hangs = await submit("hang", {});
  await until(() => given().length === 2, { what: "two agents at work" });
  const waits = await submit("noop", {});

  const update = installed.update(next);
  await until(() => update.output.stderr.includes("Stopping the service"), {
    what: "the service to be stopped",
  });
  // The other version was tried on a copy of these jobs: their agents live, and the third has waited.
  expect(given().map(({ pid }) => isRunning(pid))).toEqual([true, true]);
  await writeFile(finish, "");
  const updated = await update.ended;
  expect(updated.stderr).toMatch(
    /Fetching [^]*on a copy of the store\nIt is ready[^]*Stopping [^]*svc is 0\.2\.0 now/,
  );
  expect(updated.code).toBe(0);
  expect(JSON.parse(updated.stdout)).toEqual({
    success: true,
    from: "0.1.0",
    to: "0.2.0",
    start: `${installed.program[0]} serve --port ${new URL(service.url).port}`,
  });
  expect(await installed.versions()).toEqual(["svc 0.2.0", "bridge 0.2.0"]);

  const newer = await serve();
  expect(newer.output.stdout).toContain("svc 0.2.0 listening");
  const statuses = async ({ client }: typeof newer) =>
    await Promise.all(
      [finishes, hangs, waits].map(async (id) => {
        const { status, failure_reason: reason, attempt } = (await client.get_job({ job_id: id })).job;
        return [status, reason, attempt];
      }),
    );
  const expected = [
    ["succeeded", null, 1],
    ["failed", "instance_lost", 1],
    ["succeeded", null, 1],
  ];
  await until(async () => (await statuses(newer))[2]?.[0] === "succeeded");
  expect(await statuses(newer)).toEqual(expected);
  expect(
    given()
      .map(({ job }) => job)
      .toSorted(),
  ).toEqual([finishes, hangs, waits].toSorted());

  const back = await installed.rollback().ended;
  expect(back).toMatchObject({ code: 0, stdout: expect.stringContaining(`"to": "0.1.0"`) as string });
  const older = await serve();
  expect(older.output.stdout).toContain("svc 0.1.0 listening");
  expect(await statuses(older)).toEqual(expected);
  expect(given()).toHaveLength(3);
  await older.stop();
});
