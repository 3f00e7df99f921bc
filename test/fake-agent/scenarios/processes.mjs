import { spawn } from "node:child_process";
import { setTimeout as delay } from "node:timers/promises";

const deafSleep = "trap '' TERM HUP INT; while :; do sleep 1; done";

/**
 * Leaves one child in the group, one in a session of its own and one double-forked; all deaf to TERM with `deaf`,
 * keeping the output open with `holdPipes`, without the marker in its environment (the one with the session of its own)
 * with `hideMarker`. Then stays, or with `then: "result"` ends the turn well, with `then: "exit"` the process too.
 */
export const grandchildren = async ({ options, init, tool, say, result }) => {
  const script = options.deaf ? deafSleep : "sleep 1000";
  const stdio = options.holdPipes ? ["ignore", "inherit", "inherit"] : "ignore";
  const { SERVICE_JOB_ID: _marker, ...unmarked } = process.env;
  const inGroup = spawn("/bin/sh", ["-c", script], { stdio });
  const ownSession = spawn("/bin/sh", ["-c", script], {
    stdio,
    detached: true,
    env: options.hideMarker ? unmarked : process.env,
  });
  const middle = spawn("/bin/sh", ["-c", `(setsid /bin/sh -c "${script}" &)`], { stdio });
  await new Promise((resolve) => middle.once("exit", resolve));
  init();
  tool(
    "Bash",
    { command: "start servers" },
    JSON.stringify({ inGroup: inGroup.pid, ownSession: ownSession.pid }),
  );
  say("Three processes are on their own now.");
  if (options.then === undefined) await delay(2 ** 31 - 1);
  result({ result: "Three processes are on their own now." });
  if (options.then === "exit") process.exit(0);
};

/** Leaves a process that starts itself anew, in a new session, `times` times, whenever it is ended. */
export const respawner = async ({ options, init, result }) => {
  const script = `n=\${N:-0}; [ "$n" -ge ${options.times ?? 5} ] && exit; export N=$((n+1)); trap 'setsid /bin/sh -c "$S" & exit' TERM; while :; do sleep 0.05; done`;
  init();
  spawn("/bin/sh", ["-c", script], { stdio: "ignore", detached: true, env: { ...process.env, S: script } });
  await delay(50);
  result({ result: "Somebody will always be there." });
  process.exit(0);
};
