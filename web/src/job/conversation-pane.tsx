import { useVirtualizer } from "@tanstack/react-virtual";
import { useCallback, useEffect, useRef, useState } from "react";
import { Empty, Failed, Loading } from "../parts/states.tsx";
import { useShortcut } from "../shell/shortcuts.tsx";
import { EntryRow } from "./entry.tsx";
import { Find } from "./find.tsx";
import type { Follower } from "./follow.ts";
import "../parts/conversation.css";

type Props = {
  follower: Follower;
  /** Time of the submission, ms since the epoch. */
  begin: number;
  hasEnded: boolean;
};

/** The event of the address, `#e123`; 0: none. */
const addressed = (): number => Number(/^#e([1-9]\d{0,9})$/.exec(location.hash)?.[1] ?? 0);

/** The conversation, of which only what is seen is in the page. At its end it follows what comes. */
export const ConversationPane = ({ follower, begin, hasEnded }: Props) => {
  const { conversation, version, failure } = follower;
  version.use();
  const { entries, facts } = conversation;
  const count = entries.length;
  const scroller = useRef<HTMLDivElement>(null);
  const [selected, setSelected] = useState(addressed);
  const [opened, setOpened] = useState<ReadonlyMap<number, boolean>>(new Map());
  const toggle = useCallback(
    (seq: number, isOpen: boolean) => setOpened((before) => new Map(before).set(seq, isOpen)),
    [],
  );
  const rows = useVirtualizer({
    count,
    getScrollElement: () => scroller.current,
    estimateSize: () => 34,
    getItemKey: (index) => entries[index]?.seq ?? index,
    overscan: 8,
    anchorTo: hasEnded ? "start" : "end",
    followOnAppend: !hasEnded,
    scrollEndThreshold: 48,
  });
  const at = selected > 0 && facts.seq >= selected ? conversation.indexOf(selected) : -1;

  useEffect(() => {
    const read = (): void => setSelected(addressed());
    window.addEventListener("hashchange", read);
    return () => window.removeEventListener("hashchange", read);
  }, []);
  useEffect(() => {
    if (at >= 0) rows.scrollToIndex(at, { align: "auto" });
  }, [at, rows]);
  const hasBegun = count > 0;
  useEffect(() => {
    if (hasBegun && !hasEnded && addressed() === 0) rows.scrollToEnd();
    // Only when the first events are there.
  }, [hasBegun]);

  const select = (index: number): void => {
    const entry = entries[Math.max(0, Math.min(count - 1, index))];
    if (entry === undefined) return;
    history.replaceState(history.state, "", `#e${entry.seq}`);
    setSelected(entry.seq);
  };
  const open = (index: number): void => {
    select(index);
    const seq = entries[index]?.seq;
    if (seq !== undefined) toggle(seq, true);
  };
  useShortcut("j", "Next entry of the conversation", () =>
    select(at >= 0 ? at + 1 : (rows.range?.startIndex ?? 0)),
  );
  useShortcut("k", "Entry before", () => select(at >= 0 ? at - 1 : (rows.range?.endIndex ?? 0)));
  useShortcut("e", "Open or close the entry", () => {
    const fold = scroller.current?.querySelector<HTMLDetailsElement>("[aria-current] details");
    if (fold) fold.open = !fold.open;
  });
  useShortcut("G", "Latest entry", () => rows.scrollToEnd());
  useShortcut("g g", "First entry", () => rows.scrollToIndex(0));

  const failed = failure.use();
  if (failed !== null && count === 0) return <Failed error={failed} />;
  if (count === 0) return hasEnded ? <Loading /> : <Empty title="Nothing has happened yet" />;
  return (
    <div className="conversation">
      <Find entries={entries} at={at} select={open} />
      <div ref={scroller} className="scroller" tabIndex={0} role="region" aria-label="Conversation">
        <div className="rows" style={{ height: rows.getTotalSize() }}>
          {rows.getVirtualItems().map(({ key, index, start }) => {
            const entry = entries[index];
            return (
              entry && (
                <div
                  key={key}
                  ref={rows.measureElement}
                  data-index={index}
                  className="row"
                  style={{ transform: `translateY(${start}px)` }}
                >
                  <EntryRow
                    entry={entry}
                    changes={entry.changes}
                    begin={begin}
                    worktree={facts.worktree}
                    isSelected={index === at}
                    isOpen={opened.get(entry.seq)}
                    toggle={toggle}
                  />
                </div>
              )
            );
          })}
        </div>
      </div>
      {!rows.isAtEnd(48) && (
        <button type="button" className="latest" onClick={() => rows.scrollToEnd()}>
          Jump to latest <kbd>G</kbd>
        </button>
      )}
    </div>
  );
};
