import type { Format } from "../print.ts";

/** How `svc run --wait` and `svc chat` mark what the agent thinks and does. */
export const bar = "│ ";
export const thought: Format = ["dim", "italic"];
export const call = "●";
