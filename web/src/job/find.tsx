import { useRef, useState } from "react";
import { useIsTouched } from "../parts/media.ts";
import { useShortcut } from "../shell/shortcuts.tsx";
import type { Entry, ToolEntry } from "./conversation.ts";

type Props = {
  entries: readonly Entry[];
  /** The selected entry; -1: none. */
  at: number;
  select: (index: number) => void;
};

/** Finds in the whole conversation, of which the browser's own search sees only what is in view. */
export const Find = ({ entries, at, select }: Props) => {
  const field = useRef<HTMLInputElement>(null);
  const [text, setText] = useState("");
  const [isMissed, setMissed] = useState(false);
  useShortcut("/", "Find in the conversation", () => field.current?.focus());
  const find = (step: 1 | -1): void => {
    const wanted = text.toLowerCase();
    const count = entries.length;
    const begin = at === -1 && step === -1 ? 0 : at;
    const order = Array.from({ length: count }, (_, n) => (begin + step * (n + 1) + 2 * count) % count);
    const found = order.find((index) => {
      const entry = entries[index];
      return entry !== undefined && textOf(entry).toLowerCase().includes(wanted);
    });
    setMissed(found === undefined);
    if (found !== undefined) select(found);
  };
  return (
    <form
      className="find"
      role="search"
      onSubmit={(event) => {
        event.preventDefault();
        if (text !== "") find(1);
      }}
    >
      <input
        ref={field}
        type="search"
        aria-label="Find in the conversation"
        placeholder={useIsTouched() ? "Find" : "Find  /"}
        value={text}
        onChange={({ target }) => {
          setText(target.value);
          setMissed(false);
        }}
        onKeyDown={(event) => {
          if (event.key === "Escape") field.current?.blur();
          if (event.key !== "Enter" || !event.shiftKey || text === "") return;
          event.preventDefault();
          find(-1);
        }}
      />
      <output>{isMissed && "Not found"}</output>
    </form>
  );
};

/** What the entry shows, folded or not. */
const textOf = (entry: Entry): string => {
  if (entry.kind === "tool") return callText(entry);
  return entry.text;
};

const callText = ({ name, input, result, calls }: ToolEntry): string => {
  const given = JSON.stringify(input ?? "")
    .replaceAll("\\n", "\n")
    .replaceAll('\\"', '"');
  return [name, given, result?.content ?? "", ...calls.map(callText)].join("\n");
};
