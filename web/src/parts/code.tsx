import type { Emitter, HLJSApi, LanguageFn } from "highlight.js";
import { useEffect, useState, type ReactNode } from "react";
import "./code.css";

type Props = {
  text: string;
  /** A name such as `ts`, or a file's ending; an unknown one is shown plain. */
  language?: string;
};

/** Longer texts are shown plain: colouring them would hold up the page. */
const longest = 100_000;

/** Text of a program, coloured once the colours are loaded. */
export const Code = ({ text, language = "" }: Props) => {
  const colours = useColours(language, text.length <= longest);
  return (
    <pre className="code" tabIndex={0}>
      <code>{colours === null ? text : coloured(colours, language, text)}</code>
    </pre>
  );
};

const languages: Record<string, () => Promise<{ default: LanguageFn }>> = {
  bash: () => import("highlight.js/lib/languages/bash"),
  css: () => import("highlight.js/lib/languages/css"),
  diff: () => import("highlight.js/lib/languages/diff"),
  go: () => import("highlight.js/lib/languages/go"),
  java: () => import("highlight.js/lib/languages/java"),
  javascript: () => import("highlight.js/lib/languages/javascript"),
  json: () => import("highlight.js/lib/languages/json"),
  markdown: () => import("highlight.js/lib/languages/markdown"),
  python: () => import("highlight.js/lib/languages/python"),
  rust: () => import("highlight.js/lib/languages/rust"),
  typescript: () => import("highlight.js/lib/languages/typescript"),
  xml: () => import("highlight.js/lib/languages/xml"),
  yaml: () => import("highlight.js/lib/languages/yaml"),
};

const aliases: Record<string, string> = {
  sh: "bash",
  shell: "bash",
  zsh: "bash",
  patch: "diff",
  js: "javascript",
  jsx: "javascript",
  mjs: "javascript",
  ts: "typescript",
  tsx: "typescript",
  md: "markdown",
  py: "python",
  rs: "rust",
  html: "xml",
  svg: "xml",
  yml: "yaml",
};

const nameOf = (language: string): string => aliases[language.toLowerCase()] ?? language.toLowerCase();

/** The library with the language in it; null: not yet, or there is no such language. */
export const useColours = (language: string, wanted = true): HLJSApi | null => {
  const [loaded, setLoaded] = useState<{ name: string; colours: HLJSApi } | null>(null);
  const name = nameOf(language);
  useEffect(() => {
    const load = Object.hasOwn(languages, name) ? languages[name] : undefined;
    if (!wanted || load === undefined) return undefined;
    let isShown = true;
    void Promise.all([import("highlight.js/lib/core"), load()])
      .then(([{ default: colours }, { default: definition }]) => {
        colours.registerLanguage(name, definition);
        if (isShown) setLoaded({ name, colours });
      })
      // Without colours the text is there all the same.
      .catch(() => undefined);
    return () => void (isShown = false);
  }, [name, wanted]);
  return loaded?.name === name ? loaded.colours : null;
};

/** The text as elements: no markup is made of it on the way. */
export const coloured = (colours: HLJSApi, language: string, text: string): ReactNode => {
  const { _emitter } = colours.highlight(text, { language: nameOf(language), ignoreIllegals: true });
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
