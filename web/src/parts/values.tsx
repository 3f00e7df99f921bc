import { useState, useSyncExternalStore } from "react";
import type { Job } from "../../../src/contract/job.ts";
import { repositoryName } from "../../../src/contract/repository-url.ts";
import type { JobState } from "../../../src/view/paint.ts";
import { age, cost, counted, duration } from "../../../src/view/quantities.ts";
import { oneLine } from "../../../src/view/sanitise.ts";

/* Values as every page shows them. */

/** A ring or a disc, and what is drawn on it. */
const shapes: Record<JobState, { isFull?: true; path?: string; dashes?: string; opacity?: number }> = {
  queued: {},
  running: { path: "M8 2.5a5.5 5.5 0 0 1 5.5 5.5", opacity: 0.35 },
  waiting: { isFull: true, path: "M8 4.2v4.6M8 10.3v1.7" },
  limited: { path: "M6.2 5.5v5M9.8 5.5v5" },
  succeeded: { isFull: true, path: "M4.7 8.3l2.3 2.2 4.3-4.7" },
  failed: { isFull: true, path: "M5.4 5.4l5.2 5.2m0-5.2l-5.2 5.2" },
  cancelled: { path: "M4.2 11.8l7.6-7.6" },
  expired: { dashes: "2 2.3" },
};

/** The state of a job: a shape, a colour and a word, so that none of them is needed alone. */
export const State = ({ status }: { status: JobState }) => {
  const { isFull = false, path, dashes, opacity } = shapes[status];
  const [radius, fill, line] = isFull
    ? [6.25, "currentColor", "var(--paper)"]
    : [5.5, "none", "currentColor"];
  return (
    <span className="job-state row" data-status={status}>
      <svg
        viewBox="0 0 16 16"
        width="14"
        height="14"
        aria-hidden="true"
        stroke="currentColor"
        strokeWidth="1.5"
      >
        <circle cx="8" cy="8" r={radius} fill={fill} strokeDasharray={dashes} opacity={opacity} />
        <path d={path} fill="none" stroke={line} strokeWidth="1.75" />
      </svg>
      <span>{status}</span>
    </span>
  );
};

/** Lines added and removed; of files that have none, such as pictures, how many changed. */
export const Change = ({ stat }: { stat: Job["diff_stat"] }) =>
  stat === null || stat.files === 0 ? null : (
    <span title={`lines added and removed, in ${counted(stat.files, "file")}`}>
      {stat.insertions + stat.deletions > 0 ? (
        <Lines {...stat} />
      ) : (
        <span className="number">{counted(stat.files, "file")}</span>
      )}
    </span>
  );

export const Lines = ({ insertions, deletions }: { insertions: number; deletions: number }) => (
  <span className="number">
    {insertions > 0 && <span className="added">{`+${insertions.toLocaleString("en")} `}</span>}
    {deletions > 0 && <span className="removed">{`−${deletions.toLocaleString("en")}`}</span>}
  </span>
);

/** Whether `svc checkout` has something to bring. */
export const hasChange = ({ repo_url, diff_stat, salvage_ref }: Job): boolean =>
  repo_url !== "" && ((diff_stat?.files ?? 0) > 0 || salvage_ref !== null);

/** An amount in USD; null: it is not known. */
export const Money = ({ usd, estimated = false }: { usd: number | null; estimated?: boolean }) => (
  <span className="number">{usd === null ? "" : cost(usd, estimated)}</span>
);

/** A repository by its last two parts, `acme/app`; pointed at, its whole address. Empty: none. */
export const shortRepository = (url: string): string =>
  url === "" ? "" : oneLine(repositoryName(url).split("/").filter(Boolean).slice(-2).join("/"));

export const Repository = ({ url }: { url: string }) => (
  <span className="mono" title={oneLine(url)}>
    {shortRepository(url)}
  </span>
);

/** The host of a pull request is not ours: its address must not run as script. */
export const isWeb = (url: string | null): url is string => url !== null && /^https?:\/\//.test(url);

const everySecond = (tick: () => void): (() => void) => {
  const timer = setInterval(tick, 1000);
  return () => clearInterval(timer);
};

/** The present, ms since the epoch, at this step in ms. */
export const useNow = (step = 1000): number =>
  useSyncExternalStore(everySecond, () => Math.floor(Date.now() / step) * step);

/** How long ago an instant (ISO 8601) was; pointed at, the instant. */
export const Ago = ({ at }: { at: string }) => (
  <time className="number" dateTime={at} title={new Date(at).toLocaleString()}>
    {age(Math.max(0, useNow(60_000) + 60_000 - Date.parse(at)))}
  </time>
);

/** A length of time between two instants; without an end it runs. */
export const Duration = ({ from, to }: { from: string; to: string | null }) => {
  // What has ended is not shown anew.
  const now = useNow(to === null ? 1000 : Number.MAX_SAFE_INTEGER);
  const ms = Math.max(0, (to === null ? now : Date.parse(to)) - Date.parse(from));
  return <span className="number">{ms < 60_000 ? `${Math.round(ms / 1000)} s` : duration(ms)}</span>;
};

/** A button that copies a text, and says so. */
export const Copy = ({ text, label = "Copy" }: { text: string; label?: string }) => {
  const [said, say] = useState<string | null>(null);
  const copy = async (): Promise<void> => {
    // Browsers give a page no clipboard that is served without TLS beyond loopback, and ask the user elsewhere.
    const isCopied = await navigator.clipboard?.writeText(text).then(
      () => true,
      () => false,
    );
    say(isCopied === true ? "Copied" : `Copy it by hand: ${text}`);
    setTimeout(() => say(null), 5000);
  };
  return (
    <button type="button" title={text} onClick={() => void copy()}>
      <span aria-live="polite">{said ?? label}</span>
    </button>
  );
};
