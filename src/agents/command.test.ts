import { expect, test } from "vitest";
import { createRedactor } from "../lib/redact.ts";
import { temporaryDirectory } from "../../test/temporary.ts";
import { createRunCommand } from "./command.ts";

test("a secret in a line without end is masked wherever the pieces are cut", async () => {
  const home = await temporaryDirectory();
  const secret = "hunter2-secret-of-thirty-letters";
  const lines: string[] = [];
  const run = createRunCommand({
    settings: { agentEnv: [], agentHome: home },
    env: { PATH: process.env["PATH"] },
    redact: createRedactor([secret]),
  });
  const { exitCode, log } = await run({
    jobId: "0b0f4a52-6d0c-4d6e-9a77-3d1f1a3c9b10",
    // The pause lets the first piece end within the secret.
    run: `head -c 8190 /dev/zero | tr '\\0' x; printf ${secret.slice(0, 20)}; sleep 0.3; printf ${secret.slice(20)}`,
    cwd: home,
    borrows: [],
    allowed: {
      hosts: [],
      read: [],
      write: [],
      temporaryBytes: 1024,
      memoryBytes: null,
      processes: null,
    },
    env: {},
    timeoutSeconds: 30,
    signal: new AbortController().signal,
    onOutput: (text) => lines.push(text),
  });
  expect(exitCode).toBe(0);
  expect(lines.join("")).toMatch(/^x{8190}\*\*\*$/);
  expect(log).not.toContain("hunter2");
});
