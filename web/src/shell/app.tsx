import { QueryClientProvider } from "@tanstack/react-query";
import { useEffect, useRef } from "react";
import { Redirect, Route, Router, Switch, useLocation } from "wouter";
import { Empty } from "../parts/states.tsx";
import { routes } from "../routes.tsx";
import { Boundary } from "./boundary.tsx";
import { KeyPrompt } from "./key-prompt.tsx";
import { Behind, Header } from "./header.tsx";
import { queries } from "./service.ts";
import { ShortcutHelp } from "./shortcuts.tsx";

export const App = () => (
  <QueryClientProvider client={queries}>
    <Router base="/ui">
      <a className="skip" href="#main">
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
