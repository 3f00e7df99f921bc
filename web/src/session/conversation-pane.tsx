import { useVirtualizer } from "@tanstack/react-virtual";
import { useCallback, useEffect, useRef, useState } from "react";
import { useLocation } from "wouter";
import { useShortcut } from "../shell/shortcuts.tsx";
import { FurtherFailed } from "../transcripts/bridge-states.tsx";
import { addressOf } from "../transcripts/row.tsx";
import type { useEntries } from "./entries.ts";
import { SessionEntry } from "./entry.tsx";
import "../parts/conversation.css";

type Props = {
  session: string;
  project: string;
  /** Of the first entry, ms since the epoch. */
  begin: number;
  /** The position in the address; null: none. */
  at: number | null;
  loaded: ReturnType<typeof useEntries>;
};

/** The conversation of a session, of which only what is seen is in the page. More is read where it is scrolled to. */
export const ConversationPane = ({ session, project, begin, at, loaded }: Props) => {
  const { query, first, entries, total, results } = loaded;
  const { isFetching, error, hasPreviousPage, isFetchPreviousPageError, isFetchNextPageError } = query;
  const [, navigate] = useLocation();
  const scroller = useRef<HTMLDivElement>(null);
  const [opened, setOpened] = useState<ReadonlyMap<string, boolean>>(new Map());
  const toggle = useCallback(
    (key: string, isOpen: boolean) => setOpened((before) => new Map(before).set(key, isOpen)),
    [],
  );
  const count = entries.length;
  const end = first + count;
  const rows = useVirtualizer({
    count,
    getScrollElement: () => scroller.current,
    estimateSize: () => 48,
    getItemKey: (index) => first + index,
    overscan: 8,
    // Entries that are added before keep the reader's place.
    anchorTo: "end",
  });

  const shown = at === null ? -1 : Math.min(at, total - 1) - first;
  const hasRows = count > 0;
  const hasShown = useRef(false);
  useEffect(() => {
    if (shown < 0 || shown >= count) return;
    rows.scrollToIndex(shown, { align: hasShown.current ? "auto" : "start" });
    hasShown.current = true;
    // Not when entries are added before.
  }, [at, rows, hasRows]);

  const earlier = (): void => void query.fetchPreviousPage();
  const later = (): void => void query.fetchNextPage();
  const [top, bottom] = [rows.range?.startIndex ?? 0, rows.range?.endIndex ?? 0];
  useEffect(() => {
    if (isFetching) return;
    const isBack = top < 3 && rows.scrollDirection === "backward";
    if (bottom >= count - 5 && end < total && !isFetchNextPageError) later();
    else if ((!hasRows || isBack) && hasPreviousPage && !isFetchPreviousPageError) earlier();
  });

  const select = (index: number): void =>
    navigate(addressOf(session, first + Math.max(0, Math.min(count - 1, index))), { replace: true });
  useShortcut("j", "Next entry of the conversation", () => select(shown >= 0 ? shown + 1 : top));
  useShortcut("k", "Entry before", () => select(shown >= 0 ? shown - 1 : bottom));
  useShortcut("e", "Open or close the entry", () => {
    const fold = scroller.current?.querySelector<HTMLDetailsElement>("[aria-current] details");
    if (fold) fold.open = !fold.open;
  });
  useShortcut("G", "Latest entry that is read", () => rows.scrollToEnd());

  return (
    <div className="conversation">
      {isFetchPreviousPageError && error !== null ? (
        <FurtherFailed error={error} retry={earlier} />
      ) : (
        hasPreviousPage && (
          <button type="button" className="edge" disabled={isFetching} onClick={earlier}>
            Show earlier ({first.toLocaleString("en")})
          </button>
        )
      )}
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
                  <SessionEntry
                    entry={entry}
                    session={session}
                    position={first + index}
                    begin={begin}
                    project={project}
                    results={results}
                    isSelected={index === shown}
                    opened={opened}
                    toggle={toggle}
                  />
                </div>
              )
            );
          })}
        </div>
      </div>
      {isFetchNextPageError && error !== null ? (
        <FurtherFailed error={error} retry={later} />
      ) : (
        end >= total && (
          <button type="button" className="edge" disabled={isFetching} onClick={later}>
            Look for new entries
          </button>
        )
      )}
    </div>
  );
};
