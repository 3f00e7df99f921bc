import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";
import { afterFile } from "../../cleanup.ts";
import { lastingPort } from "../../lasting-port.ts";
import { temporaryDirectory } from "../../temporary.ts";
import { until } from "../../until.ts";

/**
 * A real nginx in front of `upstream`, on a free loopback port, configured with plain `proxy_pass`:
 * it buffers answers, and compresses them.
 */
export const startNginx = async (upstream: string, { readTimeoutSeconds = 60 } = {}): Promise<string> => {
  const directory = await temporaryDirectory();
  const port = await lastingPort();
  const file = join(directory, "nginx.conf");
  await writeFile(file, configuration({ directory, port, upstream, readTimeoutSeconds }));
  const child = spawn("nginx", ["-p", directory, "-e", "stderr", "-c", file], {
    env: { PATH: process.env["PATH"] },
    stdio: ["ignore", "ignore", "pipe"],
  });
  let output = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => (output += text));
  const exited = once(child, "exit");
  afterFile(async () => {
    child.kill("SIGTERM");
    await exited;
  });
  await until(
    () => {
      if (child.exitCode !== null) throw new Error(`nginx ended: ${output}`);
      return answers(port);
    },
    { what: "nginx to listen" },
  );
  return `http://127.0.0.1:${port}`;
};

type Configuration = { directory: string; port: number; upstream: string; readTimeoutSeconds: number };

const configuration = ({ directory, port, upstream, readTimeoutSeconds }: Configuration): string => `
daemon off;
worker_processes 1;
pid ${directory}/nginx.pid;
# Its own user could not write into a directory of this one's.
${process.getuid?.() === 0 ? "user root;" : ""}
events {}
http {
  access_log off;
  ${["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
    .map((name) => `${name}_temp_path ${directory}/${name};`)
    .join("\n  ")}
  gzip on;
  gzip_types application/json text/event-stream;
  proxy_read_timeout ${readTimeoutSeconds}s;
  server {
    listen 127.0.0.1:${port};
    location / { proxy_pass ${upstream}; }
  }
}
`;

const answers = async (port: number): Promise<boolean> => {
  const socket = connect(port, "127.0.0.1");
  try {
    await once(socket, "connect");
    return true;
  } catch {
    // Not yet.
    return false;
  } finally {
    socket.destroy();
  }
};
