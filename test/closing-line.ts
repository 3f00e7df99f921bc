import { stripVTControlCharacters } from "node:util";
import type { Reporter, TestModule } from "vitest/node";

type Fault = { message: string; diff?: unknown; stack?: unknown };
type Failure = { name: string; errors: readonly Fault[] };

/**
 * A reporter that ends the output with what failed and why, and the plain line `N passed, N failed`. It counts as failures:
 *
 * | what | why |
 * |---|---|
 * | a test that failed | |
 * | a file that did not load, a suite whose hook failed | their tests did not run |
 * | an error outside every test | whatever raised it did not work |
 */
export const closingLine: Reporter = {
  onTestRunEnd(modules, unhandledErrors) {
    const failures = [
      ...modules.flatMap(failuresIn),
      ...unhandledErrors.map((error): Failure => ({ name: "outside every test", errors: [error] })),
    ];
    const states = modules.flatMap((module) =>
      [...module.children.allTests()].map((test) => test.result().state),
    );
    const count = (state: string): number => states.filter((each) => each === state).length;
    const tail = count("skipped") > 0 ? `, ${count("skipped")} skipped` : "";
    if (failures.length > 0) process.stdout.write(`\nWhat failed:\n${failures.map(textOf).join("")}`);
    process.stdout.write(`\n${count("passed")} passed, ${failures.length} failed${tail}\n`);
  },
};

const failuresIn = (module: TestModule): Failure[] => {
  const file = module.relativeModuleId;
  const tests = [...module.children.allTests("failed")];
  const suites = [...module.children.allSuites()].filter((suite) => suite.errors().length > 0);
  return [
    ...(module.errors().length > 0 ? [{ name: file, errors: module.errors() }] : []),
    ...suites.map((suite) => ({ name: `${file}: ${suite.fullName}`, errors: suite.errors() })),
    ...tests.map((test) => ({ name: `${file}: ${test.fullName}`, errors: test.result().errors ?? [] })),
  ];
};

/** Of each error the message, the difference, and the first two lines of the stack. */
const textOf = ({ name, errors }: Failure): string => {
  const parts = errors.flatMap(({ message, diff, stack }) => [message, diff, firstLines(stack)]);
  const shown = parts.filter((part) => typeof part === "string" && part !== "") as string[];
  const text = shown.map((part) => stripVTControlCharacters(part).slice(0, 800).trimEnd()).join("\n");
  return `- ${name}\n${text.replaceAll(/^/gm, "    ")}\n`;
};

const firstLines = (stack: unknown): string =>
  typeof stack === "string" ? (stack.match(/^ +at .*$/gm) ?? []).slice(0, 2).join("\n") : "";
