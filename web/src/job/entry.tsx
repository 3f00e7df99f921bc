import { memo, useState, type ReactNode } from "react";
import { sanitise, visible } from "../../../src/cli/text/sanitise.ts";
import { clock, counted } from "../../../src/lib/quantities.ts";
import { toolCall } from "../../../src/cli/live/narration.ts";
import { Long } from "../parts/long.tsx";
import { Markdown } from "../parts/markdown.tsx";
import type { Entry, ToolEntry } from "./conversation.ts";
import { editOf, textAt, type Edit } from "./edits.ts";

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
  switch (entry.kind) {
    case "text":
      if (entry.text.length <= longestMarkdown && !entry.isDropped)
        return <Markdown text={sanitise(entry.text)} />;
      return <Long text={entry.text} className={entry.isDropped ? "words dropped" : "words"} />;
    case "thinking":
      return (
        <Fold isOpen={isOpen ?? false} toggle={(open) => toggle(entry.seq, open)} summary={thought(entry)}>
          <Long text={entry.text} className="words" />
        </Fold>
      );
    case "tool":
      return <Tool entry={entry} worktree={worktree} isOpen={isOpen} toggle={toggle} />;
    case "stage":
      return (
        <p>
          {entry.stage.replaceAll("_", " ")} <span className="note mono">{visible(entry.detail ?? "")}</span>
        </p>
      );
    case "note":
    case "problem":
      return <p>{entry.text}</p>;
    case "result":
      return <p>{entry.ok ? "The agent is done" : "The agent gave up"}</p>;
  }
};

/** A longer text is shown as it was written. */
const longestMarkdown = 10_000;

const thought = ({ text, isOpen }: { text: string; isOpen: boolean }): string => {
  const [line = ""] = text.trimStart().slice(0, 200).split("\n", 1);
  return `${isOpen ? "Thinking" : "Thought"}  ${sanitise(line)}`;
};

type ToolProps = Omit<BodyProps, "entry"> & { entry: ToolEntry };

const Tool = ({ entry, worktree, isOpen, toggle }: ToolProps) => {
  const edit = editOf(entry.input);
  const command = textAt(entry.input, "command");
  const isOfInterest =
    edit !== null || command !== null || entry.state === "failed" || entry.calls.length > 0;
  return (
    <Fold
      isOpen={isOpen ?? isOfInterest}
      toggle={(open) => toggle(entry.seq, open)}
      summary={
        <>
          <span className={`sign ${entry.state}`} />{" "}
          <code>{toolCall(entry.name || "A call that is not in the log", entry.input, worktree)}</code>
          <span className="visually-hidden"> {entry.state}</span>
        </>
      }
    >
      {edit !== null && <EditLines edit={edit} />}
      {command !== null && command.includes("\n") && <Long text={command} className="output" />}
      {edit === null && command === null && <Long text={inputText(entry.input)} className="output" />}
      <Calls entry={entry} worktree={worktree} />
      {entry.result !== null && (edit === null || entry.state === "failed") && (
        <Long text={entry.result.content} className="output" />
      )}
    </Fold>
  );
};

const inputText = (input: unknown): string => {
  if (input === null || (typeof input === "object" && Object.keys(input).length === 0)) return "";
  return typeof input === "string" ? input : JSON.stringify(input, null, 2);
};

const mostCalls = 50;

/** What a subagent did: its latest calls. */
const Calls = ({ entry: { calls }, worktree }: { entry: ToolEntry; worktree: string | null }) => {
  const [shown, setShown] = useState(mostCalls);
  const [opened, setOpened] = useState<ReadonlyMap<number, boolean>>(new Map());
  const left = calls.length - shown;
  return (
    <>
      {left > 0 && (
        <button type="button" className="quiet" onClick={() => setShown(shown + mostCalls)}>
          {counted(left, "earlier call")}
        </button>
      )}
      {calls.slice(-shown).map((call) => (
        <Tool
          key={call.seq}
          entry={call}
          worktree={worktree}
          isOpen={opened.get(call.seq) ?? false}
          toggle={(seq, isOpen) => setOpened(new Map(opened).set(seq, isOpen))}
        />
      ))}
    </>
  );
};

const EditLines = ({ edit: { lines, left } }: { edit: Edit }) => (
  <pre className="edit" tabIndex={0}>
    {lines.map(({ sign, text }, index) => (
      <span key={index} className={lineClasses[sign]}>{`${sign} ${visible(text.slice(0, 1000))}\n`}</span>
    ))}
    {left > 0 && `… ${counted(left, "more line")}`}
  </pre>
);

const lineClasses = { "+": "added", "-": "removed", " ": "" };

type FoldProps = {
  isOpen: boolean;
  toggle: (isOpen: boolean) => void;
  summary: ReactNode;
  children: ReactNode;
};

const Fold = ({ isOpen, toggle, summary, children }: FoldProps) => (
  <details open={isOpen} onToggle={({ currentTarget: { open } }) => open !== isOpen && toggle(open)}>
    <summary>{summary}</summary>
    {isOpen && children}
  </details>
);
