import { useState } from "react";

/** A button that copies a text, and says so. */
export const Copy = ({ text, label = "Copy" }: { text: string; label?: string }) => {
  const [said, say] = useState<string | null>(null);
  const copy = async (): Promise<void> => {
    // Browsers give a page no clipboard that is served without TLS beyond loopback, and ask the user elsewhere.
    const isCopied = await navigator.clipboard?.writeText(text).then(
      () => true,
      () => false,
    );
    say(isCopied === true ? "Copied" : `Copy it by hand: ${text}`);
    setTimeout(() => say(null), 5000);
  };
  return (
    <button type="button" title={text} onClick={() => void copy()}>
      <span aria-live="polite">{said ?? label}</span>
    </button>
  );
};
