import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** What people and agents look for: words that stand together somewhere in a session, common ones among them. */
export const sampleQueries = (home: string, count: number): string[] => {
  const projects = join(home, "projects");
  const files = readdirSync(projects, { recursive: true, encoding: "utf8" }).filter((name) =>
    name.endsWith(".jsonl"),
  );
  const queries: string[] = [];
  for (let n = 0; queries.length < count; n += 1) {
    const text = readFileSync(join(projects, files[(n * 7) % files.length] ?? ""), "utf8");
    const from = (n * 7919 * 131) % Math.max(1, text.length - 2000);
    const words = text.slice(from, from + 2000).match(/(?<![\\\w])[a-z]{4,}(?!\w)/gi) ?? [];
    const [one, two, three] = words.slice(n % 11);
    if (one === undefined || two === undefined || three === undefined) continue;
    queries.push(
      [
        `${one} ${two}`,
        `${one} ${two} ${three}`,
        one,
        `"${one}"`,
        `${one} ${two.slice(0, 4)}*`,
        `${one} OR ${three}`,
        `${one} ${two} -${three}`,
      ][n % 7] ?? one,
    );
  }
  return queries;
};
