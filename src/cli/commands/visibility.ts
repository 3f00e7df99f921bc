import { connect } from "../connect.ts";
import type { ExitCode } from "../failure.ts";
import { printAnswer } from "../print.ts";
import { views } from "../../view/views.ts";

/** `svc visibility`. `changes`: words such as `thinking=off`; none: only shows. */
export const visibility = async (changes: string[], { json }: { json?: boolean }): Promise<ExitCode> => {
  const { client } = connect();
  const flags = changes
    .map((word) => word.split("="))
    .map(([kind, shown]) => [`show_${kind}`, shown === "on"]);
  const body = await (changes.length === 0
    ? client.get_visibility()
    : client.set_visibility(Object.fromEntries(flags) as Record<string, boolean>));
  return printAnswer(body, json, views.get_visibility);
};
