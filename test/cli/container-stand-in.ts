import { chmod, mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { temporaryDirectory } from "../temporary.ts";
import { startSvc, svc } from "./run-svc.ts";

/**
 * A stand-in for docker and podman: writes its arguments, a line a call with tabs between them, and on `run`
 * and `build` its environment. ANSWER_ps is what `ps` prints, EXIT_push how `push` ends; HANG=push: it goes on until a signal.
 */
const standIn = `#!/bin/sh
{ printf '%s' "$1"; name=$1; shift; for word; do printf '\\t%s' "$word"; done; echo; } >> "$RECORD"
case "$name" in run | build) /usr/bin/env -0 > "$RECORD.env" ;; esac
if [ "$HANG" = "$name" ]; then
  for signal in INT TERM; do trap "kill \\$!; echo got $signal >> $RECORD; exit 7" $signal; done
  /bin/sleep 60 & echo hangs >> "$RECORD"; wait
fi
eval "printf %s \\"\\$ANSWER_$name\\"; exit \\"\\\${EXIT_$name:-0}\\""
`;

type Options = { tool?: "docker" | "podman" | "both" | "none"; cwd?: string; env?: Record<string, string> };

/** Stand-ins, a checkout with the build file and the stack file of the service, and how to run svc with them. */
export const standIns = async () => {
  const place = await temporaryDirectory();
  const checkout = join(place, "check out");
  const files = {
    "docker/docker": standIn,
    "podman/podman": standIn,
    "both/docker": standIn,
    "both/podman": "#!/bin/sh\nexit 9\n",
    "none/other": "",
    "home/other": "",
    "check out/deploy/container/Containerfile": "",
    "check out/deploy/compose/compose.yaml": "",
    "check out/src/own.Containerfile": "",
  };
  for (const [path, content] of Object.entries(files)) {
    await mkdir(join(place, path, ".."), { recursive: true });
    await writeFile(join(place, path), content);
    if (content !== "") await chmod(join(place, path), 0o755);
  }
  let count = 0;
  const given = ({ tool = "docker", cwd = checkout, env = {} }: Options = {}) => {
    const record = join(place, `record-${++count}`);
    return {
      record,
      cwd,
      env: { PATH: join(place, tool), HOME: join(place, "home"), RECORD: record, ...env },
    };
  };
  const start = (args: string[], options?: Options) => {
    const { record, ...rest } = given(options);
    return { ...startSvc(args, rest), record };
  };
  const run = async (args: string[], options?: Options) => {
    const { record, ...rest } = given(options);
    return { ...(await svc(args, rest)), calls: await callsIn(record), record };
  };
  return { place, checkout, start, run };
};

/** What the stand-in was called with, each call as its words. */
export const callsIn = async (record: string): Promise<string[][]> =>
  (await readFile(record, "utf8").catch(() => ""))
    .split("\n")
    .slice(0, -1)
    .map((line) => line.split("\t"));

/** Variables of the stand-in where a container is there, or the image. */
export const isThere = { ANSWER_ps: "Up 2 hours\n" };
export const isBuilt = { ANSWER_images: "sha256:1\n" };

/** How svc asks for the container. */
export const askStatus = ["ps", "--all", "--filter", "name=^svc$", "--format", "{{.Status}}"];
