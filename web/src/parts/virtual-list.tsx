import type { UseInfiniteQueryResult } from "@tanstack/react-query";
import { useVirtualizer, type Virtualizer } from "@tanstack/react-virtual";
import { useCallback, useEffect, useRef, type HTMLAttributes, type ReactNode, type RefObject } from "react";
import { FurtherFailed } from "./states.tsx";

export type Rows = {
  list: Virtualizer<HTMLDivElement, Element>;
  scroller: RefObject<HTMLDivElement | null>;
};

type Options = Parameters<typeof useVirtualizer<HTMLDivElement, Element>>[0];
type RowOptions = Pick<Options, "count" | "estimateSize"> & Partial<Options>;

/** The rows of a list of which only those in view are made: one of 100,000 scrolls like one of ten. */
export const useRows = (options: RowOptions): Rows => {
  const scroller = useRef<HTMLDivElement>(null);
  const list = useVirtualizer({ getScrollElement: () => scroller.current, overscan: 8, ...options });
  return { scroller, list };
};

type RowListProps = HTMLAttributes<HTMLDivElement> & {
  rows: Rows;
  /** Rows differ in height: the estimate is only a guess. */
  measured?: boolean;
  row: (index: number) => ReactNode;
  /** Above the rows, stays in view. */
  head?: ReactNode;
};

/** What scrolls, and the rows in view. */
export const RowList = ({ rows, measured = false, row, head, className = "", ...rest }: RowListProps) => (
  <div {...rest} ref={rows.scroller} className={`scroller ${className}`}>
    {head}
    <div className="rows" role="presentation" style={{ height: rows.list.getTotalSize() }}>
      {rows.list.getVirtualItems().map(({ index, key, start, size }) => (
        <div
          key={key}
          role="presentation"
          data-index={index}
          ref={measured ? rows.list.measureElement : undefined}
          style={{ transform: `translateY(${start}px)`, ...(!measured && { height: size }) }}
        >
          {row(index)}
        </div>
      ))}
    </div>
  </div>
);

type Further = Pick<
  UseInfiniteQueryResult,
  "hasNextPage" | "isFetching" | "isFetchNextPageError" | "fetchNextPage" | "error"
>;

type Props<Item> = Omit<RowListProps, "rows" | "row"> & {
  items: readonly Item[];
  keyOf: (item: Item) => string;
  row: (item: Item, index: number) => ReactNode;
  /** Height of a row, px; with `measured` only a guess. */
  estimate: number;
  /** Kept in view. */
  active?: number;
  /** Where further pages come from, when the last rows come into view. One that fails is tried again in place. */
  query?: Further;
};

export const VirtualList = <Item,>(props: Props<Item>) => {
  const { items, keyOf, row, estimate, active = -1, query, ...rest } = props;
  // Another function makes it measure all rows anew.
  const getItemKey = useCallback(
    (index: number) => {
      const item = items[index];
      return item === undefined ? index : keyOf(item);
    },
    [items],
  );
  const rows = useRows({ count: items.length, estimateSize: () => estimate, getItemKey });
  const { list } = rows;
  useEffect(() => {
    if (active >= 0) list.scrollToIndex(active, { align: "auto" });
  }, [active, list]);
  useEffect(() => list.measure(), [estimate, list]);
  const isNearEnd = (list.getVirtualItems().at(-1)?.index ?? 0) >= items.length - 20;
  // After a failure the user decides.
  const isDue = isNearEnd && query?.hasNextPage === true && !query.isFetching && !query.isFetchNextPageError;
  useEffect(() => {
    if (isDue) void query?.fetchNextPage();
  }, [isDue]);
  return (
    <>
      <RowList
        rows={rows}
        row={(index) => {
          const item = items[index];
          return item !== undefined && row(item, index);
        }}
        {...rest}
      />
      {query?.isFetchNextPageError === true && (
        <FurtherFailed error={query.error} retry={() => void query.fetchNextPage()} />
      )}
    </>
  );
};
