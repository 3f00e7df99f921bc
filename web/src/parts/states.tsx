import type { UseQueryResult } from "@tanstack/react-query";
import { useEffect, useState, type ReactNode } from "react";
import { Link, useLocation } from "wouter";
import { ClientError } from "../../../src/client/client-error.ts";
import { Button } from "../shell/shortcuts.tsx";

type TitleProps = {
  children: string;
  /** Before it in the title of the tab, where people look for what has ended. */
  state?: string;
  /** Only for those who listen. */
  hidden?: boolean;
};

/** What the page is about: its first heading, and the title of the tab. Every page has one. */
export const Title = ({ children, state, hidden = false }: TitleProps) => {
  useEffect(() => {
    document.title = `${state === undefined ? "" : `${state}: `}${children} · svc`;
  }, [children, state]);
  const [isWhole, setWhole] = useState(false);
  const name = hidden ? "visually-hidden" : isWhole ? "" : "clamp";
  // A finger opens what is cut; who listens hears all of it.
  return (
    <h1 className={name} onClick={() => setWhole(!isWhole)}>
      {children}
    </h1>
  );
};

/** There is nothing: says why, and what to do. */
export const Empty = ({ title, children }: { title: string; children?: ReactNode }) => (
  <div className="page-state">
    <h2>{title}</h2>
    {children && <p>{children}</p>}
  </div>
);

/** Shown only when the wait is felt, so that nothing flickers. */
export const Loading = ({ what = "Loading" }: { what?: string }) => (
  <div className="page-state loading" role="status">
    <p>{what}…</p>
  </div>
);

/** What went wrong, in the service's words, and a way on. */
export const Failed = ({ error, retry }: { error: Error; retry?: () => void }) => {
  const [path] = useLocation();
  const status = error instanceof ClientError ? error.status : 0;
  // The prompt for the key is over the page.
  if (status === 401) return <Loading what="Waiting for a key" />;
  return (
    <div className="page-state failed" role="alert">
      <h2>{titles[status] ?? "This could not be read"}</h2>
      <p>{status === 404 ? error.message.replace(/; (svc|GET) .*$/s, "") : error.message}</p>
      {status === 404 && <Link href={path.split("/", 2).join("/")}>Back to the list</Link>}
      {retry && <Button text="Try again" run={retry} />}
    </div>
  );
};

const titles: Record<number, string> = {
  0: "The service does not answer",
  403: "This is not permitted",
  404: "This was not found",
};

type AnswerProps<Data> = { query: UseQueryResult<Data>; children: (data: Data) => ReactNode };

/** What a query has read, or the state it is in. Data that was read stays when reading it again fails. */
export const Answer = <Data,>({ query, children }: AnswerProps<Data>) => {
  if (query.data !== undefined) return children(query.data);
  if (query.error) return <Failed error={query.error} retry={() => void query.refetch()} />;
  return <Loading />;
};

type SectionProps<Data> = AnswerProps<Data> & { title: string };

/** A part of a page with its heading, and what its query has read. */
export const Section = <Data,>({ title, ...answer }: SectionProps<Data>) => (
  <section aria-label={title} className="stack">
    <h2>{title}</h2>
    <Answer {...answer} />
  </section>
);

/** A further page that could not be read; what is there stays. */
export const FurtherFailed = ({ error, retry }: { error: Error | null; retry: () => void }) => (
  <p role="alert" className="strip">
    <span className="fault">More could not be read: {error?.message}</span>{" "}
    <Button text="Try again" run={retry} />
  </p>
);
