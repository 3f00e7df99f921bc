import type { Profile } from "../../contract/profile.ts";
import { connect } from "../connect.ts";
import type { ExitCode } from "../failure.ts";
import { printAnswer, type Layout } from "../print.ts";
import { factLines } from "../text/columns.ts";
import { oneLine } from "../text/sanitise.ts";

/** `svc profiles` */
export const profiles = async ({ json }: { json?: boolean }): Promise<ExitCode> =>
  printAnswer(await connect().client.list_profiles(), json, ({ profiles: list }, layout) =>
    list.length === 0 ? "No profiles" : list.map((profile) => profileEntry(profile, layout)).join("\n\n"),
  );

/** A profile with what it does; a broken one with its fault instead. */
export const profileEntry = (profile: Profile, { paint, columns = Infinity }: Layout): string => {
  const { error, max_turns: turns } = profile;
  const broken = error !== null;
  const facts = factLines(
    [
      ["description", oneLine(profile.description), "prose"],
      ["error", broken ? paint("red", oneLine(error)) : null],
      ["model", broken ? null : oneLine(profile.model)],
      ["max_turns", broken || turns === null ? null : String(turns)],
      ["auto_pr", broken ? null : String(profile.auto_pr)],
      ["source", oneLine(profile.source)],
    ],
    { paint, columns: columns - indent.length },
  );
  return [paint("bold", oneLine(profile.name)), ...facts.map((line) => `${indent}${line}`)].join("\n");
};

const indent = "  ";
