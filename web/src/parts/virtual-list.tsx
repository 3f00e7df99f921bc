import { useVirtualizer, type Virtualizer } from "@tanstack/react-virtual";
import { useEffect, useRef, type HTMLAttributes, type ReactNode, type RefObject } from "react";

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

type Props = Omit<RowListProps, "rows"> & {
  count: number;
  /** Height of a row, px; with `measured` only a guess. */
  estimate: number;
  /** Another function makes it measure all rows anew. */
  rowKey: (index: number) => string | number;
  /** Kept in view. */
  active?: number;
  /** Called when the last rows come into view. */
  onNearEnd?: (() => void) | undefined;
};

export const VirtualList = ({ count, estimate, rowKey, active = -1, onNearEnd, ...rest }: Props) => {
  const rows = useRows({ count, estimateSize: () => estimate, getItemKey: rowKey });
  const { list } = rows;
  useEffect(() => {
    if (active >= 0) list.scrollToIndex(active, { align: "auto" });
  }, [active, list]);
  useEffect(() => list.measure(), [estimate, list]);
  const last = list.getVirtualItems().at(-1)?.index ?? 0;
  useEffect(() => {
    if (last >= count - 20) onNearEnd?.();
  }, [last, count, onNearEnd]);
  return <RowList rows={rows} {...rest} />;
};
