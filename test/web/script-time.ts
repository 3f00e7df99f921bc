import type { Browser, Page } from "playwright-core";

type TraceEvent = {
  name: string;
  ph: string;
  pid: number;
  tid: number;
  ts: number;
  dur?: number;
  tdur?: number;
};

/**
 * The tasks of more than 5 ms with scripts of the page while `act` runs, the longest first, in ms of processor time: on
 * a busy machine a task of the same work takes many times as long by the clock.
 */
export const scriptTasks = async (
  browser: Browser,
  page: Page,
  act: () => Promise<void>,
): Promise<number[]> => {
  await browser.startTracing(page, { categories: ["devtools.timeline", "toplevel"] });
  await act();
  const { traceEvents } = JSON.parse((await browser.stopTracing()).toString()) as {
    traceEvents: TraceEvent[];
  };
  const complete = traceEvents.filter(({ ph, tdur }) => ph === "X" && tdur !== undefined);
  const calls = complete.filter(({ name }) => ["FunctionCall", "TimerFire"].includes(name));
  const tasks = complete
    .filter(({ name, tdur = 0 }) => name.endsWith("RunTask") && tdur > 5000)
    .filter((task) =>
      calls.some(
        ({ pid, tid, ts }) =>
          pid === task.pid && tid === task.tid && ts >= task.ts && ts <= task.ts + (task.dur ?? 0),
      ),
    );
  return tasks.map(({ tdur = 0 }) => tdur / 1000).toSorted((one, other) => other - one);
};
