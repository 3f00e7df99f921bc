import { useEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { useIsDark } from "../parts/media.ts";
import { theme } from "../shell/theme.ts";
import type { Measure } from "./figures.ts";

type Props = {
  days: readonly string[];
  values: readonly (number | null)[];
  measure: Measure;
  /** Told the day that is pointed at, by its place; null: none. */
  onPoint: (day: number | null) => void;
};

/** A bar for each day. For those who see only: the page has the figures as a table. */
export default function Chart({ days, values, measure, onPoint }: Props) {
  const host = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const [chosen, isDark] = [theme.use(), useIsDark()];
  useEffect(() => {
    const element = host.current;
    if (element === null) return undefined;
    const { text, most } = measure;
    // Canvas knows no variables: the host has the colours as its own.
    const color = (name: "color" | "outlineColor" | "borderTopColor") => () =>
      getComputedStyle(element)[name];
    const axis = {
      stroke: color("color"),
      font: `11px ${getComputedStyle(element).fontFamily}`,
      grid: { stroke: color("borderTopColor"), width: 1 },
      ticks: { show: false },
    };
    const made = new uPlot(
      {
        width: element.clientWidth,
        height: 150,
        padding: [8, 20, 0, 0],
        legend: { show: false },
        cursor: { sync: { key: "usage" }, y: false, drag: { x: false, y: false }, points: { show: false } },
        tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
        scales: {
          // Room for half a bar at both ends.
          x: { range: (_, min, max) => [min - 43_200, max + 43_200] },
          y: { range: (_, __, max) => [0, most ?? (max > 0 ? max * 1.05 : 1)] },
        },
        axes: [
          {
            ...axis,
            grid: { show: false },
            size: 22,
            gap: 4,
            values: (_, ticks) => ticks.map((at) => dayName.format(at * 1000)),
            incrs: [1, 2, 7, 14, 28, 91].map((count) => count * 86_400),
            space: 56,
          },
          { ...axis, size: 58, gap: 4, space: 36, values: (_, ticks) => ticks.map((value) => text(value)) },
        ],
        series: [
          {},
          {
            fill: color("outlineColor"),
            width: 0,
            points: { show: false },
            ...(uPlot.paths.bars && { paths: uPlot.paths.bars({ size: [0.72, 28] }) }),
          },
        ],
        hooks: { setCursor: [({ cursor }) => onPoint(cursor.idx ?? null)] },
      },
      [days.map((day) => Date.parse(day) / 1000), [...values]],
      element,
    );
    plot.current = made;
    const resized = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height: 150 }));
    resized.observe(element);
    return () => {
      resized.disconnect();
      made.destroy();
    };
  }, [days, values, measure, onPoint]);
  useEffect(() => plot.current?.redraw(false, true), [chosen, isDark]);
  return <div ref={host} className="chart" aria-hidden="true" />;
}

const dayName = new Intl.DateTimeFormat("en", { day: "numeric", month: "short", timeZone: "UTC" });
