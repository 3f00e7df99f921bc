import { useState, type ReactNode } from "react";

/** Browsers give no clipboard to a page that is served without TLS beyond loopback: there the selection is copied. */
export const copyText = async (text: string): Promise<void> => {
  if (navigator.clipboard !== undefined) return navigator.clipboard.writeText(text);
  const field = document.createElement("textarea");
  field.value = text;
  document.body.append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
};

/** A button that copies a text, and says so. */
export const Copy = ({ text, children = "Copy" }: { text: string; children?: ReactNode }) => {
  const [said, say] = useState<string | null>(null);
  const copy = async (): Promise<void> => {
    const result = await copyText(text).then(
      () => "Copied",
      () => "Not copied",
    );
    say(result);
    setTimeout(() => say(null), 1500);
  };
  return (
    <button type="button" title={text} onClick={() => void copy()}>
      <span role="status">{said ?? children}</span>
    </button>
  );
};
