import { memo, type ReactNode } from "react";
import { clock } from "../../../src/view/quantities.ts";
import { Long } from "../parts/long.tsx";
import { Markdown } from "../parts/markdown.tsx";
import { Thought } from "../parts/thought.tsx";
import { Tool } from "../parts/tool.tsx";
import type { Entry } from "./conversation.ts";

type Props = {
  entry: Entry;
  /** Counts with the entry, which changes in place. */
  changes: number;
  /** Time of the submission, ms since the epoch. */
  begin: number;
  worktree: string | null;
  isSelected: boolean;
  /** Whether the user has opened or closed it; undefined: neither. */
  isOpen: boolean | undefined;
  toggle: (seq: number, isOpen: boolean) => void;
};

/** One entry of the conversation. What the agent wrote is text, never markup. */
export const EntryRow = memo(({ entry, begin, isSelected, ...rest }: Props) => (
  <article className={`entry ${entry.kind}`} aria-current={isSelected || undefined}>
    <a className="at number" href={`#e${entry.seq}`} title={`Event ${entry.seq}, ${entry.at}`}>
      {clock(Date.parse(entry.at) - begin)}
    </a>
    <div>
      <Body entry={entry} {...rest} />
    </div>
  </article>
));

type BodyProps = Omit<Props, "begin" | "isSelected" | "changes">;

const Body = ({ entry, worktree, isOpen, toggle }: BodyProps): ReactNode => {
  const fold = { isOpen, toggle: (open: boolean) => toggle(entry.seq, open) };
  switch (entry.kind) {
    case "text":
      return entry.isDropped ? (
        <Long text={entry.text} className="words dropped" />
      ) : (
        <Markdown text={entry.text} />
      );
    case "thinking":
      return <Thought text={entry.text} isGrowing={entry.isOpen} {...fold} />;
    case "tool":
      return <Tool call={entry} worktree={worktree} {...fold} />;
    case "stage":
    case "note":
    case "problem":
      return <p>{entry.text}</p>;
    case "result":
      return <p>{entry.ok ? "The agent is done" : "The agent gave up"}</p>;
  }
};
