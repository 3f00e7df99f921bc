import type { Token, Tokens, TokensList } from "marked";
import { memo, useEffect, useReducer, useRef, useState, type ReactNode } from "react";
import { sanitise } from "../../../src/view/sanitise.ts";
import { counted } from "../../../src/view/quantities.ts";
import { Code } from "./code.tsx";
import { markdownTokens } from "./markdown-tokens.ts";
import { atOnce, spend, whenRefilled } from "./repaint.ts";
import { Button } from "../shell/shortcuts.tsx";
import "./markdown.css";

/**
 * Markdown of an agent or its user as elements. Markup in it is shown as text, pictures as links: nothing of it is run
 * or loaded. What follows the first 10,000 characters is plain text.
 */
export const Markdown = memo(({ text }: { text: string }) => {
  const end = text.length > atOnce ? text.lastIndexOf("\n", atOnce) : -1;
  const head = text.slice(0, end > 0 ? end : atOnce);
  const tokens = useTokens(head);
  const links = Object.keys(tokens?.links ?? {}).length;
  return (
    <>
      {tokens === null ? (
        <Long text={head} className="words" />
      ) : (
        <div className="markdown">
          {tokens.map((token, at) => (
            <Part key={at} token={token} links={links} />
          ))}
        </div>
      )}
      <Long text={text.slice(head.length)} className="words" />
    </>
  );
});

/** What the text was read to, or an earlier text while it waits for its turn. Null: nothing yet, or it is no markdown. */
const useTokens = (text: string): TokensList | null => {
  const [, again] = useReducer((times: number) => times + 1, 0);
  const read = useRef<{ text: string; tokens: TokensList | null }>({ text: "", tokens: null });
  if (read.current.text !== text && spend(text.length))
    read.current = { text, tokens: markdownTokens(sanitise(text)) };
  const isWaiting = read.current.text !== text;
  useEffect(() => (isWaiting ? whenRefilled(again) : undefined), [isWaiting]);
  return read.current.tokens;
};

type PartProps = { token: Token; links: number };

/** Not made anew while the text grows below it, unless a link is defined there. */
const Part = memo(
  ({ token }: PartProps) => <Piece token={token} />,
  (one, other) =>
    one.token.type === other.token.type && one.token.raw === other.token.raw && one.links === other.links,
);

const blocks = (tokens: readonly Token[] | undefined): ReactNode[] =>
  (tokens ?? []).map((token, at) => <Piece key={at} token={token} />);

const Piece = ({ token }: { token: Token }): ReactNode => {
  const inner = "tokens" in token ? token.tokens : undefined;
  const Tag = tags[token.type];
  if (Tag !== undefined) return <Tag>{blocks(inner)}</Tag>;
  const known = Object.hasOwn(pieces, token.type) ? pieces[token.type as keyof typeof pieces] : undefined;
  if (known === undefined) return inner === undefined && "text" in token ? shownText(token) : blocks(inner);
  return known(token as never);
};

/** Markup is shown as it was written. */
const shownText = (token: Token): string =>
  token.type === "html" || !("text" in token) ? token.raw : String(token.text);

/** Pieces that are an element around others. */
const tags: Record<string, "p" | "blockquote" | "strong" | "em" | "del"> = {
  paragraph: "p",
  blockquote: "blockquote",
  strong: "strong",
  em: "em",
  del: "del",
};

const pieces = {
  space: () => null,
  def: () => null,
  heading: ({ tokens }: Tokens.Heading) => <p className="heading">{blocks(tokens)}</p>,
  list: (list: Tokens.List) => <List list={list} />,
  code: ({ text, lang = "" }: Tokens.Code) => <Code text={text} language={lang.split(/\s/)[0] ?? ""} />,
  table: (table: Tokens.Table) => <Table table={table} />,
  hr: () => <hr />,
  br: () => <br />,
  codespan: ({ text }: Tokens.Codespan) => <code>{text}</code>,
  link: ({ href, tokens }: Tokens.Link) => <Outside href={href}>{blocks(tokens)}</Outside>,
  image: ({ href, text }: Tokens.Image) => <Outside href={href}>{text || href}</Outside>,
};

/** A link to elsewhere, if it leads to a page; else its words. */
const Outside = ({ href, children }: { href: string; children: ReactNode }) =>
  /^(https?:|mailto:)/i.test(href) ? (
    <a href={href} target="_blank" rel="noopener noreferrer">
      {children}
    </a>
  ) : (
    children
  );

const List = ({ list: { ordered, start, items } }: { list: Tokens.List }) => {
  const entries = items.map(({ task, checked, tokens }, at) => (
    <li key={at}>
      {task && (checked ? "☑ " : "☐ ")}
      {blocks(tokens.filter(({ type }) => type !== "checkbox"))}
    </li>
  ));
  return ordered ? <ol start={Number(start) || 1}>{entries}</ol> : <ul>{entries}</ul>;
};

const Table = ({ table: { header, rows } }: { table: Tokens.Table }) => (
  <div className="scrolled" tabIndex={0}>
    <table>
      <thead>
        <tr>
          {header.map(({ tokens }, at) => (
            <th key={at}>{blocks(tokens)}</th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((row, at) => (
          <tr key={at}>
            {row.map(({ tokens }, column) => (
              <td key={column}>{blocks(tokens)}</td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  </div>
);

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
        <Button
          text={counted(left, "more character")}
          className="quiet"
          run={() => setShown(shown + 10 * atOnce)}
        />
      )}
    </>
  );
};
