import { useEffect, useRef, useState, type ReactNode, type SelectHTMLAttributes } from "react";
import { useShortcut } from "../shell/shortcuts.tsx";
import { isComposing } from "./keys.ts";
import { useIsTouched } from "./media.ts";
import "./lists.css";

/** A parameter of the address, and the values that are offered for it. */
type Choice = {
  name: string;
  label: string;
  offered: readonly string[];
  shown?: (value: string) => string;
};

type Props = {
  /** What is searched. */
  search: string;
  choices: readonly Choice[];
  asked: Record<string, string>;
  change: (changes: Record<string, string>) => void;
  /** How many there are, and what can be done. */
  children: ReactNode;
};

/** What narrows a list: words, choices, and the time. */
export const Filters = ({ search, choices, asked, change, children }: Props) => (
  <search className="filters row wrap">
    <Search label={search} text={asked["q"] ?? ""} change={(q) => change({ q })} />
    {[...choices, time()].map(({ name, label, offered, shown = (each) => each }) => {
      const value = asked[name] ?? "";
      const values = [...new Set([value, ...offered])].filter(Boolean);
      return (
        <Select
          key={name}
          aria-label={label}
          value={value}
          data-set={value !== ""}
          options={[["", label], ...values.map((each) => [each, shown(each)] as const)]}
          change={(chosen) => change({ [name]: chosen })}
        />
      );
    })}
    {children}
  </search>
);

/** Since a date, which the service reads in UTC. */
const time = (): Choice => {
  const names = ["Today", "Last 7 days", "Last 30 days"];
  const offered = [0, 7, 30].map((days) =>
    new Date(Date.now() - days * 86_400_000).toISOString().slice(0, 10),
  );
  return {
    name: "since",
    label: "Time",
    offered,
    shown: (since) => names[offered.indexOf(since)] ?? `Since ${since}`,
  };
};

type SearchProps = { label: string; text: string; change: (text: string) => void };

/** What is typed, once the typing pauses. */
const Search = ({ label, text, change }: SearchProps) => {
  const [typed, setTyped] = useState(text);
  // The address changes by the browser's own buttons too.
  useEffect(() => setTyped(text), [text]);
  useEffect(() => {
    if (typed === text) return undefined;
    const pause = setTimeout(() => change(typed), 200);
    return () => clearTimeout(pause);
  });
  return <SearchField label={label} text={typed} change={setTyped} />;
};

type FieldProps = SearchProps & {
  hint?: string;
  /** What Enter does, -1 with Shift; absent: it leaves the field. */
  enter?: (step: 1 | -1) => void;
};

/** A field for words, which `/` leads to and Escape leaves. */
export const SearchField = ({ label, hint = label, text, change, enter }: FieldProps) => {
  const field = useRef<HTMLInputElement>(null);
  useShortcut("/", label, () => field.current?.focus());
  return (
    <input
      ref={field}
      type="search"
      aria-label={label}
      placeholder={useIsTouched() ? hint : `${hint}  /`}
      value={text}
      onChange={({ target }) => change(target.value)}
      onKeyDown={({ key, shiftKey, nativeEvent }) => {
        if (isComposing(nativeEvent)) return;
        if (key === "Enter") enter?.(shiftKey ? -1 : 1);
        if (key === "Escape" || (key === "Enter" && enter === undefined)) field.current?.blur();
      }}
    />
  );
};

type SelectProps = Omit<SelectHTMLAttributes<HTMLSelectElement>, "onChange"> & {
  /** Values, and what stands for them; absent: themselves. */
  options: readonly (readonly [value: string, name?: string])[];
  change: (value: string) => void;
};

/** One of some values. */
export const Select = ({ options, change, ...rest }: SelectProps) => (
  <select {...rest} onChange={({ target }) => change(target.value)}>
    {options.map(([value, name = value]) => (
      <option key={value} value={value}>
        {name}
      </option>
    ))}
  </select>
);
