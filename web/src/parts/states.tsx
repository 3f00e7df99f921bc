import type { UseQueryResult } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { Link, useLocation } from "wouter";
import { ClientError } from "../../../src/client/client-error.ts";

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
      <p>{error.message}</p>
      {status === 404 && <Link href={path.split("/", 2).join("/")}>Back to the list</Link>}
      {retry && (
        <button type="button" onClick={retry}>
          Try again
        </button>
      )}
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

type FurtherProps = { error: Error; retry: () => void; what?: string };

/** A further page that could not be read; what is there stays. */
export const FurtherFailed = ({ error, retry, what = "" }: FurtherProps) => (
  <p role="alert" className="further">
    <span className="fault">
      {what}
      {error.message}
    </span>{" "}
    <button type="button" onClick={retry}>
      Try again
    </button>
  </p>
);
