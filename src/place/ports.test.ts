import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import { createInterface } from "node:readline";
import { expect, onTestFinished, test } from "vitest";
import { until } from "../../test/until.ts";
import { reservePorts, withoutPorts } from "./ports.ts";

/** Of this process alone: tests of another checkout may run beside it. */
const first = 10_000 + (process.pid % 100) * 60;
const range = `${first - 5}-${first + 25}`;

/** Another process that reserves ports of the range and says which. */
const other = async () => {
  const script = `
    const { reservePorts } = await import(${JSON.stringify(new URL("ports.ts", import.meta.url).href)});
    console.log((await reservePorts(${JSON.stringify(range)}))?.env.PORT);
    setInterval(() => undefined, 1000);`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", script], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  for await (const port of createInterface(child.stdout)) return { port, child };
  throw new Error("it has said nothing");
};

test("no two services of a machine give the same ports, and those of a killed one are free again", async () => {
  const mine = await reservePorts(range);
  expect(mine?.env).toEqual({ PORT: `${first}`, PORT_COUNT: "10" });
  const theirs = await other();
  expect(theirs.port).toBe(`${first + 10}`);
  expect(await reservePorts(range)).toBeNull();
  await mine?.[Symbol.asyncDispose]();
  const again = await reservePorts(range);
  expect(again?.env.PORT).toBe(`${first}`);
  theirs.child.kill("SIGKILL");
  const freed = await until(() => reservePorts(range));
  expect(freed.env.PORT).toBe(`${first + 10}`);
  await freed[Symbol.asyncDispose]();
  await again?.[Symbol.asyncDispose]();
});

test.each(["127.0.0.1", "0.0.0.0", "::"])(
  "ports of which one is listened on at %s are left out",
  async (host) => {
    const server = createServer().listen({ host, port: first + 39 });
    await once(server, "listening");
    onTestFinished(() => void server.close());
    await using ports = await reservePorts(`${first + 30}-${first + 49}`);
    expect(ports?.env.PORT).toBe(`${first + 40}`);
  },
);

test("what is known of variables is no other for a job with other ports", () => {
  expect(withoutPorts({ PORT: "1", PORT_COUNT: "10", A: "b" })).toEqual({ A: "b" });
});
