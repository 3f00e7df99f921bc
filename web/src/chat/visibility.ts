import type { Visibility } from "../../../src/contract/visibility.ts";
import { client } from "../shell/service.ts";

export const kinds = ["thinking", "tools", "narration", "final"] as const;
export type Kind = (typeof kinds)[number];

/** Which kinds the agent shows. */
export type Shown = Record<Kind, boolean>;

const shownBy = ({
  show_thinking,
  show_tools,
  show_text,
  show_narration,
  show_final,
}: Visibility): Shown => ({
  thinking: show_thinking,
  tools: show_tools,
  narration: show_text && show_narration,
  final: show_text && show_final,
});

/**
 * Reads the answer to words in a message.
 * @throws SyntaxError or TypeError for what is no visibility
 */
export const readVisibility = (json: string): Shown => shownBy(JSON.parse(json) as Visibility);

/** Which kinds the agent shows to its callers. */
export const visibility = async (signal: AbortSignal): Promise<Shown> =>
  shownBy((await client().get_visibility({}, { signal })).visibility);

/** Shows or hides one kind, and leaves the others as they are at the service. */
export const show = async (kind: Kind, isShown: boolean, before: Shown): Promise<Shown> => {
  const isText = kind === "narration" || kind === "final";
  // Text may be off as a whole: then only what is wanted of it comes back.
  const rest =
    isText && !before.narration && !before.final
      ? { show_text: true, show_narration: false, show_final: false }
      : {};
  return shownBy((await client().set_visibility({ ...rest, [`show_${kind}`]: isShown })).visibility);
};

export const inWords = (shown: Shown): string => {
  const list = (isShown: boolean): string =>
    kinds.filter((kind) => shown[kind] === isShown).join(", ") || "nothing";
  return `The agent shows: ${list(true)}. It hides: ${list(false)}.`;
};
