import { spawn } from "node:child_process";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { afterFile } from "../cleanup.ts";
import { instructions } from "../deploy/containerfile.ts";
import { svcProgram } from "../service-process.ts";
import { until } from "../until.ts";
import { askStatus, callsIn, isBuilt, isThere, standIns } from "./container-stand-in.ts";

const { place, checkout, start, run } = await standIns();

describe.each(["docker", "podman"] as const)("with %s", (tool) => {
  const build = (reference: string, ...more: string[]): string[] => {
    const file = join(checkout, "deploy/container/Containerfile");
    return ["build", "--file", file, "--tag", reference, ...more, checkout];
  };
  const onStack = (...args: string[]): string[][] => [
    ["compose", "version"],
    ["compose", "--file", join(checkout, "deploy/compose/compose.yaml"), ...args],
  ];
  const label = ["--filter", "label=org.opencontainers.image.title=svc"];
  const registry = { CONTAINER_REGISTRY: "localhost:5000/acme/the_team" };
  const pushed = "localhost:5000/acme/the_team/svc:latest";

  test.each<[string, Record<string, string>, () => string[][], string]>([
    ["agent --build", {}, () => [build("svc:latest")], "svc:latest\n"],
    [
      "agent -b --file own.Containerfile",
      {},
      () => [build("svc:latest").with(2, join(checkout, "src/own.Containerfile"))],
      "svc:latest\n",
    ],
    ["agent -e", isThere, () => [askStatus, ["exec", "--interactive", "svc", "bash"]], "Up 2 hours\n"],
    ["agent -s --yes", isThere, () => [askStatus, ["stop", "svc"], ["rm", "svc"]], ""],
    ["agent -l", isThere, () => [askStatus, ["logs", "--follow", "svc"]], ""],
    ["agent --list", { ANSWER_ps: "CONTAINER ID\n" }, () => [["ps", "--all", ...label]], "CONTAINER ID\n"],
    ["agent --compose-up", {}, () => onStack("up", "--build", "--detach"), ""],
    ["agent --compose-down -y", {}, () => onStack("down"), ""],
    ["agent --compose-enter", {}, () => onStack("exec", "-T", "svc-1", "bash"), ""],
    ["agent --compose-enter kv", {}, () => onStack("exec", "-T", "kv", "bash"), ""],
    ["agent --compose-logs", {}, () => onStack("logs", "--follow"), ""],
    ["agent --compose-logs svc-2", {}, () => onStack("logs", "--follow", "svc-2"), ""],
    ["push", registry, () => [build(pushed), ["push", pushed]], `${pushed}\n`],
    [
      "push -m -a --no-cache -t v1",
      { CONTAINER_REGISTRY: "ghcr.io" },
      () => [build("ghcr.io/svc:v1", "--no-cache"), ["push", "ghcr.io/svc:v1"]],
      "ghcr.io/svc:v1\n",
    ],
    ["push --main --build-only", registry, () => [build(pushed)], `${pushed}\n`],
    ["push --all --push-only", registry, () => [["push", pushed]], `${pushed}\n`],
  ])("svc %s calls it with exactly these arguments", async (words, env, expected, said) => {
    const { code, stdout, calls } = await run(words.split(" "), { tool, env, cwd: join(checkout, "src") });
    expect(calls).toEqual(expected());
    // That of `ps`, which is asked for the status first, is not shown.
    expect(stdout).toBe(words === "agent -e" ? "" : said);
    expect(code).toBe(0);
  });

  test("svc agent --list --json has the fields of each container", async () => {
    const ANSWER_ps =
      "0123|svc|svc:latest|Up 2 hours (healthy)|127.0.0.1:8200->8200/tcp\n4567|old|svc:latest|Exited (0)|\n";
    const { stdout, calls } = await run(["agent", "--list", "--json"], { tool, env: { ANSWER_ps } });
    const format = "{{.ID}}|{{.Names}}|{{.Image}}|{{.Status}}|{{.Ports}}";
    expect(calls).toEqual([["ps", "--all", ...label, "--format", format]]);
    const ports = "127.0.0.1:8200->8200/tcp";
    expect(JSON.parse(stdout)).toEqual({
      success: true,
      containers: [
        { id: "0123", name: "svc", image: "svc:latest", status: "Up 2 hours (healthy)", ports },
        { id: "4567", name: "old", image: "svc:latest", status: "Exited (0)", ports: "" },
      ],
    });
  });
});

test("podman keeps the health check of the image", async () => {
  const { record } = await run(["agent", "--build"], { tool: "podman" });
  expect(await readFile(`${record}.env`, "utf8")).toContain("BUILDAH_FORMAT=docker\0");
});

