import { memo, useState, type ReactNode } from "react";
import { toolCall } from "../../../src/view/narration.ts";
import { sanitise, visible } from "../../../src/view/sanitise.ts";
import { parsedJson } from "../../../src/client/client-error.ts";
import { counted } from "../../../src/view/quantities.ts";
import { keepPlace } from "../parts/keep-place.ts";
import { Long, Markdown } from "../parts/markdown.tsx";
import { editOf, textAt, type Edit } from "./edits.ts";
import type { Call, Part } from "./entry.ts";

type Props = {
  part: Part;
  /** Counts with a part that changes in place. */
  changes: number | undefined;
  id: string;
  /** Paths are shown from here. */
  worktree: string | null;
  isLive: boolean;
  isLast: boolean;
  /** Whether the user has opened or closed it; undefined: neither. */
  isOpen: boolean | undefined;
  toggle: (id: string, isOpen: boolean) => void;
};

/** A part of a conversation. What was written is text, never markup. */
export const PartView = memo(({ part, ...rest }: Props): ReactNode => {
  switch (part.type) {
    case "question":
      return (
        <>
          <h2 className="visually-hidden">You</h2>
          <p className="question">{part.text}</p>
          <h2 className="visually-hidden">Agent</h2>
        </>
      );
    case "text":
      if (part.isDropped === true) return <Long text={part.text} className="words dropped" />;
      return (
        <div className={rest.isLast ? "final" : "narration"}>
          <Markdown text={part.text} />
        </div>
      );
    case "thinking":
    case "folded":
    case "tool":
      return <Folded part={part} {...rest} />;
    case "stage":
    case "note":
    case "problem":
    case "result":
      return <p>{part.text}</p>;
  }
});

type FoldedProps = Props & { part: Extract<Part, { type: "thinking" | "folded" | "tool" }> };

const Folded = ({ part, id, worktree, isLive, isLast, isOpen, toggle }: FoldedProps) => {
  const set = (open: boolean): void => toggle(id, open);
  if (part.type === "tool") return <Tool call={part} {...{ worktree, isLive, isOpen, set }} />;
  const isGrowing = part.type === "thinking" && isLive && isLast;
  const title = part.type === "folded" ? part.title : isGrowing ? "Thinking" : "Thought";
  return <Words title={title} text={part.text} isOpen={isOpen ?? isGrowing} set={set} />;
};

type FoldProps = { summary: ReactNode; isOpen: boolean; set: (isOpen: boolean) => void; children: ReactNode };

/** What is folded is made only when it is opened. */
const Fold = ({ summary, isOpen, set, children }: FoldProps) => (
  <details open={isOpen} onToggle={({ currentTarget: { open } }) => open !== isOpen && set(open)}>
    <summary className="cut">{summary}</summary>
    {isOpen && children}
  </details>
);

type WordsProps = { title: string; text: string; isOpen: boolean; set: (isOpen: boolean) => void };

const Words = ({ title, text, ...fold }: WordsProps) => {
  const [line = ""] = text.trimStart().slice(0, 200).split("\n", 1);
  return (
    <Fold summary={`${title}  ${sanitise(line)}`} {...fold}>
      <Long text={text} className="words" />
    </Fold>
  );
};

type ToolProps = {
  call: Call;
  worktree: string | null;
  isLive: boolean;
  isOpen: boolean | undefined;
  set: (isOpen: boolean) => void;
};

const stateOf = ({ result, isWriting = false }: Call, isLive: boolean) => {
  if (result !== null) return result.isError ? "failed" : "done";
  return isLive ? (isWriting ? "writing" : "running") : "unanswered";
};

/** A call with its input as an edit, a command or as it is, and its result. */
const Tool = ({ call, worktree, isLive, isOpen, set }: ToolProps) => {
  const { name, result, calls = [] } = call;
  const input = typeof call.input === "string" ? (parsedJson(call.input) ?? call.input) : call.input;
  const state = stateOf(call, call.isLive ?? isLive);
  const edit = editOf(input);
  const command = textAt(input, "command");
  const isOfInterest = [edit !== null, command !== null, state === "failed", calls.length > 0].includes(true);
  return (
    <Fold
      isOpen={isOpen ?? call.isOpen ?? isOfInterest}
      set={set}
      summary={
        <>
          <span className={`sign ${state}`} />{" "}
          <code>{toolCall(name || "A call that is not in the log", input, worktree)}</code>
          <span className="visually-hidden"> {state}</span>
        </>
      }
    >
      {edit === null ? (
        <Long text={inputText(input, command)} className="output" />
      ) : (
        <EditLines edit={edit} />
      )}
      <Calls calls={calls} worktree={worktree} isLive={isLive} />
      {(edit === null || state === "failed") && <Long text={result?.text ?? ""} className="output" />}
    </Fold>
  );
};

/** What the summary does not show of it: a command of one line is all there. */
const inputText = (input: unknown, command: string | null): string => {
  if (command !== null) return command.includes("\n") ? command : "";
  if (input === null || (typeof input === "object" && Object.keys(input).length === 0)) return "";
  return typeof input === "string" ? input : JSON.stringify(input, null, 2);
};

const mostCalls = 50;

type CallsProps = Pick<ToolProps, "worktree" | "isLive"> & { calls: readonly Call[] };

/** What a subagent did: its latest calls. */
const Calls = ({ calls, ...rest }: CallsProps) => {
  const [shown, setShown] = useState(mostCalls);
  const [opened, setOpened] = useState<ReadonlyMap<number, boolean>>(new Map());
  const left = Math.max(0, calls.length - shown);
  return (
    <>
      {left > 0 && (
        <button
          type="button"
          className="quiet"
          onClick={({ currentTarget: { nextElementSibling: first } }) =>
            keepPlace(first, first?.closest(".scroller") ?? null, () => setShown(shown + mostCalls))
          }
        >
          {counted(left, "earlier call")}
        </button>
      )}
      {calls.slice(left).map((call, place) => (
        <Tool
          key={left + place}
          call={call}
          isOpen={opened.get(left + place) ?? false}
          set={(isOpen) => setOpened(new Map(opened).set(left + place, isOpen))}
          {...rest}
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
