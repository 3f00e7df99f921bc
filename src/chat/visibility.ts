import type { Visibility } from "../contract/visibility.ts";
import type { Delta } from "./delta.ts";

/** Whether a delta is sent. */
export const shows = (visibility: Visibility, delta: Pick<Delta, "kind">): boolean => {
  const { show_thinking, show_tools, show_text, show_narration, show_final } = visibility;
  switch (delta.kind) {
    case "thinking":
      return show_thinking;
    case "tool_use":
    case "tool_result":
      return show_tools;
    case "narration":
      return show_text && show_narration;
    case "final":
      return show_text && show_final;
    // Its role is not known yet: it may turn out to be either.
    case "text":
      return show_text && show_narration && show_final;
  }
};

/**
 * Whether text is sent as the model produces it. Only when narration and final answer are both shown: else the role of
 * a block must be known first, and text that is hidden would leak.
 */
export const isLive = (visibility: Visibility, wanted: boolean): boolean =>
  wanted && shows(visibility, { kind: "text" });

/** The reply to `/stream-status`: a JSON object with the five booleans. */
export const statusText = ({
  show_thinking,
  show_tools,
  show_text,
  show_narration,
  show_final,
}: Visibility): string =>
  JSON.stringify({ show_thinking, show_tools, show_text, show_narration, show_final });
