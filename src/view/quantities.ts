/** A size for people, in at most eight characters: `512 B`, `1.4 MiB`, `320 GiB`; `–` where there is none. */
export const bytes = (size: number | null): string => {
  if (size === null) return "–";
  let value = size;
  let unit = 0;
  // A value that would be rounded up to 1024 belongs to the next unit.
  while (Math.round(value) >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  const digits = unit === 0 || value >= 9.95 ? 0 : 1;
  return `${value.toFixed(digits)} ${units[unit]}`;
};

const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** A length of time for people: `20 ms`, `1.4 s`, `2m 05s`, `1h 02m`. */
export const duration = (milliseconds: number): string => {
  if (milliseconds < 1000) return `${Math.round(milliseconds)} ms`;
  if (milliseconds < 59_950) return `${(milliseconds / 1000).toFixed(1)} s`;
  const seconds = Math.round(milliseconds / 1000);
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m ${two(seconds % 60)}s`;
  const minutes = Math.round(seconds / 60);
  return `${Math.floor(minutes / 60)}h ${two(minutes % 60)}m`;
};

/** How long ago something was, in at most six characters: `<1 min`, `12 min`, `5 h`, `3 d`. */
export const age = (milliseconds: number): string => {
  const minutes = Math.floor(milliseconds / 60_000);
  if (minutes < 1) return "<1 min";
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h` : `${Math.floor(hours / 24)} d`;
};

/** A running clock: `0:07`, `12:34`, `1:02:03`. */
export const clock = (milliseconds: number): string => {
  const seconds = Math.max(0, Math.floor(milliseconds / 1000));
  const hours = Math.floor(seconds / 3600);
  const minutes = Math.floor(seconds / 60) % 60;
  return hours > 0 ? `${hours}:${two(minutes)}:${two(seconds % 60)}` : `${minutes}:${two(seconds % 60)}`;
};

const two = (value: number): string => String(value).padStart(2, "0");

/** Four digits for the cents of a small run, two for a large one. */
export const cost = (usd: number, isEstimated = false): string =>
  `${isEstimated ? "≈" : ""}$${usd.toFixed(usd < 1 ? 4 : 2)}`;

/** The text, or its first characters and an ellipsis. */
export const cutText = (text: string, most: number): string =>
  text.length <= most ? text : `${text.slice(0, most - 1).replace(/[\uD800-\uDBFF]$/, "")}…`;

/** `1 job`, `2 jobs` */
export const counted = (count: number, noun: string): string =>
  `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;

/** How many, and how many of them have a size that is not known yet. */
export const worktreesText = ({ worktrees, unmeasured }: { worktrees: number; unmeasured: number }): string =>
  counted(worktrees, "worktree") +
  (unmeasured > 0 ? ` (${unmeasured.toLocaleString("en")} not measured yet)` : "");
