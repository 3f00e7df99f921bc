import type { Visibility } from "../../contract/visibility.ts";

/** The service's visibility, as it answers `/stream-status`, in words; a text that is none is given back. */
export const shownKinds = (content: string): string => {
  const visibility = parsed(content);
  if (visibility === null) return content;
  const shown = flags.filter(({ on }) => on(visibility)).map(({ word }) => word);
  const hidden = flags.map(({ word }) => word).filter((word) => !shown.includes(word));
  return `The agent shows: ${list(shown)}\nIt hides: ${list(hidden)}\nThis holds for everyone who talks to it.`;
};

const flags: { word: string; on: (visibility: Visibility) => boolean }[] = [
  { word: "thinking", on: ({ show_thinking }) => show_thinking },
  { word: "tools", on: ({ show_tools }) => show_tools },
  { word: "narration", on: ({ show_text, show_narration }) => show_text && show_narration },
  { word: "final", on: ({ show_text, show_final }) => show_text && show_final },
];

const list = (words: string[]): string => (words.length === 0 ? "nothing" : words.join(", "));

const parsed = (content: string): Visibility | null => {
  try {
    const value: unknown = JSON.parse(content);
    return typeof value === "object" && value !== null && "show_thinking" in value
      ? (value as Visibility)
      : null;
  } catch {
    return null;
  }
};
