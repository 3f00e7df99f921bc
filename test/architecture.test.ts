import { readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { expect, test } from "vitest";

/** What each room may import: other rooms, and packages from outside. Node's own modules are open to all but `contract`. */
const rooms: Record<string, { rooms: string[]; packages: string[] }> = {
  contract: { rooms: [], packages: ["zod"] },
  config: { rooms: ["contract", "lib"], packages: ["zod", "yaml"] },
  lib: { rooms: [], packages: ["pino", "fs-native-extensions"] },
  store: { rooms: ["contract", "lib"], packages: [] },
  agents: { rooms: ["contract", "lib", "config"], packages: ["zod"] },
  profiles: { rooms: ["contract", "lib", "config", "agents"], packages: ["zod", "yaml"] },
  repos: { rooms: ["contract", "lib", "config"], packages: ["zod", "@octokit/auth-app", "@octokit/request"] },
  telemetry: { rooms: ["contract", "lib"], packages: ["prom-client"] },
  jobs: { rooms: ["contract", "lib", "store"], packages: [] },
  runner: { rooms: ["contract", "lib", "store", "agents", "profiles", "repos", "jobs"], packages: [] },
  http: {
    rooms: ["contract", "lib", "config", "store"],
    packages: ["hono", "@hono/node-server", "zod", "zod-openapi", "swagger-ui-dist"],
  },
  client: { rooms: ["contract", "lib"], packages: ["eventsource-parser", "zod"] },
  cli: { rooms: ["contract", "lib", "config", "client", "main"], packages: ["commander", "log-update"] },
  main: {
    rooms: ["contract", "lib", "config", "store", "agents", "profiles", "repos", "telemetry", "jobs", "runner", "http"],
    packages: ["close-with-grace"],
  },
};

const source = join(import.meta.dirname, "..", "src");
const files = readdirSync(source, { recursive: true, encoding: "utf8" }).filter(
  // What only tests use may reach into test/.
  (file) => file.endsWith(".ts") && !file.endsWith(".test.ts") && !file.endsWith(".fixture.ts"),
);

const importsOf = (file: string): string[] =>
  [...readFileSync(join(source, file), "utf8").matchAll(/(?:from|import)\s*\(?\s*"([^"]+)"/g)].map((match) => match[1] ?? "");

test("there are files to check", () => {
  expect(files.length).toBeGreaterThan(40);
});

test("every room stands in the table and every room of the table exists", () => {
  expect(new Set(files.map((file) => file.split("/")[0]))).toEqual(new Set(Object.keys(rooms)));
});

test.each(files)("%s imports only what its room may", (file) => {
  const room = file.split("/")[0] ?? "";
  const allowed = rooms[room];
  for (const specifier of importsOf(file)) {
    if (specifier.endsWith("/package.json") && room === "main") continue;
    if (specifier.startsWith(".")) {
      const target = relative(source, join(source, file, "..", specifier));
      expect(target.startsWith(".."), `${specifier} leaves src/`).toBe(false);
      const other = target.split("/")[0] ?? "";
      if (other !== room) expect(allowed?.rooms, `${room} may not import ${other} (${specifier})`).toContain(other);
    } else if (!specifier.startsWith("node:")) {
      const name = specifier.split("/").slice(0, specifier.startsWith("@") ? 2 : 1).join("/");
      expect(allowed?.packages, `${room} may not import the package ${name}`).toContain(name);
    } else if (room === "contract") {
      expect.fail(`contract is read by browsers: it may not import ${specifier}`);
    }
  }
});

const longest = 300;

test.each(files)(`%s has at most ${longest} lines`, (file) => {
  expect(readFileSync(join(source, file), "utf8").split("\n").length).toBeLessThanOrEqual(longest);
});
