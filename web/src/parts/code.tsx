import type { Emitter, HLJSApi } from "highlight.js";
import { useEffect, useState, type ReactNode } from "react";
import { atOnce } from "./repaint.ts";
import "./markdown.css";

type Props = {
  text: string;
  /** A name such as `ts`, or a file's ending; an unknown one is shown plain. */
  language?: string;
};

/** Text of a program, coloured once the colours are loaded; a long one is shown plain. */
export const Code = ({ text, language = "" }: Props) => {
  const colours = useColours(language, text.length <= atOnce);
  return (
    <pre className="code" tabIndex={0}>
      <code>{colours === null ? text : coloured(colours, language, text)}</code>
    </pre>
  );
};

/** The library with the common languages; null: not yet, or it does not know this one. */
export const useColours = (language: string, wanted = true): HLJSApi | null => {
  const [colours, setColours] = useState<HLJSApi | null>(null);
  useEffect(() => {
    if (!wanted || language === "") return undefined;
    let isShown = true;
    void import("highlight.js/lib/common").then(
      (loaded) => isShown && setColours(loaded.default),
      // Without colours the text is there all the same.
      () => undefined,
    );
    return () => void (isShown = false);
  }, [language, wanted]);
  return wanted && colours?.getLanguage(language) !== undefined ? colours : null;
};

/** The text as elements: no markup is made of it on the way. */
export const coloured = (colours: HLJSApi, language: string, text: string): ReactNode => {
  const { _emitter } = colours.highlight(text, { language, ignoreIllegals: true });
  return elements((_emitter as Emitter & { rootNode: Piece }).rootNode);
};

type Piece = { scope?: string; children: (Piece | string)[] };

const elements = ({ children }: Piece): ReactNode =>
  children.map((child, at) =>
    typeof child === "string" ? (
      child
    ) : (
      <span key={at} className={`hl-${child.scope?.split(".")[0] ?? ""}`}>
        {elements(child)}
      </span>
    ),
  );
