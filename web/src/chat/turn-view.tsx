import { memo, useState } from "react";
import { parsedJson } from "../../../src/client/client-error.ts";
import { duration } from "../../../src/view/quantities.ts";
import { Markdown } from "../parts/markdown.tsx";
import { Thought } from "../parts/thought.tsx";
import { Duration } from "../parts/time.tsx";
import { Tool } from "../parts/tool.tsx";
import type { Block } from "./answer.ts";
import type { Turn } from "./history.ts";

type Props = {
  turn: Turn;
  /** Absent: another turn followed. */
  onRetry: ((turn: Turn) => void) | undefined;
};

export const TurnView = memo(({ turn, onRetry }: Props) => (
  <article className="turn">
    <h2 className="visually-hidden">You</h2>
    <p className="question">{turn.question}</p>
    <h2 className="visually-hidden">Agent</h2>
    <div className="blocks">
      {turn.blocks.map((block, at) => (
        <BlockView
          key={at}
          block={block}
          isLast={at === turn.blocks.length - 1}
          isRunning={turn.state === "running"}
        />
      ))}
    </div>
    <Ending turn={turn} onRetry={onRetry} />
  </article>
));

type BlockProps = { block: Block; isLast: boolean; isRunning: boolean };

const BlockView = memo(({ block, isLast, isRunning }: BlockProps) => {
  const [isOpen, toggle] = useState<boolean>();
  if (block.type === "tool") {
    const { name, input, result } = block;
    const ended = result?.isError === true ? ("failed" as const) : ("done" as const);
    const pending = isRunning ? ("running" as const) : ("unanswered" as const);
    const call = {
      seq: 0,
      name,
      input: parsedJson(input) ?? input,
      state: result === null ? pending : ended,
      result: result && { content: result.text },
      calls: [],
    };
    return <Tool call={call} worktree={null} isOpen={isOpen ?? false} toggle={toggle} />;
  }
  if (block.type === "text")
    return (
      <div className={isLast ? "final" : "narration"}>
        <Markdown text={block.text} />
      </div>
    );
  const isGrowing = isLast && isRunning;
  return <Thought text={block.text} isGrowing={isGrowing} isOpen={isOpen ?? isGrowing} toggle={toggle} />;
});

const Ending = ({ turn, onRetry }: Props) => {
  const { state, tokens, ms, error, began } = turn;
  if (state === "running")
    return (
      <p className="ending">
        Working <Duration from={new Date(began).toISOString()} to={null} />
      </p>
    );
  const again = onRetry && (
    <button type="button" onClick={() => onRetry(turn)}>
      {state === "cut" ? "Get the answer" : "Try again"}
    </button>
  );
  if (state === "failed" || state === "cut")
    return (
      <div className="ending failed" role="alert">
        <p>{state === "cut" ? `The connection ended before the answer did. ${error ?? ""}` : error}</p>
        {again}
      </div>
    );
  return (
    <p className="ending">
      {state === "stopped" && "Stopped "}
      <span className="number">{duration(ms)}</span>
      {tokens && tokens.read + tokens.written > 0 && (
        <span className="number">
          {` · ${tokens.read.toLocaleString("en")} tokens read, ${tokens.written.toLocaleString("en")} written`}
        </span>
      )}
    </p>
  );
};
