import { QueryClientProvider } from "@tanstack/react-query";
import { useEffect, useRef, Component, type ReactNode } from "react";
import { Redirect, Route, Router, Switch, useLocation } from "wouter";
import { Dialog, KeyForm } from "../parts/dialog.tsx";
import { LoadError } from "../parts/late.tsx";
import { Empty, Loading, Title } from "../parts/states.tsx";
import { routes } from "../routes.tsx";
import { Behind, Header } from "./header.tsx";
import { needsKey, queries, signIn, connection } from "./service.ts";
import { ShortcutHelp, Button } from "./shortcuts.tsx";

export const App = () => (
  <QueryClientProvider client={queries}>
    <Router base="/ui">
      <a className="visually-hidden" href="#main">
        Skip to the content
      </a>
      <Header />
      <Behind />
      <Main />
      <ShortcutHelp />
      <KeyPrompt />
    </Router>
  </QueryClientProvider>
);

const Main = () => {
  const [path] = useLocation();
  const main = useRef<HTMLElement>(null);
  const shown = useRef(path);
  useEffect(() => {
    // A screen reader begins with the page that was just opened.
    if (shown.current !== path) main.current?.focus();
    shown.current = path;
  }, [path]);
  return (
    <main id="main" ref={main} tabIndex={0}>
      <Boundary key={path}>
        <Switch>
          {routes.map(({ path: at, Page }) => (
            <Route key={at} path={at} component={Page} />
          ))}
          <Route path="/">
            <Redirect to="/jobs" replace />
          </Route>
          <Route>
            <Empty title="There is no such page">Choose one above.</Empty>
          </Route>
        </Switch>
      </Boundary>
    </main>
  );
};

/** Asks for a key while the service wants one. */
const KeyPrompt = () =>
  needsKey.use() && (
    <Dialog title="This service asks for a key">
      <KeyForm
        label="One of its API keys"
        setting="SERVICE_API_KEYS"
        refused="That key is not one of the service's"
        use={signIn}
      />
    </Dialog>
  );

type BoundaryProps = { children: ReactNode };

/** Shows a page that failed as failed, and leaves the rest in use. */
class Boundary extends Component<BoundaryProps, { error: Error | null }> {
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
    <Button text="Load again" run={() => location.reload()} />
  </div>
);
