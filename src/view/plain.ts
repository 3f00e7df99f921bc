/** A value of JSON as lines for people: `name: value`, what is inside further in. Lists are numbered. */
export const plainLines = (value: unknown, margin = ""): string[] => {
  if (typeof value !== "object" || value === null)
    return String(value)
      .split("\n")
      .map((line) => margin + line);
  return Object.entries(value).flatMap(([key, inside]) => {
    const name = Array.isArray(value) ? String(Number(key) + 1) : key.replaceAll("_", " ");
    const lines = plainLines(inside, `${margin}  `);
    const isShort = (typeof inside !== "object" || inside === null) && lines.length === 1;
    return isShort ? [`${margin}${name}: ${lines[0]?.trim()}`] : [`${margin}${name}:`, ...lines];
  });
};

/** The first text in a value of JSON; empty: there is none. */
export const firstText = (value: unknown): string =>
  typeof value === "string" ? value : (Object.values(Object(value)).map(firstText).find(Boolean) ?? "");
