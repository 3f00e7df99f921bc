import { memo, useState, type ReactNode } from "react";
import { toolCall } from "../../../src/view/narration.ts";
import { sanitise, visible } from "../../../src/view/sanitise.ts";
import { parsedJson } from "../../../src/client/client-error.ts";
import { plainLines } from "../../../src/view/plain.ts";
import { counted } from "../../../src/view/quantities.ts";
import { Long, Markdown } from "../parts/markdown.tsx";
import { Button } from "../shell/shortcuts.tsx";
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
export const PartView = memo(({ part, id, toggle, ...rest }: Props): ReactNode => {
  const set = (isOpen: boolean): void => toggle(id, isOpen);
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
      if (part.isDropped === true) return <Long text={part.text} className="words dropped faint" />;
      return (
        <div className={rest.isLast ? "final" : "narration"}>
          <Markdown text={part.text} />
        </div>
      );
    case "thinking":
    case "folded":
      return <Words part={part} {...rest} set={set} />;
    case "tool":
      return <Tool call={part} {...rest} set={set} />;
    case "stage":
    case "note":
    case "problem":
    case "result":
      return <p>{part.text}</p>;
  }
});

type FoldProps = { summary: ReactNode; isOpen: boolean; set: (isOpen: boolean) => void; children: ReactNode };

/** What is folded is made only when it is opened. */
const Fold = ({ summary, isOpen, set, children }: FoldProps) => (
  <details open={isOpen} onToggle={({ currentTarget: { open } }) => open !== isOpen && set(open)}>
    <summary className="cut">{summary}</summary>
    {isOpen && children}
  </details>
);

type WordsProps = Pick<Props, "isLive" | "isLast" | "isOpen"> & {
  part: Extract<Part, { type: "thinking" | "folded" }>;
  set: (isOpen: boolean) => void;
};

const Words = ({ part, isLive, isLast, isOpen, set }: WordsProps) => {
  const isGrowing = part.type === "thinking" && isLive && isLast;
  const title = part.type === "folded" ? part.title : isGrowing ? "Thinking" : "Thought";
  const [line = ""] = part.text.trimStart().slice(0, 200).split("\n", 1);
  return (
    <Fold summary={`${title}  ${sanitise(line)}`} isOpen={isOpen ?? isGrowing} set={set}>
      <Long text={part.text} className="words" />
    </Fold>
  );
};

/** The sign of a call, the state of a job that looks like it, and the word for those who do not see it. */
const signOf = ({ result, isWriting = false }: Call, isLive: boolean) => {
  if (result !== null) return result.isError ? ["✗", "failed", "failed"] : ["✓", "succeeded", "done"];
  if (!isLive) return ["–", "cancelled", "unanswered"];
  return isWriting ? ["…", "running", "writing"] : ["●", "running", "running"];
};

const Summary = ({ call, text, isLive }: { call: Call; text: string; isLive: boolean }) => {
  const [sign, status, word] = signOf(call, call.isLive ?? isLive);
  return (
    <>
      <span className="sign" data-status={status} data-sign={sign} /> <code>{text}</code>
      <span className="visually-hidden"> {word}</span>
    </>
  );
};

type ToolProps = Pick<Props, "worktree" | "isLive" | "isOpen"> & {
  call: Call;
  set: (isOpen: boolean) => void;
};

/** A call with its input as an edit, a command or as it is, and its result. */
const Tool = ({ call, worktree, isLive, isOpen, set }: ToolProps) => {
  const { name, result, calls = [] } = call;
  const input = typeof call.input === "string" ? (parsedJson(call.input) ?? call.input) : call.input;
  const hasFailed = result?.isError === true;
  const edit = editOf(input);
  const command = textAt(input, "command");
  const isOfInterest = [
    edit !== null,
    command !== null,
    hasFailed,
    calls.length > 0,
    asks.has(name),
  ].includes(true);
  const summary = toolCall(name || "A call that is not in the log", input, worktree);
  return (
    <Fold
      isOpen={isOpen ?? call.isOpen ?? isOfInterest}
      set={set}
      summary={<Summary call={call} text={summary} isLive={isLive} />}
    >
      {edit === null ? <Long text={inputText(input, command)} className="output" /> : <Edited edit={edit} />}
      <Calls calls={calls} worktree={worktree} isLive={isLive} />
      {(edit === null || hasFailed) && <Long text={result?.text ?? ""} className="output" />}
    </Fold>
  );
};

/** What the summary does not show of it: a command of one line is all there. */
const inputText = (input: unknown, command: string | null): string => {
  if (command !== null) return command.includes("\n") ? command : "";
  if (input === null || (typeof input === "object" && Object.keys(input).length === 0)) return "";
  return plainLines(input).join("\n");
};

/** Tools with which the agent asks a person: the answer is their result. */
const asks = new Set(["AskUserQuestion", "ExitPlanMode"]);

type CallsProps = Pick<ToolProps, "worktree" | "isLive"> & { calls: readonly Call[] };

/** Calls of a subagent that are shown at first: so many from its beginning, and so many until now. */
const mostCalls = 25;

/** What a subagent did. What lies between its first calls and its latest is shown piece by piece. */
const Calls = ({ calls, ...rest }: CallsProps) => {
  const [shown, setShown] = useState(mostCalls);
  const left = calls.length - shown - mostCalls;
  const view = (from: number, to: number): ReactNode =>
    calls.slice(from, to).map((call, at) => <Nested key={from + at} call={call} {...rest} />);
  if (left <= 0) return view(0, calls.length);
  return (
    <>
      {view(0, shown)}
      <Button
        text={counted(left, "more call")}
        className="quiet"
        run={() => setShown(shown + 2 * mostCalls)}
      />
      {view(calls.length - mostCalls, calls.length)}
    </>
  );
};

const Nested = (props: Pick<ToolProps, "worktree" | "isLive" | "call">) => {
  const [isOpen, set] = useState(false);
  return <Tool {...props} isOpen={isOpen} set={set} />;
};

const lineClasses = { "+": "added", "-": "removed", " ": "" };

const Edited = ({ edit: { lines, left } }: { edit: Edit }) => (
  <pre className="edit" tabIndex={0}>
    {lines.map(({ sign, text }, index) => (
      <span key={index} className={lineClasses[sign]}>{`${sign} ${visible(text.slice(0, 1000))}\n`}</span>
    ))}
    {left > 0 && `… ${counted(left, "more line")}`}
  </pre>
);
