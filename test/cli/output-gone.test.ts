import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { svcProgram } from "../service-process.ts";
import { temporaryDirectory } from "../temporary.ts";
import { until } from "../until.ts";
import { startSvc } from "./run-svc.ts";

test("the service continues when nobody reads its log any more", async () => {
  const { child, output } = startSvc(["serve", "--port", "0"], { env: { HOME: await temporaryDirectory() } });
  const url = await until(() => /listening on (http\S+)/.exec(output.stdout)?.[1]);
  child.stderr?.destroy();
  // Each request is a line of the log: the first ones meet the closed pipe.
  for (let count = 0; count < 5; count += 1) expect((await fetch(`${url}/jobs`)).status).toBe(200);
  child.kill("SIGTERM");
  await until(() => child.exitCode !== null);
  expect(child.exitCode).toBe(0);
});

test("an output that cannot be written is reported in one line", async () => {
  const command = `exec ${svcProgram.map((word) => `'${word}'`).join(" ")} version > /dev/full`;
  const failure: unknown = await promisify(execFile)("sh", ["-c", command]).catch((error: unknown) => error);
  expect(failure).toMatchObject({ code: 1 });
  expect(failure).toMatchObject({
    stderr: expect.stringMatching(/^svc: the output cannot be written: .*ENOSPC.*\n$/),
  });
});
