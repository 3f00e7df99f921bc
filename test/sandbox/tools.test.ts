import { expect, test } from "vitest";
import { outsideSharedMemory, temporaryDirectory } from "../temporary.ts";
import { missingOf, sayings, tools } from "./tools.ts";

/** What differs inside. docs/sandbox.md says so. */
const differs: Readonly<Record<string, RegExp>> = {
  "a path that docker's client asks": /^refused\n/,
};

test.each(["bwrap", "landlock"] as const)(
  "%s: common tools say inside what they say outside, but for what the page on the sandbox names",
  async (mode) => {
    expect(await missingOf(["php", "fc-match", "ruby", "sqlite3", "perl", "python3", "git-lfs"])).toEqual([]);
    const [outside, inside] = await outsideSharedMemory(async () => {
      const place = await temporaryDirectory();
      return [await sayings("off", tools, place), await sayings(mode, tools, place)] as const;
    });
    for (const [name, said] of Object.entries(differs)) {
      expect(inside[name]).toMatch(said);
      outside[name] = inside[name] ?? "";
    }
    expect(inside).toEqual(outside);
    expect(outside["php with mbstring"]).toBe("2\n[0]\n");
    expect(outside["python: shared memory"]).toMatch(/^7 psm/);
    expect(outside["python: a terminal"]).toMatch(/^a terminal\r?\n/);
  },
);
