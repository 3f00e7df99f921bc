import { marked, type Token, type Tokens } from "marked";
import type { ReactNode } from "react";
import { Code } from "./code.tsx";
import "./markdown.css";

/** Markdown of an agent as elements. Markup in it is shown as text, pictures as links: nothing of it is run or loaded. */
export const Markdown = ({ text }: { text: string }) => (
  <div className="markdown">{blocks(marked.lexer(text))}</div>
);

const blocks = (tokens: readonly Token[] | undefined): ReactNode[] =>
  (tokens ?? []).map((token, at) => <Piece key={at} token={token} />);

/** Pieces that are an element around others. */
const tags: Record<string, "p" | "blockquote" | "strong" | "em" | "del"> = {
  paragraph: "p",
  blockquote: "blockquote",
  strong: "strong",
  em: "em",
  del: "del",
};

const Piece = ({ token }: { token: Token }): ReactNode => {
  const inner = "tokens" in token ? token.tokens : undefined;
  const Tag = tags[token.type];
  if (Tag !== undefined) return <Tag>{blocks(inner)}</Tag>;
  switch (token.type) {
    case "space":
    case "def":
      return null;
    case "heading":
      return <p className="heading">{blocks(inner)}</p>;
    case "list":
      return <List list={token as Tokens.List} />;
    case "code": {
      const { text, lang } = token as Tokens.Code;
      return <Code text={text} {...(lang && { language: lang.split(/\s/)[0] ?? "" })} />;
    }
    case "table":
      return <Table table={token as Tokens.Table} />;
    case "hr":
      return <hr />;
    case "br":
      return <br />;
    case "codespan":
      return <code>{(token as Tokens.Codespan).text}</code>;
    case "link":
    case "image": {
      const { href, text } = token as Tokens.Link;
      return <Outside href={href}>{inner === undefined ? text || href : blocks(inner)}</Outside>;
    }
    case "escape":
      return (token as Tokens.Escape).text;
    case "text":
      return inner === undefined ? (token as Tokens.Text).text : blocks(inner);
    default:
      return token.raw;
  }
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
