import { useQuery } from "@tanstack/react-query";
import { Link, useLocation } from "wouter";
import { routes } from "../routes.tsx";
import { client, connection, hasKey, isBehind, needsKey, signOut } from "./service.ts";
import { Button, help, useShortcut } from "./shortcuts.tsx";
import { createStore } from "./store.ts";

type Theme = "system" | "light" | "dark";

const stored = "svc.theme";
const themes: readonly Theme[] = ["system", "light", "dark"];

const theme = createStore<Theme>(themes.find((name) => name === localStorage.getItem(stored)) ?? "system");

/** Shows the page in the chosen colours; `system`: in those of the browser. */
export const applyTheme = (): void => {
  document.documentElement.dataset["theme"] = theme.get();
};

/** From the browser's colours to light, to dark, and back. */
const nextTheme = (): void => {
  theme.set(themes[(themes.indexOf(theme.get()) + 1) % themes.length] ?? "system");
  localStorage.setItem(stored, theme.get());
  applyTheme();
};

const signs: Record<Theme, string> = { system: "◐", light: "○", dark: "●" };

export const Header = () => {
  const colours = theme.use();
  needsKey.use();
  return (
    <header className="bar">
      <Link href="/jobs" className="mark" aria-label="svc, jobs">
        svc
        <span aria-hidden="true" />
      </Link>
      <nav aria-label="Pages">
        {navigation.map((entry) => (
          <Entry key={entry.path} {...entry} />
        ))}
      </nav>
      <Button
        text={<span className="sign" data-sign={signs[colours]} />}
        className="quiet"
        aria-label={`Colours: ${colours}`}
        keys="t"
        label="Light, dark, or as the system"
        run={nextTheme}
      />
      <Button
        text="Shortcuts"
        className="quiet keyboard"
        keys="?"
        label="Show the shortcuts"
        run={() => help.set(true)}
      />
      {hasKey() && <Button text="Forget key" className="quiet" run={() => void signOut()} />}
    </header>
  );
};

const navigation = routes.flatMap(({ path, navigation: entry }) => (entry ? [{ path, ...entry }] : []));

/** A page, if this service has it. */
const Entry = ({ path, title, keys, isThere }: (typeof navigation)[number]) => {
  const [current, navigate] = useLocation();
  const isHere = useQuery({
    queryKey: ["page", path],
    queryFn: () => isThere?.(client()) ?? true,
    staleTime: Infinity,
    ...(isThere === undefined && { initialData: true }),
  });
  useShortcut(isHere.data === true ? `g ${keys}` : "", title, () => navigate(path));
  return (
    isHere.data === true && (
      <Link href={path} aria-current={current.startsWith(path) ? "page" : undefined}>
        {title}
      </Link>
    )
  );
};

/** Says when what is shown may be out of date. */
export const Behind = () => {
  const state = connection.use();
  const isLate = isBehind.use();
  return (
    <div role="status" className="behind strip">
      {state === "online" && isLate && "Changes do not come. What you see may be out of date; trying again…"}
      {state === "offline" && "The service does not answer. What you see may be out of date; trying again…"}
      {state === "outdated" && (
        <>
          The service was updated. <Button text="Load the new page" run={() => location.reload()} />
        </>
      )}
    </div>
  );
};
