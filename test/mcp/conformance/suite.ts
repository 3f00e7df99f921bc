import { readFile, readdir } from "node:fs/promises";
import { join } from "node:path";
import { parse } from "yaml";
import { z } from "zod";
import { runProgram } from "../../fake-git-host/run-program.ts";
import { temporaryDirectory } from "../../temporary.ts";

export const revisions = ["2025-11-25", "2026-07-28"] as const;
export type Revision = (typeof revisions)[number];

const packageDirectory = join(import.meta.dirname, "../../../node_modules/@modelcontextprotocol/conformance");

const requirementsSchema = z.object({
  server: z.array(z.string()),
  not_scored: z.array(z.object({ scenario: z.string(), leg: z.string(), reason: z.string() })),
});
const checksSchema = z.array(
  z.object({ id: z.string(), status: z.enum(["SUCCESS", "FAILURE", "WARNING", "SKIPPED", "INFO"]) }),
);

/** What the suite says a server of this revision must pass, and which of the others are about an extension. */
export const requirementsOf = async (revision: Revision) => {
  const file = await readFile(join(packageDirectory, "requirements", `${revision}.yaml`), "utf8");
  const { server, not_scored } = requirementsSchema.parse(parse(file));
  const extensions = not_scored.filter(({ reason }) => reason === "extension");
  return { required: server, extensions: extensions.map(({ scenario }) => scenario) };
};

/** Runs what the official suite requires for this revision against the server at `url`. */
export const runSuite = async (url: string, revision: Revision) => {
  const results = await temporaryDirectory();
  const { stdout, stderr } = await runProgram(
    process.execPath,
    [
      join(packageDirectory, "dist", "index.js"),
      "server",
      "--url",
      url,
      "--requirements",
      revision,
      "--output-dir",
      results,
      "--timeout",
      "10000",
    ],
    { cwd: results, env: { HOME: results } },
  );
  const summary = stdout.split("=== SUMMARY ===")[1];
  if (summary === undefined) throw new Error(`the suite did not come to its end: ${stdout}\n${stderr}`);
  const scenarios = [
    ...summary.split("\nTotal:")[0]!.matchAll(/^[✓✗] (\S+): (\d+) passed, (\d+) failed$/gm),
  ].map(([, name = "", passed, failed]) => ({ name, passed: Number(passed), failed: Number(failed) }));
  const shortcomings: string[] = [];
  for (const { name, passed, failed } of scenarios) {
    const checks = await unmetChecks(results, name);
    const unnamed = failed > 0 ? ["failed"] : passed === 0 ? ["untried"] : [];
    shortcomings.push(...(checks.length > 0 ? checks : unnamed).map((id) => `${name}:${id}`));
  }
  return {
    ran: scenarios.map(({ name }) => name),
    /**
     * As `scenario:check-id`: what must be and is not, and what only should be. A scenario that the suite calls passed
     * without having checked anything is here as `scenario:untried`.
     */
    shortcomings: [...new Set(shortcomings)],
  };
};

const unmetChecks = async (results: string, scenario: string): Promise<string[]> => {
  const directory = (await readdir(results)).find((name) => name.startsWith(`server-${scenario}-20`));
  if (directory === undefined) return [];
  const checks = checksSchema.parse(
    JSON.parse(await readFile(join(results, directory, "checks.json"), "utf8")),
  );
  return checks.filter(({ status }) => status === "FAILURE" || status === "WARNING").map(({ id }) => id);
};
