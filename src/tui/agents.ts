import { setImmediate as nextTurn } from "node:timers/promises";
import type { Place } from "../cli/commands/agents.ts";
import { exitCode, isBug, usageError, type ExitCode } from "../cli/failure.ts";
import { painter } from "../cli/print.ts";
import { fleetScreen } from "./fleet-screen.ts";
import { enterFullScreen } from "./full-screen.ts";
import { createUi, type Takeover, type Ui } from "./ui.ts";

/** The instances and local packages on the whole terminal, until the user leaves. */
export const agents = async (place: Place): Promise<ExitCode> => {
  if (!process.stdin.isTTY || !process.stdout.isTTY || process.env["TERM"] === "dumb")
    throw usageError(
      "svc agents draws on a whole terminal, and there is none: use svc agents --headless list",
    );
  const ui = createUi(painter(process.stdout));
  ui.open(fleetScreen({ ...place, ui }));
  for (;;) {
    const next = await show(ui);
    if (typeof next === "number") return next;
    const code = await next().catch((error: unknown) => {
      if (isBug(error)) throw error;
      ui.say(error instanceof Error ? error.message : String(error));
      return exitCode.ok;
    });
    if (code === exitCode.terminated) return code;
  }
};

const signals = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/** Shows the screens until the user leaves, or something takes over the terminal. */
const show = async (ui: Ui): Promise<ExitCode | Takeover> => {
  // Ink draws nothing where it takes the terminal for the log of a CI job.
  process.env["CI"] = "false";
  const { draw } = await import("./app.ts");
  // Not for once: Ink lets a signal that nobody listens to kill the process.
  const onSignal = (signal: NodeJS.Signals): void =>
    ui.quit(signal === "SIGINT" ? exitCode.interrupted : exitCode.terminated);
  for (const signal of signals) process.on(signal, onSignal);
  using _ = enterFullScreen();
  const app = draw(ui);
  try {
    // It rejects when a screen cannot be drawn.
    return await Promise.race([ui.run(), app.waitUntilExit().then(() => exitCode.failure)]);
  } finally {
    app.unmount();
    for (const signal of signals) process.removeListener(signal, onSignal);
    await stopReading();
  }
};

/** Else the next program would not get all that is typed. A stream that does not flow cannot be paused. */
const stopReading = async (): Promise<void> => {
  await nextTurn();
  // Ink has taken the reference, without which the process ends while it waits for input.
  process.stdin.ref().resume().pause();
  await nextTurn();
};
