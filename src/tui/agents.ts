import { setImmediate as nextTurn } from "node:timers/promises";
import { exitCode, usageError, type ExitCode } from "../cli/failure.ts";
import { painter, print } from "../cli/print.ts";
import { report } from "../cli/report.ts";
import type { Fleet } from "../fleet/fleet.ts";
import type { LocalAgent } from "../main/local-agents.ts";

/** What `svc agents` shows and acts on. */
export type AgentsContext = {
  fleet: Fleet;
  /** @throws Error with a sentence when the directory that was named has no agents */
  local: () => Promise<LocalAgent[]>;
  /** The host of a repository that is named by owner and name alone. */
  gitHost: string;
  /** The agent CLI, for conversations with local packages. */
  agentCli: () => Promise<string>;
};

/** The work of a menu entry: it has the terminal for itself, below which the menu is shown again. */
export type Action = { title: string; run: () => Promise<ExitCode> };

/**
 * A menu of the instances and local packages, until the user leaves. The menu is drawn by Ink at the end of what the
 * terminal shows; what is chosen runs as any command does, after Ink has left the terminal.
 */
export const agents = async (context: AgentsContext): Promise<ExitCode> => {
  if (!process.stdin.isTTY || !process.stdout.isTTY || process.env["TERM"] === "dumb")
    throw usageError("svc agents draws on a terminal, and there is none: use svc agents --headless list");
  // Ink draws nothing where it takes the terminal for the log of a CI job.
  process.env["CI"] = "false";
  const { openMenu } = await import("./app.ts");
  const paint = painter(process.stdout);
  const ask = openMenu(context, paint);
  for (;;) {
    const chosen = await ask();
    await stopReading();
    if (chosen === "quit") return exitCode.ok;
    if (chosen === "interrupted") return exitCode.interrupted;
    print(paint("bold", chosen.title));
    const code = await chosen.run().catch((error: unknown) => report(error, { json: false }));
    if (code === exitCode.terminated) return code;
    print("");
  }
};

/** Else what runs next would not get all that is typed. A stream that does not flow cannot be paused. */
const stopReading = async (): Promise<void> => {
  await nextTurn();
  // Ink has taken the reference, without which the process ends while it waits for input.
  process.stdin.ref().resume().pause();
  await nextTurn();
};
