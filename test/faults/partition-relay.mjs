/**
 * `node partition-relay.mjs SOCKET PORT`, run in a namespace: what comes to the socket in the file system, which is no part of
 * the namespace, goes to the port there.
 */
import { connect, createServer } from "node:net";

const [path, port] = process.argv.slice(2);
createServer((client) => {
  const service = connect(Number(port), "127.0.0.1");
  for (const [one, other] of [
    [client, service],
    [service, client],
  ]) {
    one.pipe(other);
    one.on("error", () => other.destroy());
  }
}).listen(path, () => process.stdout.write("relaying\n"));
