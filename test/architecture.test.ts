import { readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { expect, test } from "vitest";

/** What each room may import: other rooms, and packages from outside. Node's own modules are open to all but `contract`, `view` and `client`. */
const rooms: Record<string, { rooms: string[]; packages: string[] }> = {
  contract: { rooms: [], packages: ["zod"] },
  config: { rooms: ["contract", "lib"], packages: ["zod", "yaml"] },
  lib: { rooms: [], packages: ["pino", "fs-native-extensions", "https-proxy-agent", "proxy-from-env"] },
  view: { rooms: ["contract", "lib"], packages: ["cli-truncate", "string-width", "wrap-ansi"] },
  kv: { rooms: ["contract", "lib", "config"], packages: ["ioredis"] },
  store: { rooms: ["contract", "lib", "kv"], packages: ["zod", "ioredis"] },
  sandbox: { rooms: ["lib", "config"], packages: ["zod", "@peculiar/x509"] },
  agents: { rooms: ["contract", "lib", "config", "sandbox"], packages: ["zod"] },
  profiles: { rooms: ["contract", "lib", "config", "sandbox", "agents"], packages: ["zod", "yaml"] },
  repos: { rooms: ["contract", "lib", "config"], packages: ["zod", "@octokit/auth-app", "@octokit/request"] },
  companions: { rooms: ["contract", "lib", "config"], packages: [] },
  telemetry: {
    rooms: ["contract", "lib", "config"],
    packages: [
      "@opentelemetry/api",
      "@opentelemetry/exporter-trace-otlp-http",
      "@opentelemetry/resources",
      "@opentelemetry/sdk-trace-base",
      "pg",
      "prom-client",
    ],
  },
  jobs: { rooms: ["contract", "lib", "store", "kv"], packages: ["bullmq"] },
  secrets: { rooms: ["contract", "lib", "store", "profiles"], packages: [] },
  place: {
    rooms: ["contract", "lib", "sandbox", "agents", "profiles", "secrets", "repos", "jobs"],
    packages: ["zod"],
  },
  runner: {
    rooms: ["contract", "lib", "store", "agents", "profiles", "secrets", "repos", "jobs", "place"],
    packages: [],
  },
  worktrees: { rooms: ["contract", "lib", "store", "repos"], packages: ["p-limit"] },
  chat: { rooms: ["contract", "lib", "config", "store", "agents", "profiles"], packages: ["zod"] },
  transcripts: {
    rooms: ["contract", "lib", "config", "kv", "store", "client"],
    packages: ["zod", "ioredis"],
  },
  http: {
    rooms: ["contract", "lib", "config", "store", "telemetry"],
    packages: ["hono", "@hono/node-server", "zod", "zod-openapi", "swagger-ui-dist"],
  },
  mcp: { rooms: ["contract", "lib", "http"], packages: ["@modelcontextprotocol/server", "zod"] },
  oauth: { rooms: ["contract", "lib", "config", "http"], packages: ["zod"] },
  openai: { rooms: ["contract", "lib", "http", "chat"], packages: ["zod", "zod-openapi"] },
  client: { rooms: ["contract"], packages: ["eventsource-parser", "zod"] },
  fleet: { rooms: ["contract", "lib", "config", "client"], packages: ["p-limit", "zod"] },
  // `cli` starts it, lazily; it shares the texts and takeovers of `cli`.
  tui: { rooms: ["contract", "lib", "view", "client", "fleet", "cli", "main"], packages: ["ink", "react"] },
  cli: {
    rooms: ["contract", "lib", "view", "config", "client", "fleet", "main", "tui"],
    packages: ["commander", "log-update", "zod"],
  },
  main: {
    rooms: [
      "contract",
      "lib",
      "config",
      "kv",
      "store",
      "sandbox",
      "agents",
      "profiles",
      "repos",
      "companions",
      "telemetry",
      "jobs",
      "place",
      "secrets",
      "runner",
      "worktrees",
      "chat",
      "http",
      "mcp",
      "oauth",
      "openai",
      "client",
      "transcripts",
    ],
    packages: ["close-with-grace", "p-limit", "zod"],
  },
};

const source = join(import.meta.dirname, "..", "src");
const files = readdirSync(source, { recursive: true, encoding: "utf8" }).filter(
  // What only tests use may reach into test/.
  (file) => file.endsWith(".ts") && !file.endsWith(".test.ts") && !file.endsWith(".fixture.ts"),
);

const importsOf = (file: string): string[] =>
  [
    ...readFileSync(join(source, file), "utf8").matchAll(
      /^(?:.*\b)?(?:from|import)\s*\(?\s*"([\w@:./-]+)"/gm,
    ),
  ].map((match) => match[1] ?? "");

test("the page in the browser imports only what runs there", () => {
  const page = join(import.meta.dirname, "..", "web", "src");
  const entered = readdirSync(page, { recursive: true, encoding: "utf8" })
    .filter((file) => /\.tsx?$/.test(file))
    .flatMap((file) => [
      ...readFileSync(join(page, file), "utf8").matchAll(/from "[./]+\/src\/([a-z-]+)\/[\w./-]+"/g),
    ])
    .map(([, room]) => room);
  expect(new Set(entered)).toEqual(new Set(["client", "contract", "view"]));
});

test("there are files to check", () => {
  expect(files.length).toBeGreaterThan(40);
});

test("every room stands in the table and every room of the table exists", () => {
  expect(new Set(files.map((file) => file.split("/")[0]))).toEqual(new Set(Object.keys(rooms)));
});

const packageOf = (specifier: string): string =>
  specifier
    .split("/")
    .slice(0, specifier.startsWith("@") ? 2 : 1)
    .join("/");

/** Why a file may not import this; null: it may. */
const objection = (file: string, specifier: string): string | null => {
  const room = file.split("/")[0] ?? "";
  const allowed = rooms[room];
  if (specifier.startsWith("node:")) {
    return ["contract", "view", "client"].includes(room)
      ? `${room} is read by browsers: it may not import ${specifier}`
      : null;
  }
  if (!specifier.startsWith(".")) {
    const name = packageOf(specifier);
    return allowed?.packages.includes(name) ? null : `${room} may not import the package ${name}`;
  }
  const target = relative(source, join(source, file, "..", specifier));
  // The version comes from the package itself.
  if (target === "../package.json" && room === "main") return null;
  if (target.startsWith("..")) return `${specifier} leaves src/`;
  const other = target.split("/")[0] ?? "";
  return other === room || allowed?.rooms.includes(other)
    ? null
    : `${room} may not import ${other} (${specifier})`;
};

test("every file imports only what its room may", () => {
  const objections = files.map(
    (file) => [file, importsOf(file).flatMap((specifier) => objection(file, specifier) ?? [])] as const,
  );
  expect(objections.filter(([, found]) => found.length > 0)).toEqual([]);
});

const linesOf = (path: string): number => readFileSync(path, "utf8").split("\n").length - 1;

const longest = 400;

test(`every file has at most ${longest} lines`, () => {
  expect(files.filter((file) => linesOf(join(source, file)) > longest)).toEqual([]);
});

/** Lines that each room may have, tests and fixtures apart. Who needs more raises the number in the same commit and says why. */
const budgets: Record<string, number> = {
  agents: 3464,
  chat: 2603,
  cli: 4910,
  client: 666,
  companions: 250,
  config: 1813,
  contract: 3108,
  fleet: 435,
  http: 2303,
  jobs: 2968,
  kv: 467,
  lib: 2988,
  main: 3865,
  mcp: 960,
  oauth: 1017,
  openai: 1114,
  place: 1250,
  profiles: 2363,
  repos: 6058,
  runner: 2677,
  sandbox: 1530,
  secrets: 463,
  store: 3398,
  telemetry: 1607,
  transcripts: 4392,
  tui: 654,
  view: 1818,
  worktrees: 1658,
  web: 7571,
};

test("no room has more lines than its budget, and no budget is more than 2 % above its room", () => {
  const web = join(import.meta.dirname, "..", "web", "src");
  const lines: Record<string, number> = { web: 0 };
  for (const file of files) {
    const room = file.split("/")[0] ?? "";
    lines[room] = (lines[room] ?? 0) + linesOf(join(source, file));
  }
  for (const entry of readdirSync(web, { recursive: true, withFileTypes: true }))
    if (entry.isFile() && !entry.name.includes(".test."))
      lines["web"] = (lines["web"] ?? 0) + linesOf(join(entry.parentPath, entry.name));
  const wrong = Object.entries(lines).filter(([room, count]) => {
    const budget = budgets[room] ?? 0;
    return count > budget || count < Math.floor(budget * 0.98);
  });
  expect(wrong.map(([room, count]) => `${room} has ${count} lines, its budget is ${budgets[room]}`)).toEqual(
    [],
  );
});
