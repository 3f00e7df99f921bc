import { Component, useEffect, useRef, type ReactNode } from "react";
import { LoadError } from "../parts/late.tsx";
import { Loading } from "../parts/states.tsx";
import { Title } from "../parts/title.tsx";
import { connection } from "./service.ts";

type Props = { children: ReactNode };

/** Shows a page that failed as failed, and leaves the rest in use. */
export class Boundary extends Component<Props, { error: Error | null }> {
  override state = { error: null as Error | null };

  static getDerivedStateFromError(error: Error) {
    return { error };
  }

  override render() {
    const { error } = this.state;
    if (error === null) return this.props.children;
    if (error instanceof LoadError) return <Missing again={() => this.setState({ error: null })} />;
    return <Unusable title="This page failed">{error.message}</Unusable>;
  }
}

/** A part did not come. It is asked for again when a service that was away is back; an updated one has it no more. */
const Missing = ({ again }: { again: () => void }) => {
  const state = connection.use();
  const before = useRef(state);
  useEffect(() => {
    if (before.current === "offline" && state === "online") again();
    before.current = state;
  });
  if (state === "offline") return <Loading what="Waiting for the service" />;
  return (
    <Unusable title={state === "outdated" ? "The service was updated" : "A part of this page is missing"}>
      Load the page again to go on. The service may have a new version of it.
    </Unusable>
  );
};

const Unusable = ({ title, children }: { title: string; children: string }) => (
  <div className="page-state failed" role="alert">
    <Title>{title}</Title>
    <p>{children}</p>
    <button type="button" onClick={() => location.reload()}>
      Load again
    </button>
  </div>
);
