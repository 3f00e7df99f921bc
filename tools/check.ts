import { spawnSync } from "node:child_process";

/** Everything that can be said about the code without running it. All are run; one that fails fails the check. */
const steps: [string, string[]][] = [
  ["tsc", ["-p", "."]],
  ["tsc", ["-p", "web"]],
  [
    "oxlint",
    [
      "--max-warnings",
      "0",
      "src",
      "test",
      "bench",
      "demo",
      "tools",
      "web",
      "vitest.config.ts",
      "vitest.fast.config.ts",
    ],
  ],
  [
    "oxfmt",
    ["--check", "src", "test", "bench", "demo", "tools", "web", "vitest.config.ts", "vitest.fast.config.ts"],
  ],
  ["knip", []],
  ["vitest", ["run", "test/architecture.test.ts"]],
];

const failed = steps.filter(([command, args]) => {
  const started = performance.now();
  const { status } = spawnSync(command, args, { stdio: "inherit" });
  process.stdout.write(
    `${status === 0 ? "ok    " : "FAILED"} ${command} (${Math.round(performance.now() - started)} ms)\n`,
  );
  return status !== 0;
});

process.exitCode = failed.length === 0 ? 0 : 1;