test("the image has the label by which svc agent --list finds its containers", async () => {
  expect(await instructions("LABEL", 1)).toEqual(["org.opencontainers.image.title=svc"]);
});

describe("the tool", () => {
  test("is docker where there are both", async () => {
    expect(await run(["agent", "--build"], { tool: "both" })).toMatchObject({ code: 0 });
  });

  test("is named with how to get it where there is neither, and in JSON", async () => {
    const missing = await run(["agent", "--list", "--json"], { tool: "none" });
    expect(missing.stderr).toMatch(
      /^svc: Neither docker nor podman is on the PATH: install one \(apt install/,
    );
    expect(JSON.parse(missing.stdout)).toMatchObject({ success: false });
    expect(missing.code).toBe(1);
  });

  test("without compose is named too", async () => {
    const { code, stderr, calls } = await run(["agent", "--compose-up"], { env: { EXIT_compose: "1" } });
    expect(stderr).toContain("svc: compose is missing: install Docker's compose plugin, or podman 4.7");
    expect({ code, calls: calls.length }).toEqual({ code: 1, calls: 1 });
  });

  test("that fails ends the command with 1, and passes on its code for a shell and the log", async () => {
    const fail = async (words: string, env: Record<string, string>) => {
      const { code, stdout, stderr, calls } = await run(words.split(" "), { env });
      return { code, stdout, stderr, last: calls.at(-1)?.[0] };
    };
    const registry = { CONTAINER_REGISTRY: "ghcr.io/acme" };
    expect(await fail("push", { ...registry, EXIT_build: "3" })).toEqual({
      code: 1,
      stdout: "",
      stderr: "svc: docker build failed with exit code 3\n",
      last: "build",
    });
    expect(await fail("push", { ...registry, EXIT_push: "3" })).toMatchObject({ code: 1, stdout: "" });
    expect(await fail("agent --run", { ...isBuilt, EXIT_run: "125" })).toMatchObject({ code: 1, stdout: "" });
    expect(await fail("agent --stop -y", { ...isThere, EXIT_stop: "1" })).toMatchObject({
      code: 1,
      last: "stop",
    });
    expect(await fail("agent --enter", { ...isThere, EXIT_exec: "42" })).toMatchObject({
      code: 42,
      stderr: "",
    });
    expect(await fail("agent --logs", { ...isThere, EXIT_logs: "42" })).toMatchObject({
      code: 42,
      stderr: "",
    });
  });
});

describe("svc agent", () => {
  test("stops nothing without --yes where nobody can be asked, and says when there is no container", async () => {
    const { code, stderr, calls } = await run(["agent", "--stop"], { env: isThere });
    expect({ code, stderr }).toEqual({
      code: 1,
      stderr: "svc: Nothing was stopped: --yes stops it without asking\n",
    });
    expect(calls).toEqual([askStatus]);
    expect(await run(["agent", "--compose-down"])).toMatchObject({ code: 1, calls: [] });
    for (const action of ["--stop", "--enter", "--logs"])
      expect(await run(["agent", action, "--yes"])).toMatchObject({
        code: 1,
        stderr: "svc: There is no container svc: start it with svc agent --run\n",
        calls: [askStatus],
      });
  });

  test("asks on a terminal, and hands it to a shell", async () => {
    const words = (...args: string[]) => [...svcProgram, ...args].map((word) => `'${word}'`).join(" ");
    const record = join(place, "record-terminal");
    const command = `${words("agent", "--stop")}; ${words("agent", "--enter")}; echo "exit $?"`;
    const child = spawn("/usr/bin/script", ["-qec", command, "/dev/null"], {
      env: {
        PATH: join(place, "docker"),
        HOME: place,
        RECORD: record,
        SHELL: "/bin/sh",
        EXIT_exec: "3",
        ...isThere,
      },
    });
    afterFile(() => child.kill("SIGKILL"));
    let seen = "";
    child.stdout.setEncoding("utf8").on("data", (piece: string) => (seen += piece));
    await until(() => seen.includes("Stop and remove the container svc? [y/N] "));
    child.stdin.write("y\r");
    await until(() => seen.includes("exit 3"));
    expect((await callsIn(record)).map((call) => call.join(" "))).toEqual([
      askStatus.join(" "),
      "stop svc",
      "rm svc",
      askStatus.join(" "),
      "exec --interactive --tty svc bash",
    ]);
  });

  test("finds a stack file in the fifth directory from below and none in the sixth; the nearest counts, with .env of both", async () => {
    const root = join(place, "stack");
    const fifth = join(root, "2/3/4/5");
    await mkdir(join(fifth, "6"), { recursive: true });
    await writeFile(join(root, "docker-compose.yml"), "");
    const up = (cwd: string) => run(["agent", "--compose-up"], { cwd });
    const [, call] = (await up(fifth)).calls;
    expect(call).toEqual([
      "compose",
      "--file",
      join(root, "docker-compose.yml"),
      "up",
      "--build",
      "--detach",
    ]);
    const missing = await up(join(fifth, "6"));
    expect(missing).toMatchObject({ code: 2, calls: [] });
    expect(missing.stderr).toMatch(
      /^svc: There is no stack file in .*\/6 and the four directories above it: comp/,
    );

    await mkdir(join(root, "2/deploy/compose"), { recursive: true });
    for (const path of ["2/deploy/compose/compose.yaml", "2/deploy/compose/.env", "2/3/.env", ".env"])
      await writeFile(join(root, path), "");
    const chosen = await up(fifth);
    const [, nearest] = chosen.calls;
    const files = ["2/deploy/compose/compose.yaml", "2/3/.env", "2/deploy/compose/.env"];
    expect(chosen.stderr).toBe(`svc: with ${files.map((file) => join(root, file)).join(" and ")}\n`);
    expect(nearest?.slice(1, 7).map((word) => word.replace(root, "root"))).toEqual(
      "--file root/2/deploy/compose/compose.yaml --env-file root/2/3/.env --env-file root/2/deploy/compose/.env".split(
        " ",
      ),
    );
  });
});

describe("what is not understood ends with 2 and calls nothing", () => {
  test.each<[string[], RegExp, Record<string, string>?]>([
    [["agent"], /Give one action: --build, --run,/],
    [["agent", "--build", "-r"], /Give one action/],
    [["agent", "--run", "--file", "x"], /--file goes with --build/],
    [["agent", "--build", "--file", "nowhere"], /--file: there is no file .*\/nowhere/],
    [["agent", "--run", "--json"], /--json goes with --list/],
    [["agent", "--logs", "svc-2"], /A name goes with --compose-enter and --compose-logs/],
    [["agent", "--compose-logs", "--", "--tail=1"], /that of a service in the stack file/],
    [["agent", "--compose-enter", ""], /that of a service in the stack file/],
    [["push"], /^svc: CONTAINER_REGISTRY is not set: it must be a host/, {}],
    [["push", "--build-only", "--push-only"], /'--build-only' cannot be used with option '--push-only'/],
    ...["", "-x", "a/b", "x".repeat(129), "\u001b[2J"].map((tag): [string[], RegExp] => [
      ["push", `--tag=${tag}`],
      /1 to 128 letters, digits and \._-/,
    ]),
    ...["https://ghcr.io", "--all", "ghcr.io/", "Ghcr.io/acme", "a;b", "\u001b[2J", "a".repeat(201)].map(
      (CONTAINER_REGISTRY): [string[], RegExp, Record<string, string>] => [
        ["push", `--tag=${CONTAINER_REGISTRY.length}`],
        /^svc: CONTAINER_REGISTRY must be a host/,
        { CONTAINER_REGISTRY },
      ],
    ),
  ])("%j", async (args, message, env = { CONTAINER_REGISTRY: "ghcr.io/acme" }) => {
    const { code, stdout, stderr, calls } = await run(args, { env });
    expect(stderr).toMatch(message);
    expect(stderr).not.toContain("\u001b");
    expect({ code, calls }).toEqual({ code: 2, calls: [] });
    // A failure with --json is on standard output too.
    expect(stdout).toMatch(args.includes("--json") ? /"success": false/ : /^$/);
  });

  test("outside of a checkout there is nothing to build", async () => {
    const { code, stderr, calls } = await run(["agent", "--build"], { cwd: place });
    expect(stderr).toMatch(/^svc: The image is built from a checkout of svc, and .* is in none/);
    expect({ code, calls }).toEqual({ code: 2, calls: [] });
  });
});

test.each([
  ["SIGINT", 130, "push"],
  ["SIGTERM", 143, "push"],
  ["SIGTERM", 143, "build"],
] as const)(
  "%s reaches the tool, and svc ends with %i after it and goes no further",
  async (signal, code, HANG) => {
    const { child, ended, record } = start(["push"], { env: { CONTAINER_REGISTRY: "ghcr.io/acme", HANG } });
    await until(async () => (await callsIn(record)).some(([word]) => word === "hangs"));
    child.kill(signal);
    expect(await ended).toMatchObject({ code, stdout: "", stderr: "svc: docker was interrupted\n" });
    const words = (await callsIn(record)).map(([word]) => word);
    expect(words.slice(words.indexOf(HANG))).toEqual([HANG, "hangs", `got ${signal.slice(3)}`]);
  },
);
