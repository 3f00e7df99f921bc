import type { Paint } from "./paint.ts";
import { visible } from "./sanitise.ts";

/** A patch in git's colours. What the agent wrote cannot steer the terminal, and no line of text is hidden. */
export const paintPatch = (text: string, paint: Paint): string => {
  let part: "header" | "hunk" | "binary" = "header";
  const lines = text.split("\n").flatMap((raw) => {
    const line = visible(raw.replace(/\r$/, "^M"));
    if (line.startsWith("diff --git ")) part = "header";
    if (part === "binary") return [];
    if (line === "GIT binary patch") {
      part = "binary";
      return [paint("bold", "Binary files differ")];
    }
    if (line.startsWith("@@ ")) {
      part = "hunk";
      return [line.replace(/^@@ .*? @@/, (range) => paint("cyan", range))];
    }
    // Whole ids are for git apply only.
    if (part === "header") return [paint("bold", line.replace(/^(index \w{7})\w*(\.\.\w{7})\w*/, "$1$2"))];
    const colour = colours[line.charAt(0)];
    return [colour === undefined ? line : paint(colour, line)];
  });
  return lines.join("\n");
};

const colours: Record<string, "green" | "red"> = { "+": "green", "-": "red" };

/** The result of `git diff --stat` in git's colours. */
export const paintStat = (text: string, paint: Paint): string =>
  visible(text).replaceAll(
    /( \| +\d+ )(\+*)(-*)$/gm,
    (_, before: string, plus: string, minus: string) =>
      `${before}${paint("green", plus)}${paint("red", minus)}`,
  );
