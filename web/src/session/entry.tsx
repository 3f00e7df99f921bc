import { memo, type ReactNode } from "react";
import { Link } from "wouter";
import type { Entry } from "../../../src/contract/transcript-entry.ts";
import { sanitise } from "../../../src/view/sanitise.ts";
import { clock } from "../../../src/view/quantities.ts";
import { Fold } from "../parts/fold.tsx";
import { Long } from "../parts/long.tsx";
import { Markdown } from "../parts/markdown.tsx";
import { Thought } from "../parts/thought.tsx";
import { Tool } from "../parts/tool.tsx";
import { addressOf } from "../transcripts/row.tsx";
import type { Result } from "./entries.ts";

type Props = {
  entry: Entry;
  session: string;
  position: number;
  /** Time of the session's first entry, ms since the epoch. */
  begin: number;
  /** Paths are shown from here. */
  project: string;
  results: ReadonlyMap<string, Result>;
  isSelected: boolean;
  /** What the user has opened or closed, by the entry's position and the detail's index. */
  opened: ReadonlyMap<string, boolean>;
  toggle: (key: string, isOpen: boolean) => void;
};

/** One entry of a session with its thinking and calls. What was written is text, never markup. */
export const SessionEntry = memo(({ entry, session, position, begin, isSelected, ...rest }: Props) => {
  const { entry_type: type, timestamp } = entry;
  const at = timestamp === null ? "" : clock(Math.max(0, Date.parse(timestamp) - begin));
  return (
    <article className={`entry ${type}`} aria-current={isSelected || undefined}>
      <Link
        className="at number"
        href={addressOf(session, position)}
        replace
        title={`Entry ${position}, ${timestamp ?? "time unknown"}`}
      >
        {at || position}
      </Link>
      <div>
        <span className="visually-hidden">{type}</span>
        <Content entry={entry} position={position} {...rest} />
        <Details entry={entry} position={position} {...rest} />
      </div>
    </article>
  );
});

type PartProps = Pick<Props, "entry" | "position" | "project" | "results" | "opened" | "toggle">;

const Content = ({ entry: { entry_type: type, content }, position, opened, toggle }: PartProps) => {
  if (type === "user" || type === "assistant") return content === "" ? null : <Markdown text={content} />;
  const key = String(position);
  const [line = ""] = content.trimStart().slice(0, 200).split("\n", 1);
  return (
    <Fold
      isOpen={opened.get(key) ?? false}
      toggle={(isOpen) => toggle(key, isOpen)}
      summary={`${type === "summary" ? "Summary" : "System"}  ${sanitise(line)}`}
    >
      <Long text={content} className="words" />
    </Fold>
  );
};

const Details = ({ entry, position, project, results, opened, toggle }: PartProps): ReactNode =>
  entry.details?.map((detail, index) => {
    const key = `${position}.${index}`;
    const fold = { isOpen: opened.get(key), toggle: (isOpen: boolean) => toggle(key, isOpen) };
    if (detail.kind === "thinking") return <Thought key={key} text={detail.text} {...fold} />;
    // A result stands with its call.
    if (detail.kind === "result") return null;
    const result = results.get(detail.call_id);
    const state =
      result === undefined
        ? ("unanswered" as const)
        : result.is_error
          ? ("failed" as const)
          : ("done" as const);
    const call = {
      seq: index,
      name: detail.name,
      input: detail.input,
      state,
      result: result === undefined ? null : { content: result.text },
      calls: [],
    };
    return <Tool key={key} call={call} worktree={project || null} {...fold} />;
  });
