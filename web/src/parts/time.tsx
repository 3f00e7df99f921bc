import { useSyncExternalStore } from "react";
import { age, duration } from "../../../src/view/quantities.ts";

const everySecond = (tick: () => void): (() => void) => {
  const timer = setInterval(tick, 1000);
  return () => clearInterval(timer);
};

/** The present, ms since the epoch, at this step in ms. */
export const useNow = (step = 1000): number =>
  useSyncExternalStore(everySecond, () => Math.floor(Date.now() / step) * step);

/** How long ago an instant (ISO 8601) was; pointed at, the instant. */
export const Ago = ({ at }: { at: string }) => {
  const now = useNow(60_000);
  const text = age(Math.max(0, now + 60_000 - Date.parse(at)));
  return (
    <time className="number" dateTime={at} title={new Date(at).toLocaleString()}>
      {text}
    </time>
  );
};

/** A length of time between two instants; without an end it runs. */
export const Duration = ({ from, to }: { from: string; to: string | null }) =>
  to === null ? <Running from={from} /> : <Length ms={Date.parse(to) - Date.parse(from)} />;

const Running = ({ from }: { from: string }) => <Length ms={useNow() - Date.parse(from)} />;

const Length = ({ ms }: { ms: number }) => {
  const rounded = ms < 60_000 ? `${Math.max(0, Math.round(ms / 1000))} s` : duration(ms);
  return <span className="number">{rounded}</span>;
};
