import { spawn } from "node:child_process";
import { once } from "node:events";
import { stripVTControlCharacters } from "node:util";
import { beforeAll, expect, test } from "vitest";
import { openBrowser } from "../browser.ts";
import { afterFile } from "../cleanup.ts";
import { lastingPort } from "../lasting-port.ts";
import { newUser } from "../mcp/claude/claude.ts";
import { documentedLines } from "../mcp/claude/documented-lines.ts";
import { until } from "../until.ts";
import { recordedHome, serveBridge } from "./run-bridge.ts";

/* Claude Code as a client of the transcript service, added by the lines of docs/use/transcripts.md. */

const key = "key-of-the-tests";
let url: string;

beforeAll(async () => {
  const port = await lastingPort();
  const env = {
    BRIDGE_PORT: String(port),
    BRIDGE_API_KEYS: key,
    OAUTH_ISSUER_URL: `http://127.0.0.1:${port}`,
  };
  ({ url } = await serveBridge(await recordedHome(), env));
});

const lines = await documentedLines("transcripts.md");
const toSignIn = lines.filter((line) => line.includes("https://"));
const others = lines.filter((line) => !toSignIn.includes(line));

test("there is a line for stdio, one with a key, and one to sign in", () => {
  expect([others.length, toSignIn.length]).toEqual([2, 1]);
});

test("after each line Claude Code is connected, by the last one after a sign-in through a browser", async () => {
  const user = await newUser({ BRIDGE_KEY: key });
  const names = [...others, ...toSignIn].map((_, index) => `bridge-${index}`);
  for (const [index, line] of [...others, ...toSignIn].entries()) {
    const named = line.replace(/https?:\/\/[^/]+/, url).replace(/(?<= )bridge(?= )/, `bridge-${index}`);
    expect(await user.type(named)).toMatchObject({ code: 0 });
  }
  const states = async () => {
    const { stdout } = await user.claude("mcp", "list");
    return names.map((name) => new RegExp(`^${name}: .* - (.*)$`, "m").exec(stdout)?.[1]);
  };
  expect(await states()).toEqual(["✔ Connected", "✔ Connected", "! Needs authentication"]);
  const login = ["-qefc", `claude mcp login --no-browser ${names.at(-1)}`, "/dev/null"];
  const terminal = spawn("script", login, { ...user.options, stdio: ["pipe", "pipe", "inherit"] });
  afterFile(() => terminal.kill("SIGKILL"));
  const ended = once(terminal, "exit");
  let output = "";
  terminal.stdout.setEncoding("utf8").on("data", (text: string) => (output += text));
  const address = await until(
    () => /http\S+\/authorize\?\S+(?=\s)/.exec(stripVTControlCharacters(output))?.[0],
  );
  const page = await (await openBrowser()).newPage();
  await page.goto(address);
  expect(await page.getByRole("main").textContent()).toContain("Claude Code");
  await page.getByLabel("One of the service's keys").fill(key);
  await page.getByRole("button", { name: "Allow" }).click();
  expect(await ended).toEqual([0, null]);
  expect((await states()).at(-1)).toBe("✔ Connected");
});
