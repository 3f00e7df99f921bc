import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { afterFile } from "../../test/cleanup.ts";
import { createSandbox } from "./sandbox.ts";

test("a named sandbox that does not work is refused with what to do, and auto takes the next", async () => {
  const { PATH } = process.env;
  afterFile(() => void (process.env["PATH"] = PATH));
  process.env["PATH"] = "/nowhere";
  await expect(createSandbox("bwrap")).rejects.toThrow(
    "SERVICE_AGENT_SANDBOX=bwrap: bubblewrap is not installed: apt-get install bubblewrap.",
  );
  expect(await createSandbox("auto")).toMatchObject({
    sandbox: { mode: "landlock" },
    warning: null,
    problems: [expect.stringMatching(/^bwrap: .*not installed/) as string],
  });
  process.env["PATH"] = PATH;
  expect(await createSandbox("auto")).toMatchObject({
    sandbox: { mode: "bwrap" },
    warning: null,
    problems: [],
  });
});

test("what a killed service has left in the directory for temporary files goes at its next start, and nothing of another", async () => {
  const [mark, other] = [randomUUID(), randomUUID()];
  const left = await Promise.all([mark, other].map((each) => mkdtemp(join(tmpdir(), `svc-box-${each}-`))));
  await createSandbox("off", { reserved: [], mark });
  expect(left.map((path) => existsSync(path))).toEqual([false, true]);
  await createSandbox("off", { reserved: [], mark: other });
  expect(left.map((path) => existsSync(path))).toEqual([false, false]);
});
