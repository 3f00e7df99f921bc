/**
 * Runs the stand-in by hand: `node test/fake-git-host/main.ts [owner/name …]` makes the named repositories, prints one
 * JSON line with everything a client needs, and serves until it gets SIGTERM or SIGINT.
 */
import { startFakeGitHost } from "./fake-git-host.ts";

const host = await startFakeGitHost();
const repositories: string[] = [];
for (const fullName of process.argv.slice(2)) {
  const [owner = "", name = ""] = fullName.split("/");
  repositories.push((await host.createRepository(owner, name)).url);
}
process.stdout.write(
  `${JSON.stringify({ host: host.host, token: host.createToken(), environment: host.environment, repositories })}\n`,
);
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => void host.close());
