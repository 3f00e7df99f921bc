import { useState } from "react";
import { sanitise } from "../../../src/view/sanitise.ts";
import { counted } from "../../../src/view/quantities.ts";
import { atOnce } from "./repaint.ts";

/** A text of any length, in a paragraph or, as `output`, line by line. Its rest is shown piece by piece. */
export const Long = ({ text, className }: { text: string; className: string }) => {
  const [shown, setShown] = useState(atOnce);
  if (text === "") return null;
  const head = text.slice(0, shown);
  const left = text.length - head.length;
  return (
    <>
      {className === "output" ? (
        <pre className="output" tabIndex={0}>
          {sanitise(head)}
        </pre>
      ) : (
        <p className={className} dir="auto">
          {sanitise(head)}
        </p>
      )}
      {left > 0 && (
        <button type="button" className="quiet" onClick={() => setShown(shown + 10 * atOnce)}>
          {counted(left, "more character")}
        </button>
      )}
    </>
  );
};
