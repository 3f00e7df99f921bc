import { memo, useState } from "react";
import { parsedJson } from "../../../src/client/client-error.ts";
import { toolCall } from "../../../src/cli/live/narration.ts";
import { duration } from "../../../src/lib/quantities.ts";
import { Code } from "../parts/code.tsx";
import { Long } from "../parts/long.tsx";
import { Markdown } from "../parts/markdown.tsx";
import { atOnce } from "../parts/repaint.ts";
import { Duration } from "../parts/time.tsx";
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
  if (block.type === "tool") return <Tool tool={block} isRunning={isRunning} />;
  if (block.type === "text")
    return (
      <div className={isLast ? "final" : "narration"}>
        <Markdown text={block.text} />
      </div>
    );
  const isOpen = isLast && isRunning;
  return (
    <details className="thinking" open={isOpen}>
      <summary>{isOpen ? "Thinking" : "Thought"}</summary>
      <Long text={block.text} className="words" />
    </details>
  );
});

type ToolProps = { tool: Block & { type: "tool" }; isRunning: boolean };

const Tool = ({ tool: { name, input, result }, isRunning }: ToolProps) => {
  const [isOpen, setOpen] = useState(false);
  const state = result === null ? (isRunning ? "running" : "unfinished") : result.isError ? "failed" : "done";
  return (
    <details
      className="tool"
      data-state={state}
      onToggle={({ currentTarget }) => setOpen(currentTarget.open)}
    >
      <summary>
        <code className="about">{toolCall(name, parsedJson(input), null)}</code>
        <span className="tool-state">{state}</span>
      </summary>
      {isOpen && (
        <>
          <h3>Input</h3>
          {input.length <= atOnce ? (
            <Code text={input} language="json" />
          ) : (
            <Long text={input} className="output" />
          )}
          <h3>Result</h3>
          <Long text={result === null ? "None yet" : result.text || "Nothing"} className="output" />
        </>
      )}
    </details>
  );
};

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
