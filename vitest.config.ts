import { configDefaults, defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";
import { closingLine } from "./test/closing-line.ts";

/** Those that wait longest come first, so that the run does not end with one of them alone. */
class FaultsFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const isFault = ({ moduleId }: TestSpecification): boolean => moduleId.includes("/test/faults/");
    const sorted = await super.sort(files);
    return [...sorted.filter(isFault), ...sorted.filter((file) => !isFault(file))];
  }
}

/**
 * These suites start git a thousand times from their own process. A fork costs by the memory of its parent, and a worker that
 * has run many files is four times as large as a new one.
 */
const forking = ["src/repos/**", "src/runner/**", "src/place/**", "test/worktrees/**"].map(
  (under) => `${under}/*.test.ts`,
);

export default defineConfig({
  test: {
    // Tests start real processes and wait for them most of their time; elsewhere modules are shared between files.
    pool: "forks",
    projects: [
      { extends: true, test: { name: "git", include: forking, isolate: true } },
      {
        extends: true,
        test: {
          name: "all",
          include: ["src/**/*.test.ts", "test/**/*.test.ts"],
          exclude: [...configDefaults.exclude, ...forking],
          isolate: false,
        },
      },
    ],
    // More would only make each other wait: the processor is the limit on two cores.
    maxWorkers: 4,
    sequence: { sequencer: FaultsFirst },
    testTimeout: 240_000,
    hookTimeout: 240_000,
    reporters: [["default", { summary: false }], closingLine],
    globalSetup: ["test/setup.ts"],
    setupFiles: ["test/each-file.ts"],
  },
});
