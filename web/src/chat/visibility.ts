import type { Visibility } from "../../../src/contract/visibility.ts";
import { client } from "../shell/service.ts";

export const kinds = ["thinking", "tools", "narration", "final"] as const;
export type Kind = (typeof kinds)[number];

/** Which kinds the agent shows. */
export type Shown = Record<Kind, boolean>;

/** @throws SyntaxError or TypeError for what is no visibility */
export const readVisibility = (json: string): Shown => {
  const { show_thinking, show_tools, show_text, show_narration, show_final } = JSON.parse(json) as Visibility;
  return {
    thinking: show_thinking,
    tools: show_tools,
    narration: show_text && show_narration,
    final: show_text && show_final,
  };
};

/** Reads which kinds the agent shows to its callers, or sets it first. It starts no agent. */
export const visibility = async (model: string, wanted?: Shown, signal?: AbortSignal): Promise<Shown> => {
  const words =
    wanted === undefined
      ? ["/stream-status"]
      : ["/show-all", ...kinds.filter((kind) => !wanted[kind]).map((kind) => `/hide-${kind}`)];
  let answer = "";
  const body = { model, messages: [{ role: "user" as const, content: words.join(" ") }] };
  for await (const { choices } of client().chat({ body, signal })) answer += choices[0]?.delta.content ?? "";
  return readVisibility(answer);
};

export const inWords = (shown: Shown): string => {
  const list = (isShown: boolean): string =>
    kinds.filter((kind) => shown[kind] === isShown).join(", ") || "nothing";
  return `The agent shows: ${list(true)}. It hides: ${list(false)}.`;
};
