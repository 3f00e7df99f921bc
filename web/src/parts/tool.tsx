import { useState } from "react";
import { toolCall } from "../../../src/view/narration.ts";
import { visible } from "../../../src/view/sanitise.ts";
import { counted } from "../../../src/view/quantities.ts";
import { editOf, textAt, type Edit } from "./edits.ts";
import { Fold } from "./fold.tsx";
import { keepPlace } from "./keep-place.ts";
import { Long } from "./long.tsx";

/** A call of a tool. `unanswered`: there is no result. */
type ToolCall = {
  seq: number;
  name: string;
  input: unknown;
  state: "writing" | "running" | "done" | "failed" | "unanswered";
  result: { content: string } | null;
  /** Those of the subagent that it started. */
  calls: readonly ToolCall[];
};

type Props = {
  call: ToolCall;
  /** Paths are shown from here. */
  worktree: string | null;
  /** Whether the user has opened or closed it; undefined: neither. */
  isOpen: boolean | undefined;
  toggle: (isOpen: boolean) => void;
};

/** A call with its input as an edit, a command or as it is, and its result. */
export const Tool = ({ call, worktree, isOpen, toggle }: Props) => {
  const edit = editOf(call.input);
  const command = textAt(call.input, "command");
  const isOfInterest = edit !== null || command !== null || call.state === "failed" || call.calls.length > 0;
  return (
    <Fold
      isOpen={isOpen ?? isOfInterest}
      toggle={toggle}
      summary={
        <>
          <span className={`sign ${call.state}`} />{" "}
          <code>{toolCall(call.name || "A call that is not in the log", call.input, worktree)}</code>
          <span className="visually-hidden"> {call.state}</span>
        </>
      }
    >
      {edit !== null && <EditLines edit={edit} />}
      {command !== null && command.includes("\n") && <Long text={command} className="output" />}
      {edit === null && command === null && <Long text={inputText(call.input)} className="output" />}
      <Calls calls={call.calls} worktree={worktree} />
      {call.result !== null && (edit === null || call.state === "failed") && (
        <Long text={call.result.content} className="output" />
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
const Calls = ({ calls, worktree }: { calls: readonly ToolCall[]; worktree: string | null }) => {
  const [shown, setShown] = useState(mostCalls);
  const [opened, setOpened] = useState<ReadonlyMap<number, boolean>>(new Map());
  const left = calls.length - shown;
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
      {calls.slice(-shown).map((call) => (
        <Tool
          key={call.seq}
          call={call}
          worktree={worktree}
          isOpen={opened.get(call.seq) ?? false}
          toggle={(isOpen) => setOpened(new Map(opened).set(call.seq, isOpen))}
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
