import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useRef, type HTMLAttributes, type ReactNode } from "react";
import "./virtual-list.css";

type Props = HTMLAttributes<HTMLDivElement> & {
  count: number;
  /** Height of a row, px; with `measured` only a guess. */
  estimate: number;
  /** Rows differ in height. */
  measured?: boolean;
  /** Another function makes it measure all rows anew. */
  rowKey: (index: number) => string | number;
  row: (index: number) => ReactNode;
  /** Kept in view. */
  active?: number;
  /** Called when the last rows come into view. */
  onNearEnd?: (() => void) | undefined;
  /** Above the rows, stays in view. */
  head?: ReactNode;
};

/** Only the rows in view are made, so that a list of 100,000 scrolls like one of ten. It is what scrolls. */
export const VirtualList = (props: Props) => {
  const { count, estimate, measured = false, rowKey, row, active, onNearEnd, head, ...attributes } = props;
  const scrolled = useRef<HTMLDivElement>(null);
  const list = useVirtualizer({
    count,
    estimateSize: () => estimate,
    getItemKey: rowKey,
    getScrollElement: () => scrolled.current,
    overscan: 8,
  });
  useEffect(() => {
    if (active !== undefined && active >= 0) list.scrollToIndex(active, { align: "auto" });
  }, [active, list]);
  useEffect(() => list.measure(), [estimate, list]);
  const rows = list.getVirtualItems();
  const last = rows.at(-1)?.index ?? 0;
  useEffect(() => {
    if (last >= count - 20) onNearEnd?.();
  }, [last, count, onNearEnd]);
  return (
    <div {...attributes} ref={scrolled} className={`virtual-list ${attributes.className ?? ""}`}>
      {head}
      <div className="virtual-rows" role="presentation" style={{ height: list.getTotalSize() }}>
        {rows.map(({ index, key, start, size }) => (
          <div
            key={key}
            role="presentation"
            data-index={index}
            ref={measured ? list.measureElement : undefined}
            style={{ transform: `translateY(${start}px)`, ...(!measured && { height: size }) }}
          >
            {row(index)}
          </div>
        ))}
      </div>
    </div>
  );
};
