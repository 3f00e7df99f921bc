/** A size for people, in at most eight characters: `512 B`, `1.4 MiB`, `320 GiB`; `–` where there is none. */
export const bytes = (size: number | null): string => {
  if (size === null) return "–";
  let value = size;
  let unit = 0;
  // What would be rounded up to 1024 is one of the next unit.
  while (Math.round(value) >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  const digits = unit === 0 || value >= 9.95 ? 0 : 1;
  return `${value.toFixed(digits)} ${units[unit]}`;
};

const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
