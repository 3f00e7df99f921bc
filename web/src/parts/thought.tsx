import { sanitise } from "../../../src/view/sanitise.ts";
import { Fold } from "./fold.tsx";
import { Long } from "./long.tsx";

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
