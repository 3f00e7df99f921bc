import { useQueries } from "@tanstack/react-query";
import { Link, useLocation } from "wouter";
import { routes } from "../routes.tsx";
import { client, connection, hasKey, isBehind, needsKey, signOut } from "./service.ts";
import { help, useShortcut } from "./shortcuts.tsx";
import { nextTheme, theme } from "./theme.ts";

export const Header = () => {
  const [, navigate] = useLocation();
  const entries = usePresent();
  const colours = theme.use();
  useShortcut("?", "Show the shortcuts", () => help.set(true));
  useShortcut("t", "Light, dark, or as the system", nextTheme);
  return (
    <header className="bar">
      <Link href="/jobs" className="mark" aria-label="svc, jobs">
        svc
        <span aria-hidden="true" />
      </Link>
      <nav aria-label="Pages">
        {entries.map(({ path, title, key }) => (
          <Entry key={path} path={path} title={title} keys={`g ${key}`} go={() => navigate(path)} />
        ))}
      </nav>
      <button type="button" className="quiet" onClick={nextTheme} aria-label={`Colours: ${colours}`}>
        <svg viewBox="0 0 16 16" width="14" height="14" aria-hidden="true">
          <circle
            cx="8"
            cy="8"
            r="6.5"
            fill={colours === "dark" ? "currentColor" : "none"}
            stroke="currentColor"
          />
          {colours === "system" && <path d="M8 1.5a6.5 6.5 0 0 1 0 13z" fill="currentColor" />}
        </svg>
      </button>
      <button type="button" className="quiet keyboard" onClick={() => help.set(true)}>
        Shortcuts
      </button>
      <KeyButton />
    </header>
  );
};

const KeyButton = () => {
  needsKey.use();
  return hasKey() ? (
    <button type="button" className="quiet" onClick={() => void signOut()}>
      Forget key
    </button>
  ) : null;
};

const navigation = routes.flatMap(({ path, navigation: entry }) => (entry ? [{ path, ...entry }] : []));

/** The pages that this service has. */
const usePresent = () => {
  const asked = useQueries({
    queries: navigation.map(({ path, isThere }) => ({
      queryKey: ["page", path],
      queryFn: () => isThere?.(client()) ?? true,
      staleTime: Infinity,
      ...(isThere === undefined && { initialData: true }),
    })),
  });
  return navigation.filter((_, at) => asked[at]?.data === true);
};

type EntryProps = { path: string; title: string; keys: string; go: () => void };

const Entry = ({ path, title, keys, go }: EntryProps) => {
  const [current] = useLocation();
  useShortcut(keys, title, go);
  return (
    <Link href={path} aria-current={current.startsWith(path) ? "page" : undefined}>
      {title}
    </Link>
  );
};

/** Says when what is shown may be out of date. */
export const Behind = () => {
  const state = connection.use();
  const isLate = isBehind.use();
  return (
    <div role="status" className="behind">
      {state === "online" && isLate && "Changes do not come. What you see may be out of date; trying again…"}
      {state === "offline" && "The service does not answer. What you see may be out of date; trying again…"}
      {state === "outdated" && (
        <>
          The service was updated.{" "}
          <button type="button" onClick={() => location.reload()}>
            Load the new page
          </button>
        </>
      )}
    </div>
  );
};
