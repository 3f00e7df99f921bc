import type { Profile } from "../../contract/profile.ts";
import { connect } from "../connect.ts";
import { exitCode } from "../exit-code.ts";
import type { ExitCode } from "../exit-code.ts";
import { print, printJson, terminalColumns } from "../print.ts";
import { factLines } from "../text/job-facts.ts";
import type { Layout } from "../text/job-facts.ts";
import { painter } from "../text/paint.ts";
import { oneLine } from "../text/sanitise.ts";

/** `svc profiles` */
export const profiles = async ({ json }: { json?: boolean }): Promise<ExitCode> => {
  const { client } = connect();
  const body = await client.list_profiles();
  if (json === true) printJson(body);
  else if (body.profiles.length === 0) print("No profiles");
  else {
    const layout = { paint: painter(process.stdout), columns: terminalColumns() };
    print(body.profiles.map((profile) => profileEntry(profile, layout)).join("\n\n"));
  }
  return exitCode.ok;
};

/** A profile with what it does; one that cannot be used with the reason instead. */
export const profileEntry = (profile: Profile, { paint, columns = Infinity }: Layout): string => {
  const broken = profile.error !== null;
  const facts = factLines(
    [
      ["description", oneLine(profile.description), "prose"],
      ["error", broken ? paint("red", oneLine(profile.error ?? "")) : null],
      ["model", broken ? null : oneLine(profile.model)],
      ["max_turns", broken || profile.max_turns === null ? null : String(profile.max_turns)],
      ["auto_pr", broken ? null : String(profile.auto_pr)],
      ["source", oneLine(profile.source)],
    ],
    { paint, columns: columns - indent.length },
  );
  return [paint("bold", oneLine(profile.name)), ...facts.map((line) => `${indent}${line}`)].join("\n");
};

const indent = "  ";
