import { useEffect, useEffectEvent, type ButtonHTMLAttributes, type ReactNode } from "react";
import { Dialog } from "../parts/dialog.tsx";
import { isComposing } from "../parts/keys.ts";
import { createStore } from "./store.ts";

type Shortcut = { keys: string; label: string; run: () => void };

const registered = createStore<readonly Shortcut[]>([]);

/** Whether the list of shortcuts is shown. */
export const help = createStore(false);

/**
 * A key for as long as the component is shown: `n`, `Enter`, or two after another, `g j`. Not while the user types in a
 * field or a dialog is open.
 */
export const useShortcut = (keys: string, label: string, run: () => void): void => {
  const latest = useEffectEvent(run);
  useEffect(() => {
    if (keys === "") return undefined;
    const shortcut = { keys, label, run: () => latest() };
    registered.set([...registered.get(), shortcut]);
    return () => registered.set(registered.get().filter((each) => each !== shortcut));
  }, [keys, label]);
};

type ButtonProps = Omit<ButtonHTMLAttributes<HTMLButtonElement>, "onClick"> & {
  text: ReactNode;
  run: () => void;
  /** What presses it, too, and what that does. */
  keys?: string;
  label?: string;
};

/** A button; those of a form's submission apart. */
export const Button = ({ text, run, keys = "", label = "", ...rest }: ButtonProps) => {
  useShortcut(keys, label, run);
  return (
    <button type="button" onClick={run} {...rest}>
      {text}
    </button>
  );
};

let before = "";

const onKey = (event: KeyboardEvent): void => {
  const { target, key, ctrlKey, metaKey, altKey } = event;
  if (
    isComposing(event) ||
    ctrlKey ||
    metaKey ||
    altKey ||
    event.defaultPrevented ||
    ["Shift", "CapsLock"].includes(key)
  )
    return;
  const element = target instanceof HTMLElement ? target : document.body;
  if (element.closest("input, textarea, select, [contenteditable], dialog") !== null) return;
  // What a focused link or button does with Enter stays its own.
  if (key === "Enter" && element.closest("a, button, summary") !== null) return;
  const both = `${before} ${key}`;
  before = key;
  const all = registered.get();
  const shortcut = all.findLast(({ keys }) => keys === both) ?? all.findLast(({ keys }) => keys === key);
  if (shortcut === undefined) return;
  before = "";
  event.preventDefault();
  shortcut.run();
};

window.addEventListener("keydown", onKey);

export const ShortcutHelp = () => {
  const all = registered.use().toSorted((one, other) => one.keys.localeCompare(other.keys));
  if (!help.use()) return null;
  return (
    <Dialog title="Keyboard shortcuts" onClose={() => help.set(false)}>
      <dl className="names">
        {all.map(({ keys, label }) => (
          <div key={keys}>
            <dt>
              {keys.split(" ").map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{label}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
};
