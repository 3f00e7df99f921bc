import type { SetupService } from "../profiles/setup.ts";
import { quoted } from "./plan.ts";

/** Exit code of a script whose service is not ready. */
const notReady = 97;

/** Seconds that a service has to get ready. */
const patience = 60;

/** Most bytes of what a service says that are shown if it does not get ready; later ones are thrown away. */
const mostSaid = 4096;

/**
 * For `sh`: starts the services, each once the one before is ready, beside what the shell does next; they end with its
 * sandbox. One that fails, or is late, ends the shell with its last words. `alone`: variables that only they have.
 */
export const servicesScript = (
  services: readonly SetupService[],
  alone: Readonly<Record<string, string>> = {},
): string => {
  const exported = Object.entries(alone).map(([name, value]) => `export ${name}=${quoted(value)}; `);
  const all = [begin(exported.join("")), ...services.map(beginOne), 'rm -rf "$svc_said"', ""];
  return services.length === 0 ? "" : all.join("\n");
};

const beginOne = ({ name, command, ready }: SetupService): string =>
  `svc_begin ${quoted(name)} ${quoted(command)} ${quoted(ready)}`;

/** The pipe is read to its end, so that no service stands still, and none fills the disk. */
const begin = (exported: string): string => `svc_said=$(mktemp -d) || exit ${notReady}
svc_begin() {
  {
    { (${exported}exec sh -c "$2") 2>&1 || echo "$?" >"$svc_said/$1.code"; } | { head -c ${mostSaid} >"$svc_said/$1.text"; cat >/dev/null; }
    [ ! -e "$svc_said/$1.code" ] || : >"$svc_said/$1.ended"
  } </dev/null >/dev/null 2>&1 &
  (${exported}exec timeout ${patience} sh -c 'until sh -c "$1"; do [ ! -e "$2" ] || exit; sleep 0.1; done; [ ! -e "$2" ]' sh "$3" "$svc_said/$1.ended") </dev/null >/dev/null 2>&1 && return
  if [ -e "$svc_said/$1.ended" ]; then echo "The service $1 ended with exit code $(cat "$svc_said/$1.code"):" >&2
  else echo "The service $1 was not ready within ${patience} s:" >&2; fi
  cat "$svc_said/$1.text" >&2; rm -rf "$svc_said"; exit ${notReady}
}`;
