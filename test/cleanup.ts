type Step = () => unknown;

const steps: Step[] = [];

/**
 * Does something when the test file is through, whatever came of it. `afterAll` called within a test or a `beforeAll` is
 * never run; this may be called anywhere. Last in, first out.
 */
export const afterFile = (step: Step): void => void steps.push(step);

/** Registered for every file by `test/each-file.ts`. */
export const cleanUp = async (): Promise<void> => {
  const failures: unknown[] = [];
  for (let step = steps.pop(); step !== undefined; step = steps.pop()) {
    try {
      await step();
    } catch (error) {
      // The others are cleaned up all the same; the file fails.
      failures.push(error);
    }
  }
  if (failures.length > 0) throw new AggregateError(failures, "cleaning up failed");
};
