import type { Place } from "../cli/commands/agents.ts";
import type { Ui } from "./ui.ts";

/** What the screens show and act on. */
export type World = Place & { ui: Ui };
