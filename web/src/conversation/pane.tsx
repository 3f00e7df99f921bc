import { useCallback, useEffect, useRef, useState, type ReactNode } from "react";
import { SearchField } from "../parts/filters.tsx";
import { RowList, useRows, type Rows } from "../parts/virtual-list.tsx";
import { Button, useShortcut } from "../shell/shortcuts.tsx";
import { textOf, type Entry } from "./entry.ts";
import { PartView } from "./part.tsx";
import "./conversation.css";

type Props = {
  count: number;
  entry: (index: number) => Entry | undefined;
  /** The selected entry; -1: none. */
  at: number;
  select: (index: number) => void;
  /** Beside an entry: its time, with its address. */
  mark?: (index: number) => ReactNode;
  /** Below the parts of an entry. */
  end?: (index: number) => ReactNode;
  label?: string;
  /** Paths are shown from here. */
  worktree?: string | null;
  /** Stays at the end while more comes. */
  follows?: boolean;
  /** A change of it scrolls to the end. */
  newest?: number;
  /** Entries come before those that are shown, which keep their place. */
  growsUp?: boolean;
  /** All entries are there, so that they can be searched. */
  canFind?: boolean;
  /** Above and below the entries. */
  head?: ReactNode;
  foot?: ReactNode;
  onView?: (top: number, bottom: number, isBackward: boolean) => void;
};

/** A conversation, of which only what is seen is in the page. */
export const ConversationPane = (props: Props) => {
  const { count, entry, at, mark, end, label = "Conversation", worktree = null } = props;
  const { follows = false, growsUp = false, canFind = false, head, foot } = props;
  const [opened, setOpened] = useState<ReadonlyMap<string, boolean>>(new Map());
  const toggle = useCallback(
    (key: string, isOpen: boolean) => setOpened((before) => new Map(before).set(key, isOpen)),
    [],
  );
  const rows = useRows({
    count,
    estimateSize: () => 34,
    getItemKey: (index) => entry(index)?.seq ?? index,
    anchorTo: follows || growsUp ? "end" : "start",
    followOnAppend: follows,
    scrollEndThreshold: 48,
  });
  const { list } = rows;
  useScrolling(props, list);
  const go = useKeys(props, rows);

  const find = (index: number): void => {
    go(index);
    const found = entry(index);
    if (found?.parts.length === 1) toggle(`${found.seq}.0`, true);
  };
  const row = (index: number) => {
    const shown = entry(index);
    if (shown === undefined) return null;
    const { seq, type, parts, isLive, changes } = shown;
    return (
      <article className={`entry ${type}`} aria-current={index === at || undefined}>
        {mark?.(index)}
        <div>
          {parts.map((part, place) => (
            <PartView
              key={place}
              id={`${seq}.${place}`}
              part={part}
              changes={changes}
              worktree={worktree}
              isLive={isLive}
              isLast={place === parts.length - 1}
              isOpen={opened.get(`${seq}.${place}`)}
              toggle={toggle}
            />
          ))}
          {end?.(index)}
        </div>
      </article>
    );
  };
  return (
    <div className="conversation column">
      {canFind && <Find count={count} entry={entry} at={at} select={find} />}
      {head}
      <RowList rows={rows} measured tabIndex={0} role="region" aria-label={label} row={row} />
      {foot}
      {foot === undefined && !list.isAtEnd(48) && (
        <Button text="Jump to latest" className="edge" run={() => list.scrollToEnd()} />
      )}
    </div>
  );
};

/** Shows the entry that is selected, or the end of what goes on. */
const useScrolling = (props: Props, list: Rows["list"]): void => {
  const { count, entry, at, follows = false, newest, onView } = props;
  const selected = entry(at)?.seq;
  const last = useRef<{ selected?: number | undefined; at: number }>({ at: -1 });
  useEffect(() => {
    const before = last.current;
    last.current = { selected, at };
    // Entries added before an entry change its index: the list must not go on to scroll to the old one.
    const isOnItsWay = list["scrollState"]?.index === before.at;
    if (selected === undefined || (selected === before.selected && !isOnItsWay)) return;
    list.scrollToIndex(at, { align: before.selected === undefined ? "start" : "auto" });
  }, [selected, at, list]);
  const hasBegun = count > 0;
  useEffect(() => {
    if (hasBegun && follows && (selected === undefined || newest !== undefined)) list.scrollToEnd();
    // Only when the first entries are there.
  }, [hasBegun, newest]);
  const { startIndex = 0, endIndex = 0 } = list.range ?? {};
  useEffect(() => onView?.(startIndex, endIndex, list.scrollDirection === "backward"));
};

/** Returns the function that selects the entry at an index, or the nearest. */
const useKeys = ({ count, at, select }: Props, { list, scroller }: Rows) => {
  const go = (index: number): void => select(Math.max(0, Math.min(count - 1, index)));
  const { startIndex = 0, endIndex = 0 } = list.range ?? {};
  useShortcut("j", "Next entry of the conversation", () => go(at >= 0 ? at + 1 : startIndex));
  useShortcut("k", "Entry before", () => go(at >= 0 ? at - 1 : endIndex));
  useShortcut("e", "Open or close the entry", () => {
    const fold = scroller.current?.querySelector<HTMLDetailsElement>("[aria-current] details");
    if (fold) fold.open = !fold.open;
  });
  useShortcut("G", "Latest entry", () => list.scrollToEnd());
  useShortcut("g g", "First entry", () => list.scrollToIndex(0));
  return go;
};

/** Finds in the whole conversation, of which the browser's own search sees only what is in view. */
const Find = ({ count, entry, at, select }: Pick<Props, "count" | "entry" | "at" | "select">) => {
  const [text, setText] = useState("");
  const [isMissed, setMissed] = useState(false);
  const find = (step: 1 | -1): void => {
    if (text === "") return;
    const wanted = text.toLowerCase();
    const begin = at === -1 && step === -1 ? 0 : at;
    const order = Array.from({ length: count }, (_, n) => (begin + step * (n + 1) + 2 * count) % count);
    const found = order.find((index) =>
      entry(index)?.parts.some((part) => textOf(part).toLowerCase().includes(wanted)),
    );
    setMissed(found === undefined);
    if (found !== undefined) select(found);
  };
  return (
    <search className="find strip row">
      <SearchField
        label="Find in the conversation"
        hint="Find"
        text={text}
        change={(typed) => {
          setText(typed);
          setMissed(false);
        }}
        enter={find}
      />
      <output className="fault">{isMissed && "Not found"}</output>
    </search>
  );
};
