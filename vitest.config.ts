import { defineConfig } from "vitest/config";
import { BaseSequencer, type Reporter, type TestSpecification } from "vitest/node";

/**
 * The plain closing line `N passed, N failed`. A file that failed to load and an error outside every test count as
 * failures: without that a broken file would read as success.
 */
const closingLine: Reporter = {
  onTestRunEnd(modules, unhandledErrors) {
    const tests = modules.flatMap((module) => [...module.children.allTests()]);
    const count = (state: string) => tests.filter((test) => test.result().state === state).length;
    const broken = modules.filter((module) => module.errors().length > 0).length + unhandledErrors.length;
    const skipped = count("skipped");
    const tail = skipped > 0 ? `, ${skipped} skipped` : "";
    process.stdout.write(`\n${count("passed")} passed, ${count("failed") + broken} failed${tail}\n`);
  },
};

/** Those that wait longest come first, so that the run does not end with one of them alone. */
class FaultsFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const isFault = ({ moduleId }: TestSpecification): boolean => moduleId.includes("/test/faults/");
    const sorted = await super.sort(files);
    return [...sorted.filter(isFault), ...sorted.filter((file) => !isFault(file))];
  }
}

export default defineConfig({
  test: {
    include: ["src/**/*.test.ts", "test/**/*.test.ts"],
    // Tests start real processes and wait for them most of their time; modules are shared between files.
    pool: "forks",
    isolate: false,
    maxWorkers: 6,
    sequence: { sequencer: FaultsFirst },
    testTimeout: 120_000,
    hookTimeout: 120_000,
    reporters: [["default", { summary: false }], closingLine],
    globalSetup: ["test/setup.ts"],
    setupFiles: ["test/each-file.ts"],
  },
});
