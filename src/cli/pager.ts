import { spawn } from "node:child_process";
import { once } from "node:events";
import { findExecutable } from "../lib/process/executable.ts";

/** Shows a text on the terminal in the user's pager, as git does; without one, or where there is no terminal, as it is. */
export const page = async (text: string): Promise<void> => {
  const { SVC_PAGER, GIT_PAGER, PAGER, PATH = "" } = process.env;
  const less = async (): Promise<string> => ((await findExecutable("less", PATH)).ok ? "less" : "cat");
  const pager = SVC_PAGER ?? GIT_PAGER ?? PAGER ?? (await less());
  if (process.stdout.isTTY && pager !== "" && pager !== "cat") {
    // Ctrl-C is for the pager.
    const ignore = (): void => undefined;
    process.on("SIGINT", ignore);
    const env = { LESS: "FRX", LV: "-c", ...process.env };
    const child = spawn(pager, { shell: true, stdio: ["pipe", "inherit", "inherit"], env });
    // The reader may leave before the end.
    child.stdin.on("error", ignore);
    child.stdin.end(text);
    const [code] = (await once(child, "close")) as [number | null];
    process.removeListener("SIGINT", ignore);
    if (code !== 127) return;
  }
  process.stdout.write(text);
};
