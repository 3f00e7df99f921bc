import type { ReactNode } from "react";
import { ClientError } from "../../../src/client/client-error.ts";
import { KeyForm } from "../parts/key-form.tsx";
import { Empty, Failed, Loading } from "../parts/states.tsx";
import { needsBridgeKey, tryBridgeKey } from "./bridge.ts";

type Props<Data> = {
  query: { data: Data | undefined; error: Error | null; refetch: () => unknown };
  children: (data: Data) => ReactNode;
};

/** What the transcript service has answered, or why it has not. */
export const BridgeAnswer = <Data,>({ query: { data, error, refetch }, children }: Props<Data>) => {
  if (needsBridgeKey.use()) return <AskKey />;
  if (data !== undefined) return children(data);
  if (error === null) return <Loading />;
  // The service has no such path.
  if (error instanceof ClientError && error.code === "not_found")
    return (
      <Empty title="This service shows no transcripts">
        Start <code>bridge serve</code> beside it and name that in <code>SERVICE_BRIDGE_URL</code>: see{" "}
        <code>docs/use/transcripts.md</code>.
      </Empty>
    );
  return <Failed error={error} retry={() => void refetch()} />;
};

const AskKey = () => (
  <div className="page-state">
    <h2>The transcript service asks for a key</h2>
    <KeyForm
      label="One of its keys"
      refused="That key is not one of the transcript service's"
      note={
        <>
          Kept in this tab until you close it. The operator has set it in <code>BRIDGE_API_KEYS</code>.
        </>
      }
      use={tryBridgeKey}
    />
  </div>
);

/** A further page that could not be read; what is there stays. */
export const FurtherFailed = ({ error, retry }: { error: Error; retry: () => void }) => (
  <p role="alert" className="further">
    <span className="fault">{error.message}</span>{" "}
    <button type="button" onClick={retry}>
      Try again
    </button>
  </p>
);
