import { sanitise } from "../../../src/cli/text/sanitise.ts";
import { Fold } from "./fold.tsx";
import { Long } from "./long.tsx";
import { Markdown } from "./markdown.tsx";

/** A longer text is shown as it was written. */
const longestMarkdown = 10_000;

/** What the agent or its user wrote: markdown. */
export const Said = ({ text }: { text: string }) =>
  text.length <= longestMarkdown ? (
    <Markdown text={sanitise(text)} />
  ) : (
    <Long text={text} className="words" />
  );

type Props = {
  text: string;
  isGrowing?: boolean;
  isOpen: boolean | undefined;
  toggle: (isOpen: boolean) => void;
};

/** Thinking, folded. */
export const Thought = ({ text, isGrowing = false, isOpen = false, toggle }: Props) => {
  const [line = ""] = text.trimStart().slice(0, 200).split("\n", 1);
  return (
    <Fold
      isOpen={isOpen}
      toggle={toggle}
      summary={`${isGrowing ? "Thinking" : "Thought"}  ${sanitise(line)}`}
    >
      <Long text={text} className="words" />
    </Fold>
  );
};
