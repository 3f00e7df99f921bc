import { createStore } from "./store.ts";

type Theme = "system" | "light" | "dark";

const stored = "svc.theme";
const themes: readonly Theme[] = ["system", "light", "dark"];

export const theme = createStore<Theme>(
  themes.find((name) => name === localStorage.getItem(stored)) ?? "system",
);

/** Shows the page in the chosen colours; `system`: in those of the browser. */
export const applyTheme = (): void => {
  document.documentElement.dataset["theme"] = theme.get();
};

/** From the browser's colours to light, to dark, and back. */
export const nextTheme = (): void => {
  theme.set(themes[(themes.indexOf(theme.get()) + 1) % themes.length] ?? "system");
  localStorage.setItem(stored, theme.get());
  applyTheme();
};
