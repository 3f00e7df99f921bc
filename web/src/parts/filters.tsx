import { useEffect, useRef, useState } from "react";
import { useIsTouched } from "./media.ts";
import { useShortcut } from "../shell/shortcuts.tsx";
import "./filters.css";

type SinceProps = { value: string; change: (since: string) => void };

/** A day since when; empty: any. */
export const Since = ({ value, change }: SinceProps) => (
  <Choice
    label="Time"
    any="Time"
    value={value}
    offered={[daysAgo(0), daysAgo(7), daysAgo(30)]}
    name={(since) => names[[daysAgo(0), daysAgo(7), daysAgo(30)].indexOf(since)] ?? `Since ${since}`}
    change={change}
  />
);

const names = ["Today", "Last 7 days", "Last 30 days"];

/** A date, which the service reads in UTC. */
const daysAgo = (days: number): string => new Date(Date.now() - days * 86_400_000).toISOString().slice(0, 10);

type ChoiceProps = {
  label: string;
  any: string;
  value: string;
  offered: readonly string[];
  name?: (value: string) => string;
  change: (value: string) => void;
};

export const Choice = ({ label, any, value, offered, name = (each) => each, change }: ChoiceProps) => (
  <select
    aria-label={label}
    value={value}
    data-set={value !== ""}
    onChange={({ target }) => change(target.value)}
  >
    <option value="">{any}</option>
    {(value === "" || offered.includes(value) ? offered : [value, ...offered]).map((each) => (
      <option key={each} value={each}>
        {name(each)}
      </option>
    ))}
  </select>
);

type SearchProps = { label: string; text: string; change: (text: string) => void };

/** What is typed, once the typing pauses. */
export const Search = ({ label, text, change }: SearchProps) => {
  const field = useRef<HTMLInputElement>(null);
  const [typed, setTyped] = useState(text);
  useShortcut("/", "Search", () => field.current?.focus());
  // The address changes by the browser's own buttons too.
  useEffect(() => setTyped(text), [text]);
  useEffect(() => {
    if (typed === text) return undefined;
    const pause = setTimeout(() => change(typed), 200);
    return () => clearTimeout(pause);
  });
  return (
    <input
      ref={field}
      type="search"
      aria-label={label}
      placeholder={useIsTouched() ? label : `${label}  /`}
      value={typed}
      onChange={({ target }) => setTyped(target.value)}
      onKeyDown={({ key }) => {
        if (key === "Escape" || key === "Enter") field.current?.blur();
      }}
    />
  );
};
